"""The notifier's process: `python -m rigctl.notify.process`, started and told by `rigctl.notify.notifier`.

Lines of JSON come in on standard input, the first of them the setup. What is wrong with telling people is answered on
standard output. Each receiver has a thread of its own while it is sent something: one that hangs delays no other. It
holds nothing that the rig needs, and outlives the controller for as long as it takes to tell people that it has gone.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from datetime import time as time_of_day
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from rigctl import system
from rigctl.campaign.journal.alarms import AlarmMinded, Alarms
from rigctl.campaign.journal.rows import AlarmRow
from rigctl.codec import typed
from rigctl.errors import RigctlError
from rigctl.notify.gathering import MOST, Delivery, Gathering, SignOfLife, SummaryClock, phase_words
from rigctl.notify.services import MessageService, NotSent, parsed, ping
from rigctl.notify.setup import Setup, line
from rigctl.notify.texts import Notice, Words
from rigctl.rig.protocols import Severity

STEP_S: Final = 0.5
"""Wall seconds between two looks at what is due."""
LAST_MESSAGES_S: Final = 30.0
"""Wall seconds for what is still to be delivered once the controller has ended."""
LAST_NUMBERS_S: Final = 5.0
MOST_LINES: Final = 2000
"""Lines that wait to be taken in; the pipe holds more."""
STUCK: Final = 3
"""Attempts of one receiver that may hang at a time, each in a thread that cannot be ended."""
AGAIN_S: Final = 60.0
"""Wall seconds after which a secret that could not be read is tried again."""

Send = Callable[[Callable[[], None], Callable[[str], None]], None]
"""Has the first done beside the caller, and then calls the second with what went wrong; empty: nothing."""


@dataclass(slots=True)
class Receiver:
    """Somebody who is told; mutable."""

    service: MessageService
    delivery: Delivery = field(default_factory=Delivery)
    stuck: int = 0
    trouble: str = ""
    attempt: int = 0


@dataclass(slots=True)
class NotifierLoop:
    """Takes in what is told, and sends what is due. Mutable; one thread calls it, clocks and threads are given."""

    setup: Setup
    beside: Send
    summary: Callable[[Setup], str]
    """Says how the campaign stands, for the day's summary; may take long."""
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    services: Callable[[], tuple[MessageService, ...]] | None = None
    """Finds who is told; None: by the URLs that the setup names."""
    receivers: list[Receiver] = field(default_factory=list)
    held: deque[Notice] = field(default_factory=lambda: deque(maxlen=MOST))
    """Waits until it is known who is told."""
    trouble: str = ""
    """Why people cannot be told; empty: they can."""
    gathering: Gathering = field(init=False)
    words: Words = field(init=False)
    _alive: SignOfLife | None = None
    _alive_trouble: str = ""
    _pinging: bool = False
    _daily: SummaryClock | None = None
    _read_s: float | None = None
    _unread: str = ""
    """Why it is not known who is told."""
    _lines: tuple[str, ...] = field(default=(), repr=False)
    _known: tuple[MessageService, ...] = ()
    _started: bool = False
    _ended: bool = False
    _failed: str = ""

    def __post_init__(self) -> None:
        spec = self.setup.telling.notify
        zone = ZoneInfo(spec.zone) if spec is not None and spec.zone else None
        self.words = Words(self.setup.rig, zone)
        shelves = {(shelf.kind, shelf.source): shelf for shelf in self.setup.shelved}
        least = Severity.MAJOR if spec is None else Severity[spec.at_least]
        self.gathering = Gathering(self.words, least, Alarms(shelves=shelves))
        if spec is not None and spec.alive is not None:
            self._alive = SignOfLife(spec.alive.every_s)
        if spec is not None and spec.daily:
            self._daily = SummaryClock(time_of_day.fromisoformat(spec.daily), zone)

    # what comes in --------------------------------------------------------------------------------------------------

    def take(self, told: Mapping[str, Any]) -> None:
        now_s, what = self.clock(), {name: value for name, value in told.items() if name != "event"}
        match told["event"]:
            case "alarm":
                self.gathering.raised(typed(AlarmRow, {"trial": None, **what}), now_s)
            case "minded":
                self.gathering.minded(AlarmMinded(**what), now_s)
            case "tick":
                if self._alive is not None:
                    self._alive.looked(now_s)
                self.gathering.passed(told["at_s"], told["utc"], now_s)
            case "phase":
                self.gathering.phase = phase_words(told["phase"], told["why"])
            case "started":
                self._started = True
                self._put(self.words.of_start(told["trials"], told["lost"]))
            case "failed":
                self._failed = told["why"]
            case "refused":
                self._ended = True
            case "ended":
                self._ended = True
                self._gathered(now_s, at_once=True)
                self._put(self.words.of_end(told["ending"], told["reason"], told["facts"], safe=told["safe"]))

    def closed(self) -> None:
        """Note that the controller has gone, and tell of it unless its campaign has ended."""
        self._gathered(self.clock(), at_once=True)
        if not self._ended:
            self._put(self.words.of_silence(self._failed, started=self._started))

    # what goes out --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Begin whatever is due; returns at once."""
        now_s = self.clock()
        self._find_services(now_s)
        self._gathered(now_s)
        if self._daily is not None and self._daily.due(self.wall()):
            self._summarise()
        for receiver in self.receivers:
            self._serve(receiver, now_s)
        if self._alive is not None and not self._pinging and self._alive.due(now_s):
            self._ping()
        self.trouble = self._what_is_wrong(now_s)

    @property
    def idle(self) -> bool:
        return not any(r.delivery.waiting for r in self.receivers)

    def _gathered(self, now_s: float, *, at_once: bool = False) -> None:
        message = self.gathering.due(now_s, at_once=at_once)
        if message is not None:
            self._put(message)

    def _put(self, message: Notice) -> None:
        self._find_services(self.clock())
        if not self.receivers:
            self.held.append(message)
        for receiver in self.receivers:
            receiver.delivery.put(message)

    def _find_services(self, now_s: float) -> None:
        """Find who is told, and again after a while: a secret may be changed while the campaign runs."""
        spec = self.setup.telling.notify
        if spec is None or spec.urls is None or (self._read_s is not None and now_s - self._read_s < AGAIN_S):
            return
        self._read_s = now_s
        try:
            found = self._services() if self.services is None else self.services()
        except RigctlError as error:
            self._unread = str(error)
            return
        self._unread = ""
        known = {receiver.service.key: receiver for receiver in self.receivers}
        kept = {service.key for service in found}
        for receiver in self.receivers:
            if receiver.service.key not in kept:  # what it was not brought goes to those that are new
                self.held.extend(receiver.delivery.waiting)
        self.receivers = [known.get(s.key) or Receiver(s, Delivery(deque(self.held))) for s in found]
        self.held.clear()

    def _services(self) -> tuple[MessageService, ...]:
        spec = self.setup.telling.notify
        if spec is None or spec.urls is None:
            return ()
        lines = spec.urls.lines()
        if lines != self._lines:
            found = parsed(lines)
            if not found.services:
                raise NotSent(f"{spec.urls}: holds no URL that apprise understands")
            self._lines, self._known = lines, found.services
        return self._known

    def _serve(self, receiver: Receiver, now_s: float) -> None:
        if receiver.delivery.hangs(now_s):
            receiver.stuck += 1
            receiver.attempt += 1  # whatever that one still says is not listened to
            receiver.trouble = f"{receiver.service.name}: does not answer"
            receiver.delivery.done(now_s, well=False)
        if receiver.stuck >= STUCK:
            return
        message = receiver.delivery.attempt(now_s)
        if message is None:
            return
        number, service = receiver.attempt, receiver.service

        def sent(trouble: str) -> None:
            if receiver.attempt != number:
                receiver.stuck -= 1
                return
            receiver.attempt += 1
            receiver.trouble = trouble
            receiver.delivery.done(self.clock(), well=not trouble)

        self.beside(lambda: service.send(message), sent)

    def _ping(self) -> None:
        self._pinging = True
        spec = self.setup.telling.notify

        def ask() -> None:
            if spec is not None and spec.alive is not None:
                ping(spec.alive.url.lines()[0])

        def asked(trouble: str) -> None:
            self._pinging, self._alive_trouble = False, trouble

        self.beside(ask, asked)

    def _summarise(self) -> None:
        made: list[str] = []

        def done(trouble: str) -> None:
            self._put(self.words.of_day(made[0] if made else f"The campaign's state cannot be reported: {trouble}"))

        self.beside(lambda: made.append(self.summary(self.setup)), done)

    def _what_is_wrong(self, now_s: float) -> str:
        worrying = [r.trouble for r in self.receivers if r.delivery.worrying(now_s) or r.stuck >= STUCK]
        return "; ".join(dict.fromkeys(filter(None, (self._unread, *worrying, self._alive_trouble))))


def in_a_thread(results: queue.SimpleQueue[Callable[[], None]]) -> Send:
    """Return what has work done in a thread of its own, and its end noted by whoever takes it from the queue."""

    def beside(work: Callable[[], None], done: Callable[[str], None]) -> None:
        def run() -> None:
            try:
                work()
                trouble = ""
            except RigctlError as error:
                trouble = str(error)
            except Exception as error:  # noqa: BLE001 - what it says might hold a secret
                trouble = f"failed ({type(error).__name__})"
            results.put(lambda: done(trouble))

        threading.Thread(target=run, name="telling", daemon=True).start()

    return beside


def main() -> None:
    """Tell people until the controller hangs up, and what is left after that."""
    for number in system.end_signals():
        signal.signal(number, signal.SIG_IGN)  # it ends with the controller, and has something to say about that
    system.dump_no_core()  # a core would hold secrets
    os.umask(0o022)  # the numbers are for others to read, and nothing else is written
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")
    setup = typed(Setup, json.loads(sys.stdin.buffer.readline()))
    lines: queue.Queue[bytes] = queue.Queue(MOST_LINES)
    results: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=[lines], name="told", daemon=True).start()
    from rigctl.notify.chores import Chores, summary  # noqa: PLC0415 - not before signals are ignored

    chores = Chores(setup)
    chores.begin()
    notifier = NotifierLoop(setup, in_a_thread(results), summary)
    _serve(notifier, lines, results, lambda: chores.trouble)
    chores.end(LAST_NUMBERS_S)
    os._exit(0)  # without waiting for threads that hang


def _serve(
    notifier: NotifierLoop,
    lines: queue.Queue[bytes],
    results: queue.SimpleQueue[Callable[[], None]],
    besides: Callable[[], str],
) -> None:
    said, end_s = "", None
    while end_s is None or (not notifier.idle and time.monotonic() < end_s):
        with suppress(queue.Empty):
            text = lines.get(timeout=STEP_S if end_s is None else STEP_S / 5)
            if text:
                notifier.take(json.loads(text))
            else:
                notifier.closed()
                end_s = time.monotonic() + LAST_MESSAGES_S
        while not results.empty():
            results.get()()
        notifier.step()
        trouble = "; ".join(filter(None, (notifier.trouble, besides())))
        if trouble != said:
            said = trouble
            with suppress(OSError):
                os.write(1, line({"trouble": said}))


def _read(lines: queue.Queue[bytes]) -> None:
    for text in sys.stdin.buffer:
        lines.put(text)
    lines.put(b"")


if __name__ == "__main__":
    main()
