"""The guard at its limits: what just passes, what just does not, and what everybody is told."""

import math

import pytest

from rigctl.errors import CapReached, GuardRefused, Tripped
from rigctl.rig.bus import Bus
from rigctl.rig.guard import Command, Guard, KnownState, objections
from rigctl.rig.handle import Handle
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.protocols import Deadline
from rigctl.rig.values import News
from tests.rig.fakes import FakeActuator, FakeClock, FakeDoseLog, FakeLine, FakePump, in_a_day

LIMITS = ActuatorLimits(low=5.0, high=60.0, safe_state="off", per_dose_ml=50.0, per_day_ml=100.0)


class Noted(Handle):
    """A handle that remembers what it was told, and may have something happen just before."""

    def __init__(self, device, bus):
        super().__init__(device.name, device, bus, 0.5)
        self.said = []
        self.meanwhile = lambda: None

    async def tell(self, command, doing):
        self.said.append(doing)
        self.meanwhile()
        return await super().tell(command, doing)

    async def tell_at_all_costs(self, command, doing, within_s):
        self.said.append((doing, within_s))
        return await super().tell_at_all_costs(command, doing, within_s)


class Gang(FakeActuator):
    """One of several outputs of an instrument that goes safe as a whole."""

    def safe_all(self, devices, deadline):
        self.line.log.append((self.name, [d.name for d in devices], type(deadline)))


@pytest.fixture
def line():
    return FakeLine("fake://plc", FakeClock())


@pytest.fixture
async def bus(line):
    bus = Bus(line, News())
    yield bus
    await bus.close()


@pytest.fixture
def valve(bus, line):
    return Noted(FakeActuator("valve", line, "uM"), bus)


@pytest.fixture
def pump(bus, line):
    return Noted(FakePump("pump", line), bus)


@pytest.fixture
def doses():
    return FakeDoseLog()


@pytest.fixture
def guard(doses):
    return Guard({"valve": LIMITS, "pump": LIMITS}, doses, FakeClock())


@pytest.mark.parametrize(
    ("kind", "value", "booked_ml", "limits", "said"),
    [
        ("setpoint", 5.0, 0.0, LIMITS, None),
        ("setpoint", 60.0, 0.0, LIMITS, None),
        ("setpoint", math.nextafter(5.0, 0.0), 0.0, LIMITS, "allowed 5 to 60"),
        ("setpoint", math.nextafter(60.0, 99.0), 0.0, LIMITS, "allowed 5 to 60"),
        ("setpoint", 20.0, 1e9, LIMITS, None),
        ("dose", 50.0, 50.0, LIMITS, None),
        ("dose", math.nextafter(50.0, 99.0), 0.0, LIMITS, "allowed 50 mL per dose"),
        ("dose", 50.0, 50.0 + 1e-13, LIMITS, "allowed 100 mL in 24 h"),
        ("dose", 5e-324, 0.0, LIMITS, None),
        ("dose", 0.0, 0.0, LIMITS, "must be > 0"),
        ("dose", 1e6, 1e6, ActuatorLimits(low=0.0, high=1.0, safe_state="off"), None),
        ("dose", math.inf, 0.0, ActuatorLimits(low=0.0, high=1.0, safe_state="off"), "must be a finite number"),
    ],
)
def test_a_limit_itself_is_allowed_and_the_next_number_is_not(kind, value, booked_ml, limits, said):
    """Range and caps include their ends; a cap that nobody declared is none, but a dose is finite all the same."""
    found = objections(Command("x", kind, value, "mL"), KnownState(limits, in_a_day(booked_ml, limits)))
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


async def test_a_cap_that_time_will_lift_is_told_from_one_that_it_will_not(guard, doses, pump, golden):
    """What does not fit these 24 hours names pump and volume, to be waited for; what never fits is refused."""
    doses.booked_ml = 70.0
    with pytest.raises(CapReached) as later:
        await guard.admit_dose(pump, 40.0)
    assert (later.value.actuator, later.value.volume_ml) == ("pump", 40.0)
    with pytest.raises(GuardRefused) as never:
        await guard.admit_dose(pump, 60.0)
    assert not isinstance(never.value, CapReached)
    golden(str(never.value))


async def test_checks_of_ones_own_see_the_whole_command_and_replace_the_usual_ones(doses, valve, pump, golden):
    """Each is handed name, kind, value and unit, and what has been dispensed; no other check is asked."""
    seen = []

    def once(command, facts):
        booked_ml = sum(sum(booked.given_ml.values()) for booked in facts.booked)
        seen.append((command, booked_ml))
        return "again" if booked_ml else None

    guard = Guard({"valve": LIMITS, "pump": LIMITS}, doses, FakeClock(), [once])
    await guard.apply(valve, 1e6)
    await guard.admit_dose(pump, 80.0)
    assert seen == [(Command("valve", "setpoint", 1e6, "uM"), 0.0), (Command("pump", "dose", 80.0, "mL"), 0.0)]
    doses.booked_ml = 1.0
    with golden.raises(CapReached):
        await guard.admit_dose(pump, 80.0)


async def test_what_passes_is_sent_as_it_was_asked_for(guard, valve, pump, golden):
    """Value, volume and deadline reach the device, and the bus is told in words what is being done."""
    sent = []
    valve.device.apply = lambda value, deadline: sent.append((value, type(deadline)))
    pump.device.start_dose = lambda volume_ml, deadline: sent.append((volume_ml, type(deadline)))
    await guard.apply(valve, 30.0)
    await guard.start_dose(await guard.admit_dose(pump, 10.0))
    await guard.release(valve)
    await guard.stop(pump)
    await guard.stop(pump, within_s=0.25)
    assert sent == [(30.0, Deadline), (10.0, Deadline)]
    golden([valve.said, pump.said])
    assert valve.device.line.log.count("pump stop") == 2


async def test_a_refusal_says_what_would_have_been_done(guard, valve, pump, golden):
    """Before its turn, and at its turn if the trip came while it waited; nothing is sent."""
    permit = await guard.admit_dose(pump, 10.0)
    valve.meanwhile = pump.meanwhile = lambda: guard.trip("acid")
    with golden.raises(Tripped):
        await guard.apply(valve, 30.0)
    with golden.raises(Tripped):
        await guard.start_dose(permit)
    with golden.raises(Tripped):
        await guard.apply(valve, 30.0)
    assert (valve.device.applied, pump.device.started) == ([], [])


async def test_the_ways_to_safety_are_handed_the_deadline(bus, line):
    """A number is applied, a group is told through its first device, with all of it."""
    guard = Guard({"x": ActuatorLimits(low=0.0, high=9.0, safe_state=7.0)}, FakeDoseLog(), FakeClock())
    sent = []
    one = Handle("x", FakeActuator("x", line), bus, 0.5)
    one.device.apply = lambda value, deadline: sent.append((value, type(deadline)))
    guard.way_to_safety(one)(Deadline.after(1.0))
    assert sent == [(7.0, Deadline)]
    gang = [Handle(name, Gang(name, line), bus, 0.5) for name in ("first", "second")]
    guard.common_way(gang)(Deadline.after(1.0))
    assert line.log == [("first", ["first", "second"], Deadline)]
