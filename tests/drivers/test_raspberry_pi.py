"""What else hangs on a Raspberry Pi: an ADS1115, DS18B20s, relays and switches on its GPIO lines."""

import errno
import math

import pytest
from pydantic import ValidationError

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, PortUnavailable
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import ActuatorState, Deadline, Identity, Severity
from rigctl.rig.registry import Registry
from rigctl.rig.testing import ManualClock
from rigctl_drivers import gpio, gpio_line
from tests.drivers.i2c_parts import Adc, Bus, Chip
from tests.drivers.peers import soon

ID = "28-0316a2795a3d"
GOOD = "72 01 4b 46 7f ff 0e 10 57"


@pytest.fixture
def clock():
    return ManualClock()


def made(driver, options, line):
    cls = Registry.installed().driver(driver)
    line.open()
    return cls.connect(cls.options(**options), line)


# ADS1115 --------------------------------------------------------------------------------------------------------------


def adc(clock, options, **volts):
    part = Adc(clock, **volts)
    return part, made("ads1115", options, Bus(at_48=part).line(clock))


def test_the_converter_conforms(clock):
    """It keeps every promise of a driver."""
    bus = Bus(at_48=Adc(clock, in0=1.25))
    report = check_driver(Registry.installed().driver("ads1115"), {"input": "0"}, lambda: bus.line(clock), clock)
    assert report.abilities == ("Sensor",)


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"input": "0"}, 1.25),
        ({"input": "3", "range_v": 6.144}, 5.0),
        ({"input": "0-1", "range_v": 0.256, "rate": 8}, -0.2),
        ({"input": "0", "scale": 10.0, "offset": -2.5, "unit": "L/min"}, 10.0),
        ({"input": "2-3", "rate": 860}, 0.0),
    ],
)
def test_a_voltage_becomes_a_reading(clock, options, value):
    """By input, range and rate; scale times volts plus offset."""
    _, device = adc(clock, options, in0=1.25, in3=5.0, in0_1=-0.2, in2_3=0.0)
    reading = device.read(soon())
    assert reading.value == pytest.approx(value, abs=2e-3)
    assert (reading.unit, reading.severity) == (options.get("unit", "V"), Severity.NONE)


@pytest.mark.parametrize(
    ("volts", "options"), [(4.2, {}), (-4.2, {}), (0.4, {"least_v": 0.54}), (3.3, {"most_v": 3.15})]
)
def test_what_cannot_be_true_is_invalid(clock, volts, options, golden):
    """Beyond the range, and a current loop whose wire is broken."""
    _, device = adc(clock, {"input": "0", **options}, in0=volts)
    reading = device.read(soon())
    assert (reading.severity, math.isnan(reading.value)) == (Severity.INVALID, True)
    golden(reading.detail)


def test_another_who_uses_it_is_noticed(clock, golden):
    """It does not hold what it was sent: the count may be of another input."""
    part, device = adc(clock, {"input": "0"}, in0=1.0, in1=2.0)
    part.meddled = 1 << 12
    with golden.raises(GarbledReply):
        device.read(soon())


def test_a_conversion_that_never_ends_ends_with_the_deadline(clock):
    """Its bit stays 0."""
    part, device = adc(clock, {"input": "0"}, in0=1.0)
    part.give = lambda count: (part.config & 0x7FFF).to_bytes(2)[:count]
    with pytest.raises(DeviceTimeout):
        device.read(Deadline.after(0.05))


@pytest.mark.parametrize("wrong", [{"input": "4"}, {"input": "0", "range_v": 3.3}, {"input": "0", "rate": 100}])
def test_what_it_cannot_do_is_refused(wrong):
    """Inputs, ranges and rates are those of the data sheet."""
    with pytest.raises(ValidationError):
        Registry.installed().driver("ads1115").options(**wrong)


# DS18B20 --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def w1(tmp_path):
    """The folder where the kernel shows thermometers; returns what sets its answer."""
    folder = tmp_path / ID
    folder.mkdir()

    def says(scratchpad=GOOD, milli=23125, crc="YES"):
        lines = f"{scratchpad} : crc=57 {crc}\n{scratchpad} t={milli}\n"
        (folder / "w1_slave").write_text(lines, encoding="ascii")
        return Registry.installed().open_line(f"w1://{tmp_path}", ManualClock())

    return says


def test_the_thermometer_conforms(w1, clock):
    """It keeps every promise of a driver."""
    report = check_driver(Registry.installed().driver("ds18b20"), {"id": ID}, w1, clock)
    assert report.abilities == ("Sensor",)


def test_a_temperature_is_read(w1):
    """In degC, with its number as who it is."""
    device = made("ds18b20", {"id": ID}, w1())
    assert device.identify(soon()) == Identity("DS18B20", serial=ID)
    reading = device.read(soon())
    assert (reading.value, reading.unit) == (23.125, "degC")


@pytest.mark.parametrize(
    "said",
    [
        {"scratchpad": "50 05 4b 46 7f ff 0c 10 1c", "milli": 85000},
        {"scratchpad": "00 00 00 00 00 00 00 00 00", "milli": 0},
        {"milli": 127937},
        {"milli": -60000},
    ],
    ids=["power-on", "shorted", "too hot", "too cold"],
)
def test_what_no_thermometer_measured_is_invalid(w1, said, golden):
    """The value after a power cut, a shorted wire (whose checksum is right), and what is out of range."""
    reading = made("ds18b20", {"id": ID}, w1(**said)).read(soon())
    assert reading.severity is Severity.INVALID
    golden(reading.detail)


@pytest.mark.parametrize("said", [{"crc": "NO"}, {"scratchpad": "garbage"}])
def test_a_wrong_checksum_is_no_value(w1, said):
    """It is asked again."""
    device = made("ds18b20", {"id": ID}, w1(**said))
    with pytest.raises(GarbledReply):
        device.read(soon())


def test_a_thermometer_that_is_unplugged_is_silent(w1, golden):
    """Its folder is gone."""
    device = made("ds18b20", {"id": "28-000000000000"}, w1())
    with golden.raises(DeviceTimeout):
        device.read(soon())


def test_a_machine_without_1_wire_says_what_switches_it_on(tmp_path):
    """The folder is not there."""
    with pytest.raises(PortUnavailable):
        Registry.installed().open_line(f"w1://{tmp_path}/none", ManualClock()).open()


# GPIO -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def chip(monkeypatch):
    made_chip = Chip()
    monkeypatch.setattr(gpio_line, "KernelChip", made_chip)
    return made_chip


def line():
    return Registry.installed().open_line("gpio:///dev/gpiochip0", ManualClock())


@pytest.mark.parametrize("active_low", [False, True])
@pytest.mark.parametrize(("driver", "able"), [("gpio-relay", "Actuator"), ("gpio-switch", "Sensor")])
def test_relay_and_switch_conform(chip, clock, driver, able, active_low):
    """Each keeps every promise of a driver."""
    options = {"line": 17, "active_low": active_low}
    report = check_driver(Registry.installed().driver(driver), options, line, clock)
    assert report.abilities == (able,)


@pytest.mark.parametrize("active_low", [False, True])
def test_a_relay_is_driven_and_read_back(chip, active_low):
    """Off is what a released and a safe one is, at the level that the board wants."""
    relay = made("gpio-relay", {"line": 17, "active_low": active_low}, line())
    relay.apply(1.0, soon())
    assert (relay.read_back(soon()), chip.levels["17"]) == (ActuatorState(True, 1.0), not active_low)
    relay.safe(soon())
    assert (relay.read_back(soon()), chip.levels["17"]) == (ActuatorState(False, 0.0), active_low)


def test_what_a_dead_process_left_on_is_read_before_it_is_driven(chip):
    """Asking makes no output of a line, and shows its level."""
    chip.levels["17"] = True
    relay = made("gpio-relay", {"line": 17}, line())
    relay.identify(soon())
    assert relay.read_back(soon()).controlled
    assert chip.outputs == set()
    relay.safe(soon())
    assert not chip.levels["17"]


def test_a_line_that_does_not_follow_is_a_fault(chip, golden):
    """Shorted to ground, say: what was sent is not taken for what holds."""
    relay = made("gpio-relay", {"line": 17}, line())
    transfer = chip.transfer
    chip.transfer = lambda address, sent, count: transfer(address, b"off" if sent else b"", count)
    with golden.raises(DeviceFault):
        relay.apply(1.0, soon())


@pytest.mark.parametrize("value", [0.5, 2.0, math.nan])
def test_a_relay_takes_0_and_1(chip, value):
    """Anything else is refused before it is sent."""
    with pytest.raises(DeviceFault):
        made("gpio-relay", {"line": 17}, line()).apply(value, soon())
    assert chip.outputs == set()


def test_an_open_float_switch_reads_0_and_a_closed_one_1(chip):
    """Between line and ground, with the chip's pull-up."""
    switch = made("gpio-switch", {"line": 22, "active_low": True}, line())
    assert switch.read(soon()).value == 0.0
    chip.levels["22"] = False
    assert switch.read(soon()).value == 1.0


@pytest.mark.parametrize(
    ("code", "kind"),
    [("EBUSY", DeviceFault), ("EINVAL", DeviceFault), ("EIO", DeviceTimeout), ("ENODEV", PortUnavailable)],
)
def test_what_the_kernel_says_of_a_line(chip, code, kind, golden):
    """A line in use or not there closes no chip: that would let go of the others."""
    relay = made("gpio-relay", {"line": 17}, line())
    chip.error = getattr(errno, code)
    with golden.raises(kind):
        relay.apply(1.0, soon())


@pytest.mark.parametrize("kept", ["", "Y", "N"])
def test_check_says_what_becomes_of_a_relay_when_rigctl_dies(monkeypatch, tmp_path, kept, golden):
    """As far as this computer says how its lines behave."""
    folder = tmp_path / "pinctrl_bcm2835" / "parameters"
    folder.mkdir(parents=True)
    if kept:
        (folder / "persist_gpio_outputs").write_text(f"{kept}\n")
    monkeypatch.setattr(gpio, "MODULES", tmp_path)
    driver = Registry.installed().driver("gpio-relay")
    flaws, caveats = driver.options(line=17).assess()
    assert flaws == ()
    golden(caveats[0])
