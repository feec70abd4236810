"""`rigctl status`: how a campaign stands, once or followed until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rigctl.campaign.journal import Reader, open_reader
from rigctl.campaign.status import Status, asked
from rigctl.config.load import load_text
from rigctl.console import progress
from rigctl.console.output import print_fields, print_json_line, redraws
from rigctl.console.progress import Board
from rigctl.console.standing import for_people, status
from rigctl.errors import UsageError
from rigctl.rig.values import Alarm

if TYPE_CHECKING:
    from rich.console import Console

EVERY_S = 1.0
"""Wall seconds between two questions."""
LINE_EVERY_S = 60.0
"""Wall seconds after which a pipe gets a line although no new step has begun."""
ALARMS_READ = 20
"""Of the last so many those are shown that are not over."""


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
    print_fields(for_people(status(directory)))


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
    for a in reversed(reader.alarms.last(min(new, ALARMS_READ)) if new > 0 else ()):
        board.hear(Alarm(a.severity, a.source, a.message, kind=a.kind, state=a.state))
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
