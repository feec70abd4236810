"""What a person sees of a running campaign, drawn from its events."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rigctl.campaign.events import (
    Batches,
    CampaignEvent,
    CampaignResult,
    CampaignStarted,
    TrialEnded,
    TrialProposed,
    TrialStep,
)
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.status import StatusReading
from rigctl.campaign.trial import State
from rigctl.config.load import load_text
from rigctl.console.progress import Board, readings_words, watching
from rigctl.core.experiment.policy import Proposal, SetReport
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm, SafeReport
from tests.console.conftest import BENCH, assert_golden


def row(
    trial: int, outcome: float | None, state: State = State.RECORDED, because: str = "", **further: float
) -> TrialRow:
    return TrialRow(
        trial=trial,
        state=state,
        control_set=("ph",),
        setpoints={"ph": 6.0},
        origin="policy",
        proposal=None,
        policy_state=None,
        seed=7,
        history_length=trial - 1,
        budget=20_000_000,
        note="",
        measured={"ph": 6.01, "ca": 3.0},
        outcome=outcome,
        whole=True,
        cost=250_000,
        estimated=False,
        started_utc="",
        ended_utc="",
        because=because,
        further=further,
    )


PROPOSAL = Proposal(1, "explore-then-commit", "explore", 0, (0.5,), "because it has had least")
RESULT = CampaignResult("budget", "all spent", 3, 750_000, 20_000_000, SafeReport(("x",)), 0.01, 3, None)
STORY = (
    CampaignStarted("bench", 0, 0, 20_000_000, None),
    TrialProposed(1, PROPOSAL, ("ph",), {"ph": 6.0}, "policy", 0.02),
    TrialStep(1, State.RUNNING),
    TrialEnded(row(1, 1.5), 250_000, 20_000_000),
    TrialEnded(row(2, 1.2), 500_000, 20_000_000),
    TrialEnded(row(3, None, State.FAILED, "camera: silent"), 750_000, 20_000_000),
    Alarm(Severity.MAJOR, "doser", "ran dry", kind="dry"),
    RESULT,
)


EXPECTED = SetReport(("ph",), {"ph": 6.0}, 1.6, 0.15, 1.3, 1.9, 0.2, 0.1, 9, True)
PRODUCTION = (
    CampaignStarted("bench", 12, 0, 20_000_000, None, Batches(0, 0)),
    TrialEnded(row(13, 2.5), 1, 20_000_000, Batches(1, 1)),
    TrialEnded(replace(row(13, 2.5), proposal=replace(PROPOSAL, sets=(EXPECTED,))), 1, 20_000_000, Batches(1, 1)),
)


def told(terminal: bool, config: str = BENCH, story: Sequence[CampaignEvent] = STORY) -> str:
    """What is written while this story is followed."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120 if terminal else 10_000, color_system=None)
    with watching(load_text(config, Path("bench.yaml")), console) as listener:
        for event in story:
            listener(event)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "config", "story"),
    [
        ("events", BENCH, STORY),
        ("stopped while it starts", BENCH, STORY[-1:]),
        ("minimising", BENCH.replace("floor: 0", "direction: minimise"), STORY),
        ("markup", BENCH, [Alarm(Severity.MINOR, "probe", "[red] reply [/x] '*ER'", kind="reply")]),
        ("production", BENCH, PRODUCTION),
    ],
)
def test_a_pipe_gets_one_line_per_event(name, config, story):
    """Choice, reason, outcome, cost, spend and best so far; a batch beside what was expected of it; no markup."""
    assert_golden(f"pipe-{name.replace(' ', '-')}", told(terminal=False, config=config, story=story))


def test_a_terminal_keeps_a_line_of_each_alarm():
    """Above the board, which goes when the campaign ends; as a pipe has it."""
    alarm = Alarm(Severity.MAJOR, "doser", "ran dry", kind="dry", state="over")
    (line,) = told(terminal=False, story=[alarm]).splitlines()
    assert told(terminal=True, story=[alarm]).count(f"{line}\n") == 1


def test_an_alarm_that_is_over_stands_on_the_board_no_more():
    """Nor does its end; told again it stands once."""
    stands = Alarm(Severity.MAJOR, "safe state", "valve: reads back 8.7 bar", kind="unconfirmed", state="stands")
    board = Board.of(load_text(BENCH, Path("bench.yaml")))
    others = [
        replace(stands, kind="stale"),
        replace(stands, source="valve"),
        replace(stands, kind="note", state="once"),
    ]
    for alarm in (stands, *others, stands):
        board.follow(alarm)
    assert board.alarms == [*others[1:], stands]
    board.follow(replace(stands, state="over"))
    assert board.alarms == others[1:]


def test_after_resuming_the_best_is_that_of_this_run(golden):
    """Outcomes of earlier runs are not known to the display, so it does not call the best of the others the best."""
    story = (CampaignStarted("bench", 12, 0, 20_000_000, None), *STORY[1:3], TrialEnded(row(13, 1.5), 1, 20_000_000))
    for terminal in (False, True):
        golden({line for line in told(terminal, story=story).splitlines() if "(trial 13" in line})
    assert "since" not in told(terminal=True)


def test_several_outcomes_have_a_front_beside_the_best(golden):
    """Trials that no other beats in both, by each outcome's own direction."""
    outcomes = ((1.2, 4.0), (0.7, 2.5), (1.9, 6.5), (1.6, 7.0), (1.2, 4.0))
    ended = [
        TrialEnded(row(trial, growth, water=water), 1, 20_000_000) for trial, (growth, water) in enumerate(outcomes, 1)
    ]
    lost = TrialEnded(row(6, None, State.FAILED), 1, 20_000_000)
    config = BENCH + "further_outcomes: [{name: water, unit: L, direction: minimise}]\n"
    screen = told(terminal=True, config=config, story=(*STORY[:3], *ended, lost))
    *_, last = (line for line in screen.splitlines() if "trade-off" in line)
    golden(last)
    assert "trade-off" not in told(terminal=True)


def test_a_reading_that_could_not_be_taken_again_says_how_old_it_is(golden):
    """A probe that came off four seconds ago does not stand at its last reading."""
    seen = {"ph": StatusReading(5.55, "pH", 4.0, "the circuit reports nan"), "ca": StatusReading(3.0, "mM", 4.0)}
    words = readings_words(seen)
    assert words.count("4 s") == 1
    golden(words)
