"""Outcomes that come later: from a person or a sensor, out of order, over restarts, or never."""

import asyncio
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from rigctl.campaign import control
from rigctl.campaign.events import OutcomeCame, PhaseChanged, TrialEnded
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.journal.mending import mended
from rigctl.campaign.journal.rows import Amendment
from rigctl.campaign.journal.salvage import salvage
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import Event, State
from rigctl.errors import DeviceError, NoAnswer, UsageError
from rigctl.rig.spec import OutcomeSpec
from rigctl.rig.values import Measurement
from tests.campaign.fakes import (
    INVALID,
    TenLines,
    ThreadDecider,
    charged,
    make_rig_spec,
    make_spec,
    metered,
)
from tests.campaign.records import LINES, STEPS, SetClock, amend, give, give_up, void

BY_HAND = OutcomeSpec(name="y", unit="1", by="hand", within_s=3 * 86400.0, at_end="end")
SAY = ": `rigctl trial outcome TRIAL VALUE` records it"
BY_SENSOR = OutcomeSpec(name="y", unit="1", sensor="scale", within_s=7200.0, after_s=3600.0)


@dataclass(frozen=True)
class Learning(TenLines):
    """Decides by all that was ever measured, and by what is awaited."""

    def propose(self, state, problem, history, rng):
        proposal, after = super().propose(state, problem, history, rng)
        known = abs(float(history.x.sum() + 3 * history.y.sum() + history.awaited.sum() / 7)) % 1.0
        return replace(proposal, setting=tuple(known for _ in proposal.setting)), after


def spec_with(late, **changes):
    return make_spec(policy=Learning(), rig=make_rig_spec(outcomes=(late,)), **changes)


def opened(directory):
    return Journal(directory, SetClock(), "boot-1")


def sound(stage, spec):
    """All decisions come out again, every row can be, and money adds up."""
    with stage.journal() as read:
        assert [found.differences for found in replay(read, spec)] == [()] * len(read.trials())
        assert violations(read) == ()
        for meter in ("power", "acid"):
            assert charged(read, meter) == pytest.approx(metered(read, meter))
        return read.trials(), read.history(spec.problem.space), read.ledger()


@pytest.mark.slow
async def test_trials_go_on_and_outcomes_come_in_any_order(stage, golden):
    """Charged once, when the rig is done; decisions know what is under way and what has come, and replay agrees."""
    spec = spec_with(BY_HAND)
    assert (await stage.run(spec)).ending == "trials"
    rows, history, before = sound(stage, spec)
    assert [row.state for row in rows] == [State.AWAITING] * 3
    assert [(o.awaited, o.y, o.cost > 0, o.x is not None) for o in history.observations] == [
        (True, None, True, True)
    ] * 3
    with closing(opened(stage.state)) as journal:
        golden(give(journal, 2, {"y": 4.5}, "Ada"))
    await stage.run(replace(spec, max_trials=4))
    with closing(opened(stage.state)) as journal:
        give(journal, 1, {"y": 1.5}, "Ada")
        give_up(journal, 3, "Bob", "spilt")
    await stage.run(replace(spec, max_trials=5))
    rows, history, after = sound(stage, spec)
    assert [row.state for row in rows] == [*[State.RECORDED] * 2, State.FAILED, *[State.AWAITING] * 2]
    assert [row.corrections for row in rows] == [0, 0, 0, 1, 3]
    assert [o.y for o in history.observations] == [1.5, 4.5, None, None, None]
    assert after[: len(before)] == before
    assert (rows[1].came.who, rows[1].corrected, rows[2].came.why) == ("Ada", (), "spilt")
    acts = [(a.verb, a.who, a.argument, a.outcome) for a in stage.acts()]
    assert acts == [("outcome", "Ada", f"trial {n}", "RECORD") for n in (2, 1)] + [
        ("outcome", "Bob", "trial 3", "FAIL")
    ]


@pytest.mark.slow
def test_an_outcome_is_given_once_and_only_to_who_awaits_it(stage, golden):
    """What is refused says what to do instead; nothing is written then."""
    spec = spec_with(BY_HAND, max_trials=2)
    asyncio.run(stage.run(spec))
    with closing(opened(stage.state)) as journal:
        refused = {
            "got z, must be all that it awaits: y": lambda: give(journal, 1, {"z": 1.0}, "Ada"),
            "y: got nan, must be a finite number": lambda: give(journal, 1, {"y": float("nan")}, "Ada"),
            "say why none comes": lambda: give_up(journal, 1, "Ada", " "),
            "trial 7: not in this journal": lambda: give(journal, 7, {"y": 1.0}, "Ada"),
            "trial 1: awaits its outcome; `rigctl trial outcome 1 VALUE`": lambda: void(journal, 1, "Ada", "x"),
        }
        for what, work in refused.items():
            with pytest.raises(UsageError, match=what):
                work()
        assert journal.read.people.acts() == journal.read.people.corrections() == ()
        give(journal, 1, {"y": 2.0}, "Ada")
        with golden.raises(UsageError):
            give(journal, 1, {"y": 3.0}, "Bob")
        amend(journal, 1, Amendment(outcomes={"y": 3.0}), "Bob", "typo")
        give_up(journal, 2, "Ada", "spilt")
        with golden.raises(UsageError):
            give(journal, 2, {"y": 3.0}, "Bob")
        give(journal, 2, {"y": 4.0}, "Bob", "", force=True)
        for trial in (1, 2):  # whoever said what it is now, not who said or gave it up before
            with golden.raises(UsageError):
                give(journal, trial, {"y": 5.0}, "Ada")
        assert [(r.state, r.outcome) for r in journal.read.trials()] == [(State.RECORDED, 3.0), (State.RECORDED, 4.0)]
        assert [c.kind for row in journal.read.trials() for c in row.corrected] == ["amend", "amend"]
        assert violations(journal.read) == ()


@pytest.mark.slow
async def test_what_nobody_says_in_time_is_given_up(patient):
    """The campaign that is over waits, says when it is nearly too late, and ends without; the cost stays."""
    spec = spec_with(replace(BY_HAND, within_s=1000.0, at_end="wait"), max_trials=2)
    assert (await patient.run(spec)).ending == "trials"
    rows, history, _ = sound(patient, spec)
    assert [(row.state, row.outcome, row.cost > 0) for row in rows] == [(State.FAILED, None, True)] * 2
    assert "17 min" in rows[0].because
    awaited = [alarm for alarm in patient.alarms() if alarm.kind == "outcome awaited"]
    assert sum("`rigctl trial outcome 1 VALUE`" in alarm.message for alarm in awaited) == 1
    assert [alarm.kind for alarm in patient.alarms()].count("no outcome") == 2
    assert patient.world.now_s > 2000
    assert not history.awaited.size


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"then": "hold"}, {"pending": 1}], ids=["hold", "one at most"])
async def test_the_next_trial_waits_where_it_is_told_to(patient, how, golden):
    """`hold`, and no more than so many under way; what comes over the control socket lets it go on, and is known."""
    given = []

    async def answer():
        while len(given) < 3:
            waits = [e for e in patient.told if isinstance(e, PhaseChanged) and e.phase == "WAITING"]
            if len(waits) > len(given):
                given.append(waits[-1].why)
                arguments = {"trial": len(given), "outcomes": {"y": float(len(given) - 1)}}
                await asyncio.to_thread(control.ask, patient.state, "outcome", who="Ada", **arguments)
            await asyncio.sleep(0.001)

    spec = spec_with(replace(BY_HAND, **how, at_end="wait", within_s=1e6))
    asking = asyncio.create_task(answer())
    await patient.run(spec)
    await asking
    rows, _, _ = sound(patient, spec)
    golden(given)
    assert [row.corrections for row in rows] == [0, 1, 2]
    came = [event for event in patient.told if isinstance(event, OutcomeCame)]
    assert [(event.row.trial, event.row.outcome, event.awaited) for event in came] == [
        (n, n - 1.0, 0) for n in (1, 2, 3)
    ]
    assert [e.row.state for e in patient.told if isinstance(e, TrialEnded)] == [State.AWAITING] * 3


@pytest.mark.slow
async def test_what_comes_while_nobody_decides_is_not_known_yet_to_what_is_played_instead(stage):
    """What worked last is what had when the policy was asked: so replay finds it again."""

    class Silent(ThreadDecider):
        async def decide(self, question, limit_s):
            await asyncio.to_thread(control.ask, stage.state, "outcome", who="Ada", trial=2, outcomes={"y": 2.0})
            raise NoAnswer("no decision")

    spec = spec_with(BY_HAND, max_trials=2)
    await stage.run(spec)
    with closing(opened(stage.state)) as journal:
        give(journal, 1, {"y": 1.0}, "Ada")
    await stage.run(replace(spec, max_trials=3), decider=Silent())
    rows, _, _ = sound(stage, spec)
    assert (rows[2].origin, rows[2].corrections, rows[2].setpoints) == ("timed-out", 1, rows[0].setpoints)
    assert rows[1].setpoints != rows[0].setpoints


@pytest.mark.slow
async def test_a_sensor_is_read_when_it_is_due(patient, golden):
    """Between trials or while another one settles; what gives nothing is read again, what is too late given up."""
    spec = spec_with(replace(BY_SENSOR, after_s=100.0, within_s=400.0), max_trials=4)
    bad = {"y": INVALID}

    def mended():
        if sum(call == "measure late" for call in patient.rig.calls) == 2:
            bad.clear()

    await patient.run(spec, measured=bad, fail={"measure late": mended})
    rows, history, _ = sound(patient, spec)
    assert [row.state for row in rows] == [State.RECORDED] * 4
    assert {row.came.who for row in rows} == {"sensor"}
    assert any("read" in row.came.why and "late" in row.came.why for row in rows)
    golden([a.message for a in patient.alarms()])
    assert any(o.corrections for o in rows)
    assert history.awaited.size == 0


@pytest.mark.slow
async def test_who_says_it_while_the_sensor_is_read_is_first(patient):
    """What a person has said meanwhile stands, what the sensor read is dropped, and the campaign goes on."""
    spec = spec_with(replace(BY_SENSOR, after_s=100.0, within_s=400.0), max_trials=4)
    said = []

    async def say():
        if not said:
            said.extend(row.trial for row in patient.trials() if row.state is State.AWAITING)
            for number in said:
                arguments = {"trial": number, "outcomes": {"y": 1.0}}
                await asyncio.to_thread(control.ask, patient.state, "outcome", who="Ada", **arguments)

    assert (await patient.run(spec, fail={"measure late": say})).recorded == 4
    rows, _, _ = sound(patient, spec)
    assert said
    assert [row.came.who == "Ada" for row in rows] == [row.trial in said for row in rows]


@pytest.mark.slow
async def test_fault_75_a_mistake_in_a_plug_in_costs_the_reading_not_the_campaign(patient):
    """It is read again, as a sensor is that gave nothing."""
    spec = spec_with(replace(BY_SENSOR, after_s=100.0, within_s=400.0), max_trials=3)

    def mistake():
        if patient.rig.calls.count("measure late") == 1:
            raise KeyError("oops")

    assert (await patient.run(spec, fail={"measure late": mistake})).recorded == 3
    assert [(a.kind, a.source) for a in patient.alarms()] == [("outcome unread", "trial")]
    assert "oops" in patient.alarms()[0].detail
    sound(patient, spec)


@pytest.mark.slow
async def test_fault_64_a_frozen_sensor_is_not_believed_later_either(patient, golden):
    """The third outcome to the last digit, while all else changes, is none: read again, then given up."""
    spec = spec_with(replace(BY_SENSOR, after_s=100.0, within_s=400.0), max_trials=4)
    await patient.run(spec, measured={"y": Measurement(3.25, 0.0, 5)})
    rows, _, _ = sound(patient, spec)
    assert [row.state for row in rows] == [*[State.RECORDED] * 2, *[State.FAILED] * 2]
    golden(patient.alarms()[0].message)


@pytest.mark.slow
@pytest.mark.parametrize("late", [BY_HAND, BY_SENSOR])
async def test_no_budget_is_spent_on_outcomes_that_never_come(patient, late, golden):
    """After five in a row, as after five trials in a row that failed; one that comes begins the count anew."""
    spec = spec_with(replace(late, after_s=late.after_s and late.after_s / 36, within_s=150.0), max_trials=40)
    bad = {"y": INVALID}

    def once():
        (bad.clear if patient.rig.calls.count("measure") == 4 else lambda: bad.update(y=INVALID))()

    with golden.raises(DeviceError):
        await patient.run(spec, measured=bad, fail={"measure": once})
    rows, _, _ = sound(patient, spec)
    assert 5 <= sum(row.state is State.FAILED for row in rows) <= len(rows) < 14
    assert any(row.outcome for row in rows) is (late.by == "sensor")


@pytest.mark.slow
async def test_a_sensor_that_is_late_beyond_all_patience_is_not_read(patient, golden):
    """After a restart a day later nothing is read for what was due in an hour; it is given up, and said."""
    spec = spec_with(replace(BY_SENSOR, at_end="end"), max_trials=1)
    await patient.run(spec)
    patient.world.do("time", s=86400.0)
    await patient.run(spec)
    rows, _, _ = sound(patient, spec)
    assert (rows[0].state, "measure late" in patient.rig.calls) == (State.FAILED, False)
    golden(rows[0].because)


def test_a_clock_that_was_set_right_after_the_trial_gives_no_outcome_up_after_a_boot(tmp_path):
    """A board without a battery begins in 1970, until the network tells: nobody was away for fifty years."""
    wall = [datetime(1970, 1, 1, tzinfo=UTC)]
    journal = Journal(tmp_path, SetClock(1000.0), "boot-1", lambda: wall[0])
    spec = spec_with(BY_HAND)
    journal.begin(spec, "0.0")
    for event, step in STEPS.items():
        if event is not Event.RECORD:
            step(journal, 1)
    journal.finish(1, State.MEASURED, Event.AWAIT, LINES, awaiting=BY_HAND)
    wall[0] = datetime(2026, 6, 1, tzinfo=UTC)
    journal.time.clock.at_s += 3600.0
    journal.beat()
    journal.close()
    wall[0] += timedelta(hours=5)
    with closing(Journal(tmp_path, SetClock(10.0), "boot-2", lambda: wall[0])) as again:
        assert again.awaited.waiting() == {1: pytest.approx(3 * 86400.0 - 6 * 3600.0)}
        wall[0] += timedelta(days=3)
        assert again.awaited.waiting()[1] < 0


@pytest.mark.slow
def test_what_is_awaited_survives_the_mending_of_a_journal(stage):
    """A sound one stays as it is; without the record of what came the trial awaits it again, charged as before."""
    spec = spec_with(BY_HAND)
    asyncio.run(stage.run(spec))
    with closing(opened(stage.state)) as journal:
        give(journal, 1, {"y": 1.5}, "Ada")
        give_up(journal, 2, "Ada", "spilt")
    found = salvage(stage.state / "journal.sqlite", stage.directory)
    whole = {name: table.dicts() for name, table in found.tables.items()}
    tables = mended(found).tables
    for name in ("trials", "events", "ledger", "awaited", "corrections", "acts"):
        assert tables[name] == whole[name], name
    tables = mended(found, [("corrections", (1,)), ("awaited", (3,))]).tables
    assert [row["state"] for row in tables["trials"]] == ["AWAITING", "FAILED", "AWAITING"]
    assert (tables["ledger"], len(tables["awaited"])) == (whole["ledger"], 3)
