"""`rigctl status`: how a campaign stands, once or followed until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.campaign import control
from rigctl.campaign.events import Batches
from rigctl.campaign.instruments import said_of, wrong_with
from rigctl.campaign.journal import Reader, open_reader
from rigctl.campaign.status import UnderWay
from rigctl.config.load import load_text
from rigctl.console import progress, query
from rigctl.console.output import number, print_fields, print_json_line, redraws, settings
from rigctl.console.progress import Board
from rigctl.core.experiment.money import to_micros
from rigctl.errors import UsageError
from rigctl.page.words import AGAIN, ending
from rigctl.rig.values import Alarm, SeenReading
from rigctl.text import set_label, told_utc

if TYPE_CHECKING:
    from rich.console import Console

LOOK_S = 1.0
"""Wall seconds between two questions."""
LINE_EVERY_S = 60.0
"""Wall seconds after which a pipe gets a line although no new step has begun."""
NAMES: Mapping[str, str] = {
    "pareto_trials": "trials that no other beats in every outcome",
    "hypervolume": "hypervolume, measured",
}
IF_ANY = ("paused", "standing", "why", "doses", "readings", "acts")
"""Is shown where there is something to say."""
NOT_SAID = f"not said: killed, or only starting now; {AGAIN} makes everything safe first, then goes on"
FOR_PROGRAMS = ("ok", "speedup", "watch", "buses", "decision_s")


def for_people(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a status in words: the trial under way, doses and readings, and what the names of the trade-off mean."""
    words = {NAMES.get(name, name): value for name, value in status.items() if name not in FOR_PROGRAMS}
    trial = status.get("trial")
    if trial is not None:
        under_way, speedup = UnderWay.from_json(trial), status["speedup"]
        step = progress.step_words(under_way, 0.0, speedup)
        units = {name: seen["unit"] for name, seen in status.get("readings", {}).items()}
        chosen = f": control {set_label(under_way.control_set)} at {settings(under_way.setpoints, units)}"
        chosen = chosen if under_way.control_set else ""  # while it looks nothing is chosen
        words["trial"] = f"{under_way.trial} {under_way.phase}{chosen}; {step}"
        doses = (f"{n} {d.count}, {number(d.volume_ml)} mL" for n, d in under_way.doses.items())
        words["doses"] = "; ".join(doses) or None
        words["why"] = under_way.reason
    if "ended" in status:
        words["ended"] = NOT_SAID if status["ended"] is None else ending(status["ended"])
    if "upkeep" in status:
        words |= _instruments(status["upkeep"])
        del words["upkeep"]
    if "acts" in status:
        words["acts"] = "; ".join(map(_act, status["acts"]))
    if "readings" in status:
        words["readings"] = progress.readings_words(_seen(status["readings"])) or None
    return {name: told for name, told in words.items() if name not in IF_ANY or told}


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
            print_json_line(answer)
        return
    with ExitStack() as stack:
        reader = stack.enter_context(open_reader(directory))
        seen = _Follower(reader, _board(reader, directory))
        draw: Callable[[Board], object] = (
            stack.enter_context(progress.live(console)) if redraws(console) else _Lines(console).tell
        )
        for answer in chain((first,), answers):
            draw(seen.taken(answer))
    print_fields(for_people(query.status(directory)))


def _answers(directory: Path) -> Iterator[Mapping[str, Any]]:
    while True:
        try:
            yield control.ask(directory, "status")
        except UsageError:  # it runs no more
            return
        time.sleep(LOOK_S)


def _board(reader: Reader, directory: Path) -> Board:
    board = Board.of(load_text(reader.campaign().config_text, directory / "configuration"))
    for row in reader.trials():
        if row.state.charged:
            board.take(row)
    return board


def _seen(told: Mapping[str, Any]) -> Mapping[str, SeenReading]:
    return {name: SeenReading(**{**fields, "age_s": fields["age_s"] or 0.0}) for name, fields in told.items()}


@dataclass(slots=True)
class _Follower:
    """Brings a board up to what a running campaign answers; mutable."""

    reader: Reader
    board: Board
    _alarms: int = 0

    def taken(self, answer: Mapping[str, Any]) -> Board:
        board, trial = self.board, answer["trial"]
        board.pace = replace(board.pace, speedup=answer["speedup"])
        for n in range(board.trials + 1, answer["trials"] + 1):
            board.take(self.reader.trial(n))
        board.trial, board.now_s = None if trial is None else UnderWay.from_json(trial), 0.0
        board.readings = _seen(answer["readings"])
        if "spent" in answer:
            board.spent, board.budget = to_micros(answer["spent"]), to_micros(answer["budget"])
        if "operating" in answer:
            told = answer["operating"]
            board.batches = Batches(told["batches"], to_micros(told["spent"]))
        paused = answer["phase"] not in ("starting", "running")
        board.pausing = f"{answer['phase']}: {answer.get('why', '')}" if paused else ""
        if answer["alarms"] > self._alarms:
            last = self.reader.alarms.last(min(answer["alarms"] - self._alarms, board.alarms.maxlen or 1))
            board.alarms.extend(Alarm(a.severity, a.source, a.message, kind=a.kind) for a in reversed(last))
            self._alarms = answer["alarms"]
        return board


@dataclass(slots=True)
class _Lines:
    """Tells what a board says where nothing can be drawn again; mutable."""

    console: Console
    _told: tuple[object, ...] = ()
    _told_s: float = field(default=0.0)

    def tell(self, board: Board) -> None:
        trial = board.trial
        step = None if trial is None else (trial.trial, trial.step(board.now_s)[0])
        what, now_s = (step, board.trials, board.pausing), time.monotonic()
        if what == self._told and now_s - self._told_s < LINE_EVERY_S:
            return
        self._told, self._told_s = what, now_s
        progress.print_whole(self.console, progress.state_line(board))
