"""`check_driver` on devices that remember what they should ask for, and that mislead on the way to safety."""

import math
from time import sleep

import pytest

from rigctl.errors import DeviceError, DeviceFault, DriverNonConformance
from rigctl.rig.clocks import RealClock
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import ActuatorState, Pace
from rigctl.rig.testing import ManualClock, ScriptedLine
from tests.drivers.test_conformance import Box, BoxDevice, BoxDriver, broken, check


class Stale(BoxDevice):
    """Gives the last value where it gets none."""

    last = None

    def read(self, deadline):
        try:
            self.last = super().read(deadline)
        except DeviceError:
            if self.last is None:
                raise
        return self.last


class Cached(BoxDevice):
    """Counts once, then knows."""

    last = None

    def total(self, deadline):
        self.last = self.last or super().total(deadline)
        return self.last


class Sure(BoxDevice):
    """Takes what it was told for what is so."""

    held = None

    def apply(self, value, deadline):
        super().apply(value, deadline)
        self.held = value

    def release(self, deadline):
        super().release(deadline)
        self.held = None

    def read_back(self, deadline):
        return super().read_back(deadline) if self.held is None else ActuatorState(True, self.held)


class Insistent(BoxDevice):
    """Asks again by itself."""

    def read(self, deadline):
        try:
            return super().read(deadline)
        except DeviceError:
            return super().read(deadline)


class OutOfStep(BoxDevice):
    """Takes the next line for the answer, whatever came before."""

    def ask(self, command, deadline, expect="ok"):
        self.in_step = True
        return super().ask(command, deadline, expect)


class Sleepy(BoxDevice):
    """Gives the instrument time that nobody can take back."""

    def apply(self, value, deadline):
        super().apply(value, deadline)
        sleep(0.001)


class Polite(BoxDevice):
    """Gives the instrument time by the clock."""

    def apply(self, value, deadline):
        super().apply(value, deadline)
        self.line.clock.sleep(0.001)


@pytest.mark.parametrize(
    ("device", "says"),
    [
        (Stale, r"read\(\): the reply was lost, yet"),
        (Cached, r"total\(\): the reply was lost, yet"),
        (Sure, r"read_back\(\): the reply was lost, yet"),
        (Insistent, r"read\(\): sent more than once"),
        (OutOfStep, r"leaves the next one in step\): DeviceFault"),
        (broken("Curious", safe=lambda box, d: box.read_back(d).controlled and box.release(d)), r"safe\(\) began with"),
        (
            broken("CuriousPump", stop=lambda box, d: (box.dose_status(d), BoxDevice.stop(box, d))),
            r"stop\(\) began with",
        ),
    ],
)
def test_what_would_be_believed_of_an_instrument_that_says_nothing_is_found(device, says):
    """Old values, states from memory, questions repeated, late answers, and asking before a command."""
    with pytest.raises(DriverNonConformance, match=says):
        check(device=device)


def test_a_driver_that_sleeps_is_found(golden):
    """By its line and by the clock it may wait: a question is cut short by the one, rig time is kept by the other."""
    with golden.raises(DriverNonConformance):
        check(device=Sleepy)
    clock, polite = RealClock(1000.0), type("Tested", (BoxDriver,), {"device": Polite})
    assert check_driver(polite, {}, lambda: ScriptedLine(Box(), clock=clock), clock).checks


class Together(BoxDevice):
    """A box that knows its pace and goes safe with others."""

    command_s, all_s = 0.1, 0.2

    def pace(self):
        return Pace(self.command_s, 0.1)

    def safe_group(self):
        return "box"

    def safe_all(self, group, deadline):
        for box in group:
            box.safe(deadline)

    def safe_all_s(self, group):
        return self.all_s


class Asking(Together):
    """It has to ask how fast it is."""

    def pace(self):
        self.line.write(b"ID?\r", None)
        return super().pace()


class DeafLine(ScriptedLine):
    """A line that keeps its silence whatever is pressing."""

    press_on = None


def refused(*_):
    """It knows of a group, but has no such command."""
    raise DeviceFault("exception 01")


@pytest.mark.parametrize(
    "device", [Together, type("Alone", (Together,), {"safe_all": refused})], ids=["Together", "Alone"]
)
def test_a_box_that_goes_safe_with_others_passes(device, golden):
    """A pace above 0 and a common way to the safe state, or its refusal, are what was promised."""
    checks = check(device=device).checks
    golden(checks)
    assert any("safe_all_s()" in check for check in checks)


@pytest.mark.parametrize(
    ("device", "says"),
    [
        (type("Elsewhere", (Together,), {"safe_all": lambda box, group, d: box.apply(3.0, d)}), "by itself"),
        (Asking, "1 exchanges"),
        (type("Endless", (Together,), {"command_s": math.inf}), "command_s is inf"),
        (type("Timeless", (Together,), {"all_s": 0.0}), r"safe_all_s\(\) is 0"),
    ],
)
def test_what_cannot_be_reckoned_with_is_found(device, says):
    """A pace that is no time, one that is asked for on the line, and another common safe state are found."""
    with pytest.raises(DriverNonConformance, match=says):
        check(device=device)


def test_a_line_that_cannot_press_on_is_found():
    """Every line must let commands leave at once on the way to safety."""
    with pytest.raises(DriverNonConformance, match="press_on"):
        check_driver(BoxDriver, {}, lambda: DeafLine(Box()), ManualClock())
