"""The simulated rig as a child process: started, waited for, asked for the truth, and always stopped."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rigctl.core.recommend import Option
from rigctl.core.rule import Rule
from rigctl.errors import RigctlError, UsageError

MODULE = "sim_rig"
CONTROL_SOCKET = "control.sock"
READY_S = 30.0
"""Wall seconds until every port must listen; generous, for a loaded machine."""
ANSWER_S = 30.0
"""Wall seconds within which it has let its time pass."""
STOP_S = 5.0
TRUTH_S = 120.0
NAMES: Final = ("greenhouse", "lathe", "wind-tunnel")
ARRAYS: Final = {"greenhouse": "plant_growth.npz", "wind-tunnel": "airfoil.npz"}
"""What a scenario reads from its data directory."""
NEED_ARRAYS: Final = ("wind-tunnel",)
"""Scenarios without a response of their own."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Which simulated rig."""

    name: str
    speedup: float
    """Rig seconds per wall second, shared with the campaign's clock."""
    seed: int
    data: Path | None = None
    """Directory with the arrays some scenarios read."""
    stepped: bool = False
    """Whether its time moves only when a `Stepper` says so; else it runs by itself."""


def check_scenario(name: str, data: Path | None) -> None:
    """Check that there is such a simulated rig and that it has what it reads; start nothing.

    Raises:
        UsageError: there is not, or it has not.
    """
    if name not in NAMES:
        raise UsageError(f'--scenario: got "{name}", must be one of {", ".join(NAMES)}')
    file = ARRAYS.get(name)
    if data is None and name in NEED_ARRAYS:
        raise UsageError(f"--scenario {name}: needs --data DIR, the directory that {file} is in")
    if data is not None and file is not None and not (data / file).is_file():
        raise UsageError(f"--data {data}: {file} is not there; --scenario {name} reads it")


@dataclass(frozen=True, slots=True)
class Stepper:
    """Tells a simulated rig how far its time goes, over the control socket in its directory."""

    directory: Path

    async def __call__(self, time_s: float) -> None:
        """Let its time pass up to this one, rig seconds.

        Raises:
            RigctlError: it does not answer, or refuses.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._ask({"go_to": time_s})
        except (OSError, TimeoutError, ValueError) as error:
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            raise RigctlError(f"the simulated rig cannot be told of the time: {what}") from error
        if not answer.get("ok"):
            raise RigctlError(f"the simulated rig refuses to go on: {answer.get('error')}")

    async def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        folder = os.open(self.directory, os.O_RDONLY)
        try:  # through the folder's descriptor: a socket's own path must be shorter than 108 bytes
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{CONTROL_SOCKET}")
        finally:
            os.close(folder)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            answer: Mapping[str, Any] = json.loads(await reader.readline() or b"{}")
            return answer
        finally:
            writer.close()


@contextmanager
def simulator(scenario: Scenario, directory: Path) -> Iterator[Mapping[str, str]]:
    """Give bus name -> URL of a simulated rig that runs while the block does.

    It has a session of its own, so that Ctrl-C reaches only us: the rig must still be there to be made safe.

    Raises:
        RigctlError: it does not come up; carries what it said.
    """
    ready = directory / "ready.json"
    options = [scenario.name, "--speed", repr(scenario.speedup), "--seed", str(scenario.seed), "--port", "0"]
    options += ["--with-parent", str(os.getpid()), *(["--stepped"] if scenario.stepped else [])]
    with (directory / "sim.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603  # our own module, in our own interpreter
            _command(scenario, *options, "--ready", str(ready), "--dir", str(directory)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield _wait(process, ready, directory / "sim.log")
        finally:
            _stop(process)


def truth(scenario: Scenario, option: Option, *, blind: bool = False) -> Mapping[str, Any]:
    """Ask the simulator what this setting is truly worth; `blind`: by trials that do not look first.

    Raises:
        RigctlError: it does not say.
    """
    setpoints = ",".join(f"{name}={value!r}" for name, value in option.setpoints.items())
    options = ["--control-set", "+".join(option.control_set), "--setpoints", setpoints, "--json"]
    return _told(scenario, [*options, *(["--blind"] if blind else [])])


def truth_of_rule(scenario: Scenario, rule: Rule) -> Mapping[str, Any]:
    """Ask the simulator what following this rule is truly worth, and on what share of the days each line holds.

    Raises:
        RigctlError: it does not say.
    """
    lines = [{"when": [asdict(c) for c in o.when], "set": [asdict(s) for s in o.settings]} for o in rule.lines]
    return _told(scenario, ["--rule", json.dumps(lines)])


def _told(scenario: Scenario, options: Sequence[str]) -> Mapping[str, Any]:
    done = subprocess.run(  # noqa: S603  # our own module, in our own interpreter
        _command(scenario, "truth", scenario.name, *options),
        capture_output=True,
        text=True,
        timeout=TRUTH_S,
        check=False,
    )
    if done.returncode != 0:
        raise RigctlError(f"the simulator does not tell the truth: {done.stderr.strip()}")
    told: Mapping[str, Any] = json.loads(done.stdout)
    return told


def _command(scenario: Scenario, *options: str) -> list[str]:
    data = [] if scenario.data is None else ["--data", str(scenario.data)]
    return [sys.executable, "-m", MODULE, *options, *data]


def _wait(process: subprocess.Popen[bytes], ready: Path, log: Path) -> Mapping[str, str]:
    deadline = time.monotonic() + READY_S
    while not ready.exists():
        if process.poll() is not None:
            raise RigctlError(f"the simulated rig ended before it was ready: {_tail(log)}")
        if time.monotonic() > deadline:
            raise RigctlError(f"the simulated rig is not ready after {READY_S:g} s: {_tail(log)}")
        time.sleep(0.02)
    buses: Mapping[str, str] = json.loads(ready.read_text(encoding="utf-8"))["buses"]
    return buses


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " | ".join(lines[-5:]) or "it said nothing"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
