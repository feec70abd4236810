"""A trial that costs more than anybody knew: how far it comes, what it is charged, and what is played afterwards."""

import asyncio
import math
from dataclasses import replace

import pytest

from rigctl.campaign.trial import Event, State
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.policies.published.ucb_cvs import UcbCvs
from rigctl.rig.protocols import Severity
from tests.campaign.fakes import METERS, FakeRig, Stage, TenLines, make_rig_spec, make_spec

PRICE = 0.3
"""EUR per kWh."""
DEAR_KWH = 50.0
"""A trial that controls `b` uses as much: 15 EUR."""
BETWEEN_KWH = 0.5
"""What it uses between two readings of the meters."""
STEP = PRICE * BETWEEN_KWH


class Dear(Stage):
    """`b` uses power as long as a trial lasts, until it is let go; everything else costs 0.05 EUR a trial."""

    def __init__(self, directory):
        super().__init__(directory)
        self.when_safe = []

    async def run(self, spec, **faults):
        return await super().run(spec, fail={"measure": self.burn, "safe": self.look}, watched=True, **faults)

    def look(self):
        """Keep where the trials stand when everything is made safe."""
        with self.journal() as journal:
            self.when_safe.append([row.state for row in journal.trials()])

    async def burn(self):
        used = 0.0
        if "b" not in self.last()["setpoints"]:
            return
        while used < DEAR_KWH:
            looks = self.rig.calls.count("meters")
            async with asyncio.timeout(20.0):  # a mistake if nobody looks
                while self.rig.calls.count("meters") == looks:  # noqa: ASYNC110 - nobody sets an event
                    await asyncio.sleep(0)
            self.world.do("time", s=60.0)
            self.world.do("energy", kwh=BETWEEN_KWH)
            used += BETWEEN_KWH

    def last(self):
        return next(e for e in reversed(self.world.log) if e["what"] == "control")


@pytest.fixture
def dear(tmp_path):
    made = Dear(tmp_path)
    with made.world:
        yield made


METERED = tuple(replace(m, max_per_trial=None) for m in METERS if m.name in ("power", "water"))


def campaign(policy=None, ceiling=None, budget=10, **changes):
    spec = make_spec(budget, rig=make_rig_spec(meters=METERED), policy=policy or TenLines(cost=0.01), **changes)
    return replace(spec, problem=replace(spec.problem, cost_ceiling=ceiling))


@pytest.mark.slow
async def test_a_trial_of_unknown_cost_ends_where_the_rest_of_the_budget_does(dear):
    """What would have cost 15 of a budget of 10 is broken off at 10, to within what is used between two looks."""
    result = await dear.run(campaign(UcbCvs(), max_trials=None))
    assert result.ending == "budget"
    assert 10 <= to_units(result.spent) <= 10 + 3 * STEP


@pytest.mark.slow
async def test_with_max_per_trial_it_ends_there_and_its_control_set_is_left(dear):
    """`b` was to cost 1 EUR at most: it costs that once, alone or beside `a`, and all other money goes to `a`."""
    result = await dear.run(campaign(UcbCvs(), ceiling=1.0, budget=5, max_trials=12))
    with dear.journal() as journal:
        rows = journal.trials()
    assert to_units(result.spent) < 5
    broken_off = [row for row in rows if row.state is State.ABANDONED]
    assert broken_off
    assert len({row.control_set for row in broken_off}) == len(broken_off)
    assert all("b" in row.control_set and 1 <= to_units(row.cost) <= 1 + 3 * STEP for row in broken_off)
    assert {row.control_set for row in rows if row.state is State.RECORDED} == {("a",)}


@pytest.mark.slow
async def test_a_trial_that_is_broken_off_is_made_safe_first_and_charged_by_its_meters(dear):
    """Safe, then charged to the last reading, nothing estimated; one dose, one alarm, no failure; the next goes on."""
    result = await dear.run(campaign(ceiling=1.0, max_trials=4))
    with dear.journal() as journal:
        rows, steps, lines = journal.trials(), journal.events(3), journal.ledger(3)
        doses = journal.doses.rows()
    assert [row.state for row in rows] == [State.RECORDED, State.ABANDONED, State.ABANDONED, State.RECORDED]
    assert [e.event for e in steps] == [Event.PROPOSE, Event.ARM, Event.RUN, Event.ABANDON]
    assert (rows[2].control_set, rows[2].outcome) == (("a", "b"), None)
    assert [(line.meter, line.estimated) for line in lines] == [("power", False), ("water", False)]
    used = [e for e in dear.world.log if e["what"] == "energy"]
    assert result.spent == to_micros(round(PRICE * sum(e["kwh"] for e in used) + 4 * 0.05, 6))
    assert len(doses) == dear.world.count("dose") == 3
    alarms = [(a.kind, a.source, a.severity) for a in dear.alarms() if a.kind != "wall clock"]
    assert alarms == [("too dear", f"trial {n}", Severity.MAJOR) for n in (2, 3)]
    moved = [e["what"] for e in dear.world.log if e["what"] in ("control", "safe")]
    assert moved == ["safe", "control", "control", "safe", "control", "safe", "control", "safe"]
    assert [states[-1:] for states in dear.when_safe] == [[], [State.RUNNING], [State.RUNNING], [State.RECORDED]]


@pytest.mark.slow
async def test_a_meter_that_cannot_be_read_meanwhile_breaks_nothing_off(dear):
    """What is not metered is estimated at the end; nobody is stopped by an estimate."""
    seen = []

    def counter(reading):
        seen.append(reading)
        # the second trial is the dear one: it begins with the third reading
        return reading if len(seen) <= 3 else replace(reading, severity=Severity.INVALID, value=math.nan)

    await dear.run(campaign(ceiling=1.0, max_trials=2), counters={"power": counter})
    assert not {"too dear", "cost not watched"} & {a.kind for a in dear.alarms()}


@pytest.mark.slow
async def test_nobody_is_left_to_believe_that_a_trial_is_watched_when_it_is_not(dear, monkeypatch):
    """A mistake in what watches its cost is an alarm; the trial goes on."""

    async def mistaken(rig):
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(FakeRig, "meters_meanwhile", mistaken)
    await dear.run(campaign(max_trials=1))
    assert [(a.kind, a.severity) for a in dear.alarms() if a.source == "budget"] == [
        ("cost not watched", Severity.MAJOR)
    ]
    with dear.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.RECORDED]
