"""Starts simulated rigs for tests: a process of its own, its URLs, its control socket, its end."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rigctl.campaign.lock import bus_locks
from rigctl.errors import Locked
from tests.forked import Forked

START_S = STOP_S = ANSWER_S = 120.0
"""Wall seconds after which what is waited for is taken not to come; generous, for a loaded machine."""


_KEPT: list[int] = []
"""Ends of pseudo-terminals that no simulated rig of this process should be given."""


def keep_clear() -> None:
    """Let what is started next have no pseudo-terminal that a campaign beside it still holds the lock of.

    A test that unplugs a port gives its number back while its campaign goes on; the kernel hands it to the next one who
    asks, a rig of another test at that, whose campaign would be refused.
    """
    opened = [os.openpty() for _ in range(8)]
    for ends in opened:
        try:
            with bus_locks([f"serial://{os.ttyname(ends[1])}"]):
                for end in ends:
                    os.close(end)
        except Locked:
            _KEPT.extend(ends)


@dataclass
class SimHandle:
    """A running simulated rig."""

    process: subprocess.Popen[str]
    directory: Path
    ready: dict[str, Any]
    buses: Mapping[str, str] = field(init=False)
    """URL by bus name, as in the configuration's `buses`."""
    fault_s: float = math.nan
    """When the last fault was injected, monotonic."""
    safe_after_s: list[float] = field(default_factory=list)
    """How long after a fault everything was let go, each time a test has waited for that, wall seconds."""

    def __post_init__(self) -> None:
        self.buses = self.ready["buses"]

    @property
    def speed(self) -> float:
        """Simulated seconds per wall second."""
        return float(self.ready["speed"])

    @property
    def options(self) -> list[str]:
        """What makes `rigctl` use these buses instead of the configuration's."""
        return bus_options(self.buses)

    @property
    def plc(self) -> tuple[str, int]:
        """Host and port of the PLC."""
        host, port = self.buses["plc"].removeprefix("modbus_tcp://").split(":")
        return host, int(port)

    def path(self, bus: str) -> str:
        """The serial port of a bus."""
        return self.buses[bus].split("://", 1)[1].split("?")[0]

    def control(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the control socket; raises `AssertionError` if it refuses."""
        if "fault" in request:
            self.fault_begins()
        answer = self.ask(request)
        assert answer["ok"], f"{dict(request)}: {answer['error']}"
        return answer

    def fault_begins(self) -> None:
        """Note that something goes wrong now, for `wait_until_safe`; `control` does so by itself."""
        self.fault_s = time.monotonic()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the control socket, whatever it answers."""
        folder = os.open(self.directory, os.O_RDONLY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
                end.settimeout(ANSWER_S)
                # through the folder's descriptor: a socket's own path must be shorter than 108 bytes
                end.connect(f"/proc/self/fd/{folder}/control.sock")
                with end.makefile("rw", encoding="utf-8") as stream:
                    stream.write(json.dumps(dict(request)) + "\n")
                    stream.flush()
                    answer: dict[str, Any] = json.loads(stream.readline())
                    return answer
        finally:
            os.close(folder)

    def state(self) -> dict[str, Any]:
        """What the plant really is, every dose, what was metered."""
        return self.control({"query": "state"})

    def wait_for(self, happened: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The first state for which `happened` holds; fails the test if that takes too long."""
        end_s = time.monotonic() + ANSWER_S
        while not happened(state := self.state()):
            assert time.monotonic() < end_s, f"the rig never came to {what}: {state['plant']}"
            time.sleep(0.02)  # each answer takes the rig's time, in which it plays
        return state

    def wait_until_safe(self) -> dict[str, Any]:
        """As `wait_for`: nothing is on any more, and no pump runs; the time since the last fault is kept."""
        state = self.wait_for(at_rest, "its safe state")
        if not math.isnan(self.fault_s):
            self.safe_after_s.append(time.monotonic() - self.fault_s)
        return state

    def stop(self) -> int:
        """Stop it cleanly (again, without harm); returns its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(STOP_S)
                raise
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return self.process.returncode


def bus_options(buses: Mapping[str, str]) -> list[str]:
    """The options of `rigctl` that give buses their URLs."""
    return [part for name, url in buses.items() for part in ("--bus", f"{name}={url}")]


def at_rest(state: Mapping[str, Any]) -> bool:
    """Tell whether the rig says that every coil is off and every pump at rest."""
    plant = state["plant"]
    on = plant["setpoints"] or plant["softener"] or plant["alkaliser"] or plant["refill_commanded"]
    return not on and all(dose["ended_s"] is not None for dose in state["doses"])


def start_sim(
    scenario: str,
    tmp_path: Path,
    *,
    speed: float = 2400.0,
    seed: int = 0,
    data: Path | None = None,
    port: int = 0,
    options: Sequence[str] = (),
) -> SimHandle:
    """Start a simulated rig under `tmp_path/sim` and wait until everything listens; the caller stops it."""
    keep_clear()
    directory = tmp_path / "sim"
    command = [sys.executable, "-m", "sim_rig", scenario, "--dir", str(directory), "--port", str(port)]
    command += ["--speed", str(speed), "--seed", str(seed), "--with-parent", str(os.getpid()), *options]
    if data is not None:
        command += ["--data", str(data)]
    process = Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()  # one line once everything listens, nothing if it could not start
    if not line:
        _, error = process.communicate(timeout=START_S)
        raise AssertionError(f"{' '.join(command)}: exit {process.returncode}: {error}")
    return SimHandle(process, directory, json.loads(line))
