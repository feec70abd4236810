"""The real stack: `rigctl` in a process of its own beside the simulated rig; its journal read with plain sqlite3."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.forked import Forked
from tests.simulated import SimHandle, bus_options

T = TypeVar("T")
ROOT = Path(__file__).parent.parent.parent
Edit = Callable[[dict[str, Any]], object]

SPEED = 2400.0
WITHIN_S = 180.0
"""Wall seconds after which what a test waits for is taken not to come; generous, for a loaded machine."""
SURE = {"hyperparameters": "fixed", "lengthscales": 0.3, "signal_sd": 3, "noise_sd": 0.3, "mean": 8}
"""A model that need not be learned: decisions take milliseconds."""
VALVES_ONLY = (("b",), ("nh4",), ("k",))
WITH_CALCIUM = (("ca",), ("ca", "b"))


def wait_until(happened: Callable[[], T], what: str, within_s: float = WITHIN_S, *, every_s: float = 0.05) -> T:
    """The first answer of `happened` that is true; fails the test if there is none in time."""
    pause, end_s = threading.Event(), time.monotonic() + within_s
    while not (answer := happened()):
        assert time.monotonic() < end_s, f"not within {within_s:g} s: {what}"
        pause.wait(every_s)
    return answer


TIMEOUT_S = 2.5
"""Of every device, wall seconds: a machine that others use may hold up a process for a second and more."""


def greenhouse(
    path: Path,
    control_sets: Iterable[Sequence[str]] = VALVES_ONLY,
    *,
    prepare: str = "2 min",
    settle: str = "30 s",
    look: Mapping[str, str] | None = None,
    edit: Edit = lambda _: None,
) -> Path:
    """The example greenhouse with quick trials, a known model, a budget that lasts, and `TIMEOUT_S`."""
    rig = yaml.safe_load((ROOT / "config/greenhouse.yaml").read_text(encoding="utf-8"))
    rig |= {"budget": "5000 EUR", "model": dict(SURE), "control_sets": [list(names) for names in control_sets]}
    rig["trial"] |= {"settle": settle, "measure": {"for": "30 s", "every": "10 s", "min_count": 3}}
    rig["trial"]["prepare"][0]["wait"] = prepare
    rig["trial"] |= {"look": look and dict(look)}
    for device in rig["devices"].values():
        device["timeout"] = f"{TIMEOUT_S} s"
    rig["safety"]["safe_state"] = dict.fromkeys(rig["safety"]["safe_state"], "off")  # `off` is no word in YAML 1.1
    edit(rig)
    path.write_text(yaml.safe_dump(rig, sort_keys=False), encoding="utf-8")
    return path


@dataclass
class Process:
    """One `rigctl` process."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    state: Path

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def said(self) -> str:
        """Standard error so far."""
        return self.err.read_text(encoding="utf-8")

    @property
    def answer(self) -> Any:
        """Standard output, which is JSON."""
        return json.loads(self.out.read_text(encoding="utf-8"))

    @property
    def error(self) -> Any:
        """Why it was refused, in fields: `rigctl.console.verbs.error_fields`."""
        return self.answer["error"]

    def logged(self, **fields: object) -> list[dict[str, Any]]:
        """What is in the log so far and has these fields, e.g. its `level`."""
        lines = (line for line in self.said.splitlines() if line.startswith("{") and line.endswith("}"))
        records: Iterator[dict[str, Any]] = map(json.loads, lines)
        return [record for record in records if all(record.get(n) == value for n, value in fields.items())]

    def alarms(self, **fields: str) -> list[dict[str, Any]]:
        """The alarms logged so far that have this kind, source or severity."""
        return self.logged(event="alarm", **fields)

    def wait(self, within_s: float = WITHIN_S) -> int:
        """Its exit code."""
        return self.process.wait(within_s)

    def kill(self) -> int:
        """End it without a word, and wait until it is gone."""
        self.process.kill()
        return self.wait()

    def end(self) -> None:
        """End it, whatever it does; harmless when it has ended."""
        if self.alive:
            self.process.terminate()
            try:
                self.process.wait(WITHIN_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def until(self, happened: Callable[[], T], what: str) -> T:
        """As `wait_until`, but fails at once if the process ends first."""

        def looked() -> tuple[T] | None:
            alive = self.alive  # before the look: what happens last must still be seen
            answer = happened()
            assert answer or alive, f"ended with {self.process.returncode} before {what}: {self.said[-2000:]}"
            return (answer,) if answer else None

        (answer,) = wait_until(looked, what) or ()
        return answer

    def rows(self, sql: str, *parameters: object) -> list[sqlite3.Row]:
        """What the journal says, now."""
        return rows(self.state, sql, *parameters)

    def phases(self) -> list[str]:
        """What the campaign has been in, in order."""
        return [row["phase"] for row in self.rows("SELECT phase FROM phases ORDER BY id")]

    def count(self, state: str) -> int:
        """How many trials are in this state."""
        return len(self.rows("SELECT 1 FROM trials WHERE state = ?", state))


def rows(state: Path, sql: str, *parameters: object) -> list[sqlite3.Row]:
    """Rows of the journal in a state directory, which a daemon may be writing; none if it is not there yet."""
    file = state / "journal.sqlite"
    if not file.exists():
        return []
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=WITHIN_S)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return list(connection.execute(sql, parameters))
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # it is just being created
                return []
            raise


def mounted(place: Path, size: str = "2m") -> bool:
    """Whether a tiny file system could be put there: that takes root, and a system that lets it."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "rigctl-test", place]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


def fill(ballast: Path) -> None:
    """Write until nothing more fits."""
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    continue
            except OSError:
                continue


LOCK = "fcntl.flock(held := open(sys.argv[1]), fcntl.LOCK_EX)"
PORT = "held = serial.Serial(sys.argv[1], exclusive=True)"


@contextmanager
def stranger(holds: str, path: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of ours and holds something: `LOCK` or `PORT`."""
    code = f"import fcntl, serial, sys; {holds}; print('held', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        process.communicate()


@dataclass
class Stack:
    """A simulated rig, and the rigctl processes a test starts on it."""

    sim: SimHandle
    directory: Path
    processes: list[Process] = field(default_factory=list)

    def rigctl(
        self, *arguments: object, state: Path | None = None, from_nothing: bool = False, **environment: str
    ) -> Process:
        """Start `python -m rigctl ...` in the stack's directory; `from_nothing`: with all its imports."""
        number = len(self.processes)
        begin = subprocess.Popen if from_nothing else Forked
        out, err = self.directory / f"out-{number}.json", self.directory / f"err-{number}.jsonl"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = begin(
                [sys.executable, "-m", "rigctl", *map(str, arguments)],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, **environment},
            )
        self.processes.append(Process(process, out, err, state or self.directory))
        return self.processes[-1]

    def run(
        self,
        config: Path,
        state: Path,
        *arguments: object,
        buses: Mapping[str, str] | None = None,
        **how: Any,
    ) -> Process:
        """Start `rigctl run` on the simulated rig, else as `rigctl` does; `buses`: URLs instead of its own."""
        options = bus_options({**self.sim.buses, **(buses or {})})
        return self.rigctl("run", config, "--state", state, "--json", *options, *arguments, state=state, **how)

    def settling(self, config: Path, state: Path, *arguments: object, **how: Any) -> Process:
        """As `run`, once a trial settles."""
        run = self.run(config, state, *arguments, **how)
        run.until(lambda: run.count("RUNNING"), "a trial that settles")
        return run

    def end(self) -> None:
        """End whatever still runs."""
        for process in self.processes:
            process.end()


def next_trial(run: Process, state: str, *, after: int = 0) -> sqlite3.Row:
    """The next trial to end in this state (or the first one numbered above `after`)."""
    known = after or max((r["trial"] for r in run.rows("SELECT trial FROM trials WHERE state = ?", state)), default=0)
    found = run.until(
        lambda: run.rows("SELECT * FROM trials WHERE state = ? AND trial > ? ORDER BY trial", state, known),
        f"a {state} trial after {known}",
    )
    return found[0]


def at_s(run: Process, trial: int, event: str) -> float:
    """Rig time of a trial's event."""
    (row,) = run.rows("SELECT at_s FROM events WHERE trial = ? AND event = ?", trial, event)
    return float(row["at_s"])


def because(run: Process, trial: int) -> str:
    """Why a trial ended as it did."""
    return str(run.rows("SELECT detail FROM events WHERE trial = ? ORDER BY id DESC LIMIT 1", trial)[0]["detail"])


def cost(run: Process, trial: int) -> int:
    """What a trial was charged, micro-units."""
    (row,) = run.rows("SELECT coalesce(sum(amount_micros), 0) AS amount FROM ledger WHERE trial = ?", trial)
    return int(row["amount"])
