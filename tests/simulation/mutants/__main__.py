"""`python -m tests.simulation.mutants --seed S --count N`: how many small mistakes do simulation and tests find?

The mutants that this seed draws are played in their order: first by the simulation alone, up to so many seconds of
processor each, then by the nearest tests of their modules. Which lines the simulation executes, by some seeds that
show every rig, is looked at once, without any mutant: a mutant is played by seeds that execute its line.

`python -m tests.simulation.mutants MODULE...` plays all mutants of these modules by their nearest tests alone, and
fails (exit 1) if they find less than 95 % of one module's.

What came of each is a line of the file `--into`. A second run with the same file goes on where the first was stopped;
with more `--seconds` it looks on for what was not found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.simulation.mutants.drawing import ROOT, Mutant, drawn, mutants
from tests.simulation.mutants.report import Played, least_share, told
from tests.simulation.seed import rig_of

PARTS: Final = ("simulation", "tests")
NEEDED: Final = (
    "rigctl",
    "drivers",
    "sim_rig",
    "config",
    "docs",
    "tests",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)
"""What simulation and tests need of the tree."""
HERE: Final = Path(__file__).parent
LEAST_SHARE: Final = 0.95
SEEDS: Final = 40
"""Of so many seeds the lines are looked at of those that bring a rig, a pace or something besides..."""
MORE: Final = 1000
"""...and by the others of so many a mutant is played once those are over."""


@contextmanager
def copied() -> Iterator[Path]:
    """Yield a copy of the tree, what is compiled already with it."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory)
        for name in NEEDED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name)
            else:
                shutil.copy2(ROOT / name, copy / name)
        yield copy


def worth_a_look() -> list[int]:
    """Return the first seeds that show a rig at a pace, or with something besides, that none before them has shown."""
    seen: set[tuple[str, str]] = set()
    seeds = []
    for seed in range(1, SEEDS + 1):
        scenario, pace, extras = rig_of(seed, random.Random(f"{seed} world"))
        shows = {(scenario, what) for what in (pace, *extras)}
        if not shows <= seen:
            seeds.append(seed)
            seen |= shows
    return seeds


class Player:
    """Gives orders to one worker in a copy of its own."""

    def __init__(self, copy: Path) -> None:
        search = os.pathsep.join((str(copy), str(copy / "drivers")))
        environment = {**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "tests.simulation.mutants.worker", str(copy)]
        self._process = subprocess.Popen(
            command, cwd=copy, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **order: Any) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("it has no pipes")
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        with self._process as process:  # which closes its pipes
            process.kill()


def nearest() -> dict[str, list[str]]:
    """Return the tests of each module that can be mutated."""
    by_module: dict[str, list[str]] = yaml.safe_load((HERE / "nearest.yaml").read_text(encoding="utf-8"))
    return by_module


class Round:
    """One run over the mutants of a seed."""

    def __init__(self, mutants: Sequence[Mutant], parts: Sequence[str], seconds: float, into: Path) -> None:
        self._seconds = seconds
        self._into = into
        self._tests = nearest()
        self.played = Played.read(into)
        self._left = [(mutant, part) for mutant in mutants for part in parts]
        self._lock = threading.Lock()
        self._reach_file = into.with_suffix(".reach.json")
        self._reach: dict[int, dict[str, Any]] = {}
        if self._reach_file.exists():
            found = json.loads(self._reach_file.read_text(encoding="utf-8"))
            self._reach = {int(seed): lines for seed, lines in found.items()}
        self._unseen = [seed for seed in worth_a_look() if seed not in self._reach]

    def look(self, copy: Path) -> None:
        """Note which lines the first seeds execute, beside others who do so."""
        player = Player(copy)
        try:
            while self._unseen:
                with self._lock:
                    seed = self._unseen.pop(0)
                found = player.ask(part="reach", seed=seed)
                with self._lock:
                    self._reach[seed] = {"lines": found["reached"], "cpu_s": found["cpu_s"]}
                    self._reach_file.write_text(json.dumps(self._reach), encoding="utf-8")
        finally:
            player.end()

    def _seeds(self, mutant: Mutant) -> list[int]:
        """Return the seeds that may show a mutant, the likeliest first; none if no seed executes its line."""
        seeds = sorted(self._reach, key=lambda seed: self._reach[seed]["cpu_s"])
        if mutant.in_function:
            lines = range(mutant.line, mutant.line + mutant.was.count("\n") + 1)
            seeds = [s for s in seeds if not set(lines).isdisjoint(self._reach[s]["lines"][mutant.module])]
        return seeds and [*seeds, *(seed for seed in range(1, MORE + 1) if seed not in self._reach)]

    def go_on(self, copy: Path) -> None:
        """Play what is left, beside others who do so."""
        player = Player(copy)
        try:
            while (task := self._next()) is not None:
                self._play(player, *task)
        finally:
            player.end()

    def _next(self) -> tuple[Mutant, str] | None:
        with self._lock:
            while self._left:
                mutant, part = self._left.pop(0)
                if not self.played.is_over(mutant.name, part, self._seconds):
                    return mutant, part
        return None

    def _play(self, player: Player, mutant: Mutant, part: str) -> None:
        original = (ROOT / mutant.module).read_text(encoding="utf-8")
        before = self.played.of(mutant.name, part)
        order = {"part": part, "module": mutant.module, "original": original, "text": mutant.applied(original)}
        if part == "tests":
            answer = player.ask(**order, tests=self._tests[mutant.module])
        else:
            seeds = self._seeds(mutant)
            left = seeds[-before["left"] :] if before["left"] else seeds
            answer = player.ask(**order, seeds=left, seconds=self._seconds - before["cpu_s"])
        kept = {
            **answer, "mutant": mutant.name, "line": mutant.line, "module": mutant.module, "part": part,
            "operator": mutant.operator, "cpu_s": round(before["cpu_s"] + answer["cpu_s"], 1), "of_s": self._seconds,
        }  # fmt: skip
        with self._lock:
            self.played.add(kept)
            with self._into.open("a", encoding="utf-8") as out:
                out.write(json.dumps(kept) + "\n")
            word = "found" if answer["found"] else "not found" if part == "tests" or seeds else "not reached"
            print(f"{part}: {word} in {kept['cpu_s']:.0f} s: {mutant.name}: {answer['shown']}"[:300], flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("module", nargs="*", help="all mutants of these, by their nearest tests alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0, help="of processor, for the simulation of each")
    parser.add_argument("--only", choices=PARTS, help="one of both")
    parser.add_argument("--into", type=Path, help="where lines are kept; default: mutants-SEED.jsonl")
    parser.add_argument("--report", action="store_true", help="play nothing: sum up what has been played")
    given = parser.parse_args()
    unknown = sorted(set(given.module) - set(nearest()))
    if unknown:
        parser.error(f"no nearest tests for {', '.join(unknown)}; there are some for {', '.join(nearest())}")
    if given.module:
        chosen = [m for name in given.module for m in mutants(name, (ROOT / name).read_text(encoding="utf-8"))]
        parts: tuple[str, ...] = ("tests",)
    else:
        chosen, parts = drawn(given.seed, given.count), PARTS if given.only is None else (given.only,)
    into = given.into or Path(f"mutants-{'modules' if given.module else given.seed}.jsonl")
    plays = Round(chosen, parts, given.seconds, into)
    if not given.report:
        play(plays, given.jobs, look="simulation" in parts)
    print(told(chosen, plays.played, parts))
    return 1 if given.module and least_share(chosen, plays.played, parts) < LEAST_SHARE else 0


def play(plays: Round, jobs: int, *, look: bool) -> None:
    """Play what is left of a round, each job in a copy of the tree as it is now."""
    with copied() as first:
        copies = [first, *(first / f"job {i}" for i in range(1, jobs))]
        for copy in copies[1:]:
            shutil.copytree(first, copy, ignore=shutil.ignore_patterns("job *"))
        for work in (plays.look,) * look + (plays.go_on,):
            threads = [threading.Thread(target=work, args=(copy,)) for copy in copies]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    sys.exit(main())
