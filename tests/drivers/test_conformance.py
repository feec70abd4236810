"""`check_driver`: the shipped drivers keep every promise, and each broken promise is found."""

import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from rigctl.errors import DeviceFault, DriverNonConformance, PortUnavailable
from rigctl.rig.clocks import RealClock
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import (
    Actuator,
    ActuatorState,
    Deadline,
    DeviceOptions,
    Doser,
    DoseStatus,
    Driver,
    Identity,
    Meter,
    Reading,
    Sensor,
)
from rigctl.rig.registry import Registry
from rigctl.rig.testing import ManualClock, MemoryLine, ScriptedLine
from tests.simulated import start_sim

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "config" / "greenhouse.yaml").read_text(encoding="utf-8"))
SETPOINTS = {"b_valve": 30.0, "nh4_valve": 2.0, "k_valve": 5.5}


@pytest.fixture(scope="module")
def greenhouse(tmp_path_factory):
    """The simulated greenhouse."""
    sim = start_sim("greenhouse", tmp_path_factory.mktemp("greenhouse"))
    yield sim
    sim.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIG["devices"])
def test_every_device_of_the_greenhouse_conforms(greenhouse, name):
    """Each shipped driver, as the example configures it, keeps every promise against the simulated rig."""
    options = dict(CONFIG["devices"][name])
    driver = Registry.installed().driver(options.pop("driver"))
    url = greenhouse.buses[options.pop("bus")]
    setpoint = SETPOINTS.get(name, 1.0)
    report = check_driver(driver, options, url, RealClock(greenhouse.speed), setpoint=setpoint, tolerance=0.01)
    assert report.driver == driver.name
    assert len(report.checks) >= 10


def test_the_three_phase_meter_conforms():
    """The SDM630 driver keeps every promise against registers in memory."""

    def meter():
        line = MemoryLine()
        for address, value in {0x00: 230.0, 0x46: 50.0, 0x48: 12.5, 0x34: 900.0}.items():
            high, low = struct.unpack(">HH", struct.pack(">f", value))
            line.cells |= {(1, "input", address): high, (1, "input", address + 1): low}
        return line

    report = check_driver(Registry.installed().driver("sdm630"), {}, meter, ManualClock())
    assert report.abilities == ("Sensor", "Meter")


# a driver that keeps every promise, and ways to break each -------------------------------------------------------


class Box:
    """An instrument that holds a setpoint, measures it, counts, and doses; one command per line."""

    def __init__(self):
        self.held = None
        self.total = 0.0

    def __call__(self, command):
        verb, _, value = command.partition(" ")
        if verb == "SET":
            self.held = float(value)
        elif verb == "OFF":
            self.held = None
        elif verb == "DOSE":
            self.total += float(value)
        answers = {"ID?": "ID box", "GET?": f"GET {self.held}", "SUM?": f"SUM {self.total}", "VAL?": "VAL 2.5"}
        return [answers.get(verb, "ok")]


class BoxOptions(DeviceOptions):
    """Options of the box."""

    limit: float = 10.0
    """Highest setpoint."""


class BoxDevice(Sensor, Actuator, Meter, Doser):
    """Sensor, actuator, meter and doser in one."""

    unit = "V"
    meter_unit = "mL"
    min_dose_ml = 1.0
    max_rate_ml_per_min = 60.0

    def __init__(self, line):
        self.line = line
        self.in_step = True

    def ask(self, command, deadline, expect="ok"):
        _ = self.in_step or self.line.resync()
        self.in_step = False
        self.line.write(f"{command}\r".encode(), deadline)
        word, _, value = self.line.read_line(b"\r", deadline).decode("ascii", "replace").partition(" ")
        if word != expect:
            raise DeviceFault(f"{command}: got {word!r}")
        self.in_step = True
        return value

    def number(self, command, deadline):
        value = float(self.ask(f"{command}?", deadline, command))
        return Reading(value, self.unit if command == "VAL" else self.meter_unit, self.line.clock.now_s())

    def identify(self, deadline):
        return Identity(self.ask("ID?", deadline, "ID"))

    def read(self, deadline):
        return self.number("VAL", deadline)

    def apply(self, value, deadline):
        if not math.isfinite(value):
            raise DeviceFault(f"got {value}")
        self.ask(f"SET {value}", deadline)

    def release(self, deadline):
        self.ask("OFF", deadline)

    def safe(self, deadline):
        self.release(deadline)

    def read_back(self, deadline):
        held = self.ask("GET?", deadline, "GET")
        return ActuatorState(held != "None", None if held == "None" else float(held))

    def total(self, deadline):
        return self.number("SUM", deadline)

    def ready(self, deadline):
        self.identify(deadline)

    def start_dose(self, volume_ml, deadline):
        if not (math.isfinite(volume_ml) and volume_ml >= self.min_dose_ml):
            raise DeviceFault(f"got {volume_ml}")
        self.ask(f"DOSE {volume_ml}", deadline)

    def dose_status(self, deadline):
        self.identify(deadline)
        return DoseStatus(running=False, dispensed_ml=1.0)

    def total_volume_ml(self, deadline):
        return self.total(deadline)

    def stop(self, deadline):
        self.ask("STOP", deadline)


class BoxDriver(Driver):
    """Driver of the box."""

    name = "box"
    summary = "a box"
    schemes = ("serial",)
    options: ClassVar[type[DeviceOptions]] = BoxOptions
    device: ClassVar[type] = BoxDevice

    @classmethod
    def connect(cls, _options, line):
        return cls.device(line)


def check(driver=BoxDriver, device=BoxDevice, **arguments):
    tested = type("Tested", (driver,), {"device": device})
    return check_driver(tested, {}, lambda: ScriptedLine(Box()), ManualClock(), **arguments)


def test_a_driver_that_keeps_its_promises_passes(golden):
    """The report lists what the device can do and what was checked."""
    report = check()
    assert report.abilities == ("Sensor", "Actuator", "Meter", "Doser")
    golden(report.checks)


def test_without_actuation_nothing_is_moved():
    """`actuate=False` leaves out what moves something."""
    box = Box()
    line = ScriptedLine(box)
    report = check_driver(BoxDriver, {}, lambda: line, ManualClock(), actuate=False)
    assert not [c for c in line.sent if c.split()[0] in ("SET", "OFF", "DOSE", "STOP")]
    assert len(report.checks) < len(check().checks)


def test_a_port_that_cannot_be_opened_is_no_fault_of_the_driver(tmp_path, clock):
    """A wrong URL is reported as such."""
    with pytest.raises(PortUnavailable):
        check_driver(BoxDriver, {}, f"serial://{tmp_path}/none", clock)


class Lax(DeviceOptions):
    """Takes anything."""

    model_config: ClassVar = {"extra": "allow"}


class Silent(DeviceOptions):
    """An option nobody explains."""

    limit: float = 10.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "My Box"}, "name 'My Box'"),
        ({"summary": "two\nlines"}, "must be one line"),
        ({"schemes": ()}, "must be a tuple, not empty"),
        ({"schemes": ("Serial",)}, "must be like 'serial'"),
        ({"options": Lax}, "`no_such_option: 1` was accepted"),
        ({"options": Silent}, "no docstring below: limit"),
        ({"options": dict}, "no subclass of DeviceOptions"),
        ({"connect": lambda options, line: object()}, "is no Device"),
        ({"connect": lambda options, line: 1 / 0}, "ZeroDivisionError"),
    ],
)
def test_a_badly_described_driver_is_found(changes, says):
    """Name, summary, schemes, options and connect() are checked first."""
    with pytest.raises(DriverNonConformance, match=says):
        check(type("Changed", (BoxDriver,), changes))


class Chatty(BoxDevice):
    """Talks while it is being connected."""

    def __init__(self, line):
        super().__init__(line)
        self.ask("ID?", Deadline.after(0.05), "ID")


class Optimist(BoxDevice):
    """Takes every failure for a zero."""

    def ask(self, command, deadline, expect="ok"):
        try:
            return super().ask(command, deadline, expect)
        except Exception:  # noqa: BLE001 - this is the mistake that is to be found
            return "0"


class Credulous(BoxDevice):
    """Finds digits in noise."""

    def read(self, deadline):
        self.line.write(b"VAL?\r", deadline)
        text = self.line.read_line(b"\r", deadline).decode("ascii", "replace")
        digits = "".join(c for c in text if c.isdigit()) or "0"
        return Reading(float(digits), self.unit, self.line.clock.now_s())


class Forgetful(BoxDevice):
    """Is somebody else each time."""

    def __init__(self, line):
        super().__init__(line)
        self.times = 0

    def identify(self, deadline):
        self.times += 1
        return Identity(super().identify(deadline).model + str(self.times))


class Falling(BoxDevice):
    """Counts downwards."""

    def __init__(self, line):
        super().__init__(line)
        self.count = 100.0

    def total(self, deadline):
        got = super().total(deadline)
        self.count -= 1.0
        return Reading(self.count, got.unit, got.time_s)


class Unsafe(BoxDevice):
    """Has a safe state that depends on where it comes from."""

    def safe(self, deadline):
        self.ask("STOP", deadline)
        if self.read_back(deadline).controlled:
            self.ask("SET 0.0", deadline)


class Insistent(BoxDevice):
    """Repeats commands that were not answered."""

    def ask(self, command, deadline, expect="ok"):
        half = deadline.within(deadline.remaining_s / 2)
        try:
            return super().ask(command, half, expect)
        except DeviceFault:
            raise
        except Exception:  # noqa: BLE001 - this is the mistake that is to be found
            return super().ask(command, deadline, expect)


class InsistentDose(BoxDevice):
    """Repeats a dose when asked how it went."""

    def start_dose(self, volume_ml, deadline):
        self.pending = volume_ml
        super().start_dose(volume_ml, deadline)

    def dose_status(self, deadline):
        self.ask(f"DOSE {getattr(self, 'pending', 1.0)}", deadline)
        return DoseStatus(running=False, dispensed_ml=1.0)


def broken(name, **methods):
    """A box that does these otherwise."""
    return type(name, (BoxDevice,), methods)


def reads(**otherwise):
    """How it reads, but for this."""
    return lambda box, deadline: replace(
        got := BoxDevice.read(box, deadline), **{n: f(got) for n, f in otherwise.items()}
    )


@pytest.mark.parametrize(
    ("device", "says"),
    [
        (Chatty, "connect.. sends nothing"),
        (
            broken("Patient", read=lambda box, d: BoxDevice.read(box, Deadline.after(0.2 + d.remaining_s))),
            r"read\(\) waited 0.2 s beyond its deadline",
        ),
        (Optimist, "On a silent line every call raises DeviceTimeout"),
        (Credulous, r"noise nothing is taken for a value.*read\(\) returned Reading"),
        (broken("WrongUnit", read=reads(unit=lambda _: "mV")), "unit 'mV', promised 'V'"),
        (broken("OldValue", read=reads(time_s=lambda got: got.time_s - 60.0)), "is not between asking and answering"),
        (Forgetful, "twice the same"),
        (Falling, "and then 9[0-9].0 mL"),
        (
            broken("Sticky", release=lambda box, d: box.ask("KEEP", d)),
            r"after release\(\): ActuatorState\(controlled=True",
        ),
        (broken("Inexact", apply=lambda box, v, d: BoxDevice.apply(box, v * 1.1, d)), "sent to 1.0, holds 1.1"),
        (Unsafe, r"safe\(\) leads to the same state from anywhere"),
        (broken("TakesNan", apply=lambda box, v, d: box.ask(f"SET {v}", d)), "nan was accepted"),
        (Insistent, "sent more than once"),
        (InsistentDose, "was sent again"),
        (broken("AnyDose", start_dose=lambda box, ml, d: box.ask(f"DOSE {ml}", d)), "nan mL was accepted"),
        (broken("HarmfulStop", stop=lambda box, d: box.ask("DOSE 0.5", d)), "the total went from 0.0 to 1.0 mL"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_promise_is_found(device, says):
    """Each way to misbehave fails the check that forbids it, naming the driver."""
    with pytest.raises(DriverNonConformance, match=rf"(?s)'box'.*{says}"):
        check(device=device)
