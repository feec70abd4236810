"""A line that breaks in mid-dose and is opened again: what the pump said meanwhile, that it restarted, is lost."""

from __future__ import annotations

import pytest

from rigctl.errors import DeviceFault, PortUnavailable
from tests.golden import Golden
from tests.rig.test_dosing import World


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.bus.close()


def breaks(world, *, restarts):
    """The motor's start pulls down the supply of the port, and of the pump too if that `restarts`."""
    start = world.pump.start_dose

    def start_dose(volume_ml, deadline):
        start(volume_ml, deadline)
        if restarts:
            world.pump.restart()
        world.pump.fail("dose_status", PortUnavailable("the port is gone"))

    world.pump.start_dose = start_dose


@pytest.mark.parametrize("total_ml", [0.0, 3.0])
async def test_a_restart_from_which_the_total_begins_anew_is_booked_in_full(world, total_ml, golden: Golden):
    """Fault 21: a total that one dose can reach does not deny it, above all after a first restart."""
    world.pump.total_ml = total_ml
    breaks(world, restarts=True)
    with pytest.raises(DeviceFault) as refused:
        await world.dispense(20.0)
    golden(refused.value)
    assert world.doses.records[-1] == ("unknown", 1, 20.0)
    assert world.pump.started == [20.0]


@pytest.mark.parametrize(("total_ml", "short"), [(100.0, 0.5), (0.0, 1.0)])
async def test_a_pump_that_went_on_is_believed(world, total_ml, short):
    """Its total goes on beyond what one dose can reach, or shows all of the dose."""
    world.pump.total_ml, world.pump.short = total_ml, short
    breaks(world, restarts=False)
    assert await world.dispense(20.0) == pytest.approx(20.0 * short)
    assert world.doses.steps == ["intend", "sent", "done"]
