"""What is driven now, and whether it still is."""

import asyncio
import threading

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout
from rigctl.rig.protocols import ActuatorState

OFF = ActuatorState(controlled=False, setpoint=None)


async def test_what_is_imposed_is_driven(bench, rig):
    """Chosen setpoints and the treatments of chosen pumps are driven; the next setting replaces them."""
    assert rig.driven == {}
    await rig.control({"b": 30.0, "ca": 2.2})
    assert rig.driven == {"b_valve": 30.0, "softener": 1.0}
    await rig.control({"b": 20.0})
    assert rig.driven == {"b_valve": 20.0}
    await rig.control({})
    assert rig.driven == {}


async def test_nothing_is_driven_once_everything_goes_safe(bench, rig):
    """Going safe lets go of what was imposed; what was refused never was."""
    await rig.control({"b": 30.0})
    bench.valve.fail("apply", DeviceFault("refused"))
    with pytest.raises(DeviceFault):
        await rig.control({"b": 20.0, "ca": 2.2})
    assert rig.driven == {"softener": 1.0}
    assert (await rig.safe()).ok
    assert rig.driven == {}


async def test_what_is_being_prepared_is_driven(bench, rig):
    """While a preparation lasts its actuator is driven, and no longer."""
    seen = []
    sleep = bench.clock.rest

    async def rest(seconds):
        seen.append(dict(rig.driven))
        await sleep(seconds)

    bench.clock.rest = rest
    await rig.control({"b": 30.0})
    assert seen == [{"b_valve": 30.0, "refill": 1.0}]
    assert rig.driven == {"b_valve": 30.0}


async def test_all_that_hold_are_content(bench, rig):
    """While every actuator holds what was imposed, and the others nothing, nothing is said."""
    await rig.open()
    await rig.control({})
    assert await rig.verify() == {}
    await rig.control({"b": 30.0, "ca": 2.2})
    assert await rig.verify() == {}


async def test_another_hand_is_noticed(bench, rig, golden):
    """Fault 61: an actuator that was switched off or moved says so, and only it."""
    await rig.control({"b": 30.0, "ca": 2.2})
    bench.softener.state = OFF
    assert set(await rig.verify()) == {"softener"}
    golden(await rig.verify())
    bench.valve.state = ActuatorState(controlled=True, setpoint=31.0)
    golden((await rig.verify())["b_valve"])


async def test_another_hand_on_what_was_left_alone_is_noticed(bench, rig, golden):
    """What somebody else switched on is not left alone any more: such a trial must not count as one."""
    await rig.control({"b": 30.0})
    bench.softener.state = ActuatorState(controlled=True, setpoint=None)
    assert set(await rig.verify()) == {"softener"}
    golden(await rig.verify())


async def test_who_cannot_be_asked_does_not_hold(bench, rig, golden):
    """An actuator without an answer is named with the error."""
    await rig.control({"b": 30.0})
    bench.valve.fail("read_back", DeviceTimeout("silent"))
    found = await rig.verify()
    assert set(found) == {"b_valve"}
    golden(found)


async def test_what_changes_meanwhile_is_left_out(bench, rig):
    """A setting that is replaced while an actuator is being asked is no deviation."""
    await rig.control({"b": 30.0})
    entered, let_go, read_back = threading.Event(), threading.Event(), bench.valve.read_back

    def slow(deadline):
        state = read_back(deadline)
        entered.set()
        let_go.wait(10.0)
        return state

    bench.valve.read_back = slow
    bench.valve.state = OFF
    asking = asyncio.create_task(rig.verify())
    await asyncio.to_thread(entered.wait, 10.0)
    safe = asyncio.create_task(rig.safe())
    await asyncio.sleep(0)
    let_go.set()
    assert await asking == {}
    assert (await safe).ok
