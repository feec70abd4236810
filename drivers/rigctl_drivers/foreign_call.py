"""Runs code that knows nothing of deadlines in a thread of its own, and does its I/O in the bus's thread.

During a call the bus's thread serves the code's requests for the line, one after the other. After the deadline it
serves none: the code may go on sleeping, but it can neither hold the line nor send on it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar, cast

from rigctl.errors import DeviceError, DeviceTimeout
from rigctl.rig.protocols import PEEK_S, ByteLine, Deadline

T = TypeVar("T")

GRACE_S: Final = 0.2
"""Time to return after the deadline, wall seconds; less than a bus grants its drivers. Nothing can be sent then."""


class CallOver(BaseException):
    """Foreign code asked for the line after it was abandoned. No `except Exception` keeps its thread from ending."""


class StillBusy(DeviceTimeout):
    """Foreign code did not return in time and was abandoned."""


@dataclass(slots=True)
class ForeignCall:
    """Runs one call of foreign code and counts the bytes that passed over the line."""

    line: ByteLine
    deadline: Deadline
    sent: int = 0
    """Bytes."""
    heard: int = 0
    """Bytes."""
    lost: DeviceError | None = None
    """The last error of the line, even if the code caught it."""
    thread: Thread | None = None
    """The thread that runs it, even after it was abandoned."""
    _patience: Deadline | None = None
    """End of the grace; None before the deadline has passed."""
    _over: bool = False
    _requests: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = field(default_factory=SimpleQueue)

    # in the bus's thread ------------------------------------------------------------------------------------------

    def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises.

        Raises:
            StillBusy: it did not return in time.
        """
        outcome: list[tuple[Any, BaseException | None]] = []
        self.thread = Thread(target=self._work, args=(work, outcome), name="foreign", daemon=True)
        self.thread.start()
        try:
            for request in iter(self._next, None):
                self._serve(*request)
        finally:
            self._over = True
            self._turn_away()
        value, error = outcome[0]
        if error is not None:
            raise error if isinstance(error, Exception) else RuntimeError(f"it tried to end the program: {error!r}")
        return cast("T", value)

    def _next(self) -> tuple[Callable[[], Any], Future[Any]] | None:
        """Wait for the code's next request; None: it has returned."""
        while True:
            if self._patience is None and not self.deadline.remaining_s:
                self._patience = Deadline.after(GRACE_S)  # one grace for all requests, however many follow
            waits = self._patience or self.deadline.within(PEEK_S)
            if self._patience is not None and not waits.remaining_s:
                raise StillBusy("it did not return in time", bus=self.line.url)
            with suppress(Empty):
                return self._requests.get(timeout=waits.remaining_s)

    def _serve(self, work: Callable[[], Any], answer: Future[Any]) -> None:
        try:
            self.deadline.check("the line")
            answer.set_result(work())
        except DeviceError as problem:
            self.lost = problem
            answer.set_exception(problem)
        except OSError as problem:
            self.lost = DeviceTimeout(f"the line broke: {problem}", bus=self.line.url)
            answer.set_exception(self.lost)

    def _turn_away(self) -> None:
        while not self._requests.empty():
            request = self._requests.get()
            if request is not None:
                request[1].set_exception(CallOver())

    # in the foreign code's thread ---------------------------------------------------------------------------------

    def _work(self, work: Callable[[], Any], outcome: list[tuple[Any, BaseException | None]]) -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:  # noqa: BLE001 - foreign code may raise anything; the bus's thread handles it
            outcome.append((None, error))
        self._requests.put(None)

    def write(self, data: bytes) -> None:
        """Send everything. Raises `CallOver`, or as the line."""
        self.sent += len(data)
        self._on_the_line(lambda: self.line.write(data, self.deadline))

    def read(self, count: int, until: bytes, patience_s: float) -> bytes:
        """Return `count` bytes, fewer where `until` ends them, within so many wall seconds. Raises as `write`."""
        data: bytes = self._on_the_line(lambda: self.line.read_bytes(count, self.deadline.within(patience_s), until))
        self.heard += len(data)
        return data

    def drop(self) -> None:
        """Drop what has arrived on the line."""
        self._on_the_line(lambda: self.line.settle(Deadline(0.0)))

    def _on_the_line(self, work: Callable[[], Any]) -> Any:
        answer: Future[Any] = Future()
        self._requests.put((work, answer))
        if self._over:  # the queue may have been emptied already
            raise CallOver
        return answer.result()
