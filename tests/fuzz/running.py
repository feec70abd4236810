"""Runs many blocks of nonsense, in several processes, and says what was found."""

from __future__ import annotations

import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

Block = Callable[[str, random.Random], Counter[str]]
LONGEST_S = 120
"""Wall seconds of a block: what takes longer hangs."""
CHUNK = 20
"""Blocks that are handed to a process at a time."""


class Hangs(BaseException):
    """A block did not end in time."""


@dataclass(slots=True)
class Found:
    """What came of some blocks."""

    came: Counter[str] = field(default_factory=Counter)
    bugs: dict[tuple[str, ...], tuple[str, int]] = field(default_factory=dict)
    """Error and the last places of its way -> what it says, and the block."""

    def add(self, other: Found) -> None:
        self.came += other.came
        for place, bug in other.bugs.items():
            self.bugs.setdefault(place, bug)


def seeded(target: str, seed: int, block: int) -> random.Random:
    """Return what decides all of a block."""
    return random.Random(f"{seed}:{target}:{block}")


def run(block: Block, target: str, seed: int, blocks: range, *, timed: bool = False) -> Found:
    """Run some blocks; whatever they raise is a bug. `timed`: so is what takes longer than `LONGEST_S` on the wall."""
    found = Found()
    for number in blocks:
        try:
            with _alarm() if timed else nullcontext():
                found.came += block(target, seeded(target, seed, number))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            way = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-4:]]
            found.bugs.setdefault((type(error).__name__, *way), (str(error)[:300], number))
    return found


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise Hangs(f"no end after {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def until(block: Block, target: str, seed: int, count: int, jobs: int) -> Found:
    """Run blocks until there were so many cases, in so many processes, or somebody interrupts; tell how far it is."""
    total, began_s, at = Found(), time.monotonic(), 0
    with ProcessPoolExecutor(jobs) as pool, suppress(KeyboardInterrupt):
        while total.came["cases"] < count:
            parts = [range(at + CHUNK * i, at + CHUNK * (i + 1)) for i in range(4 * jobs)]
            at = parts[-1].stop
            for part in pool.map(partial(run, block, target, seed, timed=True), parts):
                total.add(part)
            done = f"{total.came['cases']} of {count}, {len(total.bugs)} bugs, {time.monotonic() - began_s:.0f} s"
            sys.stderr.write(f"\r{target}: {done}")
    sys.stderr.write("\n")
    return total
