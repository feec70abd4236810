"""`check_driver` on what devices say and do on the way to safety."""

import math

import pytest

from rigctl.errors import DeviceFault, DriverNonConformance
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import Pace
from rigctl.rig.testing import ManualClock, ScriptedLine
from tests.drivers.test_conformance import Box, BoxDevice, BoxDriver, check
from tests.golden import Golden


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


class Alone(Together):
    """It knows of a group, but has no such command."""

    def safe_all(self, group, deadline):
        raise DeviceFault("exception 01")


class Elsewhere(Together):
    """Together they go somewhere else."""

    def safe_all(self, group, deadline):
        for box in group:
            box.apply(3.0, deadline)


class Asking(Together):
    """It has to ask how fast it is."""

    def pace(self):
        self.line.write(b"ID?\r", None)
        return super().pace()


class DeafLine(ScriptedLine):
    """A line that keeps its silence whatever is pressing."""

    press_on = None


@pytest.mark.parametrize("device", [Together, Alone])
def test_a_box_that_goes_safe_with_others_passes(device, golden: Golden):
    """A pace above 0 and a common way to the safe state, or its refusal, are what was promised."""
    checks = check(device=device).checks
    golden(checks)
    assert any(c.startswith("pace() and safe_all_s()") for c in checks)


@pytest.mark.parametrize(
    ("device", "says"),
    [
        (Elsewhere, "by itself"),
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
