"""`rigctl demo`: a whole campaign against the simulated rig, a child process, over the real protocols."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rigctl
from rigctl.config.load import LoadedConfig, Overrides, load
from rigctl.console import run
from rigctl.console.board import Labels
from rigctl.console.output import number
from rigctl.core.recommend import Option
from rigctl.errors import RigctlError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from rigctl.signals import Signals


MODULE = "sim_rig"
READY_S = 30.0
"""Wall seconds until every port must listen; generous, for a loaded machine."""
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


def check_scenario(name: str, data: Path | None) -> None:
    """Whether there is such a simulated rig and it has what it reads; starts nothing.

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


@contextmanager
def simulator(scenario: Scenario, directory: Path) -> Iterator[Mapping[str, str]]:
    """Bus name -> URL of a simulated rig that runs while the block does.

    It has a session of its own, so that Ctrl-C reaches only us: the rig must still be there to be made safe.

    Raises:
        RigctlError: it does not come up; carries what it said.
    """
    ready = directory / "ready.json"
    with (directory / "sim.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603  # our own module, in our own interpreter
            [*_command(scenario), "--ready", str(ready), "--dir", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield _wait(process, ready, directory / "sim.log")
        finally:
            _stop(process)


def truth(scenario: Scenario, option: Option) -> Mapping[str, Any]:
    """What this setting is truly worth, says the simulator.

    Raises:
        RigctlError: it does not say.
    """
    setpoints = ",".join(f"{name}={value!r}" for name, value in option.setpoints.items())
    data = [] if scenario.data is None else ["--data", str(scenario.data)]
    command = [sys.executable, "-m", MODULE, "truth", scenario.name, "--control-set", "+".join(option.control_set)]
    done = subprocess.run(  # noqa: S603  # our own module, in our own interpreter
        [*command, "--setpoints", setpoints, "--json", *data],
        capture_output=True,
        text=True,
        timeout=TRUTH_S,
        check=False,
    )
    if done.returncode != 0:
        raise RigctlError(f"the simulator does not tell the truth: {done.stderr.strip()}")
    told: Mapping[str, Any] = json.loads(done.stdout)
    return told


def _command(scenario: Scenario) -> list[str]:
    command = [sys.executable, "-m", MODULE, scenario.name, "--speed", repr(scenario.speedup)]
    data = [] if scenario.data is None else ["--data", str(scenario.data)]
    return [*command, "--seed", str(scenario.seed), "--port", "0", "--with-parent", str(os.getpid()), *data]


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


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line asks for."""

    scenario: str
    seed: int | None = None
    """Of the campaign's decisions and the simulated rig; None: the configuration's."""
    speedup: float | None = None
    """None: the configuration's."""
    data: Path | None = None
    keep: Path | None = None
    """Where state stays; None: nowhere."""
    budget: str | None = None
    max_trials: int | None = None


@dataclass(frozen=True, slots=True)
class Demo:
    """What came of it."""

    options: DemoOptions
    loaded: LoadedConfig
    outcome: run.Outcome
    truth: Mapping[str, Any] | None
    """The recommendation's, from the simulator; None without one."""
    untold: str
    """Why the simulator does not tell; empty if it does."""
    campaign_s: float
    """Wall seconds."""


def example(name: str) -> Path:
    """An example configuration: packaged, or beside the sources.

    Raises:
        UsageError: there is none of that name.
    """
    package = Path(rigctl.__file__).parent
    for folder in (package / "examples", package.parent / "config"):
        path = folder / f"{name}.yaml"
        if path.exists():
            return path
    raise UsageError(f"--scenario {name}: no such example configuration")


def demo(options: DemoOptions, console: Console, signals: Signals | None = None) -> Demo:
    """Start the simulated rig, run the campaign on it, ask for the truth, stop the rig whatever happens.

    Raises:
        UsageError: there is no such scenario, or it needs what was not given.
        RigctlError: as a campaign, or the simulated rig does not come up.
    """
    check_scenario(options.scenario, options.data)
    config = example(options.scenario)
    first = load(config, Overrides(seed=options.seed, speedup=options.speedup))
    scenario = Scenario(options.scenario, first.rig.speedup, first.seed, options.data)
    with _place(options.keep) as directory:
        began = time.monotonic()
        with simulator(scenario, directory) as buses:
            overrides = Overrides(buses, options.budget, first.seed, options.max_trials, options.speedup)
            loaded = load(config, overrides)
            outcome = run.run_campaign(loaded, directory / "state", console, signals)
        campaign_s = time.monotonic() - began
    told, untold = None, "there is no recommendation"
    if outcome.recommendation is not None:
        try:
            told, untold = truth(scenario, outcome.recommendation.choice), ""
        except RigctlError as error:  # the campaign's own result must not be lost for it
            untold = str(error)
    return Demo(options, loaded, outcome, told, untold, campaign_s)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    """A directory for state, ports and the simulator's log."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="rigctl-demo-") as temporary:
        yield Path(temporary)


def to_json(done: Demo) -> Mapping[str, Any]:
    """For programs."""
    return {
        "scenario": done.options.scenario,
        "seed": done.loaded.seed,
        "campaign_s": done.campaign_s,
        "state": None if done.options.keep is None else str(done.options.keep / "state"),
        **run.to_json(done.outcome),
        "simulators_truth": done.truth,
    }


def show(done: Demo, console: Console) -> None:
    """For people."""
    run.show(done.outcome, done.loaded, console, f"simulator's truth: {_truth(done)}")
    console.print()
    console.print(f"simulated rig: {done.options.scenario}, seed {done.loaded.seed}, {done.campaign_s:.1f} s")
    if done.options.keep is not None:
        console.print(f"kept in {done.options.keep / 'state'}")


def _truth(done: Demo) -> str:
    """What the recommended setting is worth, beside the best there is."""
    told, labels = done.truth, Labels.of(done.loaded)
    if told is None:
        return f"unknown, {done.untold}"
    worth = f"{labels.outcome} {number(told['outcome'])} {labels.outcome_unit}".rstrip()
    cost = f"{number(told['cost'], 3)} {labels.currency} per trial"
    best = told["best"]
    share = f"{told['share_of_best']:.1%} of the best there is"
    return f"{worth} at {cost}; {share} ({'+'.join(best['control_set'])}: {number(best['outcome'])})"
