import ast
import asyncio
import math
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rigctl.rig
from rigctl.errors import GuardRefused, Tripped
from rigctl.rig.bus import Bus
from rigctl.rig.guard import Command, Guard, KnownState, objections
from rigctl.rig.handle import Handle
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.values import News
from tests.rig.fakes import FakeActuator, FakeClock, FakeDoseLog, FakeLine, FakePump, in_a_day

LIMITS = ActuatorLimits(low=5.0, high=60.0, safe_state="off", per_dose_ml=50.0, per_day_ml=100.0)
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


class World:
    """A guard with a valve and a pump behind it."""

    def __init__(self):
        clock = FakeClock()
        line = FakeLine("fake://plc", clock)
        self.bus = Bus(line, News())
        self.valve, self.pump = FakeActuator("valve", line), FakePump("pump", line)
        self.valve_handle = Handle("valve", self.valve, self.bus, 0.5)
        self.pump_handle = Handle("pump", self.pump, self.bus, 0.5)
        self.doses = FakeDoseLog()
        limits = {"valve": LIMITS, "pump": LIMITS, "parked": ActuatorLimits(low=0.0, high=60.0, safe_state=7.0)}
        self.guard = Guard(limits, self.doses, clock)

    async def go_safe(self, handle):
        await handle.tell_at_all_costs(self.guard.way_to_safety(handle), "safe", within_s=1.0)


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.bus.close()


@given(ANY_FLOAT)
def test_a_setpoint_passes_exactly_when_it_lies_in_its_range(value):
    """A setpoint passes if and only if it is a number within the limits."""
    passes = not objections(Command("valve", "setpoint", value, "uM"), KnownState(LIMITS))
    assert passes == (math.isfinite(value) and 5.0 <= value <= 60.0)


@given(ANY_FLOAT, st.floats(min_value=0.0, max_value=1e4))
def test_a_dose_passes_exactly_when_both_caps_allow_it(volume_ml, booked_ml):
    """A dose passes if and only if it is positive and within both the cap per dose and what is left of the day's."""
    passes = not objections(Command("pump", "dose", volume_ml, "mL"), KnownState(LIMITS, in_a_day(booked_ml, LIMITS)))
    assert passes == (math.isfinite(volume_ml) and 0 < volume_ml <= 50.0 and booked_ml + volume_ml <= 100.0)


@given(st.lists(st.floats(min_value=0.1, max_value=80.0), max_size=20))
def test_admitted_doses_never_exceed_the_day_cap(volumes_ml):
    """Whatever doses are asked for, those that pass one after the other stay within the cap of the day."""
    booked_ml = 0.0
    for volume_ml in volumes_ml:
        if not objections(Command("pump", "dose", volume_ml, "mL"), KnownState(LIMITS, in_a_day(booked_ml, LIMITS))):
            booked_ml += volume_ml
    assert booked_ml <= 100.0


@pytest.mark.parametrize("value", [math.nan, math.inf, 4.9, 60.1])
async def test_what_is_not_allowed_never_reaches_the_device(world, value, golden):
    """Fault 42: an impossible setpoint is refused with what was got and what is allowed; the device hears nothing."""
    with golden.raises(GuardRefused):
        await world.guard.apply(world.valve_handle, value)
    assert world.valve.line.log == []


async def test_an_actuator_without_limits_is_refused(world, golden):
    """An actuator nobody declared limits for cannot be moved."""
    with golden.raises(GuardRefused):
        await world.guard.apply(Handle("stranger", world.valve, world.bus, 0.5), 10.0)
    assert world.valve.applied == []


async def test_caps_count_open_intents_of_the_last_day(world, golden):
    """The day's cap counts what the log has booked since 24 h of rig time, open intents included."""
    since = []
    given_ml = world.doses.given_ml

    async def asked(pumps, since_s):
        since.append((*pumps, since_s))
        return await given_ml(pumps, since_s)

    world.doses.given_ml = asked
    await world.guard.admit_dose(world.pump_handle, 40.0)
    world.doses.booked_ml = 70.0
    with golden.raises(GuardRefused):
        await world.guard.admit_dose(world.pump_handle, 40.0)
    assert since == [("pump", 1000.0 - 86_400.0)] * 2


async def test_a_permit_admits_one_dose(world, golden):
    """A dose permit is good for one dose."""
    permit = await world.guard.admit_dose(world.pump_handle, 10.0)
    await world.guard.start_dose(permit)
    with golden.raises(GuardRefused):
        await world.guard.start_dose(permit)
    assert world.pump.started == [10.0]


async def test_a_trip_refuses_everything_but_going_safe(world):
    """While tripped nothing is imposed or dosed, even with a permit; releasing, stopping and safing pass."""
    guard = world.guard
    permit = await guard.admit_dose(world.pump_handle, 10.0)
    guard.trip("acid")
    guard.trip("something later")
    assert guard.tripped == "acid"
    with pytest.raises(Tripped, match="acid"):
        await guard.apply(world.valve_handle, 10.0)
    with pytest.raises(Tripped):
        await guard.admit_dose(world.pump_handle, 10.0)
    with pytest.raises(Tripped):
        await guard.start_dose(permit)
    await guard.release(world.valve_handle)
    await guard.stop(world.pump_handle)
    await world.go_safe(world.valve_handle)
    assert (world.valve.applied, world.pump.started) == ([], [])
    assert world.valve.line.log[-3:] == ["valve release", "pump stop", "valve safe"]


async def test_a_trip_overtakes_a_command_that_waits_for_its_turn(world):
    """A command that was let through but still waits for its bus is dropped when the rig trips meanwhile."""
    entered, released = threading.Event(), threading.Event()

    def hold(_):
        entered.set()
        released.wait(10.0)

    holding = asyncio.create_task(world.bus.call(hold, timeout_s=10.0, doing="hold"))
    await asyncio.to_thread(entered.wait)
    applying = asyncio.create_task(world.guard.apply(world.valve_handle, 10.0))
    await asyncio.sleep(0)
    world.guard.trip("acid")
    released.set()
    await holding
    with pytest.raises(Tripped):
        await applying
    assert world.valve.applied == []


async def test_a_numeric_safe_state_is_applied_even_when_tripped(world):
    """A safe state given as a number is imposed, trip or not."""
    world.guard.trip("acid")
    await world.go_safe(Handle("parked", world.valve, world.bus, 0.5))
    assert world.valve.applied == [7.0]


def test_nothing_else_in_the_rig_commands_a_device():
    """Outside guard.py no code of the rig names a device method that moves something."""
    moving = {"apply", "release", "safe", "safe_all", "start_dose", "stop"}
    other_parts = ("guard.py", "conformance", "testing")
    offenders = [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for path in Path(rigctl.rig.__file__).parent.glob("*.py")
        if not path.name.startswith(other_parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in moving and ast.unparse(node.value).endswith("device")
    ]
    assert offenders == []
