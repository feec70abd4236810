"""The campaign that a drill strikes: `rigctl run` on the owner's rig, in a process and a directory of its own."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from rigctl import system
from rigctl.campaign import control
from rigctl.campaign.deciding import PR_SET_PDEATHSIG
from rigctl.campaign.safe_file import FILE_NAME
from rigctl.campaign.status import Status, answered
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig, load
from rigctl.config.profiles import keep_own
from rigctl.console.safe import make_left_safe
from rigctl.errors import Locked, RigctlError
from rigctl.files import whole
from rigctl.people import this_person
from rigctl.rig.values import SafeReport

CONFIG: Final = "drill.yaml"
SETTLE, MEASURE, PREPARE = "15 s", {"for": "4 s", "every": "2 s"}, "2 s"
"""A trial of a drill: long enough to strike in its middle, short enough to be waited for."""
LEFT_OUT: Final = frozenset({"max_trials", "model", "notify", "metrics", "reference", "stop"})
DRIVEN_S: Final = 120.0
"""Wall seconds from the start of the process to a driven rig; what is prepared and dosed comes on top."""
POLL_S: Final = 0.05
ANSWER_S: Final = 60.0
REMIND_S: Final = 10.0
WENT_SAFE: Final = "went safe"
"""The event of the log that `Rig.safe` writes."""


def control_set(loaded: LoadedConfig) -> tuple[str, ...]:
    """Return the control set that moves the fewest pumps, of those the largest: doses take time, and use up caps."""
    wiring = {v.name: v for v in loaded.rig.variables}
    sets = [c.names for c in loaded.problem.space.control_sets if c.names]

    def rank(names: tuple[str, ...]) -> tuple[int, int]:
        return sum(len(loaded.rig.pumps_of(wiring[name])) for name in names), -len(names)

    return min(sets, key=rank, default=())


def written(loaded: LoadedConfig, directory: Path) -> LoadedConfig:
    """Write the drill's configuration: the owner's, with short trials of one control set, and nobody told of alarms.

    Raises:
        ConfigError: it does not hold with short trials.
    """
    data = {name: value for name, value in loaded.document.data.items() if name not in LEFT_OUT}
    trial = {name: value for name, value in data["trial"].items() if name != "look"}
    measure = {**trial["measure"], **MEASURE}
    measure.pop("min_count", None)
    steps = [{**step, "wait": PREPARE} for step in trial.get("prepare") or ()]
    data["trial"] = {**trial, "settle": SETTLE, "measure": measure, "prepare": steps}
    data["control_sets"] = [list(control_set(loaded))]
    data |= {"budget": f"1000000 {loaded.currency}", "policy": {"name": "random"}}
    keep_own(loaded.document, loaded.path.parent, directory)
    with whole(directory / CONFIG) as new:
        new.write_text(json.dumps(data, indent=1), encoding="utf-8")  # JSON is YAML
    return load(directory / CONFIG, to_run=True)


Records = list[tuple[float, Mapping[str, Any]]]


def _read(stream: TextIO, records: Records) -> None:
    with stream:
        for line in stream:
            with suppress(ValueError):  # the board's words, for people
                records.append((time.monotonic(), dict(json.loads(line))))


@dataclass(slots=True)
class Daemon:
    """One `rigctl run`, watched from outside; mutable, used in the main thread only, save for its records."""

    process: subprocess.Popen[str]
    state: Path
    log: threading.Thread
    records: Records
    """What it has logged so far, with the monotonic time at which it was read."""

    @classmethod
    def started(cls, directory: Path, state: str = "state", *, anew: bool = True) -> Daemon:
        """Start it; `anew`: with an empty journal, once what another one may have left driven is safe.

        It is told to go safe as soon as this process ends, however it ends.
        """
        place = directory / state
        make_left_safe(None, place, {})
        if anew:
            shutil.rmtree(place, ignore_errors=True)
        libc = ctypes.CDLL(None)
        command = ["run", str(directory / CONFIG), "--state", str(place), "--json"]
        records: Records = []
        made = _rigctl(command, lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))
        log = threading.Thread(target=_read, args=(made.stderr, records), daemon=True)
        log.start()
        return cls(made, place, log, records)

    # what is seen ---------------------------------------------------------------------------------------------------

    def since(self, since_s: float, event: str) -> Records:
        """Return what was logged of this event since then."""
        return [(at, record) for at, record in list(self.records) if at >= since_s and record.get("event") == event]

    def went_safe(self, since_s: float) -> Records:
        """Return each time that it has driven everything safe since then: what that took, reached and failed."""
        return self.since(since_s, WENT_SAFE)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def until(self, happened: Callable[[Status], bool], within_s: float) -> bool:
        """Wait until this is so of its status, or it has ended; tell whether that came in time."""
        end_s = time.monotonic() + within_s
        while self.alive:
            status = answered(self.state, ANSWER_S)
            if status is not None and happened(status):
                return True
            if time.monotonic() > end_s:
                return False
            time.sleep(POLL_S)
        self.log.join()
        return True

    def drive(self, within_s: float) -> None:
        """Wait until a trial drives the rig.

        Raises:
            Locked: another campaign holds the rig.
            RigctlError: it ended before, or did not come to it in time.
        """
        came = self.until(lambda s: s.trial is not None and s.trial.state is State.RUNNING, within_s)
        if self.alive and not came:
            raise RigctlError(f"no trial drives the rig after {within_s:g} s")
        if not self.alive and self.process.stdout is not None:
            code, what = self.process.returncode, self.process.stdout.read()
            with suppress(ValueError, KeyError):
                what = json.loads(what)["error"]["what"]
            raise (Locked if code == Locked.exit_code else RigctlError)(f"the drill's campaign: {what}")

    # what is done to it ---------------------------------------------------------------------------------------------

    def make_safe(self) -> tuple[SafeReport, float]:
        """Do as `rigctl safe`: have it make everything safe, and end; return what came of it, and what that took."""
        began_s = time.monotonic()
        answer = control.ask(self.state, "safe", ANSWER_S, who=this_person())
        self.until(lambda _: False, ANSWER_S)
        took_s = sum(found["took_s"] for _, found in self.went_safe(began_s)[:1])
        return SafeReport(tuple(answer["reached"]), answer["failed"]), took_s

    def fill_disk(self, *, full: bool) -> None:
        """Let it write no byte more to any file, or again what it likes: to it that is a disk without room."""
        resource = system.module("resource")
        hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))

    def kill(self) -> None:
        """End it as a crash would: it makes nothing safe."""
        self.process.kill()
        self.process.wait()

    def end(self, tell: Callable[[str], None] = lambda _: None) -> bool:
        """End it, and wait until everything is confirmed safe; tell whether it is.

        `tell` is told what is not, again and again. Ctrl-C ends even that.
        """
        self.process.terminate()
        while self.alive:
            try:
                self.process.wait(REMIND_S)
            except subprocess.TimeoutExpired:
                tell(", ".join(name for _, found in self.went_safe(0.0)[-1:] for name in found["failed"]))
            except KeyboardInterrupt:
                self.process.terminate()  # a second signal: it stays no longer
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        safe = make_left_safe(None, self.state, {}).report.ok
        if safe:  # of one that was killed it would still say that everything is driven
            (self.state / FILE_NAME).unlink(missing_ok=True)
        return safe


def after_a_kill(state: Path) -> tuple[SafeReport, float]:
    """Do as the service manager does after a crash; return what came of it, and what going safe took."""
    process = _rigctl(["safe", "--state", str(state), "--if-left-driven", "--json"])
    answer, log = process.communicate()
    told = json.loads(answer or "{}")
    took_s = [json.loads(line)["took_s"] for line in log.splitlines() if line.startswith("{") and WENT_SAFE in line]
    return SafeReport(tuple(told.get("reached", ())), told.get("failed", {"rigctl safe": log[-200:]})), sum(took_s)


def _rigctl(arguments: Sequence[str], before: Callable[[], object] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603  # ourselves
        [sys.executable, "-m", "rigctl", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the drill, which then ends it
        preexec_fn=before,  # noqa: PLW1509  # one call into the kernel
    )
