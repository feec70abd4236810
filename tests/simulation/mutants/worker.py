"""Plays one mutant after the other in a copy of the tree: `python -m tests.simulation.mutants.worker COPY`.

Reads orders as lines of JSON and answers each with another. What the program needs of others is imported once; the
program itself by each child that is forked for a mutant, so that it is the mutant that runs.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

OURS: Final = ("rigctl", "rigctl_drivers", "sim_rig", "tests")
LONGEST_S: Final = 60
"""Seconds of processor that a seed may take; one that takes longer, and not without the mutant, does not end."""
TESTS_S: Final = 300
"""Seconds of processor that nearest tests may take, the slow ones among them."""
HANG_S = 1200
"""Wall seconds after which nearest tests count as hanging: the limit of a single test does not end its teardown."""
PYTEST: Final = (
    "-n", "0", "-q", "-x", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-o", "timeout=90",
    "-m", "not system and not browser and not nightly",
)  # fmt: skip
DIED: Final = "died"
Json = dict[str, Any]


class Worker:
    """Has one copy of the tree to itself."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._clean: dict[int, str] = {}
        """By seed: what it shows without any mutant."""
        importlib.import_module("tests.simulation.fleet").warm_up()
        importlib.import_module("pytest")
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        sys.dont_write_bytecode = True
        gc.collect()
        gc.freeze()

    def played(self, order: Json) -> Json:
        """Return what came of an order: `part` is `reach`, `simulation` or `tests`; `text` is the mutant's module."""
        if order["part"] == "reach":
            return self._in_a_child(_reach, order["seed"], 0.0)
        if order["part"] == "tests":
            self._plant(order["module"], order["text"])
            found = self._tested(order["tests"])
            self._restore(order["module"], order["original"])
            return found
        return self._hunted(order)

    def _hunted(self, order: Json) -> Json:
        seeds, used_s, shown = order["seeds"], 0.0, ""
        while seeds and used_s < order["seconds"] and not shown:
            self._plant(order["module"], order["text"])
            found = self._in_a_child(_hunt, seeds, order["seconds"] - used_s)
            self._restore(order["module"], order["original"])
            used_s += found["cpu_s"]
            shown, last = found["shown"], seeds.index(found["seed"])
            seeds = seeds[last + 1 :]
            if shown and not shown.startswith("import: ") and self._without(found["seed"]):
                shown = ""  # that seed shows something without the mutant, too
        last_line = shown.splitlines()[-1] if shown else ""
        return {"found": bool(shown), "left": len(seeds), "cpu_s": used_s, "shown": last_line}

    def _without(self, seed: int) -> str:
        if seed not in self._clean:
            self._clean[seed] = str(self._in_a_child(_hunt, [seed], 0.1)["shown"])
        return self._clean[seed]

    def _tested(self, tests: list[str]) -> Json:
        return self._in_a_child(_test, tests, 0.0)

    def _plant(self, module: str, text: str) -> None:
        path = self._copy / module
        path.write_text(text, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()

    def _restore(self, module: str, original: str) -> None:
        self._plant(module, original)

    def _in_a_child(self, work: Callable[[Any, float], Json], what: Any, seconds: float) -> Json:
        """Return what a child has told of it, and the processor's time of it and of all its children."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            os.setpgid(0, 0)
            os.chdir(self._copy)
            try:
                told = work(what, seconds)
            except BaseException as error:  # noqa: BLE001 - told to the parent
                first = what[0] if isinstance(what, list) else what
                told = {"found": True, "seed": first, "shown": f"import: {type(error).__name__}: {error}"}
            with open(writing, "wb") as out:  # noqa: PTH123 - a descriptor
                pickle.dump(told, out)
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as out:  # noqa: PTH123 - a descriptor
            answer = out.read()
        _, _, used = os.wait4(child, 0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what tests have left running
        told: Json = pickle.loads(answer) if answer else {"found": True, "shown": DIED}  # noqa: S301 - our own child's
        return {
            "seed": what[0] if isinstance(what, list) else 0,
            **told,
            "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        }


def _hunt(seeds: list[int], seconds: float) -> Json:
    """Run seeds until one shows something, or the time is over; in a child of its own."""
    from tests.simulation.fleet import accounted, alone, warm_up

    warm_up()
    began_s, shown = _used_s(), ""
    for seed in seeds:
        answer, _ = accounted(*alone(seed, LONGEST_S))
        shown = pickle.loads(answer).violation if answer else f"the seed does not end, or its process {DIED}"  # noqa: S301
        if shown or _used_s() - began_s >= seconds:
            break
    return {"seed": seed, "shown": shown}


def _reach(seed: int, _: float) -> Json:
    """Run a seed and return the lines that it executes, by module."""
    from tests.simulation.fleet import warm_up
    from tests.simulation.mutants.drawing import MODULES
    from tests.simulation.seed import simulate

    warm_up()
    gc.disable()
    reached: dict[str, set[int]] = {module: set() for module in MODULES}
    files = {str(Path.cwd() / module): lines for module, lines in reached.items()}

    def trace(frame: Any, _: str, __: Any) -> Any:
        lines = files.get(frame.f_code.co_filename)
        if lines is None:
            return None
        lines.add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    threading.settrace(trace)
    simulate(seed)
    sys.settrace(None)
    return {"reached": {module: sorted(lines) for module, lines in reached.items()}}


def _test(tests: list[str], _: float) -> Json:
    resource.setrlimit(resource.RLIMIT_CPU, (TESTS_S, TESTS_S))
    watch = threading.Timer(HANG_S, os._exit, (1,))
    watch.daemon = True
    watch.start()
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    import pytest

    failed = _Failed()
    code = pytest.main([*PYTEST, *(f"tests/{name}" for name in tests)], plugins=[failed])
    return {"found": int(code) != 0, "shown": failed.first or ("" if int(code) == 0 else f"exit {int(code)}")}


class _Failed:
    """Remembers which test failed first."""

    first = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.first:
            self.first = str(report.nodeid)


def _used_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    worker, answers = Worker(Path(sys.argv[1]).resolve()), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whoever prints disturbs no answer
    for line in sys.stdin:
        began_s = time.monotonic()
        answer = worker.played(json.loads(line))
        answers.write(json.dumps({**answer, "wall_s": round(time.monotonic() - began_s, 1)}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
