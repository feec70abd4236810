"""Where messages leave the program without anybody waiting: a bounded queue, and a thread that hands them on.

Whoever reads slowly, not at all, or has gone away costs messages, never control (fault 59): a full queue drops what
comes, counted, and the count is told when there is room again. Nothing is held while the thread is blocked in the
system, so that the process can end whatever it is doing.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TextIO, TypeVar

from rigctl.errors import counted

T = TypeVar("T")

MOST = 1000
"""Messages waiting."""
LAST_MESSAGES_S = 1.0
"""Wall seconds for what still waits at the end."""
LAST_ANSWER_S = 5.0
"""For the answer itself, which somebody may be reading page by page."""


class Sink(Generic[T]):
    """Hands messages to `deliver` in a thread of its own, in order. `put` may be called from any thread.

    `deliver` may block; a message is lost if it raises, or if `most` are waiting already. `lost` is told in the thread
    how many have been lost, once one has been delivered again.
    """

    def __init__(
        self, name: str, deliver: Callable[[T], object], lost: Callable[[int], object], most: int = MOST
    ) -> None:
        self._deliver = deliver
        self._tell_lost = lost
        self._most = most
        self._waiting: deque[T] = deque()
        self._lost = 0
        self._ending = False
        self._changed = threading.Condition()
        # a daemon: one that is blocked for ever must not keep the process from ending
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def put(self, message: T) -> None:
        """Have it delivered; returns at once."""
        with self._changed:
            if len(self._waiting) < self._most:
                self._waiting.append(message)
                self._changed.notify_all()
            else:
                self._lost += 1

    def close(self, within_s: float) -> bool:
        """Tell whether all that waits was delivered or lost within so many wall seconds; end the thread if possible."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting, within_s)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ending)
                if not self._waiting:
                    return
                message = self._waiting[0]  # stays there until it is out, for `close`
            delivered = self._handed_on(message)
            with self._changed:
                self._waiting.popleft()
                self._lost += not delivered
                self._changed.notify_all()

    def _handed_on(self, message: T) -> bool:
        try:
            self._deliver(message)
            if self._lost:
                with self._changed:
                    lost, self._lost = self._lost, 0
                self._tell_lost(lost)
        except Exception:  # noqa: BLE001 - whatever a reader does must not end the thread; it is counted
            return False
        return True


class Outlet(io.TextIOBase):
    """Stands in the place of standard output or error: `write` never blocks and never fails.

    Writes to the descriptor itself: a thread blocked within the original stream would hold that stream's lock.
    """

    def __init__(self, stream: TextIO, name: str, lost: Callable[[int], str]) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self._sink: Sink[str] = Sink(name, self._out, lambda n: self._out(lost(n)))

    @property
    def encoding(self) -> str:  # type: ignore[override]  # TextIOBase has an attribute
        return self._stream.encoding

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"got {type(text).__name__}, must be str")  # so are binary streams told apart
        if text:
            self._sink.put(text)
        return len(text)

    def end(self, within_s: float) -> bool:
        return self._sink.close(within_s)

    def _out(self, text: str) -> None:
        left = text.encode(self.encoding, "backslashreplace")
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # somebody has set the descriptor so
                select.select([], [self._descriptor], [])


@contextmanager
def outlets() -> Iterator[None]:
    """Let nobody who writes to standard output or error wait for a reader while the block runs."""
    before = sys.stdout, sys.stderr
    for stream in before:
        stream.flush()
    answers, messages = Outlet(sys.stdout, "stdout", _lost_words), Outlet(sys.stderr, "stderr", _lost_record)
    sys.stdout, sys.stderr = answers, messages
    try:
        yield
    finally:
        began_s = time.monotonic()
        messages.end(LAST_MESSAGES_S)
        answers.end(max(0.0, LAST_ANSWER_S - (time.monotonic() - began_s)))
        sys.stdout, sys.stderr = before


def _lost_words(count: int) -> str:
    return f"({counted(count, 'message')} lost: nobody read them)\n"


def _lost_record(count: int) -> str:
    record = {"event": "messages lost: nobody read them", "count": count, "level": "warning"}
    return _lost_words(count) if sys.__stderr__ is not None and sys.__stderr__.isatty() else json.dumps(record) + "\n"
