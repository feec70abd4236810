"""`rigctl demo`: a whole campaign against the simulated rig, over the real protocols.

Rig time is stepped: it stands still while the campaign computes, so that one seed gives one result on any computer.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rigctl
from rigctl.campaign.clock import SteppedClock
from rigctl.config.load import LoadedConfig, Overrides, load
from rigctl.console import run
from rigctl.console.board import Labels
from rigctl.console.output import number
from rigctl.console.serving import linger, page_beside
from rigctl.console.simulator import Scenario, Stepper, check_scenario, simulator, truth
from rigctl.errors import RigctlError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from rigctl.signals import Signals


@dataclass(frozen=True, slots=True)
class Demo:
    """Holds what came of it."""

    scenario: str
    keep: Path | None
    """Where state stays; None: nowhere."""
    loaded: LoadedConfig
    outcome: run.Ended
    truth: Mapping[str, Any] | None
    """The recommendation's, from the simulator; None without one."""
    untold: str
    """Why the simulator does not tell; empty if it does."""
    campaign_s: float
    """Wall seconds."""


def example(name: str) -> Path:
    """Return an example configuration: packaged, or beside the sources.

    Raises:
        UsageError: there is none of that name.
    """
    package = Path(rigctl.__file__).parent
    for folder in (package / "examples", package.parent / "config"):
        path = folder / f"{name}.yaml"
        if path.exists():
            return path
    raise UsageError(f"--scenario {name}: no such example configuration")


def demo(
    name: str,
    changes: Overrides,
    console: Console,
    signals: Signals | None,
    *,
    data: Path | None,
    keep: Path | None,
    serve: bool = False,
) -> Demo:
    """Start the simulated rig, run the campaign on it, ask for the truth, stop the rig whatever happens.

    One seed is that of the campaign's decisions and of the simulated rig.

    Raises:
        UsageError: there is no such scenario, or it needs what was not given.
        RigctlError: as a campaign, or the simulated rig does not come up.
    """
    check_scenario(name, data)
    config = example(name)
    first = load(config, changes)
    scenario = Scenario(name, first.rig.speedup, first.seed, data, stepped=True)
    with _place(keep) as directory:
        began = time.monotonic()
        with simulator(scenario, directory) as buses:
            loaded = load(config, replace(changes, buses=buses))
            clock = SteppedClock(loaded.rig.speedup, Stepper(directory))
            with page_beside(serve, directory / "state", console) as page_is_there:
                outcome = run.run_campaign(loaded, directory / "state", console, signals, clock)
                campaign_s = time.monotonic() - began
                linger(page_is_there, signals, console)
    told, untold = None, "there is no recommendation"
    if outcome.recommendation is not None:
        try:
            told, untold = truth(scenario, outcome.recommendation.choice), ""
        except RigctlError as error:  # the campaign's own result must not be lost for it
            untold = str(error)
    return Demo(name, keep, loaded, outcome, told, untold, campaign_s)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="rigctl-demo-") as temporary:
        yield Path(temporary)


def to_json(done: Demo) -> Mapping[str, Any]:
    return {
        "scenario": done.scenario,
        "seed": done.loaded.seed,
        "campaign_s": done.campaign_s,
        "state": None if done.keep is None else str(done.keep / "state"),
        **run.to_json(done.outcome),
        "simulators_truth": done.truth,
    }


def show(done: Demo, console: Console) -> None:
    run.show(done.outcome, done.loaded, console, f"simulator's truth: {_truth(done)}")
    console.print()
    console.print(f"simulated rig: {done.scenario}, seed {done.loaded.seed}, {done.campaign_s:.1f} s")
    if done.keep is not None:
        console.print(f"kept in {done.keep / 'state'}")


def _truth(done: Demo) -> str:
    told, labels = done.truth, Labels.of(done.loaded)
    if told is None:
        return f"unknown, {done.untold}"
    worth = f"{labels.outcome} {number(told['outcome'])} {labels.outcomes[labels.outcome]}".rstrip()
    cost = f"{number(told['cost'], 3)} {labels.currency} per trial"
    best = told["best"]
    share = f"{told['share_of_best']:.1%} of the best there is"
    return f"{worth} at {cost}; {share} ({'+'.join(best['control_set'])}: {number(best['outcome'])})"
