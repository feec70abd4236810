"""For the length of a simulation the interpreter's clock and threads are the simulator's.

Seams in the program would have to be threaded through every class that starts a thread or asks the time, and what is
written tomorrow could miss them. The interpreter is the seam that nothing can go round: `time`, `threading`, `queue`,
the event loop, the process's number and its end. What is bound at import, before a simulation begins, is replaced by
name in the few modules that do so.
"""

import asyncio
import itertools
import os
import queue
import sys
import threading
import time
import typing
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from functools import cache, partial
from typing import Any, Self
from unittest.mock import patch

from tests.simulation.kernel import Kernel
from tests.simulation.locks import Lock, ReentrantLock, Thread

CIVIL_MODULES = ("rigctl.campaign", "rigctl.page", "rigctl.console")


class SerialTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it lies in memory."""

    _serials = itertools.count()

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        made._serial = next(cls._serials)
        return made

    def __hash__(self) -> int:
        return self._serial

    _serial: int


class SerialFuture(asyncio.Future[Any]):
    """As `SerialTask`."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._serial = next(SerialTask._serials)

    def __hash__(self) -> int:
        return self._serial


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose waiting is the kernel's."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel
        self._selector = self
        self._woken = False
        self._sleeps: Any = None
        self.set_task_factory(lambda loop, work, **more: SerialTask(work, loop=loop, **more))

    def time(self) -> float:
        return self._kernel.monotonic()

    def create_future(self) -> asyncio.Future[Any]:
        return SerialFuture(loop=self)

    def select(self, timeout: float | None) -> list[Any]:
        kernel = self._kernel
        if timeout == 0 and kernel.random.random() > 0.1:
            return []  # others may come in between, or not
        if not self._woken:
            self._sleeps = kernel.strand
            kernel.park(float("inf") if timeout is None else kernel.mono_s + timeout)
            self._sleeps = None
        self._woken = False
        return []

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._woken = True
        if self._sleeps is not None:
            self._kernel.wake(self._sleeps)


class _Policy(asyncio.DefaultEventLoopPolicy):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return VirtualLoop(self._kernel)


def _civil(kernel: Kernel) -> type[datetime]:
    class Civil(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(kernel.computer.civil(), tz)

    return Civil


def _gettime(kernel: Kernel, clock: int) -> float:
    told: dict[int, Callable[[], float]] = {
        time.CLOCK_MONOTONIC: kernel.monotonic,
        time.CLOCK_BOOTTIME: kernel.computer.boottime,
        time.CLOCK_REALTIME: kernel.computer.civil,
    }
    return told[clock]()


@contextmanager
def virtual(kernel: Kernel) -> Iterator[None]:
    """Make the interpreter's clock and threads the kernel's while the block runs."""
    thread: Any = lambda group=None, target=None, name=None, args=(), kwargs=None, *, daemon=None: Thread(  # noqa: E731
        kernel, target, name, args, kwargs, daemon
    )
    lock, reentrant = partial(Lock, kernel), partial(ReentrantLock, kernel)
    civil, number = _civil(kernel), os.getpid()

    def pid() -> int:
        return number if kernel.life is None else kernel.life.pid

    def leave(code: int) -> None:
        if kernel.life is None:
            raise AssertionError(f"exit {code} of nobody")
        kernel.kill(kernel.life, f"exit {code}")

    replaced: list[tuple[Any, str, Any]] = [
        (time, "monotonic", kernel.monotonic),
        (time, "perf_counter", kernel.monotonic),
        (time, "time", kernel.computer.civil),
        (time, "sleep", kernel.sleep),
        (time, "clock_gettime", partial(_gettime, kernel)),
        (threading, "Thread", thread),
        (threading, "Lock", lock),
        (threading, "_allocate_lock", lock),
        (threading, "RLock", reentrant),
        (threading, "_time", kernel.monotonic),
        (queue, "time", kernel.monotonic),
        (queue, "SimpleQueue", queue._PySimpleQueue),  # type: ignore[attr-defined]
        (typing, "_get_protocol_attrs", cache(typing._get_protocol_attrs)),  # type: ignore[attr-defined]  # 6 % of all
        (os, "getpid", pid),
        (os, "_exit", leave),
    ]
    for name, module in sorted(sys.modules.items()):
        if name.startswith(CIVIL_MODULES) and getattr(module, "datetime", None) is datetime:
            replaced.append((module, "datetime", civil))
    before = asyncio.get_event_loop_policy()
    with ExitStack() as stack:
        for where, name, what in replaced:
            stack.enter_context(patch.object(where, name, what))
        asyncio.set_event_loop_policy(_Policy(kernel))
        stack.callback(asyncio.set_event_loop_policy, before)
        yield
