"""Caps per hour, day, trial and campaign, of one pump and of all pumps of one tank."""

import asyncio
import math

import pytest

from rigctl.errors import CapReached, CapSpent, GuardRefused
from rigctl.rig.limits import DAY_S, HOUR_S
from tests.rig.fakes import FakeDoseLog
from tests.rig.pumps import Pumps

NAMES = ("acid", "base")


class Log(FakeDoseLog):
    """What was booked, by pump: (rig time, mL, whether in the trial under way)."""

    def __init__(self):
        super().__init__()
        self.clock, self.booked = None, []

    async def intend(self, actuator, volume_ml, total_before_ml):
        self.booked.append((actuator, self.clock.now_s(), volume_ml, True))
        await asyncio.sleep(0)
        return len(self.booked)

    async def given_ml(self, pumps, since_s):
        await asyncio.sleep(0)
        booked = [(ours if since_s is None else at_s >= since_s, pump, ml) for pump, at_s, ml, ours in self.booked]
        return sum(ml for counts, pump, ml in booked if counts and pump in pumps)


class Tank(Pumps):
    """Two pumps of one tank behind a guard."""

    def __init__(self, **caps):
        super().__init__(*NAMES, doses=Log(), per_dose_ml=100.0, per_day_ml=1000.0, caps=caps)
        self.doses.clock = self.clock

    def gave(self, ago_s, ml, pump="acid", *, ours=False):
        self.doses.booked.append((pump, self.clock.now_s() - ago_s, ml, ours))

    def sent(self):
        return [ml for pump in self.pumps.values() for ml in pump.started]


@pytest.fixture
async def tank():
    made = []

    def make(**caps):
        made.append(Tank(**caps))
        return made[-1]

    yield make
    for each in made:
        await each.close()


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
async def test_what_one_pump_gave_counts_for_the_other(tank, cap, ago_s, ours, kind, golden):
    """30 mL of acid leave 20 of 50: 25 of base are refused before they are sent, never split, 20 are given."""
    tank = tank(**{cap: 50.0})
    tank.gave(ago_s, 30.0, ours=ours)
    dispenser = tank.dispenser
    if kind is None:
        await dispenser.dispense(tank.handles["base"], 25.0)
        assert tank.sent() == [25.0]
        return
    with golden.raises(GuardRefused) as caught:
        await dispenser.dispense(tank.handles["base"], 25.0)
    assert type(caught.value) is kind
    assert tank.sent() == []
    assert len(tank.doses.booked) == 1
    await dispenser.dispense(tank.handles["base"], 20.0)
    assert tank.sent() == [20.0]


async def test_doses_of_one_act_count_for_each_other(tank):
    """30 and 30 of 50 are refused together, before either moves."""
    tank = tank(per_hour_ml=50.0)
    both = [(tank.handles[n], 30.0) for n in NAMES]
    with pytest.raises(CapReached):
        await tank.dispenser.dispense_together(both)
    assert (tank.sent(), tank.doses.booked) == ([], [])


async def test_pumps_that_dose_side_by_side_do_not_both_take_what_is_left(tank):
    """Two titrations at the same time ask for 30 of 50 each: one is refused, whatever the order."""
    tank = tank(per_hour_ml=50.0)
    asked = [tank.dispenser.dispense(tank.handles[n], 30.0) for n in NAMES]
    got = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(g) for g in got].count(CapReached) == 1
    assert tank.sent() == [30.0]


async def test_a_dose_above_the_cap_itself_never_fits(tank):
    """No waiting helps: it is refused for good."""
    tank = tank(per_hour_ml=50.0)
    with pytest.raises(GuardRefused) as caught:
        await tank.dispenser.dispense(tank.handles["acid"], 60.0)
    assert type(caught.value) is GuardRefused
    assert math.isfinite(tank.clock.now_s())
