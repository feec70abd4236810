"""Bugs planted on purpose, to see whether the simulation finds them: `python -m tests.simulation.planted [NN...]`.

Each is a patch under `bugs/`: a mistake that somebody could make. It is applied to a copy of the tree, and seeds are
run there until an invariant does not hold or the time is over, which is that of a processor: it does not matter what
else the machine does. A seed counts only if it is clean without the patch. `reached` says
how often what is planted was come to, in these seeds up to the one that shows it: at 0 it was not even met.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import select
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.simulation.reached import instrument, told

ROOT = Path(__file__).parents[2]
BUGS = Path(__file__).parent / "bugs"
NEEDED = ("rigctl", "drivers", "sim_rig", "config", "tests/simulation", "tests/__init__.py")
"""What a simulation needs of the tree."""
LONGEST_S = 120
"""Seconds of processor that a seed may take; one that takes longer shows nothing."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a hunt has brought."""

    seed: int
    """0: nothing."""
    seeds: int
    """How many were run."""
    seconds: float
    """Of processor, all processes together."""
    violation: str = ""
    passed: dict[int, int] = field(default_factory=dict)
    """How often each counter in what is planted was passed."""


def patches(chosen: Sequence[str] = ()) -> list[Path]:
    """Return all bugs, or those whose names begin so."""
    return [path for path in sorted(BUGS.glob("*.patch")) if not chosen or path.name.startswith(tuple(chosen))]


def files(patch: Path) -> list[str]:
    """Return the names of the files that a patch changes."""
    return re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(encoding="utf-8"), flags=re.MULTILINE)


@contextmanager
def planted(patch: Path | None) -> Iterator[Path]:
    """Yield a copy of the tree with this bug in it.

    Raises:
        SystemExit: the patch does not apply any more.
    """
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        copy = Path(directory)
        for name in NEEDED:
            source, target = ROOT / name, copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)  # what is compiled already, too
            else:
                shutil.copy2(source, target)
        if patch is not None:
            applied = subprocess.run(
                ["git", "apply", "-p1", str(patch)], cwd=copy, capture_output=True, text=True, check=False
            )
            if applied.returncode:
                raise SystemExit(f"{patch.name}: does not apply any more; make it anew: {applied.stderr}")
        yield copy


def hunted(copy: Path, minutes: float, jobs: int, first: int, seeds: int | None = None) -> Found:
    """Run seeds in a copy, in a process that knows nothing of this tree."""
    command = [sys.executable, "-m", "tests.simulation.planted", "--hunt", str(first), "--minutes", str(minutes)]
    command += ["--jobs", str(jobs), *(() if seeds is None else ("--seeds", str(seeds)))]
    search = os.pathsep.join((str(copy), str(copy / "drivers")))
    environment = {**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the hunt itself failed: {done.stderr or done.stdout}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Found(**{**told, "passed": {int(number): times for number, times in told["passed"].items()}})


def hunt(minutes: float, jobs: int, first: int, seeds: int | None) -> Found:
    """Run seeds in this tree until one has something to show, or so much time of a processor has been used."""
    from tests.simulation.fleet import accounted, alone, warm_up

    warm_up()
    seed, ended, used_s, violation, shown = first, 0, 0.0, "", 0
    passed: Counter[int] = Counter()
    running: dict[int, tuple[int, int]] = {}
    while not shown and used_s < 60.0 * minutes:
        while len(running) < jobs and (seeds is None or seed < first + seeds):
            child, reading = alone(seed, LONGEST_S)
            running[reading] = child, seed
            seed += 1
        if not running:
            break
        for reading in select.select(list(running), [], [])[0]:
            child, number = running.pop(reading)
            answer, cpu_s = accounted(child, reading)
            ended, used_s = ended + 1, used_s + cpu_s
            if not answer:
                continue
            outcome = pickle.loads(answer)  # noqa: S301 - our own child's
            passed.update(outcome.passed)
            if outcome.violation:
                shown, violation = number, outcome.violation
    for reading, (child, _) in running.items():
        os.kill(child, 9)
        used_s += accounted(child, reading)[1]
    return Found(shown, ended, used_s, violation, dict(passed))


def searched(patch: Path, clean: Path, minutes: float, jobs: int, first: int) -> tuple[Found, str]:
    """Return the first seed that shows a bug, and nothing without it; and how often what is planted was come to."""
    seeds, used_s, passed = 0, 0.0, Counter[int]()
    with planted(patch) as copy:
        counters = instrument(copy, ROOT, files(patch))
        found = Found(0, 0, 0.0)
        while used_s < 60.0 * minutes:
            found = hunted(copy, minutes - used_s / 60.0, jobs, first)
            seeds, used_s, first = seeds + found.seeds, used_s + found.seconds, found.seed + 1
            passed.update(found.passed)
            if not found.seed or not hunted(clean, minutes, 1, found.seed, 1).seed:
                break
            found = replace(found, seed=0, violation="")
    return replace(found, seeds=seeds, seconds=used_s), told(passed, counters)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument("bugs", nargs="*", metavar="NN", help="those whose names begin so; all, if none is named")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor, for each bug")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="SEED")
    parser.add_argument("--hunt", type=int, metavar="SEED", help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hunt is not None:
        print(json.dumps(asdict(hunt(given.minutes, given.jobs, given.hunt, given.seeds))))
        return 0
    missed = 0
    print("| bug | found | seed | seeds | s | reached | by |\n|---|---|---|---|---|---|---|", flush=True)
    with planted(None) as clean:
        for patch in patches(given.bugs):
            found, reached = searched(patch, clean, given.minutes, given.jobs, given.first)
            missed += not found.seed
            broken = found.violation.splitlines()[-1] if found.violation else ""
            answer = "yes" if found.seed else "no"
            cells = (patch.stem, answer, found.seed or "", found.seeds, f"{found.seconds:.0f}", reached, broken)
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
