"""Energy meters: addresses, pauses, and counts that cannot be true."""

import math
import struct

import pytest

from rigctl.errors import DeviceError, DeviceFault, IdentityMismatch
from rigctl.rig.protocols import Deadline, Identity, Severity
from rigctl.rig.testing import ManualClock, MemoryLine
from rigctl_drivers.sdm_meter import Sdm120Driver, Sdm630Driver
from tests.drivers.peers import ModbusUnit, PtyPeer, cut_rtu, exception, soon


def mains(clock=None, **values) -> MemoryLine:
    """A meter's registers: address (x...) -> value, float32 high word first."""
    line = MemoryLine(clock=clock or ManualClock())
    defaults = {0x00: 230.0, 0x46: 50.0, 0x48: 412.5, 0x4A: 3.0, 0x156: 415.5, 0x0C: 550.0, 0x34: 1650.0}
    for address, value in (defaults | {int(k[1:], 16): v for k, v in values.items()}).items():
        high, low = struct.unpack(">HH", struct.pack(">f", value))
        line.cells |= {(1, "input", address): high, (1, "input", address + 1): low}
    return line


def meter(line, driver=Sdm120Driver, **options):
    return driver.connect(driver.options.model_validate(options), line)


@pytest.mark.parametrize(("counter", "kwh"), [("import", 412.5), ("export", 3.0), ("total", 415.5)])
def test_each_counter_is_read_from_its_register(counter, kwh):
    """Import, export and total energy come from the registers of the manual, in kWh."""
    reading = meter(mains(), counter=counter).total(soon())
    assert (reading.value, reading.unit) == (kwh, "kWh")


@pytest.mark.parametrize(("driver", "watts"), [(Sdm120Driver, 550.0), (Sdm630Driver, 1650.0)])
def test_power_is_that_of_the_whole_connection(driver, watts):
    """The one-phase meter reads its phase, the three-phase meter its system power."""
    reading = meter(mains(), driver).read(soon())
    assert (reading.value, reading.unit) == (watts, "W")


def test_requests_keep_their_distance():
    """Between two requests at least 60 ms of rig time pass; none are added when they have passed already."""
    clock = ManualClock()
    device = meter(mains(clock))
    device.total(soon())
    assert clock.time_s == 0.0
    device.total(soon())
    assert clock.time_s == pytest.approx(0.06)
    clock.sleep(1.0)
    device.total(soon())
    assert clock.time_s == pytest.approx(1.06)


@pytest.mark.parametrize("kwh", [math.nan, math.inf, -1.0, 2e7])
def test_40_41_a_count_that_cannot_be_is_invalid(kwh):
    """Not a number, negative or absurdly high: INVALID, never a count."""
    reading = meter(mains(x48=kwh)).total(soon())
    assert reading.severity is Severity.INVALID
    assert math.isnan(reading.value)


def test_41_swapped_words_are_noticed(golden):
    """A meter with the other word order does not look like mains."""
    line = mains()
    for address in (0x00, 0x46):
        first, second = (1, "input", address), (1, "input", address + 1)
        line.cells[first], line.cells[second] = line.cells[second], line.cells[first]
    with golden.raises(IdentityMismatch):
        meter(line).identify(soon())


def test_a_meter_that_looks_like_mains_is_taken():
    """Voltage and frequency of a supply are identity enough."""
    assert meter(mains(), Sdm630Driver).identify(soon()).model == "SDM630"


def holding(line, address, *words):
    line.cells |= {(1, "holding", address + i): word for i, word in enumerate(words)}
    return line


def test_megawatt_hours_are_converted():
    """A meter switched to MWh is told by an option and read in kWh."""
    line = holding(mains(x48=0.4125), 0x1E, 0x3F80, 0)
    assert meter(line, Sdm630Driver, counts_in="MWh").total(soon()).value == pytest.approx(412.5)


@pytest.mark.parametrize(("says", "declared"), [((0x3F80, 0), "kWh"), ((0, 0), "MWh")])
def test_69_a_meter_that_counts_in_another_unit_is_refused(says, declared):
    """A three-phase meter tells its unit: where the configuration says another, it is not taken for what it was."""
    line = holding(mains(), 0x1E, *says)
    with pytest.raises(IdentityMismatch, match=f"`counts_in` .*{declared}"):
        meter(line, Sdm630Driver, counts_in=declared).identify(soon())


def test_69_a_unit_switch_under_way_stops_the_next_count(golden):
    """Switched between two counts, the meter gives no count any more, but a fault that says what to do."""
    line = mains()
    device = meter(line, Sdm630Driver)
    assert device.total(soon()).valid
    holding(line, 0x1E, 0x3F80, 0)
    with golden.raises(DeviceFault):
        device.total(soon())


def test_the_serial_number_tells_two_meters_apart():
    """Serial number and meter code are part of who answers."""
    line = holding(mains(), 0xFC00, 0x0141, 0x8071, 0x0020)
    assert meter(line).identify(soon()) == Identity("SDM120", "meter code 0020", "21069937")


def test_each_answer_that_tells_who_is_there_may_take_its_time():
    """As many as are asked for: by then so many pauses have passed."""
    clock = ManualClock()
    device = meter(holding(holding(mains(clock), 0xFC00, 0x0141, 0x8071, 0x0020), 0x1E, 0), Sdm630Driver)
    device.identify(soon())
    assert clock.time_s == pytest.approx((device.identified_by - 1) * 0.06)


def test_a_meter_without_these_registers_is_taken_and_not_asked_again(peer, line):
    """A refusal means that there is no number, and no choice of unit; each is asked for but once."""
    volts, hertz = struct.unpack(">HH", struct.pack(">f", 230.0)), struct.unpack(">HH", struct.pack(">f", 50.0))
    unit = ModbusUnit(words={(4, 0): volts[0], (4, 1): volts[1], (4, 0x46): hertz[0], (4, 0x47): hertz[1]})

    def answer(request):
        unit.faults = [exception(2)] if request[1] == 3 else []
        return unit.rtu(request)

    device = meter(line(f"modbus_rtu://{peer(PtyPeer, cut_rtu, answer).path}?quiet=0.1"), Sdm630Driver)
    for _ in range(2):
        assert device.identify(Deadline.after(10.0)) == Identity("SDM630")
        assert device.total(Deadline.after(10.0)).valid
    assert [pdu[1:3].hex() for pdu in unit.pdus if pdu[0] == 3] == ["001e", "fc00", "fc02"]


@pytest.mark.parametrize("code", [0x04, 0x0A, 0x0B])
def test_69_trouble_on_the_way_does_not_hide_in_what_a_meter_counts(peer, line, code, golden):
    """A gateway that reaches the meter the second time only has not said that it has no such register."""
    words = dict(zip(((4, 0), (4, 1)), struct.unpack(">HH", struct.pack(">f", 230.0)), strict=True))
    words |= dict(zip(((4, 0x46), (4, 0x47)), struct.unpack(">HH", struct.pack(">f", 50.0)), strict=True))
    unit, troubles = ModbusUnit(words={**words, (3, 0x1E): 0x3F80}), [code]

    def answer(request):
        unit.faults = [exception(troubles[0])] if request[1] == 3 and troubles else []
        return unit.rtu(request)

    device = meter(line(f"modbus_rtu://{peer(PtyPeer, cut_rtu, answer).path}?quiet=0.1"), Sdm630Driver)
    with pytest.raises(DeviceError, match=f"exception {code:02X}"):
        device.identify(Deadline.after(10.0))
    troubles.clear()
    with golden.raises(IdentityMismatch):
        device.identify(Deadline.after(10.0))


def test_power_that_is_no_number_is_invalid():
    """A NaN power is INVALID."""
    assert meter(mains(xC=math.nan)).read(soon()).severity is Severity.INVALID
