"""What the terminal shows at 60, 80 and 120 columns, in a dumb one and in a pipe, letter by letter.

`WRITE_GOLDEN=1 pytest tests/console/test_golden.py` writes the files anew; look at what has changed.
"""

import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rigctl.campaign import events
from rigctl.campaign.events import CampaignResult
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig, load_text
from rigctl.console import cli, output, progress, run
from rigctl.console.progress import Board
from rigctl.console.run import Ended
from rigctl.console.standing import for_people
from rigctl.core.advice.recommend import Option, Recommendation
from rigctl.core.advice.worth import Gain, Lesson, Reference, Worth
from rigctl.core.experiment.policy import Proposal
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm, SafeReport, SeenReading
from tests.config.texts import SMALL
from tests.console.conftest import BENCH, assert_golden
from tests.console.test_interview import Terminal
from tests.console.test_progress import row

WIDTHS = (60, 80, 120)
LONG = ("calcium", "boron", "ammonium", "potassium", "acidity")
CONTROL_SETS = (("ph",), ("ca",), ("ca", "ph"), LONG)
PLAIN = {"highlight": False, "markup": False, "emoji": False}
REASON = "explores: all control sets take turns, and ca+ph has had the least money"


def loaded() -> LoadedConfig:
    return load_text(BENCH, Path("bench.yaml"))


def screen(width: int) -> Console:
    """A terminal of so many columns that writes no colour into its file."""
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, color_system=None, _environ={"TERM": "xterm"}, **PLAIN
    )


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().split("\n"))


def recommendation() -> Recommendation:
    """One with the longest names there are, sets never tried, dearer and cheaper ones."""
    options = [
        Option(names, dict.fromkeys(names, 1.5), 11.9 - k, 11.1 - k, 12.7 - k, 0.53 + 0.1 * k, 12 - k)
        for k, names in enumerate(CONTROL_SETS)
    ]
    options = [replace(o, cost_low=0.9 * o.cost_per_trial, cost_high=1.1 * o.cost_per_trial) for o in options]
    never = Option(("ca", *LONG), {}, 2.1, -3.0, 7.2, None, 0)
    gain = Gain(6.2, 5.1, 7.3)
    alone = Reference((), {}, 5.7, 4.6, 6.8, None, "nothing", gain, 0.14, 0, 0.6)
    lessons = (Lesson("ph", True, 6.0, gain, 0.2), Lesson("ca", False, 2.0, Gain(0.1, -0.3, 0.5), None))
    worth = Worth((alone,), lessons)
    return Recommendation(options[0], (*options[1:], never), 0.05, 11.3, worth)


PROPOSED = Proposal(1, "default", "explore", 0, (0.5,), REASON)
SEEN = {
    "ca": SeenReading(3.01, "mM", 2.0),
    "ph": SeenReading(5.93, "pH", 95.0),
    "growth": SeenReading(None, "cm2/day", 9.0),
}
SILENT = "4 doses in a row did not move ca_probe; look at pump, stock and probe"
SILENT_PUMP = Alarm(Severity.MAJOR, "ca_doser", SILENT, kind="setpoint missed")
STORY = (
    events.CampaignStarted("bench", 0, 0, 20_000_000, None),
    events.TrialProposed(1, PROPOSED, ("ca", "ph"), {"ca": 3, "ph": 6}, "policy", 0.1),
    events.TrialStep(1, State.ARMED, 100.0, {"prepare": 220.0}),
    events.Dosed("ca_doser", 75.5, 175.5),
    events.Dosed("ca_doser", 3.4, 178.9),
    events.TrialStep(1, State.RUNNING, 300.0, {"settle": 7500.0, "measure": 8100.0}),
    events.RigSeen(400.0, SEEN),
    events.TrialStep(1, State.MEASURED, 8100.0),
    events.TrialEnded(row(1, 1.5), 250_000, 20_000_000),
    SILENT_PUMP,
    events.TrialEnded(row(2, None, State.FAILED, "camera: silent"), 500_000, 20_000_000),
    events.PhaseChanged("HOLDING", "ph_probe has not answered for 12 s"),
    events.PhaseChanged("RUNNING", "ph_probe answers again"),
)
"""A trial at the pace of real instruments, an alarm, a trial that fails, a hold."""


def board(upto: int) -> Board:
    made = Board.of(loaded())
    for event in STORY[:upto]:
        made.follow(event)
    return made


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("when", "upto"), [("settling", 7), ("holding", 12)])
def test_the_board_of_a_run(when, upto, width):
    """Step, countdown, readings, doses, what is left; alarms and holds first."""
    console = screen(width)
    console.print(progress.display(board(upto), width))
    assert max(map(len, said(console).split("\n"))) <= width
    assert_golden(f"board-{when}-{width}", said(console))


@pytest.mark.parametrize("kind", ["pipe", "dumb"])
def test_the_lines_of_a_run(kind):
    """Where nothing can be drawn again there is a line per event, never broken within a word."""
    stream, width = io.StringIO(), 80 if kind == "dumb" else output.PIPE_WIDTH
    environment = {"TERM": "dumb"}
    console = Console(file=stream, force_terminal=kind == "dumb", width=width, _environ=environment, **PLAIN)
    follow = Board.of(loaded())
    for event in STORY:
        follow.follow(event)
        if line := progress.line_for(follow, event):
            progress.print_whole(console, line)
    assert max(map(len, stream.getvalue().split("\n"))) <= width
    assert not output.redraws(console)
    assert_golden(f"run-lines-{kind}", stream.getvalue())


@pytest.mark.parametrize("width", [*WIDTHS, output.PIPE_WIDTH])
def test_the_end_of_a_demo(width):
    """The recommendation with every name whole, whatever the width."""
    console = screen(width)
    result = CampaignResult(
        "budget", "all of it is spent", 12, 19_500_000, 20_000_000, SafeReport(("x",)), 0.01, 11, None
    )
    bench = loaded()
    wired = replace(bench, rig=replace(bench.rig, devices=load_text(SMALL, Path("rig.yaml")).rig.devices))
    run.show(Ended(result, recommendation(), 19_500_000), wired, console, "simulator's truth: growth 12.7")
    for names in CONTROL_SETS:
        assert "+".join(names) in said(console).replace("+\n    ", "+")
    assert max(map(len, said(console).split("\n"))) <= width
    assert_golden(f"demo-end-{'pipe' if width == output.PIPE_WIDTH else width}", said(console))


def at_terminal(folder: Path, width: int, term: str, verb: str) -> str:
    """What a verb writes at a real terminal of so many columns."""
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
    environment |= {"TERM": term, "NO_COLOR": "1"}
    terminal = Terminal([sys.executable, "-m", "rigctl", verb], folder, width, environment)
    assert terminal.end() == 0
    return terminal.said.replace("\x1b[1m", "").replace("\x1b[0m", "")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["status", "recommend", "explain"])
def test_the_verbs_that_look_at_a_dumb_terminal(ingested, verb):
    """Plain lines, none longer than the terminal where it can be broken, and no control sequences."""
    text = at_terminal(ingested.folder, 80, "dumb", verb)
    assert "\x1b" not in text
    assert max(map(len, text.split("\n"))) <= 80
    assert_golden(f"{verb}-dumb", text)


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_the_verbs_that_look_at_a_terminal(ingested, width):
    """A real terminal, asked for its width."""
    text = at_terminal(ingested.folder, width, "xterm", "recommend")
    assert max(map(len, text.split("\n"))) <= width
    assert_golden(f"recommend-{width}", text)


def test_a_status_puts_the_trial_under_way_in_words(golden):
    """What is done, for how long yet, doses and readings; a program gets the same by its parts."""
    readings = {"ca": {"value": 3.01, "unit": "mM", "age_s": 2.0, "detail": ""}}
    answer = {"running": True, **board(7).now.to_json(), "speedup": 60.0, "readings": readings, "version": "0.1.0"}
    assert answer["trial"]["step_left_s"] == 7100.0
    words = for_people(answer)
    order = list(words)
    assert order[order.index("spent") :][:5] == ["spent", "trial", "doses", "why", "readings"]
    assert order[-1] == "version"
    golden(words["trial"])
    golden(words["doses"])
    golden(words["readings"])
    nothing = {
        "phase": "looking",
        "control_set": [],
        "setpoints": {},
        "reason": "",
        "step": "decide",
        "step_left_s": None,
    }
    looking = for_people({**answer, "trial": {**answer["trial"], **nothing}})
    golden(looking["trial"])
    assert "why" not in looking


def test_completion_is_offered():
    """The shell's words can be installed and shown."""
    assert "--install-completion" in {o for p in cli.typer.main.get_command(cli.app).params for o in p.opts}
