"""What one control set's trials cost where the setpoints matter: a log-normal process (algorithms, section 4.4).

The logarithm of a trial's cost is a Gaussian process over the set's own settings, so predictions are never negative and
errors are relative (Xie et al., "Cost-aware Bayesian optimization via the Pandora's Box Gittins index", unknown costs;
the idea is Snoek, Larochelle and Adams 2012, section 3.2). It is the same surrogate that models the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from typing import Final

import numpy as np

from rigctl.core.costs.spread import FARTHEST as DEARER
from rigctl.core.costs.spread import TAIL, CostSpread
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.memo import Memo
from rigctl.core.experiment.problem import ModelOptions
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
        errors = p.hyperparameters.y_scale * p.alpha / p.K_inv.diagonal()
        variance = np.maximum(np.square(p.sd(settings)) + self.noise, np.square(errors).mean())
        log_upper = p.mean(settings) - stdtrit(len(errors) - 1, TAIL) * np.sqrt(variance)
        return np.asarray(np.exp(np.clip(log_upper, log(LEAST), self.most + log(DEARER / FARTHEST))))

    def spread(self, setting: FloatArray) -> CostSpread:
        """Return how well the mean at one setting (1, k) is known."""
        error = float(self.posterior.sd(setting)[0])
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


def cost_process(settings: FloatArray, costs: FloatArray, memo: Memo | None = None) -> CostProcess | None:
    """Return one set's process; None where a constant says as much: too few trials, or all at the same cost.

    Hyper-parameters are those of the first k + 2 trials, or of a quarter more, or of a quarter more than that ...: a
    function of the trials alone, and seldom learned.

    Args:
        settings: (n, k), unit cube, as measured, in order of the trials.
        costs: (n,), currency units, >= 0.
        memo: of the history behind them; saves the learning.
    """
    n, k = settings.shape
    if n < fewest(k) or np.ptp(costs) <= 0:
        return None
    step = _step(costs, k)
    learned, floor = _learned(settings[:step], costs[:step], memo or Memo())
    rows = _thinned(n, MOST_ROWS)
    posterior = fit(settings[rows], np.log(np.maximum(costs[rows], floor)), OPTIONS, learned, refit=False)
    return CostProcess(posterior, log(FARTHEST * costs.max()))


def _step(costs: FloatArray, k: int) -> int:
    """Return how many trials are learned from: all of them while the first ones all cost the same."""
    step = fewest(k)
    while (longer := ceil(GROWTH * step)) <= len(costs):
        step = longer
    return step if np.ptp(costs[:step]) > 0 else len(costs)


def _learned(settings: FloatArray, costs: FloatArray, memo: Memo) -> tuple[Hyperparameters, float]:
    """Learn hyper-parameters, and what a free trial counts as; the memo knows what they were learned from."""
    known = memo.get("cost process")
    if known is not None and np.array_equal(known[0], settings) and np.array_equal(known[1], costs):
        return known[2], known[3]
    floor = max(LEAST, FREE_SHARE * float(costs.mean()))
    rows = _thinned(len(costs), MOST_LEARNED)
    learned = fit(settings[rows], np.log(np.maximum(costs[rows], floor)), OPTIONS).hyperparameters
    memo.keep("cost process", (settings, costs, learned, floor))
    return learned, floor


def _thinned(n: int, most: int) -> FloatArray:
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))
