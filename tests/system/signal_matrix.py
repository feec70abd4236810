"""A signal in each phase of a campaign, on the real daemon and the simulated rig: is all safe, and how soon."""

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigctl.campaign import safe_file
from tests.bench.players import install_policy
from tests.simulated import SimHandle, at_rest
from tests.system.stack import WITH_CALCIUM, Process, Stack, greenhouse, wait_until

VALVES = (("b", "nh4", "k"),)
SLOW = """
    if trial > 1:
        time.sleep(60.0)
    return Proposal(trial, self.name, "slow", 0, (0.5, 0.5, 0.5), "because"), {}
"""
"""A policy that takes its time from the second decision on."""


@dataclass(frozen=True)
class Bench:
    """Where one cell is tried: a simulated rig, and a stack of its own."""

    sim: SimHandle
    stack: Stack

    @property
    def state(self) -> Path:
        return self.stack.directory / "state"

    def config(self, control_sets=VALVES, *, settle_s: float = 600.0, camera_s: float = 0.4, **changes: Any) -> Path:
        """A greenhouse at the rig's speed; wall seconds."""

        def edit(rig) -> None:
            rig |= {"clock": {"speedup": self.sim.speed}, **changes}
            for device in rig["devices"].values():
                device["timeout"] = "2 s"  # what an instrument really takes must fit
            rig["devices"]["camera"]["timeout"] = f"{max(camera_s, 2.0):g} s"
            rig["dosing"]["ca_doser"]["effect"] = "0.0001 mM/mL"  # a weak stock: a dose takes long
            rig["safety"]["limits"]["ca_doser"] = {"per_dose": "200 L", "per_day": "2000 L"}

        prepare, settle = f"{0.2 * self.sim.speed:g} s", f"{settle_s * self.sim.speed:g} s"
        path = self.stack.directory / f"rig-{len(self.stack.processes)}.yaml"
        return greenhouse(path, control_sets, prepare=prepare, settle=settle, edit=edit)

    def run(self, config: Path, *arguments: object, **how: Any) -> Process:
        return self.stack.run(config, self.state, *arguments, **how)

    def settling(self, config: Path) -> Process:
        """A trial that settles, with its valves on."""
        run = self.stack.settling(config, self.state)
        assert not is_safe(self.sim)
        return run

    def crashed(self) -> Path:
        """Valves on and nobody there; its configuration."""
        config = self.config(camera_s=8.0)
        self.settling(config).kill()
        return config

    def slowly(self, bus: str, seconds: float) -> None:
        """A bus on which every answer comes late."""
        self.sim.control({"fault": "delay", "bus": bus, "count": -1, "seconds": seconds})


def is_safe(sim: SimHandle) -> bool:
    """What the rig says of itself: every coil off, every pump at rest."""
    return at_rest(sim.state())


def catches(run: Process) -> bool:
    """Whether the process has a handler for SIGTERM, says the kernel."""
    try:
        status = Path(f"/proc/{run.process.pid}/status").read_text(encoding="ascii")
    except OSError:
        return False
    (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


def importing(run: Process) -> bool:
    """Whether the process has come to the first of its imports that take time."""
    try:
        return "pydantic_core" in Path(f"/proc/{run.process.pid}/maps").read_text(encoding="utf-8")
    except OSError:
        return False


# phases: each leaves a process in it -------------------------------------------------------------------------------


def before_open(bench: Bench) -> Process:
    """Right after the start that follows a crash, while it still imports."""
    run = bench.run(bench.crashed(), from_nothing=True)
    run.until(lambda: importing(run), "its imports")
    return run


def opening(bench: Bench) -> Process:
    """While an instrument is slow to say who it is."""
    config = bench.crashed()
    bench.slowly("cam", 5.0)
    run = bench.run(config)
    run.until(lambda: len(run.rows("SELECT 1 FROM starts")) == 2, "a second start")
    return run


def recovery(bench: Bench) -> Process:
    """While what the crash left in flight is being settled."""
    config = bench.crashed()
    bench.slowly("mains", 0.2)
    run = bench.run(config)
    run.until(lambda: driven_by(bench) == run.process.pid, "its word of what it drives")
    return run


def driven_by(bench: Bench) -> int | None:
    left = safe_file.read(bench.state)
    return left.writer.pid if left is not None and left.driven else None


def deciding(bench: Bench) -> Process:
    """While the policy decides, with the last trial's setting still imposed."""
    site = bench.stack.directory / "site"
    site.mkdir()
    install_policy(site, "slow", SLOW, "import time")
    run = bench.run(bench.config(settle_s=0.2, policy={"name": "slow"}), PYTHONPATH=str(site))
    run.until(lambda: run.count("RECORDED"), "a second decision")
    return run


def dosing(bench: Bench) -> Process:
    """While a pump runs."""
    run = bench.run(bench.config(WITH_CALCIUM[:1]))
    run.until(lambda: any(d["ended_s"] is None for d in bench.sim.state()["doses"]), "a dose")
    return run


def settling(bench: Bench) -> Process:
    """While the setting takes effect."""
    return bench.settling(bench.config())


def closing(bench: Bench) -> Process:
    """On the way to the safe state at the end, at a PLC that takes its time."""
    run = bench.stack.settling(bench.config(settle_s=1.0), bench.state, "--max-trials", 1)
    bench.slowly("plc", 0.03)
    run.until(lambda: run.count("RECORDED"), "its record")
    return run


PHASES = {
    "before open": before_open,
    "opening": opening,
    "recovery": recovery,
    "deciding": deciding,
    "dosing": dosing,
    "settling": settling,
    "closing": closing,
}


DRIVEN = ("deciding", "dosing", "settling")
"""Phases in which something surely is on."""


# one cell ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What came of one signal in one phase; wall seconds from the signal, or from the start that follows a kill."""

    safe_s: float
    ended_s: float
    exit_code: int


def tried(bench: Bench, phase: str, name: str) -> Cell:
    """Send it, and wait until the rig says that it is safe."""
    bench.sim.control({"clear": True})
    run = PHASES[phase](bench)
    assert phase not in DRIVEN or not is_safe(bench.sim), f"{phase}: nothing is on that could go off"
    began_s = time.monotonic()
    run.process.send_signal(signal.Signals[name])
    if name == "SIGKILL":
        run.wait()
        bench.sim.control({"clear": True})
        config = bench.config()
        began_s = time.monotonic()
        run = bench.run(config)
    wait_until(lambda: is_safe(bench.sim), f"{phase}, {name}: all safe")
    safe_s = time.monotonic() - began_s
    bench.sim.safe_after_s.append(safe_s)
    if name == "SIGKILL":
        run.until(lambda: catches(run), "a handler")
        run.process.terminate()
    code = run.wait()
    ended_s = time.monotonic() - began_s
    assert is_safe(bench.sim), f"{phase}, {name}: safe, and then no more"
    return Cell(safe_s, ended_s, code)
