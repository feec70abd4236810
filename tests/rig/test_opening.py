"""Rig time faster than the wall: only where everything is simulated."""

from dataclasses import replace

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout
from tests.rig.test_rig import written


def claim(bench, *names, says=True):
    """Let these devices say that they are simulated, or that they are not."""
    for name in names:
        bench.devices[name].simulated = lambda _deadline: says


@pytest.fixture
def hasty(bench, make_rig):
    """The bench at 2400 rig seconds per second."""
    return make_rig(replace(bench.spec(), speedup=2400.0))


async def test_a_simulated_rig_may_run_faster(bench, hasty):
    """One device on each bus that says it is simulated is enough."""
    claim(bench, "t_probe", says=False)
    claim(bench, "b_probe", "ca_doser", "camera")
    assert set(await hasty.open()) == set(bench.devices)


@pytest.mark.parametrize("says", [None, False])
async def test_a_real_bus_is_refused(bench, hasty, says, golden):
    """With a bus on which nobody says so, opening is refused with the bus and the remedy, and nothing is written."""
    claim(bench, "b_probe", "camera")
    if says is not None:
        claim(bench, "ca_doser", says=says)
    with golden.raises(DeviceFault):
        await hasty.open()
    assert written(bench) == []


async def test_who_cannot_be_asked_counts_for_nothing(bench, hasty):
    """A device that stays silent to the question is an error, not a yes."""
    claim(bench, "b_probe", "camera")

    def silent(_deadline):
        raise DeviceTimeout("silent")

    bench.pump.simulated = silent
    with pytest.raises(DeviceTimeout):
        await hasty.open()


async def test_at_the_speed_of_the_wall_nobody_is_asked(bench, rig):
    """A rig without a speed-up opens whether or not its devices can say what they are."""
    claim(bench, *bench.devices, says=False)
    assert await rig.open()


async def test_what_comes_back_into_service_while_a_rig_is_opened_is_left_to_whoever_put_it_back(bench, rig):
    """It was recognised by the request that put it back; opening tells of those alone that it has asked itself."""
    rig.hands.set_aside(frozenset(["b_probe"]))
    camera = bench.devices["camera"]
    really = camera.identify

    def identify(deadline):
        rig.hands.set_aside(frozenset())
        return really(deadline)

    camera.identify = identify
    assert set(await rig.open()) == set(bench.devices) - {"b_probe"}
