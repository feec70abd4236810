"""`rigctl status`: how a campaign stands, once or followed until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign.instruments import said_of, wrong_with
from rigctl.campaign.journal import Reader, open_reader
from rigctl.campaign.status import Status, asked
from rigctl.config.load import load_text
from rigctl.console import progress, query
from rigctl.console.output import number, print_fields, print_json_line, redraws
from rigctl.console.progress import Board
from rigctl.errors import UsageError, counted
from rigctl.page.words import AGAIN, ending
from rigctl.rig.values import Alarm
from rigctl.text import set_label, settings, shown_unit, told_utc

if TYPE_CHECKING:
    from rich.console import Console

EVERY_S = 1.0
"""Wall seconds between two questions."""
LINE_EVERY_S = 60.0
"""Wall seconds after which a pipe gets a line although no new step has begun."""
NAMES: Mapping[str, str] = {
    "pareto_trials": "trials that no other beats in every outcome",
    "hypervolume": "hypervolume, measured",
    "alarms": "alarms so far",
    "first_due": "first outcome due",
}
ORDER = ("rig", "running", "ended", "tripped", "phase", "spent", "last_trial", "best_trial", "answer")
"""What people read first."""
NOT_SAID = f"unknown: it was killed, or is only starting; {AGAIN} makes everything safe first, then goes on"
FOR_PROGRAMS = ("ok", "pid", "speedup", "watch", "buses", "decision_s", "currency", "budget", "trials")


def for_people(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a status in words, the most important first; what there is none of is left out."""
    words = {name: status[name] for name in ORDER if name in status}
    words |= {NAMES.get(name, name): value for name, value in status.items() if name not in FOR_PROGRAMS}
    if status.get("running", True):
        words |= _running(Status.of(status))
    if words.get("phase") == "running":
        del words["phase"]
    words |= {name: say(status) for name, say in SAID.items() if status.get(name) is not None or name in words}
    if "upkeep" in words:
        words |= _instruments(words.pop("upkeep"))
    return {name: told for name, told in words.items() if told or told is False}


def _spent(status: Mapping[str, Any]) -> str:
    if status["spent"] is None:
        return ""
    amount = f"{status['spent']:.2f} of {status['budget']:.2f} {status['currency']}"
    return f"{amount}, {counted(status['trials'], 'trial')}"


def _ended(status: Mapping[str, Any]) -> str:
    return NOT_SAID if status["ended"] is None else ending(status["ended"])


def _last(status: Mapping[str, Any]) -> str:
    last = status["last_trial"]
    return "" if last is None else f"{last['trial']}, {last['state'].lower()}"


def _best(status: Mapping[str, Any]) -> str:
    best = status["best_trial"]
    outcome = f"{best['name']} {number(best['outcome'])} {shown_unit(best['unit'])}".rstrip()
    return f"{best['trial']}, {set_label(best['control_set'])}: {outcome}"


def _answer(status: Mapping[str, Any]) -> str:
    told, trial = status["answer"]["told"], status["answer"]["trial"]
    return f"{told} (as of trial {trial})"


def _acts(status: Mapping[str, Any]) -> str:
    return "; ".join(map(_act, status["acts"]))


SAID: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "ended": _ended,
    "spent": _spent,
    "last_trial": _last,
    "best_trial": _best,
    "answer": _answer,
    "acts": _acts,
}
"""How people are told what programs get in parts."""


def _running(status: Status) -> Mapping[str, Any]:
    """Put in words how a campaign that runs stands."""
    words: dict[str, Any] = {"readings": progress.readings_words(status.readings)}
    trial = status.trial
    if trial is None:
        return words
    units = {name: seen.unit for name, seen in status.readings.items()}
    chosen = f": control {set_label(trial.control_set)} at {settings(trial.setpoints, units)}"
    chosen = chosen if trial.control_set else ""  # while it looks nothing is chosen
    doses = (f"{n} {d.count}, {number(d.volume_ml)} mL" for n, d in trial.doses.items())
    said = f"{trial.trial} {trial.phase}{chosen}; {progress.step_words(trial, status.speedup)}"
    return {"trial": said, "doses": "; ".join(doses), "why": trial.reason, **words}


def _act(act: Mapping[str, Any]) -> str:
    """Say what somebody did, e.g. `2026-03-01 12:00 Anna: stop (enough), ends after the trial under way`."""
    did = f"{told_utc(act['utc'])} {act['who']}: {act['verb']} {act['argument']}".rstrip()
    return did + (f" ({act['why']})" if act["why"] else "") + (f", {act['outcome']}" if act["outcome"] else "")


def _instruments(upkeep: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return a sentence per instrument of whose upkeep something is known."""
    found = {entry["device"]: "; ".join((*said_of(entry), *wrong_with(entry))) for entry in upkeep}
    return {name: text for name, text in found.items() if text}


def watch(directory: Path, console: Console, *, json: bool = False) -> None:
    """Follow a campaign until it ends, or Ctrl-C: drawn again in its place, else line by line.

    Raises:
        UsageError: none runs here.
        JournalError: the journal cannot be read.
    """
    answers = _answers(directory)
    first = next(answers, None)
    if first is None:
        raise UsageError(f"{directory}: no campaign is running here; `rigctl status` without --watch says how it ended")
    if json:
        for answer in chain((first,), answers):
            print_json_line(answer.to_json())
        return
    with ExitStack() as stack:
        reader = stack.enter_context(open_reader(directory))
        board = _board(reader, directory)
        draw: Callable[[Board], object] = (
            stack.enter_context(progress.live(console)) if redraws(console) else _Lines(console).tell
        )
        for answer in chain((first,), answers):
            draw(_taken(board, reader, answer))
    print_fields(for_people(query.status(directory)))


def _answers(directory: Path) -> Iterator[Status]:
    while True:
        try:
            yield asked(directory)
        except UsageError:  # it runs no more
            return
        time.sleep(EVERY_S)


def _board(reader: Reader, directory: Path) -> Board:
    board = Board.of(load_text(reader.campaign().config_text, directory / "configuration"))
    for row in reader.trials():
        if row.state.charged:
            board.take(row)
    return board


def _taken(board: Board, reader: Reader, told: Status) -> Board:
    """Bring a board up to what a running campaign answers."""
    last = max((row.trial for row in board.recent), default=0)
    for n in range(last + 1, told.trials + 1):
        board.take(reader.trial(n))
    new = told.alarms - (0 if board.now.pid == 0 else board.now.alarms)
    if new > 0:
        alarms = reader.alarms.last(min(new, board.alarms.maxlen or 1))
        board.alarms.extend(Alarm(a.severity, a.source, a.message, kind=a.kind) for a in reversed(alarms))
    board.now = told
    return board


@dataclass(slots=True)
class _Lines:
    """Tells what a board says where nothing can be drawn again; mutable."""

    console: Console
    _told: tuple[object, ...] = ()
    _told_s: float = field(default=0.0)

    def tell(self, board: Board) -> None:
        trial = board.now.trial
        step = None if trial is None else (trial.trial, trial.step)
        what, now_s = (step, board.now.trials, board.pausing), time.monotonic()
        if what == self._told and now_s - self._told_s < LINE_EVERY_S:
            return
        self._told, self._told_s = what, now_s
        progress.print_whole(self.console, progress.state_line(board))
