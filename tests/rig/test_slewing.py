"""Setpoints that may not jump are brought to where they are sent in steps."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, GuardRefused, ReadBackMismatch
from rigctl.rig.protocols import ActuatorState
from rigctl.rig.slewing import STEPS, Slew, ramp

RATE = 0.25
SLEW = Slew(4.0, RATE)


@given(
    start=st.floats(-1e3, 1e3),
    target=st.floats(-1e3, 1e3),
    step=st.one_of(st.just(float("inf")), st.floats(0.5, 500)),
    rate=st.one_of(st.just(float("inf")), st.floats(0.01, 100)),
)
def test_no_step_is_larger_or_faster_than_allowed(start, target, step, rate):
    """The last is the target to the last bit; each is within both limits, as the guard judges them."""
    slew = Slew(step, rate)
    way = ramp(start, target, slew)
    assert way[-1][1] == target
    values = [start, *(value for _, value in way)]
    for (pause_s, _), (before, after) in zip(way, pairwise(values), strict=True):
        assert slew.objection(abs(after - before), pause_s) is None
    assert len(way) <= max(1.0, abs(target - start) / step + 1, STEPS + 1)


@pytest.fixture
def slewed(bench, make_rig):
    """The rig of the tests, with a valve that moves 15 uM a minute, 4 uM at a time."""
    bench.valve.state = ActuatorState(controlled=False, setpoint=None)
    spec = bench.spec()
    limits = {**spec.limits, "b_valve": replace(spec.limits["b_valve"], max_step=4.0, max_rate_per_s=RATE)}
    return make_rig(replace(spec, limits=limits))


async def test_a_ramp_goes_from_where_the_variable_is_and_on_from_the_last_setpoint(bench, slewed):
    """From the probe's 28 to 40, then down to 30: no step above 4, no faster than allowed, to the last."""
    began_s = bench.clock.now_s()
    await slewed.control({"b": 40.0})
    first = list(bench.valve.applied)
    assert first[-1] == 40.0
    assert max(abs(b - a) for a, b in pairwise([28.0, *first])) <= 4.0
    assert bench.clock.now_s() - began_s >= 12.0 / RATE
    await slewed.control({"b": 30.0})
    second = bench.valve.applied[len(first) :]
    assert max(abs(b - a) for a, b in pairwise([40.0, *second])) <= 4.0
    assert (second[-1], slewed.driven) == (30.0, {"b_valve": 30.0})


async def test_the_way_to_safety_is_no_ramp(bench, slewed):
    """One command, from whatever it holds; the next ramp begins anew, where the variable is."""
    await slewed.control({"b": 40.0})
    sent = len(bench.valve.applied)
    assert (await slewed.safe()).ok
    assert len(bench.valve.applied) == sent
    assert not bench.valve.state.controlled
    await slewed.control({"b": 29.0})
    assert bench.valve.applied[sent] == pytest.approx(29.0, abs=1.0)


async def test_a_ramp_does_not_begin_at_a_guess(bench, slewed, golden):
    """While the variable cannot be read nothing is driven; a single spoilt reading is asked again."""
    readings = iter([float("nan"), 28.0])
    bench.b_probe.source = lambda: next(readings)
    await slewed.control({"b": 29.0})
    await slewed.safe()
    sent = len(bench.valve.applied)
    bench.b_probe.source = lambda: float("nan")
    with golden.raises(GarbledReply):
        await slewed.control({"b": 29.0})
    assert len(bench.valve.applied) == sent


@pytest.mark.parametrize(("held", "begins"), [(50.0, 49.0), (0.0, 28.0)])
async def test_a_ramp_begins_at_the_setpoint_that_it_was_let_go_by(bench, slewed, held, begins):
    """It holds 50, wherever the variable is; but a value beyond its range only says that it holds none."""
    bench.valve.state = ActuatorState(controlled=False, setpoint=held)
    bench.valve.release = lambda deadline: None
    await slewed.control({"b": 30.0 if held else 29.0})
    assert bench.valve.applied[0] == pytest.approx(begins, abs=0.5)


@pytest.mark.parametrize("held", [99.0, -5.0, float("nan")])
async def test_a_ramp_does_not_begin_beyond_the_range(bench, slewed, held, golden):
    """What another hand has set beyond the range is no place to take a step from; let go of, it begins anew."""
    bench.valve.state = ActuatorState(controlled=True, setpoint=held)
    with golden.raises(ReadBackMismatch):
        await slewed.control({"b": 40.0})
    assert bench.valve.applied == []
    assert (await slewed.safe()).ok
    await slewed.control({"b": 29.0})
    assert bench.valve.applied[0] == pytest.approx(29.0, abs=1.0)


async def test_a_ramp_that_is_refused_on_its_way_goes_no_further(bench, slewed):
    """What the instrument refuses is not sent again, and nothing after it."""
    bench.valve.fail("apply", DeviceFault("refused"))
    with pytest.raises(DeviceFault):
        await slewed.control({"b": 40.0})
    assert bench.valve.applied == []
    assert slewed.driven == {}


async def test_an_answer_that_is_lost_on_the_way_is_settled_by_the_read_back(bench, slewed):
    """Nothing is sent twice, and the ramp goes on from what the instrument says that it holds."""
    bench.valve.lose_reply("apply")
    await slewed.control({"b": 32.0})
    assert len(set(bench.valve.applied)) == len(bench.valve.applied) == len(ramp(28.0, 32.0, SLEW))
    assert slewed.driven == {"b_valve": 32.0}


async def test_the_guard_refuses_a_jump_whoever_asks(bench, slewed, golden):
    """Without knowing where it stands, or too far from there, or too soon."""
    guard, valve = slewed.guard, slewed._wiring.actuators["b_valve"]
    with golden.raises(GuardRefused):
        await guard.apply(valve, 30.0)
    guard.stands_at("b_valve", 28.0)
    bench.clock.sleep(60.0)
    with golden.raises(GuardRefused):
        await guard.apply(valve, 34.0)
    await guard.apply(valve, 31.0)
    with golden.raises(GuardRefused):
        await guard.apply(valve, 28.0)
    assert bench.valve.applied == [31.0]


async def test_after_a_release_nobody_knows_where_it_stands(bench, slewed, golden):
    """The process moves it now, so where it was sent last is no place to take a step from."""
    guard, valve = slewed.guard, slewed._wiring.actuators["b_valve"]
    guard.stands_at("b_valve", 28.0)
    await guard.release(valve)
    bench.clock.sleep(60.0)
    with golden.raises(GuardRefused):
        await guard.apply(valve, 31.0)


async def test_after_a_command_without_an_answer_nobody_knows_where_it_stands(bench, slewed, golden):
    """It may have moved or not, so the next step is none until somebody has read it back."""
    guard, valve = slewed.guard, slewed._wiring.actuators["b_valve"]
    guard.stands_at("b_valve", 28.0)
    bench.clock.sleep(60.0)
    bench.valve.lose_reply("apply")
    with pytest.raises(DeviceTimeout):
        await guard.apply(valve, 31.0)
    bench.clock.sleep(60.0)
    with golden.raises(GuardRefused):
        await guard.apply(valve, 32.0)


@pytest.mark.parametrize("now", [None, 0.6])
async def test_a_ramp_does_not_go_on_from_where_the_instrument_is_no_more(bench, slewed, now, golden):
    """It restarted and has let go, or another hand moved it by more than half a step: the next would be a jump."""
    apply = bench.valve.apply

    def then_restart(value, deadline):
        apply(value, deadline)
        before, last = [28.0, *bench.valve.applied][-2:]
        if len(bench.valve.applied) == 5:
            held = None if now is None else last - now * (last - before)
            bench.valve.state = ActuatorState(controlled=held is not None, setpoint=held)

    bench.valve.apply = then_restart
    with golden.raises(ReadBackMismatch):
        await slewed.control({"b": 40.0})
    assert len(bench.valve.applied) == 5
    assert slewed.driven == {}


async def test_a_ramp_does_not_begin_where_the_instrument_is_no_more(bench, slewed, golden):
    """The same between two trials, of which the second goes on from the first one's setpoint."""
    await slewed.control({"b": 40.0})
    sent = len(bench.valve.applied)
    bench.valve.state = ActuatorState(controlled=False, setpoint=None)
    with golden.raises(ReadBackMismatch):
        await slewed.control({"b": 30.0})
    assert len(bench.valve.applied) == sent
