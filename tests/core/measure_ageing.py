"""Measure how soon a change of the response is noticed, and how often one that is none.

`python -m tests.core.measure_ageing` writes the tables of docs/decisions/0017-ageing.md; with `300:400`, only what
campaigns with those seeds say that learn their hyper-parameters. Else errors are those of a model that holds: standard
normal, and shifted by what a change does to them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import Memo
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.ageing import fit_ageing
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import due
from rigctl.core.gp.noticing import BEFORE, SIDE, OutcomeRecord, scanned
from rigctl.core.gp.surrogate import fit

FIRST = 8
"""Outcomes that a campaign's first fit has."""
NEXT = 10
"""A change is counted in spreads of predictions of the outcomes of as many trials after it."""


@dataclass(frozen=True, slots=True)
class World:
    """Name a model."""

    dimension: int = 3
    noise: float = 0.3
    lengthscale: float = 0.5

    def factor(self, trials: int, rng: np.random.Generator) -> FloatArray:
        """Return the covariance's factor for a campaign that plays ever more near one setting, (n, n)."""
        return self.factor_at(self.played(trials, rng))

    def played(self, trials: int, rng: np.random.Generator) -> FloatArray:
        """Return such a campaign's settings, (n, d)."""
        d, best = self.dimension, rng.random(self.dimension)
        x = np.clip(rng.normal(0.5, 0.2, (trials, d)), 0.0, 1.0)
        for i in range(trials):
            chosen = rng.choice(d, rng.integers(1, d + 1), replace=False)
            near = rng.random() < min(0.75, i / 60)
            x[i, chosen] = np.clip(rng.normal(best[chosen], 0.03), 0, 1) if near else rng.random(len(chosen))
        return x

    def factor_at(self, x: FloatArray) -> FloatArray:
        h = Hyperparameters((self.lengthscale,) * self.dimension, 1.0, self.noise, kernel="matern-5/2")
        return fit(x, np.zeros(len(x)), ModelOptions(kernel="matern-5/2"), h, refit=False).L


def shift(L: FloatArray, kind: str, size: float, begins: int) -> FloatArray:
    """Return what a change of `size` spreads adds to outcomes, (n,); a ramp and a season are as large at most."""
    if not size:
        return np.zeros(len(L))
    spread = float(np.sqrt(np.square(L.diagonal()[begins : begins + NEXT]).mean()))
    since = np.maximum(np.arange(len(L)) - begins, -1)
    shape = {
        "step": since >= 0,
        "ramp": np.clip(since / 30.0, 0.0, 1.0),
        "season": np.where(since >= 0, np.sin(2 * np.pi * since / 24.0), 0.0),
    }[kind]
    return np.asarray(size * spread * shape)


def delays(world: World, kind: str, size: float, *, runs: int, trials: int, begins: int) -> tuple[FloatArray, float]:
    """Return the trials until each change was noticed, inf if never, and false alarms per trial before it."""
    rng, found, false, watched = np.random.default_rng(0), [], 0, 0
    for run in range(runs):
        L = world.factor(trials, rng)
        sign = 1.0 if run % 2 else -1.0
        y = L @ rng.standard_normal(trials) + sign * shift(L, kind, size, begins)
        alarm = scanned(L, y, range(BEFORE + SIDE - 1, trials))
        early = alarm is not None and alarm.noticed < begins
        false += early
        watched += min(begins, trials if alarm is None else alarm.noticed + 1) - (BEFORE + SIDE - 1)
        if not early:
            found.append(np.inf if alarm is None else alarm.noticed - begins + 1)
    return np.array(found), false / watched


def measured(*, runs: int, trials: int, begins: int) -> tuple[float, float]:
    """Return false alarms per trial, and the median delay of a step of one spread."""
    found, rate = delays(World(), "step", 1.0, runs=runs, trials=trials, begins=begins)
    return rate, float(np.median(found))


def believed(
    world: World, kind: str, size: float, *, seed: int, trials: int, begins: int, advice: bool = False
) -> list[int]:
    """Return after which trials a campaign that learns its hyper-parameters believes that the response has aged.

    With `advice`, after which ones what it recommends would count on that.
    """
    rng = np.random.default_rng(seed)
    x = world.played(trials, rng)
    L = world.factor_at(x)
    y = L @ rng.standard_normal(trials) + (-1) ** (seed + 1) * shift(L, kind, size, begins)
    h, fitted_at, memo, aged = None, 0, Memo(), []
    options = ModelOptions(kernel="matern-5/2")
    for n in range(FIRST, trials + 1):
        record = OutcomeRecord(x[:n], y[:n], np.arange(1.0, n + 1), float(n))
        refit = due(record, h, fitted_at)
        h = fit_ageing(record, options, h, refit=refit, memo=memo).hyperparameters
        fitted_at = n if refit else fitted_at
        counted = fit_ageing(record, options, h, refit=False, memo=memo, advice=True).hyperparameters if advice else h
        aged += [n] if counted.ageing else []
    return aged


def learned(seeds: range, *, begins: int, trials: int) -> None:
    """Print delays and false alarms of young campaigns that learn their hyper-parameters."""
    for kind, size in (("step", 0.0), ("step", 1.0), ("step", 2.0), ("ramp", 1.0), ("season", 1.0)):
        false, watched, aged, found = 0, 0, 0, []
        for seed in seeds:
            after = believed(World(), kind, size, seed=seed, trials=trials, begins=begins)
            quiet = begins if size else trials
            early = bool(after) and after[0] <= quiet
            false, watched = false + early, watched + min([quiet, *after[:1]]) - BEFORE
            aged += 0 if size else len(after)
            found += [] if early or not size else [after[0] - begins if after else np.inf]
        print(f"learned, {kind} {size}: {1000 * false / watched:.2f} false alarms per 1000 trials", end="; ")
        if not size:
            print(f"believed in {aged / len(seeds) / trials:.2%} of the trials")
            continue
        soon, later = (float((np.array(found) <= most).mean()) for most in (10, 30))
        print(f"median {np.median(found):g}, {soon:.0%} in 10, {later:.0%} in 30", flush=True)


def main() -> None:
    asked = range(*map(int, sys.argv[1].split(":"))) if len(sys.argv) > 1 else None
    learned(asked or range(100), begins=60, trials=120)
    if asked is not None:
        return
    worlds = {"d = 3, noise 0.3": World(), "d = 6, noise 0.1": World(6, 0.1), "d = 3, noise 1": World(3, 1.0)}
    for name, world in worlds.items():
        _, rate = delays(world, "step", 0.0, runs=200, trials=400, begins=400)
        print(f"{name}: {1000 * rate:.2f} false alarms per 1000 trials")
        for kind in ("step", "ramp", "season"):
            for size in (0.5, 1.0, 1.5, 2.0, 3.0):
                found, _ = delays(world, kind, size, runs=150, trials=200, begins=100)
                soon, later = (float((found <= most).mean()) for most in (10, 30))
                print(f"  {kind} {size}: median {np.median(found):g}, {soon:.0%} in 10, {later:.0%} in 30")


if __name__ == "__main__":
    main()
