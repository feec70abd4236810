"""Caps per hour, day, trial and campaign, of one pump and of all pumps of one tank."""

from __future__ import annotations

import asyncio
import math

import pytest

from rigctl.errors import CapReached, CapSpent, GuardRefused
from rigctl.rig.bus import Bus
from rigctl.rig.dosing import Dispenser
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle
from rigctl.rig.spec import DAY_S, HOUR_S, ActuatorLimits, CapSpec
from tests.golden import Golden
from tests.rig.fakes import FakeClock, FakeDoseLog, FakeLine, FakePump

NAMES = ("acid", "base")


class Log(FakeDoseLog):
    """What was booked, by pump: (rig time, mL, whether in the trial under way)."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.rows = clock, []

    async def intend(self, actuator, volume_ml, total_before_ml):
        self.rows.append((actuator, self.clock.now_s(), volume_ml, True))
        await asyncio.sleep(0)
        return len(self.rows)

    async def given_ml(self, pumps, since_s):
        await asyncio.sleep(0)
        return sum(
            ml for pump, at_s, ml, ours in self.rows if pump in pumps and (ours if since_s is None else at_s >= since_s)
        )

    async def volume_since_ml(self, actuator, since_s):
        return await self.given_ml([actuator], since_s)


@pytest.fixture
async def tank():
    """Two pumps of one tank behind a guard; each on a bus of its own."""

    class Tank:
        def __init__(self):
            self.clock = FakeClock()
            self.log = Log(self.clock)
            self.lines = {n: FakeLine(f"fake://{n}", self.clock) for n in NAMES}
            self.pumps = {n: FakePump(n, line) for n, line in self.lines.items()}
            self.buses = {n: Bus(line, lambda _: None) for n, line in self.lines.items()}
            self.handles = {n: Handle(n, self.pumps[n], self.buses[n], 0.5) for n in NAMES}

        def dispenser(self, **caps):
            limits = {n: ActuatorLimits(0.0, 14.0, "off", 100.0, 1000.0) for n in NAMES}
            guard = Guard(limits, self.log, self.clock, caps=[CapSpec(name="reservoir", pumps=NAMES, **caps)])
            return Dispenser(guard, self.log, self.clock, self.clock.rest, lambda _: None, trip=self.trip)

        async def trip(self, reason):
            raise AssertionError(reason)

        def gave(self, ago_s, ml, pump="acid", *, ours=False):
            self.log.rows.append((pump, self.clock.now_s() - ago_s, ml, ours))

        def sent(self):
            return [ml for pump in self.pumps.values() for ml in pump.started]

    made = Tank()
    yield made
    for bus in made.buses.values():
        await bus.close()


@pytest.mark.parametrize(
    ("cap", "ago_s", "ours", "kind"),
    [
        ("per_hour_ml", HOUR_S - 1, False, CapReached),
        ("per_hour_ml", HOUR_S + 1, False, None),
        ("per_day_ml", DAY_S - 1, False, CapReached),
        ("per_day_ml", DAY_S + 1, False, None),
        ("per_trial_ml", 60.0, True, GuardRefused),
        ("per_trial_ml", 60.0, False, None),
        ("per_campaign_ml", 1e9, False, CapSpent),
    ],
)
async def test_what_one_pump_gave_counts_for_the_other(tank, cap, ago_s, ours, kind, golden: Golden):
    """30 mL of acid leave 20 of 50: 25 of base are refused before they are sent, never split, 20 are given."""
    tank.gave(ago_s, 30.0, ours=ours)
    dispenser = tank.dispenser(**{cap: 50.0})
    if kind is None:
        await dispenser.dispense(tank.handles["base"], 25.0)
        assert tank.sent() == [25.0]
        return
    with pytest.raises(GuardRefused) as caught:
        await dispenser.dispense(tank.handles["base"], 25.0)
    golden(caught.value)
    assert type(caught.value) is kind
    assert tank.sent() == []
    assert len(tank.log.rows) == 1
    await dispenser.dispense(tank.handles["base"], 20.0)
    assert tank.sent() == [20.0]


async def test_doses_of_one_act_count_for_each_other(tank):
    """30 and 30 of 50 are refused together, before either moves."""
    both = [(tank.handles[n], 30.0) for n in NAMES]
    with pytest.raises(CapReached):
        await tank.dispenser(per_hour_ml=50.0).dispense_together(both)
    assert (tank.sent(), tank.log.rows) == ([], [])


async def test_pumps_that_dose_side_by_side_do_not_both_take_what_is_left(tank):
    """Two titrations at the same time ask for 30 of 50 each: one is refused, whatever the order."""
    dispenser = tank.dispenser(per_hour_ml=50.0)
    asked = [dispenser.dispense(tank.handles[n], 30.0) for n in NAMES]
    got = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(g) for g in got].count(CapReached) == 1
    assert tank.sent() == [30.0]


async def test_a_dose_above_the_cap_itself_never_fits(tank):
    """No waiting helps: it is refused for good."""
    with pytest.raises(GuardRefused) as caught:
        await tank.dispenser(per_hour_ml=50.0).dispense(tank.handles["acid"], 60.0)
    assert type(caught.value) is GuardRefused
    assert math.isfinite(tank.clock.now_s())
