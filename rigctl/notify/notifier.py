"""The controller's end of telling people: a bounded queue, and a thread that hands it to the notifier's process.

Whoever puts an event in never waits. A process that dies is started anew, one that takes nothing in is ended; either
costs messages only, and `trouble` says so for as long as it is so.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rigctl import system
from rigctl.campaign.events import CampaignEvent, RigSeen
from rigctl.campaign.journal.reader import at_one_instant
from rigctl.errors import ConfigError, Locked, RigctlError, UsageError, counted
from rigctl.notify.setup import Setup, Shelved, line, told
from rigctl.rig.clocks import Clock

MODULE: Final = "rigctl.notify.process"
MOST: Final = 500
"""Events that wait."""
MOST_CHARS: Final = 2000
"""Of what an alarm says."""
TICK_EVERY_S: Final = 5.0
"""Wall seconds between two words that the watch looks."""
TAKES_NOTHING_S: Final = 30.0
"""Wall seconds after which a process that takes nothing in is ended."""
LAST_WORDS_S: Final = 10.0
"""Wall seconds for the last messages, once the campaign has ended and all is safe."""
PAUSES_S: Final = (1.0, 5.0, 30.0, 300.0)
"""Wall seconds before a process that has died is started anew, again and again."""
TOLD_FOR_S: Final = 60.0
"""Wall seconds for which trouble that is past is still told, so that it is noticed."""


class Notifier:
    """Hands events on. `put` may be called from any thread, and returns at once."""

    def __init__(
        self, setup: Setup, clock: Clock, start: Start | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._setup, self._clock, self._start, self._now = setup, clock, start or ChildProcess, now
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._tick: Mapping[str, Any] | None = None
        self._tick_s = 0.0
        self._lost = 0
        self._said = ""
        """What the process last said is wrong."""
        self._past: tuple[str, float] = ("", 0.0)
        self._ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def put(self, event: CampaignEvent) -> None:
        """Have people told of an event, if it is one for people."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        if isinstance(event, RigSeen):
            self._put_tick({"event": "tick", "at_s": event.now_s, "utc": now})
            return
        what = told(event, self._clock.now_s(), now, self._setup.currency)
        if what is not None:
            self.put_line(what)

    def put_line(self, what: Mapping[str, Any]) -> None:
        """Have the process told."""
        short = {k: v[:MOST_CHARS] if isinstance(v, str) else v for k, v in what.items()}
        with self._changed:
            if len(self._waiting) >= MOST:
                self._lost += 1
                self._note(f"{counted(self._lost, 'message')} to people lost: the notifier takes nothing in")
                return
            self._waiting.append(short)
            self._changed.notify_all()

    def trouble(self) -> str:
        """Say why people cannot be told; empty: as far as is known they can."""
        past, until_s = self._past
        return self._said or (past if self._now() < until_s else "")

    def close(self, within_s: float = LAST_WORDS_S) -> None:
        """Wait so long for the last messages, and end the process."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(within_s + 1.0)

    def _put_tick(self, what: Mapping[str, Any]) -> None:
        now_s = self._now()
        if now_s - self._tick_s < TICK_EVERY_S:
            return
        with self._changed:  # only the last one counts, so that ticks never crowd out anything
            self._tick_s, self._tick = now_s, what
            self._changed.notify_all()

    def _note(self, what: str, pause_s: float = 0.0) -> None:
        self._past = (what, self._now() + pause_s + TOLD_FOR_S)

    # in the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        deaths = 0
        while True:
            began_s = self._now()
            try:
                child = self._start(self._setup, self._hear)
                self._serve(child)
            except OSError as error:
                why = f"the process that sends messages has ended, and is started again ({error})"
            else:
                child.end(LAST_WORDS_S)
                return
            deaths = 1 if self._now() - began_s > PAUSES_S[-1] else deaths + 1
            pause_s = PAUSES_S[min(deaths, len(PAUSES_S)) - 1]
            self._said = ""
            self._note(why, pause_s)
            with self._changed:
                if self._changed.wait_for(lambda: self._ending, pause_s):
                    return

    def _serve(self, child: ChildProcess) -> None:
        """Hand on what waits until the end. Raises OSError: the process has ended or hangs; it is no more."""
        try:
            child.write(line(self._setup), TAKES_NOTHING_S)
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._tick or self._ending, TICK_EVERY_S)
                    these, tick, ending = tuple(self._waiting), self._tick, self._ending
                    self._tick = None
                for what in (*these, *(() if tick is None else (tick,))):
                    child.write(line(what), TAKES_NOTHING_S)
                with self._changed:
                    for _ in these:
                        self._waiting.popleft()
                    if ending and not self._waiting:
                        return
        except OSError:
            child.end(0.0)
            raise

    def _hear(self, trouble: str) -> None:
        self._said = f"messages cannot be sent: {trouble}" if trouble else ""


class ChildProcess:
    """Is the notifier's process, and a thread that listens to it."""

    def __init__(self, setup: Setup, hear: Callable[[str], None]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
            [sys.executable, "-P", "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a library's traceback might hold a secret
            env=system.environment(),
            start_new_session=True,
        )
        self._in, out = self._process.stdin, self._process.stdout
        if self._in is None or out is None:
            raise AssertionError("unreachable: started with pipes")
        os.set_blocking(self._in.fileno(), False)
        self._rig = setup.rig
        threading.Thread(target=_listen, args=[out, hear], name="notifier says", daemon=True).start()

    def write(self, data: bytes, within_s: float) -> None:
        """Hand the process bytes; raises OSError if it has ended, or takes nothing in for so many wall seconds."""
        if self._in is None:
            raise BrokenPipeError("closed")
        end_s, left = time.monotonic() + within_s, memoryview(data)
        while left:
            patience_s = end_s - time.monotonic()
            if patience_s <= 0 or not select.select([], [self._in], [], patience_s)[1]:
                raise TimeoutError(f"it takes nothing in for {within_s:g} s")
            with suppress(BlockingIOError):
                left = left[os.write(self._in.fileno(), left) :]

    def end(self, within_s: float) -> None:
        """Let it end by itself for so long, then end it."""
        with suppress(OSError):
            if self._in is not None:
                self._in.close()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


Start = Callable[[Setup, Callable[[str], None]], ChildProcess]
"""Starts a process; the other argument is called, in any thread, with what it says of trouble."""


def _listen(out: Any, hear: Callable[[str], None]) -> None:
    with out:
        for text in out:
            with suppress(ValueError, KeyError, TypeError):
                hear(str(json.loads(text)["trouble"]))


@contextmanager
def telling_people(setup: Setup, clock: Clock, start: Start | None = None) -> Iterator[Notifier | None]:
    """Give what tells people while the block runs, and of how it ends; None where nobody is to be told."""
    if not setup.telling:
        yield None
        return
    notifier = Notifier(shelved_in(setup, clock), clock, start)
    notifier.begin()
    try:
        yield notifier
    except RigctlError as error:
        # what only whoever has called it wrongly need know is not told to others
        quiet = isinstance(error, UsageError | ConfigError | Locked)
        notifier.put_line({"event": "refused" if quiet else "failed", "why": str(error)})
        raise
    finally:
        notifier.close()


def shelved_in(setup: Setup, clock: Clock) -> Setup:
    """Return a setup that knows what is shelved in the journal; as it is where that cannot be read."""
    try:
        with at_one_instant(Path(setup.state)) as reader:
            shelves, now_s = reader.alarms.folded().shelves, reader.alarms.now_s()
    except RigctlError:
        return setup
    shelved = tuple(
        Shelved(clock.now_s() + s.until_s - now_s, s.until_utc, s.who, s.why, *key) for key, s in shelves.items()
    )
    return replace(setup, shelved=shelved)
