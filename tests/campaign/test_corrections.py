"""What is corrected counts from the next decision on, and no earlier one comes out differently for it."""

import shutil
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.journal.rows import Amendment, ByHand, ImportRow
from rigctl.campaign.journal.writer import ManualTrial
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import Event, State
from rigctl.errors import JournalError, UsageError
from tests.campaign.fakes import TenLines, make_spec
from tests.campaign.reaper import one_life
from tests.campaign.records import STEPS, SetClock, amend, begun, make_decision, restore, void
from tests.profiles import slow_beyond


@dataclass(frozen=True)
class Learning(TenLines):
    """Decides by all that was ever measured."""

    def propose(self, state, problem, history, rng):
        proposal, after = super().propose(state, problem, history, rng)
        known = abs(float(history.x.sum() + history.y.sum() + history.costs(0).sum())) % 1.0
        return replace(proposal, setting=tuple(known for _ in proposal.setting)), after


def opened(directory):
    return Journal(directory, SetClock(), "boot-1")


@pytest.fixture
def journal(tmp_path):
    """A journal with a campaign begun and two ordinary trials."""
    with closing(begun(tmp_path, 2)) as made:
        yield made


@pytest.mark.slow
async def test_a_decision_knows_the_corrections_made_before_it_and_no_others(stage):
    """Void, restored and amended between trials: every decision comes out again as it did, with what it knew then."""
    spec = make_spec(policy=Learning(), max_trials=3)
    await stage.run(spec)
    corrections = [
        lambda j: void(j, 2, "Ada", "tap open"),
        lambda j: amend(j, 1, Amendment({}, {"y": 9.25}, 5_000), "Ada", "typo"),
        lambda j: restore(j, 2, "Ada", "it was the other tap"),
    ]
    for number, correct in enumerate(corrections, start=1):
        with closing(opened(stage.state)) as journal:
            correct(journal)
        await stage.run(replace(spec, max_trials=3 + number))
    with stage.journal() as read:
        assert [row.corrections for row in read.trials()] == [0, 0, 0, 1, 2, 3]
        assert [found.differences for found in replay(read, spec)] == [()] * 6
        histories = [read.history(spec.problem.space, corrections=n) for n in range(4)]
    assert [[o.y is None for o in h.observations[:3]] for h in histories] == [
        [False, False, False],
        [False, True, False],
        [False, True, False],
        [False, False, False],
    ]
    assert len({float(h.y[:2].sum()) for h in histories}) == 4


async def test_a_campaign_goes_on_from_past_trials(stage):
    """Every decision knows them, they cost nothing, are none of the trials asked for, and replay leaves them alone."""
    spec = make_spec(policy=Learning(), max_trials=2)
    stage.state.mkdir()
    past = [
        ManualTrial(decision, {"a": 3.0 + trial, "b": 0.5}, 1.0 * trial, 0, known=ByHand(amount=500_000 * trial))
        for trial in (1, 2, 3)
        for decision in [make_decision(trial, origin="manual", proposal=None, policy_state=None)]
    ]
    with closing(opened(stage.state)) as journal:
        journal.begin(spec, "0.0")
        journal.ingest(past, ("y",), ImportRow(0, "old.csv", "0" * 64, 3, 0.25, 1.0, "Ada", ""))
        assert journal.read.campaign().spent == 0
        journal.beat(ended="import")
    assert (await stage.run(spec)).ending == "trials"
    with stage.journal() as read:
        history = read.history(spec.problem.space)
        assert [o.charged for o in history.observations] == [False] * 3 + [True] * 2
        assert [o.noise_sd for o in history.observations] == [0.25] * 3 + [None] * 2
        assert (history.uncharged, history.spent) == (3, read.campaign().spent)
        assert history.costs(0)[:3].tolist() == [0.5, 1.0, 1.5]
        assert [(t.decided, t.differences) for t in replay(read, spec)] == [(False, ())] * 3 + [(True, ())] * 2


def test_a_void_trial_is_void_once_and_can_be_taken_in_again(journal, golden):
    """Who has done it is said; a reason is asked for."""
    golden(void(journal, 2, "Ada", "tap open"))
    with golden.raises(UsageError):
        void(journal, 2, "Bob", "tap open")
    golden(restore(journal, 2, "Bob", "no"))
    with golden.raises(UsageError):
        restore(journal, 2, "Bob", "no")
    with golden.raises(UsageError):
        void(journal, 1, "Bob", " ")
    with golden.raises(UsageError):
        void(journal, 3, "Bob", "x")
    STEPS[Event.PROPOSE](journal, 3)
    with golden.raises(UsageError):
        void(journal, 3, "Bob", "x")
    assert [a.verb for a in journal.read.people.acts()] == ["void", "restore"]


REFUSED = {
    "nothing new": (Amendment({"b": 0.3}, {"y": 1.7}, 80_000, ""), "is so already"),
    "variable": (Amendment({"c": 0.3}), "c: is no variable of this campaign; known: a, b"),
    "outcome": (Amendment({}, {"a": 0.3}), "a: is no outcome of this campaign; known: y"),
    "not finite": (Amendment({"a": float("inf")}), "a: got inf, must be a finite number"),
    "cost": (Amendment(amount=-1), "cost: got -1e-06, must not be negative"),
    "missing": (Amendment({"a": None}), "a: is missing, but the trial has an outcome"),
}


@pytest.mark.parametrize(("becomes", "what"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_have_been_is_not_amended(journal, becomes, what):
    """The message says why, and nothing is written."""
    with pytest.raises(UsageError, match=what):
        amend(journal, 1, becomes, "Ada", "typo")
    assert journal.read.people.acts() == journal.read.people.corrections() == ()


def test_what_was_amended_is_told(journal, golden):
    """Old and new values, cost in money."""
    said = amend(journal, 1, Amendment({"b": 0.4}, {"y": None}, 90_000, "spilt"), "Ada", "typo")
    golden(said)
    assert (journal.read.trial(1).state, journal.read.trial(1).remark) == (State.FAILED, "spilt")


def test_of_a_trial_that_was_not_measured_only_cost_and_note_change(journal, golden):
    """What was lost has no outcome that could be wrong."""
    STEPS[Event.PROPOSE](journal, 3)
    STEPS[Event.ARM](journal, 3)
    journal.finish(3, State.ARMED, Event.LOSE, ())
    with golden.raises(UsageError):
        amend(journal, 3, Amendment(outcomes={"y": 1.0}), "Ada", "x")
    amend(journal, 3, Amendment(amount=7), "Ada", "x")
    assert journal.read.campaign().spent == 160_007


INSTANTS = ("BEGIN", "COMMIT", "INSERT")
WORK = {
    "void": lambda journal: void(journal, 2, "Ada", "tap open"),
    "amend": lambda journal: amend(journal, 2, Amendment({}, {"y": 9.0}, 1), "Ada", "typo"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_beyond(1, WORK))
def test_a_kill_leaves_a_correction_and_its_audit_or_neither(tmp_path, name):
    """Killed before each row and each commit: a correction without the act, or the other way round, is never found."""

    def live(directory):
        def correct(reaper):
            journal = opened(directory)
            journal._connection.set_trace_callback(lambda sql: reaper(sql) if sql.startswith(INSTANTS) else None)
            WORK[name](journal)
            journal.close()

        return correct

    code, kill_at, found = -9, 0, []
    begun(tmp_path / "before", 2).close()
    while code:
        kill_at += 1
        directory = shutil.copytree(tmp_path / "before", tmp_path / str(kill_at))
        code, _ = one_life(live(directory), kill_at)
        with open_reader(directory) as read:
            assert len(read.people.acts()) == len(read.people.corrections())
            assert read.campaign().spent == sum(row.cost for row in read.trials())
            found.append(len(read.people.corrections()))
    assert found == sorted(found)
    assert set(found) == {0, 1}
    assert kill_at > 5


def test_a_decision_made_while_a_correction_came_in_keeps_what_it_knew(journal, golden):
    """The trial is proposed with the number that its history had, not with the last one there is."""
    history = journal.read.history(make_spec().problem.space)
    void(journal, 1, "Ada", "tap open")
    journal.propose(make_decision(3, corrections=history.corrections))
    assert journal.read.trial(3).corrections == 0
    with golden.raises(JournalError):
        journal.propose(make_decision(4))
