"""EZO circuits over I2C: the protocol of the UART, with a status byte in place of `*OK` and `*ER`."""

import errno

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import Calibration, Deadline, DoseStatus, Identity
from rigctl.rig.registry import Registry
from rigctl.rig.testing import ManualClock, RecordingLine
from tests.drivers.circuits import Pump
from tests.drivers.i2c_parts import Bus, Circuit, sensor
from tests.drivers.peers import soon

CIRCUITS = {
    "pH": ("ezo-ph", {"address": 0x63}, "7.02", 0.9),
    "EC": ("ezo", {"address": 0x64, "model": "EC"}, "1413", 0.6),
    "RTD": ("ezo", {"address": 0x66, "model": "RTD"}, "25.10", 0.6),
}


def made(driver, options, line):
    cls = Registry.installed().driver(driver)
    return cls.connect(cls.options(**options), line)


def probe_of(circuit, clock, address=0x63, **options):
    """The probe at this address, on a bus of its own."""
    line = Bus(**{f"at_{address:x}": circuit}).line(clock)
    line.open()
    return made("ezo" if "model" in options else "ezo-ph", {"address": address, **options}, line)


class Dosing(Pump):
    """A pump whose dose is over when it is next asked."""

    def __call__(self, command):
        if command == "D,?" and self.running:
            self.finish()
        return super().__call__(command)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def pump():
    return Pump()


@pytest.fixture
def circuit(pump, clock):
    return Circuit(pump, clock)


@pytest.fixture
def bus(circuit):
    return Bus(at_67=circuit)


@pytest.fixture
def line(bus, clock):
    opened = bus.line(clock)
    opened.open()
    return opened


@pytest.fixture
def device(line):
    return made("ezo-pmp", {"address": 0x67}, line)


@pytest.mark.parametrize("model", CIRCUITS)
def test_a_circuit_that_measures_conforms(model):
    """Each keeps every promise of a driver over I2C."""
    driver, options, value, reading_s = CIRCUITS[model]
    clock = ManualClock()
    bus = Bus(**{f"at_{options['address']:x}": Circuit(sensor(model, value), clock, reading_s)})
    report = check_driver(Registry.installed().driver(driver), options, lambda: bus.line(clock), clock)
    assert report.abilities == ("Sensor",)
    assert bus.opened == 0


def test_the_pump_conforms():
    """It keeps every promise over I2C: no dose is repeated, and the total tells what came of a lost answer."""
    clock = ManualClock()
    bus = Bus(at_67=Circuit(Dosing(), clock))
    report = check_driver(Registry.installed().driver("ezo-pmp"), {"address": 0x67}, lambda: bus.line(clock), clock)
    assert report.abilities == ("Meter", "Doser")


def test_a_reading_takes_as_long_as_the_data_sheet_says(clock):
    """Nothing is fetched before that: 0.3 s for who it is, 0.9 s for a pH. Nothing of continuous mode is sent."""
    circuit = Circuit(sensor("pH", "7.02"), clock, 0.9)
    reading = probe_of(circuit, clock).read(soon())
    assert (reading.value, reading.unit, reading.time_s) == (7.02, "pH", pytest.approx(1.2))
    assert circuit.heard == ["i", "R"]


def test_a_slower_circuit_is_asked_again(clock):
    """254 means not ready: the answer is fetched a little later, and the command not repeated."""
    circuit = Circuit(sensor("pH", "7.02"), clock, 1.3)
    assert probe_of(circuit, clock).read(soon()).value == 7.02
    assert circuit.heard == ["i", "R"]


def test_a_fixed_temperature_goes_with_each_reading(clock):
    """A circuit that restarts forgets it, and on I2C nothing tells of a restart."""
    circuit = Circuit(sensor("EC", "1413"), clock)
    probe = probe_of(circuit, clock, 0x64, model="EC", temperature_c=19.5)
    assert [probe.read(soon()).value for _ in range(2)] == [1413.0, 1413.0]
    assert circuit.heard == ["i", "RT,19.50", "RT,19.50"]


def test_name_and_calibration_are_asked_as_on_a_uart(clock):
    """What stands for a serial number, and how it is calibrated."""
    probe = probe_of(Circuit(sensor("pH", "7.02"), clock), clock)
    assert probe.identify(soon()) == Identity("pH", "2.14", "north")
    told = probe.calibration(soon())
    assert told == Calibration(2, (99.7, 100.3), told.detail)


def test_the_highest_bit_that_some_boards_set_is_taken_off(clock, bus, circuit, line, device):
    """The maker's own sample says so of the Raspberry Pi: of each character, never of the status."""
    give = circuit.give
    circuit.give = lambda count: bytes((b | 0x80) if at and b else b for at, b in enumerate(give(count)))
    assert device.identify(soon()).model == "PMP"


def test_a_dose_from_beginning_to_end(device, circuit, pump):
    """As on a UART, but for the code at the end: what the pump shows then is what it gave."""
    device.ready(soon())
    device.start_dose(12.345, soon())
    assert device.dose_status(soon()).running
    pump.finish()
    assert device.dose_status(soon()) == DoseStatus(running=False, dispensed_ml=12.34)
    assert device.total_volume_ml(soon()).value == pytest.approx(12.34)
    assert [c for c in circuit.heard if c.startswith("D,") and c != "D,?"] == ["D,12.34"]


def test_a_dose_that_is_refused_is_a_fault(device, pump):
    """Status 2: nothing runs."""
    pump.override["D,5.00"] = ["*ER"]
    device.ready(soon())
    with pytest.raises(DeviceFault):
        device.start_dose(5.0, soon())
    assert not device.dose_status(soon()).running


@pytest.mark.parametrize("lost", ["acknowledge", "hang", "status", "answer"])
def test_110_a_dose_without_a_word_is_unknown_and_not_repeated(device, bus, circuit, pump, lost):
    """Whether the bus hung, nobody acknowledged, or no status came: it is no refusal, and the pump is asked."""
    device.ready(soon())
    if lost in ("acknowledge", "hang"):
        bus.error = errno.EREMOTEIO if lost == "acknowledge" else errno.ETIMEDOUT
    circuit.deaf = int(lost == "status")
    circuit.busy = lost == "answer"
    with pytest.raises(DeviceTimeout):
        device.start_dose(5.0, Deadline.after(0.1))
    bus.error, circuit.busy = 0, False
    running = device.dose_status(soon()).running
    assert running == (lost == "answer")
    assert circuit.heard.count("D,5.00") == (lost in ("status", "answer"))


def test_111_stop_leaves_at_once_and_again_until_it_is_heard(device, circuit, pump):
    """`X` waits for nobody; one that the circuit did not take in is told again."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    circuit.deaf = 1
    device.stop(soon())
    assert circuit.heard[-2:] == ["X", "X"]
    assert not device.dose_status(soon()).running


def test_111_stop_needs_no_acquaintance_and_bears_one_fault_of_the_bus(device, bus, circuit, clock):
    """A process that has just started stops the pump before it asks who is there."""
    fails = [errno.EREMOTEIO]
    transfer = bus.transfer

    def once(address, sent, count):
        if fails:
            raise OSError(fails.pop(), "Remote I/O error")
        return transfer(address, sent, count)

    bus.transfer = once
    device.stop(soon())
    assert circuit.heard == ["X"]


def test_111_an_answer_to_something_else_is_no_sign_of_a_stop(device, circuit, pump, golden):
    """A circuit that is still answering the question before has not understood `X`."""
    device.ready(soon())
    pump.override["X"] = ["?D,5.00,1", "*OK"]
    with golden.raises(DeviceTimeout):
        device.stop(Deadline.after(0.05))


def test_112_a_pump_that_lost_power_in_mid_dose_shows_it_by_its_counts(device, pump):
    """No `*RS` comes on I2C: what it shows and its total have begun anew."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    assert device.dose_status(soon()).running
    pump.running, pump.last_ml, pump.total_ml = False, 0.0, 0.0
    assert device.dose_status(soon()) == DoseStatus(running=False, dispensed_ml=0.0)
    assert device.total_volume_ml(soon()).value == 0.0


def test_113_another_circuit_is_not_dosed_with(line, clock, bus, golden):
    """If a sensor has the pump's address, nothing but the question is sent."""
    wrong = bus.parties[0x67] = Circuit(sensor("pH", "7.02"), clock)
    with golden.raises(IdentityMismatch):
        made("ezo-pmp", {"address": 0x67}, line).start_dose(5.0, soon())
    assert wrong.heard == ["i"]


def test_113_what_is_no_ezo_circuit_is_said_to_be_none(device, circuit, golden):
    """An ADC, say, that acknowledges and answers something."""
    circuit.give = lambda count: b"\x85\x83" * (count // 2)
    with golden.raises(GarbledReply):
        device.identify(soon())


def test_113_a_circuit_in_uart_mode_acknowledges_nothing(device, bus, golden):
    """It is told as somebody who is not there, and what may be the matter."""
    bus.parties.clear()
    with golden.raises(DeviceTimeout):
        device.identify(soon())


@pytest.mark.parametrize("hangs", [False, True], ids=["never ready", "the bus hangs"])
@pytest.mark.parametrize("call", ["identify", "ready", "dose_status", "total_volume_ml", "stop"])
def test_114_what_never_answers_ends_with_the_deadline(device, circuit, bus, call, hangs):
    """254 for ever is silence; of a bus that hangs the kernel says so after 0.1 s. Nothing is taken for a value."""
    circuit.busy = not hangs
    bus.error = errno.ETIMEDOUT if hangs else 0
    with pytest.raises(DeviceTimeout):
        getattr(device, call)(Deadline.after(0.1))


def test_a_sleeping_pump_is_woken(device, circuit, pump):
    """What wakes it is lost: it is asked again."""
    circuit.answers, circuit.deaf = pump, 1
    device.ready(soon())
    assert circuit.heard[:3] == ["i", "i", "Dstart,?"]


def test_a_late_answer_is_not_taken_for_the_next(clock):
    """A reading that came too late is fetched and dropped before the next question."""
    values = iter(["7.02", "6.50"])
    circuit = Circuit(lambda c: [next(values), "*OK"] if c == "R" else sensor("pH", "")(c), clock, 0.9)
    recorded = RecordingLine(Bus(at_63=circuit).line(clock))
    recorded.open()
    probe = made("ezo-ph", {"address": 0x63}, recorded)
    probe.identify(soon())
    circuit.busy = True
    with pytest.raises(DeviceTimeout):
        probe.read(Deadline.after(0.05))
    circuit.busy = False
    assert probe.read(soon()).value == 6.50


@pytest.mark.parametrize(("options", "on_i2c"), [({}, True), ({"address": 0x63}, False)])
def test_an_address_belongs_to_i2c(options, on_i2c, clock, golden):
    """Without it nothing can be reached there, and on a serial port it means nothing."""
    line = Bus().line(clock) if on_i2c else Registry.installed().open_line("serial:///dev/none", clock)
    with golden.raises(ValueError):
        made("ezo-ph", options, line)


def test_no_more_is_fetched_than_the_makers_own_sample_fetches(device, circuit):
    """The longest answer that is asked for fits: the two slopes and the offset of a pH circuit."""
    counts = []
    give = circuit.give
    circuit.give = lambda count: (counts.append(count), give(count))[1]
    device.identify(soon())
    assert set(counts) == {31}
    assert len("1?SLOPE,100.0,100.3,-10.89\0") <= 31
