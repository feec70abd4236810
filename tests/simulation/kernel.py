"""Virtual time, and everything that waits in it: what happens next depends on one seed and on nothing else.

One thread of the system runs all. Whatever is a thread in the real program is a strand here: a greenlet that gives way
where a thread would wait, and goes on when the kernel says so. Which of several that could go on does, and how much
later, is drawn from the seed. Time stands still while anybody works, and jumps to the next instant at which somebody is
due: a year costs what happens in it, not what passes.

A life is one process of the controller. One that was ended, however, is never resumed: none of its `finally` runs, as
after `kill -9`, and what it asks of time or of a lock from then on it waits for in vain.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent, greenlet

TICK_S = 1e-7
"""What a look at the clock takes: whoever only looks comes to an end, too."""
STUCK_EVENTS = 200_000
"""So many events without the time going on mean that somebody spins."""


class Stuck(RuntimeError):
    """Says that time does not go on, or that nothing is left that could happen."""


class Trace:
    """What happens, as lines; their sum is kept always, the lines if somebody wants to read them."""

    def __init__(self, listener: Callable[[str], object] | None = None, without: str = "") -> None:
        self.lines = 0
        self._without = without
        """What differs from run to run: where the files are."""
        self._sum = hashlib.blake2b(digest_size=16)
        self._listener = listener

    def __call__(self, line: str) -> None:
        self.lines += 1
        line = line.replace(self._without, "...") if self._without else line
        self._sum.update(line.encode())
        if self._listener is not None:
            self._listener(line)

    @property
    def digest(self) -> str:
        return self._sum.hexdigest()


@dataclass(slots=True, eq=False)
class Life:
    """One process of the controller, or whatever else can be ended as a whole."""

    name: str
    pid: int = 0
    dead: bool = False
    strands: list[Strand] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Strand:
    """What would be a thread."""

    life: Life
    name: str
    greenlet: Any
    parked: int = 0
    """Counts how often it has waited, so that a wake-up meant for an earlier wait is none."""
    waiting: bool = False
    done: bool = False
    joining: list[Strand] = field(default_factory=list)


class Planned:
    """A call at an instant, which may be called off."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object] | None) -> None:
        self.call = call

    def cancel(self) -> None:
        self.call = None


@dataclass(slots=True)
class Computer:
    """What the controller's computer thinks of time."""

    kernel: Kernel
    boot: int = 1
    booted_s: float = 0.0
    suspended_s: float = 0.0
    asleep_until_s: float = 0.0
    civil_at_zero_s: float = 1_767_225_600.0
    """Civil time minus true time, seconds since 1970: jumps where somebody sets the clock."""
    synchronised: bool = False
    """Whether the system says that its clock is kept right, whoever sets it."""

    @property
    def ahead_s(self) -> float:
        """Return how far true time is ahead of this computer's monotonic time."""
        return self.booted_s + self.suspended_s

    def boottime(self) -> float:
        told_s = self.kernel.monotonic()
        return told_s if self.kernel.life is None else told_s + self.suspended_s

    def civil(self) -> float:
        self.kernel.monotonic()
        return self.kernel.now_s + self.civil_at_zero_s

    def suspend(self, seconds: float) -> None:
        """Let it sleep from now on, while the rig goes on; one that sleeps already sleeps on."""
        asleep_s = max(self.asleep_until_s, self.kernel.now_s)
        self.asleep_until_s = max(asleep_s, self.kernel.now_s + seconds)
        self.suspended_s += self.asleep_until_s - asleep_s

    def reboot(self) -> None:
        """Start it anew; whatever ran on it is dead already."""
        self.boot += 1
        self.booted_s, self.suspended_s, self.asleep_until_s = self.kernel.now_s - 20.0, 0.0, 0.0


class Kernel:
    """Virtual time and the strands in it. Used from one thread."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self.random = random.Random(seed)
        self.trace = trace
        self.now_s = 5000.0
        """True time, that of the rig; the controller's computer counts from its boot, less what it slept."""
        self.computer = Computer(self)
        self.life: Life | None = None
        """Whose strand runs now; None: the rig's, or nobody's."""
        self.strand: Strand | None = None
        self.ended: Callable[[Life, str], None] = lambda _life, _why: None
        """Told when a life ends itself."""
        self.events = 0
        self.failure: BaseException | None = None
        """What somebody has found out who could not raise it: whoever runs the kernel is told."""
        self._heap: list[tuple[float, float, int, Planned]] = []
        self._order = itertools.count()
        self._hub = getcurrent()
        self._graves: list[Life] = []
        """Kept, so that no greenlet is collected: that would run its `finally`."""

    # time -----------------------------------------------------------------------------------------------------------

    @property
    def mono_s(self) -> float:
        return self.now_s - self.computer.ahead_s

    def monotonic(self) -> float:
        life = self.life
        if life is None:
            return self.now_s
        if life.dead:
            self.never_again()
        self.now_s += TICK_S
        return self.now_s - self.computer.ahead_s

    def past(self, until_s: float) -> bool:
        return self.mono_s >= until_s - TICK_S

    def sleep(self, seconds: float) -> None:
        until_s = self.mono_s + seconds
        while not self.past(until_s):
            self.park(until_s)

    # what happens ---------------------------------------------------------------------------------------------------

    def at(self, when_s: float, call: Callable[[], object]) -> Planned:
        planned = Planned(call)
        heapq.heappush(self._heap, (when_s, self.random.random(), next(self._order), planned))
        return planned

    def after(self, seconds: float, call: Callable[[], object]) -> Planned:
        return self.at(self.now_s + seconds, call)

    def run(self, until: Callable[[], bool], until_s: float = math.inf) -> bool:
        """Let things happen until it holds, or until an instant; tell whether it holds."""
        same, last_s = 0, self.now_s
        heap = self._heap
        while not until():
            if not heap and until_s == math.inf:
                raise Stuck("nothing is left that could happen")
            if not heap or heap[0][0] > until_s:
                self.now_s = max(self.now_s, until_s)
                return False
            when_s, _, _, planned = heapq.heappop(heap)
            if planned.call is None:
                continue
            self.events += 1
            if when_s > last_s:
                same, last_s = 0, when_s
            elif (same := same + 1) > STUCK_EVENTS:
                raise Stuck(f"time stands still at {self.now_s:.6f} s: somebody spins")
            self.now_s = max(self.now_s, when_s)
            planned.call()
            if self.failure is not None:
                raise self.failure
        return True

    # strands --------------------------------------------------------------------------------------------------------

    def spawn(self, life: Life, name: str, work: Callable[[], object]) -> Strand:
        strand = Strand(life, name, None)

        def run() -> None:
            try:
                work()
            finally:
                if not life.dead:
                    strand.done = True
                    for other in strand.joining:
                        self.wake(other)

        strand.greenlet = greenlet(run, parent=self._hub)
        life.strands.append(strand)
        strand.waiting = True
        self.wake(strand)
        return strand

    def park(self, until_s: float = math.inf) -> None:
        """Give way until somebody wakes this strand or a monotonic instant has come; may come back early."""
        strand = self.strand
        if strand is None:
            raise Stuck("the rig, or the simulator itself, would wait")
        if strand.life.dead:
            self.never_again()
        strand.parked += 1
        strand.waiting = True
        if until_s < math.inf:
            self._resume_at(strand, strand.parked, until_s)
        self._hub.switch()

    def _resume_at(self, strand: Strand, serial: int, until_s: float) -> None:
        def due() -> None:
            if self.past(until_s):
                self._resume(strand, serial)
            elif strand.waiting and strand.parked == serial:  # the computer has slept meanwhile
                self._resume_at(strand, serial, until_s)

        self.at(max(until_s + self.computer.ahead_s, self.now_s), due)

    def wake(self, strand: Strand) -> None:
        if strand.waiting and not strand.life.dead:
            serial = strand.parked
            draw = self.random.random()
            late_s = 0.0 if draw < 0.8 else (draw - 0.8) * 0.005
            self.at(self.now_s + late_s, lambda: self._resume(strand, serial))

    def _resume(self, strand: Strand, serial: int) -> None:
        if not strand.waiting or strand.parked != serial or strand.life.dead:
            return
        if self.now_s < self.computer.asleep_until_s:
            self.at(self.computer.asleep_until_s, lambda: self._resume(strand, serial))
            return
        strand.waiting = False
        self.strand, self.life = strand, strand.life
        strand.greenlet.switch()
        self.strand = self.life = None

    def never_again(self) -> None:
        while True:
            self._hub.switch()

    def kill(self, life: Life, why: str, *, goes_on: bool = False) -> None:
        """End it here and now. One of its own strands does not come back, unless it `goes_on` to where it must wait."""
        if not life.dead:
            life.dead = True
            self._graves.append(life)
            self.trace(f"{self.now_s:.6f} {life.name} ends: {why}")
            self.ended(life, why)
        if self.life is life and not goes_on:
            self.never_again()
