"""What every setting of every control set is believed to cost, whichever way costs are known or learned.

What one control set's trials cost where the setpoints matter: a log-normal process (algorithms, section 4.4).

The logarithm of a trial's cost is a Gaussian process over the set's own settings, so predictions are never negative and
errors are relative (Xie et al., "Cost-aware Bayesian optimization via the Pandora's Box Gittins index", unknown costs;
the idea is Snoek, Larochelle and Adams 2012, section 3.2). It is the same surrogate that models the outcome.

What a trial is expected to cost: by control set, and by setting where that matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log
from typing import Final

import numpy as np

from rigctl.core.costs.beliefs import FARTHEST as DEARER
from rigctl.core.costs.beliefs import TAIL, CostBelief, CostSpread, believe
from rigctl.core.costs.changeovers import without
from rigctl.core.experiment.arrays import FloatArray, thinned
from rigctl.core.experiment.history import History, Memo, Observation
from rigctl.core.experiment.money import Micros, to_micros, to_units
from rigctl.core.experiment.problem import CostField, ModelOptions, Problem
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.surrogate import Posterior, fit

LEAST: Final = 1e-6
"""Currency units: the smallest amount that money knows. A free trial counts as much, or a thousandth of the mean, as
zero has no logarithm; one such trial must not stretch the scale of all others either."""
FREE_SHARE: Final = 1e-3
MOST_ROWS: Final = 300
"""More trials than this are thinned evenly in time: a cost is a smooth thing, and known well enough from as many."""
MOST_LEARNED: Final = 100
"""Trials that hyper-parameters are learned from, thinned likewise: every control set has its own to learn."""
GROWTH: Final = 1.25
"""Hyper-parameters are learned anew when the trials have grown by a quarter."""
FARTHEST: Final = 100.0
"""The mean of a log-normal grows with its variance: no trial is predicted to cost more than this times the dearest."""
OPTIONS: Final = ModelOptions(kernel="matern-5/2", signal_sd=0.5)
"""Costs have kinks where a dose is no longer needed. Before anything is known they vary with the setting by e^0.5."""


@dataclass(frozen=True, slots=True, eq=False)
class CostProcess:
    """Model the cost of one control set's trials as a function of its setting. Settings are (b, k), unit cube."""

    posterior: Posterior
    """Of the logarithm of the cost."""
    most: float
    """Logarithm of what a trial can cost at most."""

    @property
    def noise(self) -> float:
        """Return the variance of the logarithm from trial to trial at one setting."""
        h = self.posterior.hyperparameters
        return (h.y_scale * h.noise_sd) ** 2

    @property
    def _left_out(self) -> float:
        """Return the mean square error, of the logarithm, of predicting each trial from all others."""
        p = self.posterior
        return float(np.square(p.hyperparameters.y_scale * p.alpha / p.K_inv.diagonal()).mean())

    def mean(self, settings: FloatArray) -> FloatArray:
        """Return the expected cost of a trial, currency units, (b,): exp(m + v/2).

        With v the variance of the logarithm of the *metered* cost, noise included, so that at a setting that is always
        played it is the mean of what was metered.
        """
        return np.asarray(np.exp(np.clip(self._log_mean(settings), log(LEAST), self.most)))

    def upper(self, settings: FloatArray) -> FloatArray:
        """Return what one trial in 44 costs more than, currency units, (b,), by Student's t of the logarithm.

        A process of few trials is too sure of itself, so it varies no less than its own errors of leaving one out.
        """
        from scipy.special import stdtrit  # noqa: PLC0415 - heavy: not for commands that decide nothing

        p = self.posterior
        variance = np.maximum(np.square(p.sd(settings)) + self.noise, self._left_out)
        log_upper = p.mean(settings) - stdtrit(len(p.alpha) - 1, TAIL) * np.sqrt(variance)
        return np.asarray(np.exp(np.clip(log_upper, log(LEAST), self.most + log(DEARER / FARTHEST))))

    def spread(self, setting: FloatArray) -> CostSpread:
        """Return how well the mean at one setting (1, k) is known.

        Of few trials a process takes all their scatter for a matter of their settings, and what it was told there for
        the mean, so here, too, it errs no less than where a trial is left out.
        """
        error = float(np.sqrt(max(self.posterior.sd(setting)[0] ** 2, self._left_out)))
        return CostSpread(float(self.upper(setting)[0]), error, len(self.posterior.alpha) - 1)

    def gradient(self, settings: FloatArray) -> FloatArray:
        """Return the derivative of `mean` by the setting, (b, k)."""
        p, h = self.posterior, self.posterior.hyperparameters
        w = p.covariance(settings)
        solved = p.unwhiten(p.whiten(w))
        # d(m + v/2): m = w alpha, v = s2 - w (K + lam I)^-1 w'; see `contract_slopes` for the weights
        weights = w * (h.y_scale * p.alpha - h.y_scale**2 * solved)
        slope = p.correlations.contract_slopes(settings, weights)
        logs = self._log_mean(settings)
        inside = (logs > log(LEAST)) & (logs < self.most)
        return np.asarray(slope * (np.exp(np.minimum(logs, self.most)) * inside)[:, None])

    def _log_mean(self, settings: FloatArray) -> FloatArray:
        spread = np.square(self.posterior.sd(settings)) + self.noise
        return np.asarray(self.posterior.mean(settings) + 0.5 * spread)


def fewest(k: int) -> int:
    """Return how many trials of k variables say more than their mean: the process has about k + 2 parameters."""
    return k + 2


def cost_process(
    settings: FloatArray, costs: FloatArray, memo: Memo | None = None, levels: Sequence[int] = ()
) -> CostProcess | None:
    """Return one set's process; None where a constant says as much: too few trials, or all at the same cost.

    Hyper-parameters are those of the first k + 2 trials, or of a quarter more, or of a quarter more than that ...: a
    function of the trials alone, and seldom learned; the history's `memo` saves that. Settings (n, k), unit cube, are
    as measured, and costs (n,) in currency units, >= 0, both in the order of the trials. `levels` (k,) says how many
    each category has, 0 for a number; empty: all are numbers.
    """
    n, k = settings.shape
    if n < fewest(k) or np.ptp(costs) <= 0:
        return None
    step, options = _step(costs, k), OPTIONS.over(levels)
    learned, floor = _learned(settings[:step], costs[:step], memo or Memo(), options)
    rows = thinned(n, MOST_ROWS)
    posterior = fit(settings[rows], np.log(np.maximum(costs[rows], floor)), options, learned, refit=False)
    return CostProcess(posterior, log(FARTHEST * costs.max()))


def _step(costs: FloatArray, k: int) -> int:
    """Return how many trials are learned from: all of them while the first ones all cost the same."""
    step = fewest(k)
    while ceil(GROWTH * step) <= len(costs):
        step = ceil(GROWTH * step)
    return step if np.ptp(costs[:step]) > 0 else len(costs)


def _learned(
    settings: FloatArray, costs: FloatArray, memo: Memo, options: ModelOptions
) -> tuple[Hyperparameters, float]:
    """Learn hyper-parameters, and what a free trial counts as; the memo knows what they were learned from."""
    known = memo.get("cost process")
    if known is not None and np.array_equal(known[0], settings) and np.array_equal(known[1], costs):
        return known[2], known[3]
    floor = max(LEAST, FREE_SHARE * float(costs.mean()))
    rows = thinned(len(costs), MOST_LEARNED)
    learned = fit(settings[rows], np.log(np.maximum(costs[rows], floor)), options, light=True).hyperparameters
    memo.keep("cost process", (settings, costs, learned, floor))
    return learned, floor


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Hold what is believed of costs, currency units."""

    beliefs: tuple[CostBelief, ...]
    """(m,), by control set."""
    field: CostField | None
    """Where costs depend on the setting."""
    told: bool
    """Whether the field is known, not learned."""

    @classmethod
    def of(cls, problem: Problem, history: History) -> Prices:
        """Learn them from what was metered, unless the problem knows them."""
        beliefs = believe(problem, history, "empirical-bernstein")
        told = problem.known_cost_field is not None
        field = cost_field(problem, history, beliefs) if problem.costs_by_setting else None
        return cls(beliefs, field, told)

    def at(self, control_set: int, settings: FloatArray) -> FloatArray | None:
        """Return the mean cost of a trial at each of the settings (b, k), (b,); None: nobody knows."""
        mean = self.beliefs[control_set].mean
        if self.field is None:
            return None if mean is None else np.full(len(settings), mean)
        return np.asarray(self.field.mean(control_set, settings)) if self.told or mean is not None else None

    def each(self, settings: Sequence[Sequence[float]]) -> list[float | None]:
        """Return the mean cost of a trial of each set at its setting (k,), (m,); None: nobody knows."""
        priced = (self.at(i, np.array([setting])) for i, setting in enumerate(settings))
        return [None if cost is None else float(cost[0]) for cost in priced]

    def assumed(self, settings: Sequence[Sequence[float]]) -> list[float | None]:
        """Return the same; of a set that was never tried what it is assumed to cost, None where nothing says."""
        return [b.assumed if c is None else c for b, c in zip(self.beliefs, self.each(settings), strict=True)]

    def interval(self, control_set: int, setting: FloatArray, level: float) -> tuple[float, float] | None:
        """Return where the mean cost of a trial at this setting (1, k) is with this probability; None: nobody knows."""
        mean, spread = self.at(control_set, setting), self.beliefs[control_set].spread
        if isinstance(self.field, BelievedCosts) and spread is not None:
            process = self.field.processes.get(control_set)
            spread = spread.of_one if process is None else process.spread(setting)
        if mean is None or spread is None:
            return None if mean is None else (float(mean[0]), float(mean[0]))
        return spread.interval(float(mean[0]), level)


@dataclass(frozen=True, slots=True, eq=False)
class BelievedCosts:
    """Believe in a mean per control set or, where the setpoints matter, a process. Settings are (b, k), unit cube."""

    means: tuple[float, ...]
    """(m,), currency units, always positive."""
    uppers: tuple[Micros, ...]
    """(m,), what the next trial is predicted to cost at most; see `CostBelief.upper`."""
    processes: Mapping[int, CostProcess] = field(default_factory=dict)
    """By control set."""

    def mean(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return expected cost of a trial of this set at each setting, currency units, (b,)."""
        process = self.processes.get(control_set)
        return np.full(len(settings), self.means[control_set]) if process is None else process.mean(settings)

    def gradient(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return the derivative of `mean` by the setting, (b, k)."""
        process = self.processes.get(control_set)
        return np.zeros(np.shape(settings)) if process is None else process.gradient(settings)

    def upper(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return what a trial is predicted to cost at most, currency units, (b,)."""
        process = self.processes.get(control_set)
        if process is not None:
            return process.upper(settings)
        return np.full(len(settings), to_units(self.uppers[control_set]))


def cost_field(problem: Problem, history: History, known: Sequence[CostBelief] = ()) -> CostField:
    """Return what is believed of costs now: the known field, else known costs per set, else what the meters say.

    A control set that was never metered is believed to cost what the cheapest one does: one trial corrects that, while
    a set believed too dear might never be tried. Before anything was metered all cost the same: the ceiling if there is
    one, else 1. Affordability does not rely on this: `upper` is what its variables suggest (`assumed`).

    With `cost_model: per-setting` a control set has a log-normal process as soon as there are trials enough whose
    settings and costs are both known, and costs vary. `known`: beliefs of this history, if somebody has them.
    """
    if problem.known_cost_field is not None:
        return problem.known_cost_field
    beliefs = known or believe(problem, history, "empirical-bernstein")
    metered = [b.mean for b in beliefs if b.mean is not None]
    untried = min(metered, default=problem.cost_ceiling or 1.0)
    means = tuple(max(LEAST, untried if b.mean is None else b.mean) for b in beliefs)
    learned = problem.cost_model == "per-setting" and problem.known_costs is None
    return BelievedCosts(means, tuple(b.upper for b in beliefs), _processes(problem, history) if learned else {})


def predicted_upper(
    problem: Problem, history: History, control_set: int, setting: Sequence[float], known: CostField | None = None
) -> Micros:
    """Return what a trial of this set at this setting (k,), unit cube, is predicted to cost at most.

    Exact where costs never vary, so that a trial which costs exactly what is left still runs.
    """
    believed = cost_field(problem, history) if known is None else known
    return to_micros(float(believed.upper(control_set, np.array([setting], dtype=float))[0]))


def _processes(problem: Problem, history: History) -> dict[int, CostProcess]:
    metered: dict[int, list[Observation]] = {}
    for o in without(problem, history).observations:
        if o.cost_known and o.x is not None and o.control_set >= 0:
            metered.setdefault(o.control_set, []).append(o)
    memos: Mapping[int, Memo] = history.memo.get("cost processes") or {}
    kept = {number: memos.get(number) or Memo() for number in metered}
    found = {}
    for number, trials in metered.items():
        columns = list(problem.space.control_sets[number].indices)
        settings = np.array([o.x for o in trials], dtype=float)[:, columns]
        costs = np.array([to_units(o.cost) for o in trials])
        process = cost_process(settings, costs, kept[number], [problem.space.levels[c] for c in columns])
        if process is not None:
            found[number] = process
    history.memo.keep("cost processes", kept)
    return found
