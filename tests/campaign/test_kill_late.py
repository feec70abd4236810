"""Fault 27 while outcomes are awaited: the process that waits, or takes one, is killed at every commit and action."""

import asyncio
import signal
from contextlib import closing

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.trial import State
from rigctl.rig.spec import OutcomeSpec
from tests.campaign.fakes import Patient, Stage, make_rig_spec, make_spec, open_journal, unsynced
from tests.campaign.reaper import one_life
from tests.campaign.records import give
from tests.campaign.test_awaiting import Learning
from tests.campaign.test_kill import TRIALS, check_world

HOW = {
    "hand": OutcomeSpec(name="y", unit="1", by="hand", within_s=1e6, at_end="end"),
    "sensor": OutcomeSpec(name="y", unit="1", sensor="scale", within_s=1e5, after_s=100.0),
}


def life(directory, spec, kill_at=None):
    """A process that runs the campaign, then one in it that says what came, the last trial first."""

    def live(reaper):
        stage = Stage(directory, reaper)
        stage.clock = lambda: Patient(stage.world)
        watched = lambda *where: reaper.watch(unsynced(open_journal(*where)))  # noqa: E731
        asyncio.run(stage.run(spec, journal=watched))
        with closing(watched(stage.state, stage.clock())) as journal:
            awaiting = [row.trial for row in journal.read.trials() if row.state is State.AWAITING]
            for trial in reversed(awaiting):
                give(journal, trial, {"y": 0.5 * trial}, "Ada")

    return one_life(live, kill_at)


def check(directory, spec, kills):
    """All as without late outcomes; and each has come once, from who was to give it."""
    check_world(directory, kills, spec)
    with open_reader(directory / "state") as journal:
        recorded = [row for row in journal.trials() if row.state is State.RECORDED]
        whose = "Ada" if spec.rig.late.by == "hand" else "sensor"
        assert [row.came.who for row in recorded] == [whose] * len(recorded)
        assert all(row.outcome is not None for row in recorded)
        assert len(journal.people.corrections()) == len(recorded)
        assert len(recorded) >= TRIALS - kills


@pytest.mark.slow
@pytest.mark.parametrize("step", [61, pytest.param(3, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("how", HOW)
def test_fault_27_killed_while_outcomes_are_awaited(tmp_path, how, step):
    """Nothing is repeated, lost or charged twice, no outcome comes twice, and every decision comes out again."""
    spec = make_spec(policy=Learning(), max_trials=TRIALS, rig=make_rig_spec(outcomes=(HOW[how],)))
    (tmp_path / "0").mkdir()
    status, instants = life(tmp_path / "0", spec)
    assert (status, instants > 50) == (0, True)
    check(tmp_path / "0", spec, 0)
    for instant in range(2, instants + 1, step):
        directory = tmp_path / str(instant)
        directory.mkdir()
        assert life(directory, spec, instant)[0] == -signal.SIGKILL
        assert life(directory, spec)[0] == 0
        check(directory, spec, 1)
