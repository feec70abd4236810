"""Fault 27 on the fake rig: the process is killed at every commit and at every action, and started again."""

import asyncio
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import State
from tests.campaign.fakes import Stage, World, charged, make_spec, metered, open_journal, unsynced
from tests.campaign.looking import looking_spec
from tests.campaign.reaper import one_life
from tests.profiles import share

TRIALS = 2
SPEC = make_spec(max_trials=TRIALS)
LOOKING = looking_spec(max_trials=TRIALS)
IDLE_KWH = 1 / 64
BY_SHARE = "the rest was idle"


def life(directory, kill_at=None, spec=SPEC):
    """One process's life on the stage: how it ended and how many instants it had."""

    def live(reaper):
        stage = Stage(directory, reaper)
        watched = lambda *where: reaper.watch(unsynced(open_journal(*where)))  # noqa: E731
        asyncio.run(stage.run(spec, journal=watched, idle_kwh=IDLE_KWH))

    return one_life(live, kill_at)


def run_killed_at(directory, instants, spec=SPEC):
    """Lives that are each killed at an instant of theirs, then one that may end; how many were killed."""
    kills = 0
    for instant in instants:
        status, _ = life(directory, instant, spec)
        assert status in (0, -signal.SIGKILL)
        kills += status != 0
    assert life(directory, spec=spec)[0] == 0
    return kills


def check_world(directory, kills, spec=SPEC):
    """Nothing repeated, nothing lost, everything adds up, every decision recomputed."""
    with World(directory / "world.jsonl") as world, open_reader(directory / "state") as journal:
        rows, doses, lines = journal.trials(), journal.doses.rows(), journal.ledger()
        # The world's own log is the witness.
        intents = [entry["intent"] for entry in world.log if entry["what"] == "dose"]
        assert len(intents) == len(set(intents)), "a dose was repeated"
        assert all(d.state == "DONE" for d in doses)
        assert sum(d.dispensed_ml for d in doses) == pytest.approx(world.total("dose", "ml"))
        assert sum(line.quantity for line in lines if line.meter == "acid") == pytest.approx(world.total("dose", "ml"))
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
        assert metered(journal, "power") == pytest.approx(world.total("energy", "kwh"), abs=(kills + 2) * IDLE_KWH)
        assert [row.trial for row in rows] == list(range(1, TRIALS + 1))
        assert {row.state for row in rows} <= {State.RECORDED, State.LOST}
        assert sum(row.state is State.LOST for row in rows) <= kills
        spent = journal.campaign().spent - journal.idle.spent()
        assert spent == sum(line.amount for line in lines) == journal.history(spec.problem.space).spent
        assert all(kills and line.note.endswith(BY_SHARE) for line in lines if line.estimated)
        assert kills or spec.rig.late is not None or not journal.idle.rows()
        controls = world.count("control")
        assert controls <= TRIALS, "a trial's setting was imposed twice"
        assert world.count("prepare") <= TRIALS, "a rig was prepared twice for one trial"
        assert [t.differences for t in replay(journal, spec)] == [()] * TRIALS
        assert violations(journal) == ()


@pytest.fixture(scope="module")
def instants(tmp_path_factory):
    """How many instants an undisturbed campaign has."""
    directory = tmp_path_factory.mktemp("undisturbed")
    status, count = life(directory)
    assert status == 0
    check_world(directory, kills=0)
    return count


@pytest.mark.parametrize("step", [pytest.param(5, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.nightly)])
def test_fault_27_killed_at_every_instant_nothing_is_lost_or_repeated(tmp_path, instants, step):
    """A kill before and after every commit and every action, one campaign each; the night takes every one."""
    assert instants > 50
    for instant in range(1, instants + 1, step):
        directory = tmp_path / str(instant)
        directory.mkdir()
        assert run_killed_at(directory, [instant]) == 1
        check_world(directory, kills=1)


@pytest.mark.slow
def test_fault_27_killed_at_every_instant_of_trials_that_look(tmp_path):
    """The same where what was read decides: a look is charged and never repeated, a decision by it goes on."""
    whole = tmp_path / "whole"
    whole.mkdir()
    status, count = life(whole, spec=LOOKING)
    assert (status, count > 50) == (0, True)
    check_world(whole, 0, LOOKING)
    for instant in range(1, count + 1, 9):
        directory = tmp_path / str(instant)
        directory.mkdir()
        assert run_killed_at(directory, [instant], LOOKING) == 1
        check_world(directory, 1, LOOKING)


@pytest.mark.slow
@share(0.08)
@given(st.lists(st.integers(1, 25), min_size=2, max_size=8))
def test_fault_27_killed_again_and_again(tmp_path_factory, kills):
    """Several kills in one campaign, also in the recovery from the one before."""
    directory = Path(tmp_path_factory.mktemp("again"))
    check_world(directory, run_killed_at(directory, kills))
