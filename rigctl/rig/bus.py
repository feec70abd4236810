"""One worker thread per line: drivers are plain blocking code, the event loop never waits for one past its deadline.

Everything on a line happens in its thread, one exchange after the other, so that a cancelled caller cannot leave two
exchanges interleaved: what was queued is dropped, what was under way runs to its deadline and its result is ignored.
Reads may be repeated; what writes is sent once.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import PriorityQueue
from typing import Any, TypeVar

from rigctl.errors import DeviceBusy, DeviceError, DeviceTimeout, GarbledReply, PortUnavailable
from rigctl.rig.protocols import Deadline, Line, Severity
from rigctl.rig.values import Alarm
from rigctl.rig.wire import BusTiming, Wire

T = TypeVar("T")

_URGENT, _CLOSE, _NORMAL = range(3)


@dataclass(order=True, slots=True)
class _Job:
    """One exchange waiting for its turn; urgent ones first, then in order of arrival."""

    priority: int
    serial: int
    work: Callable[[Deadline], Any] | None = field(compare=False)
    """None ends the thread."""
    prepare: Callable[[int], None] | None = field(compare=False)
    timeout_s: float = field(compare=False)
    doing: str = field(compare=False)
    outcome: Future[Any] = field(compare=False, default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Running:
    """What the thread is doing, for those who wait."""

    doing: str
    overdue_at_s: float


class Bus:
    """The devices of one line take turns here.

    Args:
        line: used from this bus's thread only.
        on_alarm: told, in the event loop, when the line is lost, stuck, and back.
        timing: how patient to be.
        now: wall clock of the reopening back-off, seconds.
    """

    def __init__(
        self,
        line: Line,
        on_alarm: Callable[[Alarm], None],
        timing: BusTiming | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = line.url
        self.repeated_reads = 0
        """Reads asked again after a garbled or busy answer."""
        self._timing = timing or BusTiming()
        self._wire = Wire(line, self._timing, now)
        self._on_alarm = on_alarm
        self._queue: PriorityQueue[_Job] = PriorityQueue()
        self._serial = itertools.count()
        self._thread: threading.Thread | None = None
        self._running: _Running | None = None
        self._trouble = ""
        self._closed = False

    @property
    def stuck(self) -> str:
        """What the driver was doing when it overran its deadline, if it has and still holds the line."""
        running = self._running
        return running.doing if running is not None and time.monotonic() > running.overdue_at_s else ""

    async def open(self) -> None:
        """Open the line.

        Raises:
            PortUnavailable: the port is missing or held by another process.
        """
        await self._once(lambda _: None, None, self._timing.prepare_s, "open", _NORMAL)

    async def call(
        self,
        work: Callable[[Deadline], T],
        *,
        timeout_s: float,
        doing: str,
        repeatable: bool = False,
        urgent: bool = False,
        prepare: Callable[[int], None] | None = None,
    ) -> T:
        """Run one exchange in the bus's thread and return its answer.

        Args:
            work: driver code; gets the deadline by which it must be over.
            timeout_s: wall seconds for the exchange itself, from the moment its turn comes.
            doing: who does what, for messages.
            repeatable: a read, which may be asked again after a garbled or busy answer. A write never is.
            urgent: goes before everything that is waiting, and does not wait for a broken line's next attempt.
            prepare: run in the thread right before, with the line's generation, to recognise the device.

        Raises:
            DeviceTimeout: no complete answer in time, or the driver overran its deadline and holds the bus.
            PortUnavailable: the line is broken and is reopened by a later call.
            DeviceError: what the driver raised.
        """
        garbled_left = 1 if repeatable else 0
        pauses = iter(self._timing.busy_pauses_s if repeatable else ())
        priority = _URGENT if urgent else _NORMAL
        while True:
            try:
                answer = await self._once(work, prepare, timeout_s, doing, priority)
            except GarbledReply:
                if not garbled_left:
                    raise
                garbled_left -= 1
            except DeviceBusy:
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
            else:
                return answer
            self.repeated_reads += 1

    async def close(self) -> None:
        """Close the line after the exchange under way; what still waits is dropped. A stuck thread is left behind."""
        if self._closed:
            return
        self._closed = True
        if self._thread is None:
            return
        last = _Job(_CLOSE, next(self._serial), None, None, 0.0, "close")
        self._queue.put(last)
        closed, stuck = await asyncio.wait({asyncio.wrap_future(last.outcome)}, timeout=self._timing.prepare_s)
        for future in closed:
            future.result()
        for future in stuck:
            future.cancel()

    # in the event loop --------------------------------------------------------------------------------------------

    async def _once(
        self,
        work: Callable[[Deadline], T],
        prepare: Callable[[int], None] | None,
        timeout_s: float,
        doing: str,
        priority: int,
    ) -> T:
        if self._closed:
            raise DeviceError(f"{self.url}: {doing}: the bus is closed")
        self._refuse_while_stuck(doing)
        self._start()
        job = _Job(priority, next(self._serial), work, prepare, timeout_s, doing)
        self._queue.put(job)
        future: asyncio.Future[T] = asyncio.wrap_future(job.outcome)
        try:
            await self._patiently(future, doing)
        finally:
            future.cancel()  # no effect once it is done; drops it from the queue if its turn has not come
        try:
            answer = future.result()
        except PortUnavailable as error:
            self._note(str(error))
            raise
        self._note("")
        return answer

    async def _patiently(self, future: asyncio.Future[T], doing: str) -> None:
        """Wait for the outcome, but not for a driver that has overrun its deadline."""
        while not future.done():
            running = self._running
            patience_s = self._timing.grace_s if running is None else running.overdue_at_s - time.monotonic()
            await asyncio.wait({future}, timeout=max(patience_s, 0.0))
            if not future.done():
                self._refuse_while_stuck(doing)

    def _refuse_while_stuck(self, doing: str) -> None:
        running = self._running
        if running is not None and time.monotonic() > running.overdue_at_s:
            what = f"the driver overran its deadline in {running.doing!r} and holds the line"
            self._note(what)
            raise DeviceTimeout(f"{self.url}: {doing}: {what}")

    def _note(self, trouble: str) -> None:
        """Tell when trouble begins and when it is over, not in between."""
        if bool(trouble) == bool(self._trouble):
            return
        self._trouble = trouble
        if trouble:
            self._on_alarm(Alarm(Severity.MAJOR, self.url, trouble))
        else:
            self._on_alarm(Alarm(Severity.MINOR, self.url, "the line works again"))

    def _start(self) -> None:
        if self._thread is None:
            # a daemon: a driver stuck in a system call must not keep the process from ending
            self._thread = threading.Thread(target=self._serve, name=f"bus:{self.url}", daemon=True)
            self._thread.start()

    # in the bus's thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            job = self._queue.get()
            if not job.outcome.set_running_or_notify_cancel():
                continue
            if job.work is None:
                self._end(job)
                return
            try:
                answer = self._exchange(job, job.work)
            except BaseException as error:  # noqa: BLE001 -- a thread's border: every error belongs to the caller
                self._running = None
                job.outcome.set_exception(error)
            else:
                self._running = None
                job.outcome.set_result(answer)

    def _exchange(self, job: _Job, work: Callable[[Deadline], T]) -> T:
        patience_s = self._timing.prepare_s + job.timeout_s + self._timing.grace_s
        self._running = _Running(job.doing, time.monotonic() + patience_s)
        self._wire.make_ready(at_once=job.priority == _URGENT)
        try:
            if job.prepare is not None:
                job.prepare(self._wire.generation)
            deadline = Deadline.after(job.timeout_s)
            self._running = _Running(job.doing, deadline.at_s + self._timing.grace_s)
            answer = work(deadline)
        except (DeviceError, OSError) as error:
            failure = self._wire.exchange_failed(error)
            if failure is error:
                raise
            raise failure from error
        except BaseException:
            self._wire.distrust()
            raise
        self._wire.exchange_succeeded()
        return answer

    def _end(self, last: _Job) -> None:
        while not self._queue.empty():
            dropped = self._queue.get()
            if dropped.outcome.set_running_or_notify_cancel():
                dropped.outcome.set_exception(DeviceError(f"{self.url}: {dropped.doing}: the bus was closed"))
        try:
            self._wire.close()
        except OSError as error:
            last.outcome.set_exception(error)
        else:
            last.outcome.set_result(None)
