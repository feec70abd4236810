"""What happens under one seed: lives of the controller, one after the other, each ended as the seed has it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from tests.simulation.controller import Controller, Running, specified
from tests.simulation.interpreter import virtual
from tests.simulation.invariants import Violation, Witness
from tests.simulation.kernel import Kernel, Life, Trace
from tests.simulation.plant import Plant
from tests.simulation.worlds import World, drawn, world

LIVES = 12
"""Ends of a controller under one seed."""
LONGEST_S = {"dense": 300.0, "plain": 3600.0, "long": 10 * 86400.0}
"""A life that the seed does not end is ended after so long, by the pace of its trials."""


@dataclass
class Outcome:
    """Says what one seed has shown."""

    seed: int
    world: str
    rig_s: float = 0.0
    digest: str = ""
    events: int = 0
    starts: int = 0
    trials: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """How lives have ended, by kind."""
    faults: Counter[str] = field(default_factory=Counter)
    violation: str = ""


@dataclass
class Doom:
    """How one life is to end."""

    kind: str
    left: int = 0
    """So many points of its kind still pass."""


class Simulation:
    """One seed, from beginning to end."""

    def __init__(self, seed: int, where: World, directory: Path, trace: Trace) -> None:
        self.draw = random.Random(f"{seed} plan")
        self.kernel = Kernel(seed, trace)
        self.outcome = Outcome(seed, f"{where.scenario} {where.pace}")
        self.world = where
        self.plant = Plant(self.kernel, where.scenario, seed % 2**32, self._at_line)
        spec = specified(where.loaded, cheap=True)
        self.controller = Controller(self.kernel, self.plant, where.loaded, spec, directory / "state", self._at_point)
        self.witness = Witness(self.kernel, self.plant, spec, self.controller)
        self.doom = Doom("none")
        self.running: Running | None = None

    def run(self) -> Outcome:
        began_s = self.kernel.now_s
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
        with virtual(self.kernel), self.controller.installed(), self.witness.installed():
            try:
                for _ in range(LIVES):
                    self._one_life()
                self.witness.at_the_end()
            except Violation as broken:
                self.outcome.violation = str(broken)
                self.kernel.trace(f"{self.kernel.now_s:.6f} VIOLATION {broken}")
        outcome = self.outcome
        outcome.rig_s = self.kernel.now_s - began_s
        outcome.events, outcome.digest = self.kernel.events, self.kernel.trace.digest
        outcome.starts, outcome.trials = self.controller.lives, self.witness.trials
        return outcome

    # one life -------------------------------------------------------------------------------------------------------

    def _one_life(self) -> None:
        self.doom = self._drawn_doom()
        self.running = running = self.controller.start()
        self.witness.begins(running)
        kernel = self.kernel
        longest_s = LONGEST_S[self.world.pace]
        if self.doom.kind == "instant":
            kernel.after(self.draw.random() ** 2 * longest_s, lambda: self._end(running.life, "at an instant"))
        if not kernel.run(lambda: running.life.dead, kernel.now_s + longest_s):
            self.doom = Doom("kill")
            self._end(running.life, "its time is over")
        self.outcome.ends[self.doom.kind if not running.ending else running.ending.partition(":")[0]] += 1
        self.controller.abandoned()
        self.witness.ended(running)
        kernel.run(lambda: False, kernel.now_s + 10.0 ** self.draw.uniform(-1.0, 2.0))

    def _drawn_doom(self) -> Doom:
        kind = self.draw.choices(("commit", "line", "instant", "none"), (5, 4, 4, 1))[0]
        return Doom(kind, int(10 ** self.draw.uniform(0.0, 2.3)))

    def _end(self, life: Life, why: str) -> None:
        if not life.dead:
            self.kernel.kill(life, f"killed {why}")

    def _passes(self, kind: str, where: str) -> None:
        if self.doom.kind == kind and self.kernel.life is not None:
            self.doom.left -= 1
            if self.doom.left < 0:
                self._end(self.kernel.life, where)

    def _at_point(self, where: str) -> None:
        self._passes("commit", where)

    def _at_line(self, bus: str, when: str, data: bytes) -> None:
        if when == "before":
            self.witness.sends(bus, data)
        self._passes("line", f"{when} writing {data!r} to {bus}")


def simulate(seed: int, listener: Callable[[str], object] | None = None) -> Outcome:
    """Run one seed; leaves greenlets behind, so it is done in a process of its own."""
    draw = random.Random(f"{seed} world")
    directory = Path(tempfile.mkdtemp(prefix="simulation-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    try:
        return Simulation(seed, world(*drawn(draw)), directory, Trace(listener)).run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
