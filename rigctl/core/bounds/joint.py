"""The joint posterior of what is expected of several ways of running, whichever variables they hold.

F_S(x^S) = E[f([x^S, X^-S])] is a linear functional of the process for every set S of variables, also for none and for
sets that may not be controlled together. Kernel and marginals are products, so the covariances of such functionals are
products of one-dimensional integrals: k(a, b) where both hold a variable, z(a) where one does, zz where neither does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.space import Space
from rigctl.core.gp.surrogate import Posterior

Way = Mapping[int, float]
"""A way of running: the value of each variable that is held, by column, unit cube; the others are left alone."""


def jointly(posterior: Posterior, space: Space, ways: Sequence[Way]) -> tuple[FloatArray, FloatArray]:
    """Return means (k,) and covariances (k, k) of the expected values of these ways, in the outcome's own units.

    Args:
        posterior: of the value: larger is better.
        space: variables with concrete marginals.
        ways: (k,).
    """
    h, x = posterior.hyperparameters, posterior.x
    w = np.full((len(ways), len(x)), h.signal_variance)
    prior = np.full((len(ways), len(ways)), h.signal_variance)
    for column, variable in enumerate(space.variables):
        kernel, marginal = h.product_kernel.one(column), variable.marginal
        held = np.array([way.get(column, np.nan) for way in ways], dtype=float)
        rows = np.flatnonzero(np.isfinite(held))
        alone = np.setdiff1d(np.arange(len(ways)), rows)
        w[rows] *= kernel.value(held[rows, None] - x[None, :, column])
        w[alone] *= marginal.z(x[:, column], kernel)
        factor = np.full(prior.shape, marginal.zz(kernel) if alone.size else 1.0)
        factor[np.ix_(rows, rows)] = kernel.value(held[rows, None] - held[None, rows])
        if alone.size and rows.size:
            one_sided = np.broadcast_to(marginal.z(held[rows], kernel), (len(alone), len(rows)))
            factor[np.ix_(alone, rows)] = one_sided
            factor[np.ix_(rows, alone)] = one_sided.T
        prior *= factor
    white = posterior.whiten(w)
    mean = h.y_shift + h.y_scale * (h.mean + w @ posterior.alpha)
    return np.asarray(mean), np.asarray(h.y_scale**2 * (prior - white @ white.T))


def difference(mean: FloatArray, covariance: FloatArray, one: int, other: int) -> tuple[float, float]:
    """Return mean and sd of way `one` less way `other`."""
    variance = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
    return float(mean[one] - mean[other]), float(np.sqrt(max(variance, 0.0)))
