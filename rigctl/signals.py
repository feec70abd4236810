"""Signals that ask the process to end: noted from the first moment on, acted upon by whoever can.

One handler serves for the whole life of the process, so that there is no moment without one: before the event loop runs
it only notes; while a campaign runs, the campaign is told. Imports nothing that takes time.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rigctl.system import end_signals

INTERRUPTED_EXIT = 130
"""Of a process that Ctrl-C has ended: 128 + SIGINT, as a shell has it."""
NO_SECOND = "SIGHUP"
"""Never ends a process that stays to make everything safe: a closed terminal sends it, and its shell once more."""
CAUGHT = end_signals()


class Signals:
    """What the process has been told; mutable, used in the main thread only."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        """Names in order of arrival, e.g. `SIGTERM`."""
        self._passed_on = 0
        self._wake: Callable[[], object] | None = None
        self._caught = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Note what arrives while the block runs. One that was ignored stays ignored: nohup means it.

        Nested in itself it does nothing more.
        """
        if self._caught:
            yield
            return
        before = {number: signal.getsignal(number) for number in CAUGHT}
        before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
        for number in before:
            signal.signal(number, self._note)
        self._caught = True
        try:
            yield
        finally:
            self._caught = False
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.heard.append(signal.Signals(number).name)
        if self._wake is not None:
            self._wake()

    @contextmanager
    def told(self, act: Callable[[str], object], call_soon: Callable[[Callable[[], None]], object]) -> Iterator[None]:
        """Have `act(name)` called once for every signal, also for those already noted, while the block runs.

        `call_soon` has `act` called soon, and is safe in a signal handler, e.g. `loop.call_soon_threadsafe`.
        """

        def pass_on() -> None:
            while self._passed_on < len(self.heard):
                self._passed_on += 1
                act(self.heard[self._passed_on - 1])

        self._wake = lambda: call_soon(pass_on)
        self._wake()  # for those that came before
        try:
            yield
        finally:
            self._wake = None
