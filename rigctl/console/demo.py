"""`rigctl demo`: a whole campaign against the simulated rig, over the real protocols.

Rig time is stepped: it stands still while the campaign computes, so that one seed gives one result on any computer.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import rigctl
from rigctl.campaign.clock import SteppedClock
from rigctl.campaign.journal import open_reader
from rigctl.campaign.lock import make_directory
from rigctl.config.load import LoadedConfig, Overrides, load, load_text
from rigctl.console import run
from rigctl.console.board import Labels
from rigctl.console.output import number
from rigctl.console.serving import linger, page_beside
from rigctl.console.simulator import Scenario, Stepper, check_scenario, simulator, truth, truth_of_rule
from rigctl.core.money import to_units
from rigctl.errors import RigctlError, UsageError, counted

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
    average: float | None = None
    """Of all outcomes; None: there was none."""
    rule_truth: Mapping[str, Any] | None = None
    """The rule's, from the simulator; None where there is none that follows a reading."""
    blind: Demo | None = None
    """The same without looking, to be compared with."""

    @property
    def exit_code(self) -> int:
        """Return that of the campaign, or of the second one if only that did not go well."""
        return self.outcome.exit_code or (0 if self.blind is None else self.blind.outcome.exit_code)


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
    blind: bool = False,
    compare: bool = False,
) -> Demo:
    """Start the simulated rig, run the campaign on it, ask for the truth, stop the rig whatever happens.

    One seed is that of the campaign's decisions and of the simulated rig. `blind`: nobody looks before a trial;
    `compare`: the same campaign is run again like that, on a rig of the same seed.

    Raises:
        UsageError: there is no such scenario, it needs what was not given, or nobody looks in it anyway.
        RigctlError: as a campaign, or the simulated rig does not come up.
    """
    check_scenario(name, data)
    first = load(example(name), changes)
    if (blind or compare) and first.rig.timing.look is None:
        raise UsageError(f"--{'compare' if compare else 'blind'}: in --scenario {name} nobody looks before a trial")
    scenario = Scenario(name, first.rig.speedup, first.seed, data, stepped=True)
    with _place(keep) as directory:
        alone = blind and not compare
        done = replace(_played(scenario, changes, directory, console, signals, serve=serve, blind=alone), keep=keep)
        if not compare or done.outcome.result.ending == "abandoned":
            return done
        beside = directory / "blind"
        beside.mkdir(exist_ok=True)
        console.print("The same campaign once more, without looking first.")
        return replace(done, blind=_played(scenario, changes, beside, console, signals, serve=False, blind=True))


def _played(
    scenario: Scenario,
    changes: Overrides,
    directory: Path,
    console: Console,
    signals: Signals | None,
    *,
    serve: bool,
    blind: bool,
) -> Demo:
    began = time.monotonic()
    with simulator(scenario, directory) as buses:
        loaded = _configured(scenario.name, replace(changes, buses=buses), blind=blind)
        clock = SteppedClock(loaded.rig.speedup, Stepper(directory))
        with page_beside(serve, directory / "state", console) as page_is_there:
            outcome = run.run_campaign(loaded, directory / "state", console, signals, clock)
            campaign_s = time.monotonic() - began
            linger(page_is_there, signals, console)
    with open_reader(directory / "state") as reader:
        outcomes = [row.outcome for row in reader.trials() if row.outcome is not None]
    told, followed, untold, found = None, None, "there is no recommendation", outcome.recommendation
    if found is not None:
        try:
            told, untold = truth(scenario, found.choice, blind=blind), ""
            if found.rule is not None and found.rule.follows:
                followed = truth_of_rule(scenario, found.rule)
        except RigctlError as error:  # the campaign's own result must not be lost for it
            untold = str(error)
    average = fmean(outcomes) if outcomes else None
    return Demo(scenario.name, None, loaded, outcome, told, untold, campaign_s, average, followed)


def _configured(name: str, changes: Overrides, *, blind: bool) -> LoadedConfig:
    """Return the example's configuration; `blind`: without the line that has trials look first."""
    config = example(name)
    if not blind:
        return load(config, changes)
    lines = config.read_text(encoding="utf-8").splitlines(keepends=True)
    return load_text("".join(line for line in lines if not line.startswith("  look:")), config, changes)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        make_directory(keep)
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
        "average_outcome": done.average,
        "simulators_truth": done.truth,
        "simulators_truth_of_rule": done.rule_truth,
        **({} if done.blind is None else {"blind": to_json(done.blind)}),
    }


def show(done: Demo, console: Console) -> None:
    run.show(done.outcome, done.loaded, console, f"simulator's truth: {_truth(done)}")
    console.print()
    for line in (*_of_rule(done), *compared(done)):
        console.print(line)
    console.print(f"simulated rig: {done.scenario}, seed {done.loaded.seed}, {done.campaign_s:.1f} s")
    if done.keep is not None:
        console.print(f"kept in {done.keep / 'state'}")


def _of_rule(done: Demo) -> Iterator[str]:
    if done.rule_truth is not None:
        yield f"simulator's truth of the rule: {_yields(done, done.rule_truth)}"


def compared(done: Demo) -> Iterator[str]:
    """Say what looking was worth: what both campaigns measured and paid, and what is true of what they recommend."""
    blind = done.blind
    if blind is None:
        return
    yield "Seeing against blind, the same seed and budget:"
    for word, one in (("seeing", done), ("blind ", blind)):
        result = one.outcome.result
        each = to_units(result.spent) / max(result.trials, 1)
        told = {"outcome": one.average or 0.0, "cost": each}
        yield f"  {word}  {counted(result.trials, 'trial')}, on average {_yields(one, told)}"
    seen, unseen = done.rule_truth or done.truth, blind.truth
    if seen is None or unseen is None:
        return
    what = "its rule" if done.rule_truth is not None else "its setting"
    yield "By the simulator's truth of what each recommends:"
    yield f"  seeing  {_yields(done, seen)}, by {what}"
    yield f"  blind   {_yields(blind, unseen)}, by {'+'.join(unseen['control_set']) or 'nothing'}"
    yield f"  Looking was worth {_difference(done, seen, unseen)}."
    as_good = _as_good(unseen["sets"], seen["outcome"], 1.0 if done.loaded.problem.maximise else -1.0)
    if as_good is None:
        yield "  No fixed setting is as good as that."
        return
    cost, sets = as_good
    saved, names = cost - seen["cost"], " and ".join("+".join(names) for names in sets)
    yield (
        f"  As good without looking costs {number(cost, 3)} {done.loaded.currency} a trial: {names}"
        f"{' in turn' if len(sets) > 1 else ''}."
    )
    yield f"  So looking {'saves' if saved > 0 else 'costs'} {abs(saved):.3f} {done.loaded.currency} a trial."


def _as_good(
    sets: Sequence[Mapping[str, Any]], outcome: float, sign: float
) -> tuple[float, Sequence[Sequence[str]]] | None:
    """Return the least cost at which fixed settings, one or two in turn, are as good, and which; None: none is."""
    found = [(float(s["cost"]), [s["control_set"]]) for s in sets if sign * (s["outcome"] - outcome) >= 0]
    for good, less in product(sets, sets):
        if sign * (good["outcome"] - outcome) >= 0 > sign * (less["outcome"] - outcome):
            share = (outcome - less["outcome"]) / (good["outcome"] - less["outcome"])
            cost = less["cost"] + share * (good["cost"] - less["cost"])
            found.append((cost, [less["control_set"], good["control_set"]]))
    return min(found, key=lambda one: one[0], default=None)


def _difference(done: Demo, seen: Mapping[str, Any], unseen: Mapping[str, Any]) -> str:
    better, cheaper = seen["outcome"] - unseen["outcome"], unseen["cost"] - seen["cost"]
    labels = Labels.of(done.loaded)
    more = "more" if better >= 0 else "less"
    unit = f" {labels.outcomes[labels.outcome]}".rstrip()
    money = f"{abs(cheaper):.3f} {labels.currency} a trial {'cheaper' if cheaper >= 0 else 'dearer'}"
    return f"{number(abs(better), 3)}{unit} {more}, {money}"


def _yields(done: Demo, told: Mapping[str, Any]) -> str:
    labels = Labels.of(done.loaded)
    worth = f"{labels.outcome} {number(told['outcome'])} {labels.outcomes[labels.outcome]}".rstrip()
    return f"{worth} at {number(told['cost'], 3)} {labels.currency} per trial"


def _truth(done: Demo) -> str:
    told = done.truth
    if told is None:
        return f"unknown, {done.untold}"
    best = told["best"]
    share = f"{told['share_of_best']:.1%} of the best there is"
    return f"{_yields(done, told)}; {share} ({'+'.join(best['control_set'])}: {number(best['outcome'])})"
