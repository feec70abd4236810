"""One worker thread per line: drivers are plain blocking code, the event loop never waits for one past its deadline.

Everything on a line happens in its thread, one exchange after the other, so that a cancelled caller cannot leave two
exchanges interleaved: what was queued is dropped, what was under way runs to its deadline and its result is ignored.
A read may be repeated, here or by its line, never by both; what writes is sent once. What makes safe goes first, and a
question under way is cut short.

After a lost answer the next one may belong to the previous question, so the line is silenced and flushed first; a line
that broke is reopened, ever less often.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from queue import PriorityQueue
from typing import Any, Final, TypeVar

from rigctl.errors import DeviceBusy, DeviceError, DeviceTimeout, GarbledReply, PortUnavailable
from rigctl.rig.protocols import Deadline, Hurry, Line
from rigctl.rig.values import News


@dataclass(frozen=True, slots=True)
class BusTiming:
    """How patient a bus is, wall seconds."""

    grace_s: float = 0.5
    """What a driver may overrun its deadline by before the bus counts as stuck."""
    prepare_s: float = 5.0
    """For opening, silencing and flushing the line before an exchange."""
    busy_pauses_s: tuple[float, ...] = (0.05, 0.1, 0.2)
    """Waits before a read is repeated that the device was too busy for."""
    reopen_first_s: float = 0.25
    """Wait before a broken line is reopened; doubles with each failure."""
    reopen_max_s: float = 10.0
    lost_after: int = 3
    """Exchanges in a row without an answer until the connection itself is suspected (half-open TCP) and renewed."""


@dataclass(frozen=True, slots=True)
class Contact:
    """Which contact with a line this is: on another one, whoever answers may be another."""

    opened: int = 0
    silences: int = 0
    """How many exchanges stayed without an answer."""


class Link:
    """One line with its condition; for the bus's thread."""

    def __init__(self, line: Line, timing: BusTiming, now: Callable[[], float]) -> None:
        self._line = line
        self._timing = timing
        self._now = now
        self._open = False
        self._suspect = False
        self._pressed_on = False
        self._silent = 0
        self._pause_s = timing.reopen_first_s
        self._not_before_s = float("-inf")
        self._why = ""
        self.stay = line.stay
        self.contact = Contact()

    def make_ready(self, until: Deadline, *, at_once: bool, press_on: bool = False) -> None:
        """Open the line if it is closed, silence and flush it if it is not to be trusted.

        The silence may take until `until`, where the line can cut it short; `press_on` waives it until somebody comes
        who does not. `at_once` opens the line even if the pause since the last attempt is not over.

        Raises:
            PortUnavailable: it cannot be opened, or it is too early to try again.
            DeviceBusy: it must stay silent for longer.
        """
        self.reach(at_once=at_once)
        try:
            if self._suspect and not press_on:
                if not self._line.settle(until):
                    raise DeviceBusy("a late answer may still come, or something urgent goes first", bus=self._line.url)
                self._suspect = self._pressed_on = False
            elif self._suspect and not self._pressed_on:  # once: the gap between two frames is not to be waived
                self._line.press_on()
                self._pressed_on = True
        except (PortUnavailable, OSError) as error:
            raise self._broken(error) from error

    def reach(self, *, at_once: bool) -> None:
        """Open the line if it is closed. Raises as `make_ready`."""
        try:
            if not self._open:
                self._reopen(0.0 if at_once else self._not_before_s - self._now())
            elif self._line.is_lost():  # it opens by itself when it is used
                self.contact = replace(self.contact, opened=self.contact.opened + 1)
        except (PortUnavailable, OSError) as error:
            raise self._broken(error) from error

    def exchange_succeeded(self) -> None:
        self._silent = 0
        self._pause_s = self._timing.reopen_first_s

    def exchange_failed(self, error: DeviceError | OSError) -> DeviceError:
        """Draw the conclusions from a failed exchange; returns the error to raise."""
        if isinstance(error, PortUnavailable | OSError):
            return self._broken(error)
        if isinstance(error, DeviceTimeout):
            self.contact = replace(self.contact, silences=self.contact.silences + 1)
            self._silent += 1
            if self._silent >= self._timing.lost_after:
                self._silent = 0
                self.close()
        if isinstance(error, DeviceTimeout | GarbledReply):
            self.distrust()
        return error

    def distrust(self) -> None:
        """Flush before the next exchange: something went wrong in the middle of one."""
        self._suspect, self._pressed_on = True, False

    def close(self) -> None:
        self._open = False
        self._line.close()

    def _reopen(self, wait_s: float) -> None:
        if wait_s > 0:
            raise PortUnavailable(f"{self._why}; next attempt in {wait_s:.1f} s", bus=self._line.url)
        self._line.open()
        self._open = True
        self._not_before_s = float("-inf")
        self.contact = replace(self.contact, opened=self.contact.opened + 1)

    def _broken(self, error: PortUnavailable | OSError) -> PortUnavailable:
        """Close and postpone the next attempt, unless this very error only says that it is postponed."""
        if self._now() >= self._not_before_s:
            self._why = (error.what if isinstance(error, PortUnavailable) else str(error)) or type(error).__name__
            self.close()
            self._not_before_s = self._now() + self._pause_s
            self._pause_s = min(2 * self._pause_s, self._timing.reopen_max_s)
        return error if isinstance(error, PortUnavailable) else PortUnavailable(self._why, bus=self._line.url)


T = TypeVar("T")

HURRY_S: Final = 0.3
"""What a question under way still gets, at least, once something urgent waits, wall seconds."""

QUIET_S: Final = 0.5
"""The silence that a line is taken to owe, at least, after a question was cut short."""

_URGENT, _CLOSE, _NORMAL = range(3)

Prepare = Callable[[Contact, Hurry | None], None]
"""Run in the thread right before an exchange, to recognise the device."""


@dataclass(order=True, slots=True)
class _Job:
    """Something waiting for its turn; urgent ones first, then in order of arrival."""

    priority: int
    serial: int
    work: Callable[[], Any] | None = field(compare=False)
    """None ends the thread."""
    outcome: Future[Any] = field(compare=False, default_factory=Future)


class _Queue:
    """Jobs by priority; while one waits that is in a hurry, so is a question under way."""

    def __init__(self) -> None:
        self.hurry = Hurry()
        self._jobs: PriorityQueue[_Job] = PriorityQueue()
        self._pressing = 0
        self._counting = threading.Lock()  # for both of them

    def put(self, job: _Job, still_s: float) -> None:
        """Let it wait for its turn; a question under way still gets so many wall seconds if this is in a hurry."""
        with self._counting:
            if job.priority != _NORMAL:
                self._pressing += 1
                self.hurry.at_s = min(self.hurry.at_s, time.monotonic() + still_s)
            self._jobs.put(job)

    def take(self) -> _Job:
        """Take the next job; with the last pressing one out of the queue there is no hurry any more."""
        job = self._jobs.get()
        if job.priority != _NORMAL:
            with self._counting:
                self._pressing -= 1
                if not self._pressing:
                    self.hurry.at_s = math.inf
        return job

    @property
    def is_empty(self) -> bool:
        return self._jobs.empty()


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One exchange, and how it is to be carried out."""

    work: Callable[[Deadline], Any]
    timeout_s: float
    doing: str
    prepare: Prepare | None = None
    repeatable: bool = False
    hurried_s: float = HURRY_S
    urgent: bool = False
    press_on: bool = False


@dataclass(frozen=True, slots=True)
class _Running:
    """What the thread is doing, for those who wait."""

    doing: str
    overdue_at_s: float
    hurried_s: float


@dataclass(frozen=True, slots=True)
class Turn:
    """A bus to itself: exchange after exchange with nothing of others in between, for the bus's thread.

    However an exchange ends, the next one leaves at once: the silence owed after a lost answer is waived until an
    exchange asks for a settled line.
    """

    reach: Callable[[], Contact]
    """Opens the line if it is not; which contact with it this is. Raises `PortUnavailable`."""
    _exchange: Callable[[_Exchange], Any]

    def exchange(self, work: Callable[[Deadline], T], patience_s: float, doing: str, *, settled: bool = False) -> T:
        """Carry out one exchange within so many wall seconds, on a `settled` line if asked. Raises as `Bus.call`."""
        answer: T = self._exchange(_Exchange(work, patience_s, doing, urgent=True, press_on=not settled))
        return answer


class Bus:
    """The devices of one line take turns here; the line is used from this bus's thread only.

    `news` is told, in the event loop, when the line is lost, stuck, and back. `timing` says how patient to be. `now` is
    the wall clock, seconds, of the pauses before the line is opened again; None: the system's, monotonic.
    """

    def __init__(
        self, line: Line, news: News, timing: BusTiming | None = None, now: Callable[[], float] | None = None
    ) -> None:
        self.url = line.url
        self.repeated_reads = 0
        """Reads asked again after a spoilt or busy answer, by the line itself or here."""
        self._repeated_here = 0
        self._line = line
        self.failed_exchanges = 0
        """Without an answer, or with one that is none; those that were asked again among them."""
        self._timing = timing or BusTiming()
        self._link = Link(line, self._timing, now or time.monotonic)
        self._news = news
        self._queue = _Queue()
        self._serial = itertools.count()
        self._thread: threading.Thread | None = None
        self._running: _Running | None = None
        self.quiet_for_s = partial(_quiet_for_s, line)
        """How long the next question waits at most after one without an answer, wall seconds."""
        self._left: dict[str, _Job] = {}
        self.trouble = ""
        """Why the line cannot be used; empty: it can."""
        self._closed = False

    @property
    def stuck(self) -> str:
        """Return what the driver was doing when it overran its deadline, if it has and still holds the line."""
        running = self._running
        return running.doing if running is not None and time.monotonic() > running.overdue_at_s else ""

    async def open(self) -> None:
        """Open the line. Raises `PortUnavailable`: the port is missing or held by another process."""
        await self._once(_Exchange(lambda _: None, self._timing.prepare_s, "open"))

    async def call(
        self,
        work: Callable[[Deadline], T],
        *,
        timeout_s: float,
        doing: str,
        repeatable: bool = False,
        urgent: bool = False,
        hurried_s: float = HURRY_S,
        prepare: Prepare | None = None,
    ) -> T:
        """Run one exchange in the bus's thread and return its answer.

        Args:
            work: driver code; gets the deadline by which it must be over.
            timeout_s: wall seconds for the exchange itself, from the moment its turn comes.
            doing: who does what, for messages.
            repeatable: a read, which is asked again after a garbled or busy answer unless the line has done so
                itself, and may be cut short when something urgent waits. A write is neither.
            urgent: goes before everything that is waiting, and does not wait for a broken line's next attempt.
            hurried_s: what a read still gets when something urgent waits; a healthy device needs less.
            prepare: run in the thread right before, to recognise the device.

        Raises:
            DeviceTimeout: no complete answer in time, or the driver overran its deadline and holds the bus.
            PortUnavailable: the line is broken and is reopened by a later call.
            DeviceError: what the driver raised.
        """
        garbled_left = 1 if repeatable else 0
        pauses = iter(self._timing.busy_pauses_s if repeatable else ())
        exchange = _Exchange(work, timeout_s, doing, prepare, repeatable, hurried_s, urgent)
        while True:
            try:
                answer: T = await self._once(exchange)
            except GarbledReply as error:
                self.failed_exchanges += 1
                if error.repeated or not garbled_left:
                    raise
                garbled_left -= 1
            except DeviceBusy as error:
                self.failed_exchanges += 1
                pause_s = next(pauses, None)
                if error.repeated or pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
            except DeviceError:
                self.failed_exchanges += 1
                raise
            else:
                return answer
            finally:
                self.repeated_reads = self._repeated_here + self._line.read_retries
            self._repeated_here += 1

    async def take_turn(self, work: Callable[[Turn], T], doing: str) -> T:
        """Run `work` in the bus's thread before everything that waits, and return what it returns.

        If the caller gives up, or the thread is stuck, it stays in the queue and runs when its time comes (late is
        better than never), unless the same is to be done again by then.

        Raises:
            DeviceTimeout: a driver overran its deadline and holds the bus.
            PortUnavailable: the line cannot be opened.
            DeviceError: the bus is closed.
        """
        if doing in self._left:
            self._left.pop(doing).outcome.cancel()

        def reach() -> Contact:
            until_s = time.monotonic() + self._timing.prepare_s + self._timing.grace_s
            self._running = _Running(doing, until_s, HURRY_S)
            self._link.reach(at_once=True)
            return self._link.contact

        turn = Turn(reach, self._exchange)
        job = self._put(_URGENT, lambda: work(turn))
        future: asyncio.Future[T] = asyncio.wrap_future(job.outcome)
        future.add_done_callback(lambda f: None if f.cancelled() else f.exception())  # also when nobody waits any more
        try:
            await self._patiently(future)
        finally:
            if not future.done():
                self._left[doing] = job
        return self._told(future)

    async def close(self) -> None:
        """Close the line after the exchange under way, a question cut short; what still waits is dropped.

        A stuck thread is left behind.
        """
        if self._closed or self._thread is None:
            self._closed = True
            return
        last = self._put(_CLOSE, None)
        self._closed = True
        closed, stuck = await asyncio.wait({asyncio.wrap_future(last.outcome)}, timeout=self._timing.prepare_s)
        for future in closed:
            future.result()
        for future in stuck:
            future.cancel()

    # in the event loop --------------------------------------------------------------------------------------------

    async def _once(self, exchange: _Exchange) -> Any:
        self._refuse_while_stuck()
        job = self._put(_URGENT if exchange.urgent else _NORMAL, partial(self._exchange, exchange))
        future: asyncio.Future[Any] = asyncio.wrap_future(job.outcome)
        try:
            await self._patiently(future)
        finally:
            future.cancel()  # no effect once it is done; drops it from the queue if its turn has not come
        return self._told(future)

    def _put(self, priority: int, work: Callable[[], Any] | None) -> _Job:
        """Queue it; unless it is in no hurry, a question under way is to be over soon."""
        if self._closed:
            raise DeviceError("the bus is closed", bus=self.url)
        if self._thread is None:
            # a daemon: a driver stuck in a system call must not keep the process from ending
            self._thread = threading.Thread(target=self._serve, name=f"bus:{self.url}", daemon=True)
            self._thread.start()
        job = _Job(priority, next(self._serial), work)
        running = self._running
        self._queue.put(job, HURRY_S if running is None else running.hurried_s)
        return job

    def _told(self, future: asyncio.Future[T]) -> T:
        try:
            answer = future.result()
        except PortUnavailable as error:
            self._note(error.what)
            raise
        self._note("")
        return answer

    async def _patiently(self, future: asyncio.Future[T]) -> None:
        """Wait for the outcome, but not for a driver that has overrun its deadline."""
        while not future.done():
            running = self._running
            patience_s = self._timing.grace_s if running is None else running.overdue_at_s - time.monotonic()
            await asyncio.wait({future}, timeout=max(patience_s, 0.0))
            if not future.done():
                self._refuse_while_stuck()

    def _refuse_while_stuck(self) -> None:
        doing = self.stuck
        if doing:
            what = f"the driver overran its deadline in {doing!r} and holds the line"
            self._note(what)
            raise DeviceTimeout(what, bus=self.url)

    def _note(self, trouble: str) -> None:
        """Tell when trouble begins and when it is over, not in between."""
        if bool(trouble) == bool(self.trouble):
            return
        self.trouble = trouble
        if trouble:
            self._news.stands(self.url, trouble, kind="line")
        else:
            self._news.over(self.url, "the line works again", kind="line")

    # in the bus's thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            job = self._queue.take()
            if not job.outcome.set_running_or_notify_cancel():
                continue
            if job.work is None:
                self._end(job)
                return
            try:
                answer = job.work()
            except BaseException as error:  # noqa: BLE001 -- a thread's border: every error belongs to the caller
                self._running = None
                job.outcome.set_exception(error)
            else:
                self._running = None
                job.outcome.set_result(answer)

    def _exchange(self, exchange: _Exchange) -> Any:
        hurry = None if exchange.urgent else self._queue.hurry
        overdue_at_s = time.monotonic() + self._timing.prepare_s + exchange.timeout_s + self._timing.grace_s
        self._running = _Running(exchange.doing, overdue_at_s, exchange.hurried_s)
        silent_until = replace(Deadline.after(self._timing.prepare_s), hurry=hurry)
        self._link.make_ready(silent_until, at_once=exchange.urgent, press_on=exchange.press_on)
        try:
            if exchange.prepare is not None:
                exchange.prepare(self._link.contact, hurry)
            self._link.stay()
            at_s = time.monotonic() + exchange.timeout_s
            self._running = _Running(exchange.doing, at_s + self._timing.grace_s, exchange.hurried_s)
            answer = exchange.work(Deadline(at_s, hurry if exchange.repeatable else None))
        except (DeviceError, OSError) as error:
            failure = self._link.exchange_failed(error)
            if failure is error:
                raise
            raise failure from error
        except BaseException:
            self._link.distrust()
            raise
        self._link.exchange_succeeded()
        return answer

    def _end(self, last: _Job) -> None:
        while not self._queue.is_empty:
            dropped = self._queue.take()
            if dropped.outcome.set_running_or_notify_cancel():
                dropped.outcome.set_exception(DeviceError("the bus was closed", bus=self.url))
        try:
            self._link.close()
        except OSError as error:
            last.outcome.set_exception(error)
        else:
            last.outcome.set_result(None)


def _quiet_for_s(line: Line, *, pressed_on: bool) -> float:
    said_s = line.quiet_for_s(pressed_on=pressed_on)
    return said_s if pressed_on else max(said_s, QUIET_S)
