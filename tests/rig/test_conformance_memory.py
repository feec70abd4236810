"""`check_driver` on devices that remember what they should ask for, and ask before they command."""

from time import sleep

import pytest

from rigctl.campaign.clock import RealClock
from rigctl.errors import DeviceError, DriverNonConformance
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import ActuatorState
from rigctl.rig.testing import ScriptedLine
from tests.drivers.test_conformance import Box, BoxDevice, BoxDriver, check
from tests.golden import Golden


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


class Curious(BoxDevice):
    """Makes safe only what it has found driven."""

    def safe(self, deadline):
        if self.read_back(deadline).controlled:
            self.release(deadline)


class CuriousPump(BoxDevice):
    """Stops only what it has found running."""

    def stop(self, deadline):
        self.dose_status(deadline)
        super().stop(deadline)


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
        (Curious, r"safe\(\) began with"),
        (CuriousPump, r"stop\(\) began with"),
    ],
)
def test_what_would_be_believed_of_an_instrument_that_says_nothing_is_found(device, says):
    """Old values, states from memory, questions repeated, late answers, and asking before a command."""
    with pytest.raises(DriverNonConformance, match=says):
        check(device=device)


def test_a_driver_that_sleeps_is_found(golden: Golden):
    """By its line and by the clock it may wait: a question is cut short by the one, rig time is kept by the other."""
    with pytest.raises(DriverNonConformance) as refused:
        check(device=Sleepy)
    golden(refused.value)
    clock, polite = RealClock(1000.0), type("Tested", (BoxDriver,), {"device": Polite})
    assert check_driver(polite, {}, lambda: ScriptedLine(Box(), clock=clock), clock).checks
