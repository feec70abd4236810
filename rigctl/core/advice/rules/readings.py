"""The readings to come: which there may be, and what then occurs.

Each variable's readings are cut into levels of the same probability, so that what is integrated over one variable is
computed once per level, however many days are drawn. Readings of different variables are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.bounds.expectations import FLOOR
from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.marginals.conditional import conditional
from rigctl.core.experiment.marginals.families import Marginal
from rigctl.core.experiment.persistence import Persistence
from rigctl.core.experiment.space import Space
from rigctl.core.gp.surrogate import Posterior

LEVELS = 64
"""Of the readings of one variable that persists; of one that does not there is one, which is never asked for."""
ERRORS = 32
"""Draws per level of readings that have an error of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """Hold the readings there may be, days drawn from them, and what would occur on those. Unit cube."""

    levels: tuple[FloatArray, ...]
    """(d,) of (g,), rising; of a variable whose reading tells nothing there is one."""
    believed: tuple[tuple[Marginal, ...], ...]
    """(d,) of (g,): how each variable is distributed in a trial before which it read that."""
    days: IntArray
    """(q, d): level of every reading."""
    occurs: FloatArray
    """(q, d): what each variable does when it is left alone."""

    @classmethod
    def drawn(cls, space: Space, persistences: Sequence[Persistence | None], count: int) -> Readings:
        """Draw so many days, a power of two, always the same ones; the space's marginals are concrete."""
        pairs = zip(space.variables, persistences, strict=True)
        levels = [_levels(v.marginal, kept) for v, kept in pairs]
        uniform = sobol(2 * space.dimension, count)
        sizes = np.array([len(own) for own in levels])
        days = np.minimum((uniform[:, : space.dimension] * sizes).astype(np.int64), sizes - 1)
        return cls._of(space, persistences, levels, days, uniform[:, space.dimension :])

    @classmethod
    def given(cls, space: Space, persistences: Sequence[Persistence | None], rows: FloatArray) -> Readings:
        """Take these readings (q, d), unit cube, as the days."""
        levels, days = [], np.zeros(rows.shape, dtype=np.int64)
        for column, (variable, kept) in enumerate(zip(space.variables, persistences, strict=True)):
            own = _levels(variable.marginal, kept)
            if len(own) > 1:
                own, days[:, column] = np.unique(rows[:, column], return_inverse=True)
            levels.append(own)
        return cls._of(space, persistences, levels, days, np.full(rows.shape, 0.5))

    @classmethod
    def _of(
        cls,
        space: Space,
        persistences: Sequence[Persistence | None],
        levels: Sequence[FloatArray],
        days: IntArray,
        uniform: FloatArray,
    ) -> Readings:
        believed, occurs = [], np.empty(days.shape)
        for column, (variable, kept) in enumerate(zip(space.variables, persistences, strict=True)):
            told = kept is not None and _tells(variable.marginal, kept)
            given = (
                tuple(conditional(variable.marginal, kept.rho, kept.tau, float(r)) for r in levels[column])
                if kept is not None and told
                else (variable.marginal,)
            )
            believed.append(given)
            for level, marginal in enumerate(given):
                mine = days[:, column] == level
                occurs[mine, column] = marginal.quantile(uniform[mine, column])
        return cls(tuple(levels), tuple(believed), days, occurs)

    def part(self, days: slice) -> Readings:
        """Return some of the days."""
        return replace(self, days=self.days[days], occurs=self.occurs[days])

    def read(self) -> FloatArray:
        """Return what every variable reads on every day, (q, d)."""
        return np.stack([own[self.days[:, i]] for i, own in enumerate(self.levels)], axis=1)


def telling(space: Space, persistences: Sequence[Persistence | None]) -> tuple[int, ...]:
    """Return the variables whose readings tell something of a trial."""
    pairs = enumerate(zip(space.variables, persistences, strict=True))
    return tuple(i for i, (v, kept) in pairs if kept is not None and _tells(v.marginal, kept))


def _tells(marginal: Marginal, kept: Persistence) -> bool:
    if kept.rho == 0 or not np.isfinite(kept.tau):
        return False
    low, high = (conditional(marginal, kept.rho, kept.tau, float(r)) for r in marginal.quantile(np.array([0.1, 0.9])))
    return low != high


def _levels(marginal: Marginal, kept: Persistence | None) -> FloatArray:
    """Return readings (g,), rising, each standing for as many: the variable's own value and an error."""
    if kept is None or not _tells(marginal, kept):
        return np.array([marginal.mean])
    shares = (np.arange(LEVELS) + 0.5) / LEVELS
    if kept.tau == 0:
        return np.asarray(marginal.quantile(shares), dtype=float)
    from scipy.special import ndtri  # noqa: PLC0415 - heavy: not for `rigctl --help`

    own, error = sobol(2, ERRORS * LEVELS).T
    return np.asarray(np.quantile(marginal.quantile(own) + kept.tau * ndtri(error), shares, method="hazen"))


@dataclass(frozen=True, slots=True, eq=False)
class Beyond:
    """Say how much more doubt there is beyond a spread."""

    sd: FloatArray
    """(b,), standardised."""
    doubt: float
    """Standard deviations, of what exceeds it."""


@dataclass(frozen=True, slots=True, eq=False)
class Days:
    """Hold what is believed on every day, before any setting is chosen. Standardised, larger is better."""

    posterior: Posterior
    masks: FloatArray
    """(m, d), 1 where the control set controls the variable."""
    outside: tuple[FloatArray, ...]
    """(m,) of (q, n): prod over uncontrolled l of E[k_l(X_l, x_jl) | reading]."""
    prior: tuple[FloatArray, ...]
    """(m,) of (q,): variance, before any data, of what is expected at the reading."""
    read: FloatArray
    """(q, d), unit cube: the readings."""

    @classmethod
    def of(cls, posterior: Posterior, space: Space, readings: Readings) -> Days:
        """Integrate every variable once per level."""
        kernel, x = posterior.hyperparameters.product_kernel, posterior.x
        masks, count = space.masks, len(readings.days)
        outside = [np.ones((count, len(x))) for _ in masks]
        prior = [np.full(count, posterior.hyperparameters.signal_variance) for _ in masks]
        for column in np.flatnonzero((masks == 0).any(axis=0)):
            one, level = kernel.one(int(column)), readings.days[:, column]
            z = np.stack([m.z(x[:, column], one) for m in readings.believed[column]])[level]
            zz = np.array([m.zz(one) for m in readings.believed[column]])[level]
            for row in np.flatnonzero(masks[:, column] == 0):
                outside[row] *= z
                prior[row] *= zz
        return cls(posterior, masks, tuple(outside), tuple(prior), readings.read())

    def __len__(self) -> int:
        return len(self.read)

    def inner(self, control_set: int, points: FloatArray) -> FloatArray:
        """Return the controlled part of the covariance with the data, (b, n), for points (b, d)."""
        mask = np.broadcast_to(self.masks[control_set], points.shape)
        scale = self.posterior.hyperparameters.signal_variance
        return np.asarray(scale * self.posterior.correlations.matrix(points, mask))

    def means(self, control_set: int, points: FloatArray) -> FloatArray:
        """Return what is expected of each setting (c, d) on each day, (q, c)."""
        weighed = self.outside[control_set] * self.posterior.alpha
        return np.asarray(self.posterior.hyperparameters.mean + weighed @ self.inner(control_set, points).T)

    def believed(self, control_set: int, points: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd, (b,) each, of settings (b, d), each on the day of its row (b,)."""
        inner = self.inner(control_set, points) * self.outside[control_set][rows]
        mean = self.posterior.hyperparameters.mean + inner @ self.posterior.alpha
        white = self.posterior.whiten(inner)
        variance = self.prior[control_set][rows] - np.vecdot(white, white)
        return np.asarray(mean), np.sqrt(np.maximum(variance, 0.0))

    def support(
        self, control_set: int, points: FloatArray, rows: IntArray, doubt: float, beyond: Beyond | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean less `doubt` standard deviations, (b,), and its gradient, (b, d), of settings as `believed`."""
        h, outside = self.posterior.hyperparameters, self.outside[control_set][rows]
        inner = self.inner(control_set, points)
        white = self.posterior.whiten(inner * outside)
        variance = self.prior[control_set][rows] - np.vecdot(white, white)
        sd = np.sqrt(np.maximum(variance, FLOOR * h.signal_variance))
        slope = inner * outside
        value, weight = h.mean + slope @ self.posterior.alpha - doubt * sd, np.full(len(sd), doubt)
        if beyond is not None:
            value -= beyond.doubt * np.maximum(sd - beyond.sd, 0.0)
            weight += beyond.doubt * (sd > beyond.sd)
        slope *= self.posterior.alpha + self.posterior.unwhiten(white) * (weight / sd)[:, None]
        gradient = self.posterior.correlations.contract_slopes(points, slope) * self.masks[control_set]
        return np.asarray(value), np.asarray(gradient)
