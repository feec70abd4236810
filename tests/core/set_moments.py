"""The integrals of one control set in the outcome's own units (algorithms, section 3)."""

from dataclasses import dataclass

import numpy as np

from rigctl.core.bounds.expectations import (
    Expectations,
    MeanSquareSpread,
    PointwiseSpread,
    ValueSpread,
    factors_outside,
)
from rigctl.core.experiment.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class SetIntegrals:
    """Moments of the value F_i of a control set's settings. Settings are (b, k), unit cube; values in outcome units."""

    space: Space
    control_set: int
    expectations: Expectations
    """Of this control set alone."""

    @classmethod
    def of(cls, posterior, space, control_set):
        return cls(space, control_set, Expectations.of(posterior, space, [control_set]))

    def mean(self, settings):
        """E[mu], (b,): the posterior mean of F_i, exact."""
        points, sets = self._rows(settings)
        e, h = self.expectations, self.expectations.posterior.hyperparameters
        return h.y_shift + h.y_scale * e.mean(e.inner(points, sets), sets)

    def weights(self, settings):
        """w, (b, n), outcome units squared: prior covariance of F_i(setting) with f at the data."""
        points, sets = self._rows(settings)
        return self._scale**2 * self.expectations.inner(points, sets) * self.expectations.outside[sets]

    def sd(self, settings):
        """sd[F_i | D], (b,): the posterior spread of F_i, exact."""
        return self._spread(settings, ValueSpread(self.expectations))

    def mean_square_sd(self, settings):
        """sqrt(E[sigma^2 | D]), (b,), exact."""
        return self._spread(settings, self.mean_square_spread())

    def expected_sd(self, settings, nodes):
        """E[sigma | D], (b,), over nodes (q, d) of the uncontrolled variables (`natural_nodes`)."""
        return self._spread(settings, self.pointwise_spread(nodes))

    def mean_square_spread(self):
        return MeanSquareSpread.of(self.expectations, self.space)

    def pointwise_spread(self, nodes):
        return PointwiseSpread.of(self.mean_square_spread(), nodes)

    def bound(self, settings, width, spread=None):
        """E[mu] + width * spread, (b,), and its gradient by the setting, (b, k); by default spread is sd[F_i | D]."""
        points, sets = self._rows(settings)
        e, widths = self.expectations, np.full(len(sets), width)
        value, gradient = e.value_and_gradient(points, sets, widths, spread or ValueSpread(e))
        columns = list(self.space.control_sets[self.control_set].indices)
        return e.posterior.hyperparameters.y_shift + self._scale * value, self._scale * gradient[:, columns]

    def cov(self, settings, z):
        """Posterior covariance of F_i(setting) and f(z), (b, r), outcome units squared, exact; z (r, d), unit cube."""
        e, posterior = self.expectations, self.expectations.posterior
        points, sets = self._rows(settings)
        kernel = posterior.hyperparameters.product_kernel
        prior = kernel.matrix(points, z, e.mask[sets]) * factors_outside(kernel, self.space, e.mask, z)[0]
        explained = (
            posterior.whiten(e.inner(points, sets) * e.outside[sets]) @ posterior.whiten(posterior.covariance(z)).T
        )
        return self._scale**2 * (posterior.hyperparameters.signal_variance * prior - explained)

    @property
    def _scale(self):
        return self.expectations.posterior.hyperparameters.y_scale

    def _rows(self, settings):
        """As rows of the whole cube, and the (only) control set they belong to."""
        settings = np.atleast_2d(np.asarray(settings, dtype=float))
        return self.space.rows(self.control_set, settings), np.zeros(len(settings), dtype=np.int64)

    def _spread(self, settings, spread):
        points, sets = self._rows(settings)
        return self._scale * spread.sd(self.expectations.inner(points, sets), sets)
