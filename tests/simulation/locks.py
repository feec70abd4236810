"""Locks and threads as the kernel has them: who waits gives way."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulation.kernel import Kernel, Strand, Stuck


class Lock:
    """Stands in for `threading.Lock`."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._held = False
        self._waiting: deque[Strand] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        kernel = self._kernel
        if kernel.life is not None and kernel.life.dead:
            kernel.never_again()
        if not self._held:
            self._held = True
            return True
        if not blocking:
            return False
        if kernel.strand is None:
            raise Stuck("the simulator itself would wait for a lock")
        until_s = math.inf if timeout < 0 else kernel.mono_s + timeout
        self._waiting.append(kernel.strand)
        try:
            while self._held:
                if kernel.past(until_s):
                    return False
                kernel.park(until_s)
        finally:
            self._waiting.remove(kernel.strand)
        self._held = True
        return True

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        if self._waiting:
            self._kernel.wake(self._waiting[0])

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._held = False


class ReentrantLock:
    """Stands in for `threading.RLock`; its owner is a strand."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._lock = Lock(kernel)
        self._owner: object = None
        self._count = 0

    def _me(self) -> object:
        return self._kernel.strand or self._kernel

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._owner is self._me():
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = self._me(), 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    # what `threading.Condition` asks of it

    def _release_save(self) -> tuple[int, object]:
        state = self._count, self._owner
        self._count, self._owner = 0, None
        self._lock.release()
        return state

    def _acquire_restore(self, state: tuple[int, object]) -> None:
        self._lock.acquire()
        self._count, self._owner = state

    def _is_owned(self) -> bool:
        return self._owner is self._me()


class Thread:
    """Stands in for `threading.Thread`: a strand of whichever life starts it."""

    def __init__(
        self,
        kernel: Kernel,
        target: Callable[..., object],
        name: str | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        daemon: bool | None = None,
    ) -> None:
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self._kernel = kernel
        self._work = lambda: target(*args, **(kwargs or {}))
        self._strand: Strand | None = None

    def start(self) -> None:
        life = self._kernel.life
        if life is None:
            raise Stuck(f"{self.name}: nobody's thread")
        self._strand = self._kernel.spawn(life, self.name, self._work)

    def is_alive(self) -> bool:
        return self._strand is not None and not self._strand.done

    def join(self, timeout: float | None = None) -> None:
        until_s = math.inf if timeout is None else self._kernel.mono_s + timeout
        strand, me = self._strand, self._kernel.strand
        while strand is not None and not strand.done and not self._kernel.past(until_s):
            if me is None:
                raise Stuck(f"{self.name}: the simulator itself would wait for its end")
            strand.joining.append(me)
            self._kernel.park(until_s)
