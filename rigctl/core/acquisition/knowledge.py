"""What one more trial would teach, in closed form but for the values the uncontrolled variables will take.

A trial of control set j at x^j observes f at z = [x^j, X^-j]. Let m_a be the mean of the value F_a of alternative a, a
setting that could be recommended, and s_a(z) its covariance with that observation divided by the observation's spread:
after the trial F_a has mean m_a + s_a(z) Z, Z standard normal, and a variance smaller by s_a(z)^2. Averaged over X^-j:

    gain       E E_Z [max_a (m_a + s_a(z) Z)] - max_a m_a     the knowledge gradient (Frazier, Powell and Dayanik 2009,
                                                              equation 4.3), of correlated values that are integrals
    reduction  E sum_a p_a s_a(z)^2                           of the variance of whichever alternative is the best, with
                                                              p_a the probability that a is

The gain is what a trial is worth if it is the last. The reduction is what it is worth to a search that has a way to
go: it is positive wherever the best may be, while the gain of any one trial is nothing on a plain with one hidden hill.
(The probabilities are those of trusted-maximisers entropy search, Nguyen et al. 2021, section 3.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rigctl.core.bounds.expectations import Expectations, factors_outside
from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks
from rigctl.core.experiment.space import Settings, Space

STEPS = 49
WIDEST = 4.8
"""The observation's randomness: so many nodes of the trapezoidal rule up to so many standard deviations. The integrand
has kinks, so that Gauss-Hermite nodes, far apart where they are few, are off by a tenth."""
DRAWS = 256
"""Joint draws of all alternatives' values, to see how often each is the best."""
MOST_DRAWN, UNLIKELY = 400, 3.0
"""More alternatives are not drawn jointly, which takes the cube of them: of more, those are drawn that are highest
so many standard deviations above their mean, unless the best mean is higher still."""
NUGGET = 1e-9
"""Added to the alternatives' covariance, as a share of its largest variance: near-equal settings make it singular."""
MOST_VALUES = 1 << 19
"""Largest intermediate array, in numbers: 4 MB."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Hold what does not depend on the candidate: alternatives that could be recommended, and nodes. Standardised."""

    expectations: Expectations
    """Of all control sets of every space (`Expectations.over`)."""
    spaces: Sequence[Space]
    """What is expected of the variables now, and after readings to come."""
    alternatives: Settings
    """Space by space; of the second the control sets are counted on, as rows of `expectations`."""
    nodes: FloatArray
    """(q, d), unit cube: values the uncontrolled variables may take in the trial (`natural_nodes`)."""

    @cached_property
    def means(self) -> FloatArray:
        """Return m_a, (a,)."""
        return self.expectations.mean(self._inner, self.alternatives.sets)

    def covariance(self, rows: IntArray) -> FloatArray:
        """Return the covariance (a, a) of the values of some alternatives (a,) of one space, exact."""
        h, settings = self.expectations.posterior.hyperparameters, self.alternatives.of(rows)
        variables = self.spaces[int(self._spaces[rows[0]])].variables
        prior = np.full((len(settings), len(settings)), h.signal_variance)
        for variable, ours in enumerate(self.expectations.mask[settings.sets].T == 1):
            kernel, marginal = h.product_kernel.one(variable), variables[variable].marginal
            x = settings.points[:, variable]
            averaged = marginal.z(x, kernel)
            both, neither = ours[:, None] & ours, ~ours[:, None] & ~ours
            mixed = np.where(ours, averaged, averaged[:, None])
            prior *= np.where(both, kernel.value(x[:, None] - x), np.where(neither, marginal.zz(kernel), mixed))
        white = self._white[rows]
        return np.asarray(prior - white @ white.T)

    def probabilities(self, rng: np.random.Generator) -> FloatArray:
        """Return how likely each alternative is the best of its space, (a,), from joint draws; their sum is 1.

        Every space, that is every reading, is as likely as the others.
        """
        best = np.zeros(len(self.alternatives))
        for space in range(len(self.spaces)):
            rows = self._contenders(self._of_space(space))
            covariance = self.covariance(rows)
            covariance[np.diag_indices_from(covariance)] += NUGGET * covariance.diagonal().max()
            values, vectors = np.linalg.eigh(covariance)
            # the symmetric root changes little where the covariance does; eigenvectors or factors may change at will
            root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
            draws = self.means[rows][:, None] + root @ rng.standard_normal((len(root), DRAWS))
            best[rows] = np.bincount(draws.argmax(axis=0), minlength=len(root)) / DRAWS
        return best / len(self.spaces)

    def _contenders(self, rows: IntArray) -> IntArray:
        """Return those of one space's alternatives that may be its best: all, unless they are many."""
        if len(rows) <= MOST_DRAWN:
            return rows
        e, means = self.expectations, self.means[rows]
        prior, white = e.prior_variance[self.alternatives.sets[rows]], self._white[rows]
        high = means + UNLIKELY * np.sqrt(np.maximum(prior - np.vecdot(white, white), 0.0))
        highest = np.argsort(-high, kind="stable")[:MOST_DRAWN]
        return np.asarray(np.sort(rows[highest[high[highest] >= means.max()]]))

    def _of_space(self, space: int) -> IntArray:
        """Return which of the alternatives are one space's, (a,)."""
        return np.flatnonzero(self._spaces == space)

    @property
    def _spaces(self) -> IntArray:
        """Return the space of every alternative, (a,)."""
        return np.asarray(self.alternatives.sets // len(self.spaces[0].control_sets))

    def gains(self, candidates: Settings) -> FloatArray:
        """Return how much one trial of each candidate is to raise the best mean, (c,), standardised; never negative.

        That is on average over the spaces, each of which has a best of its own.
        """
        each = [self._of_space(space) for space in range(len(self.spaces))]
        return self._averaged(
            candidates,
            lambda shift: np.mean([_expected_rise(self.means[rows], shift[rows]) for rows in each], axis=0),
        )

    def reductions(self, candidates: Settings, probabilities: FloatArray) -> FloatArray:
        """Return how much one trial of each candidate is to reduce the best's variance, (c,), standardised squared."""
        possible = np.flatnonzero(probabilities)
        return self._averaged(candidates, lambda shift: probabilities[possible] @ np.square(shift), possible)

    @cached_property
    def _inner(self) -> FloatArray:
        return self.expectations.inner(self.alternatives.points, self.alternatives.sets)

    @cached_property
    def _white(self) -> FloatArray:
        e = self.expectations
        return e.posterior.whiten(self._inner * e.outside[self.alternatives.sets])

    def _averaged(
        self, candidates: Settings, worth: Callable[[FloatArray], FloatArray], rows: IntArray | None = None
    ) -> FloatArray:
        """Average a worth of the shifts (a, b) of some alternatives over the uncontrolled variables, (c,)."""
        out = np.empty(len(candidates))
        for control_set in np.unique(candidates.sets):
            mine = np.flatnonzero(candidates.sets == control_set)
            nodes = self.nodes if (self.expectations.mask[control_set] == 0).any() else self.nodes[:1]
            width = max(len(self.alternatives), len(self.expectations.posterior.x)) * len(nodes)
            chosen = np.arange(len(self.alternatives)) if rows is None else rows
            at_nodes = self._at(nodes, int(control_set), chosen)
            for part in blocks(len(mine), width, MOST_VALUES):
                some = mine[part]
                shift = self._shift(candidates.points[some], int(control_set), at_nodes, chosen)
                out[some] = worth(shift).reshape(len(some), len(nodes)).mean(axis=1)
        return out

    def _at(self, nodes: FloatArray, control_set: int, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the nodes' part of the covariances with the data, (q, n), and with the chosen alternatives, (a, q)."""
        e, alone = self.expectations, 1.0 - self.expectations.mask[control_set]
        others = e.posterior.correlations.matrix(nodes, np.broadcast_to(alone, nodes.shape))
        return e.posterior.hyperparameters.signal_variance * others, self._prior(nodes, alone, chosen)

    def _shift(
        self, points: FloatArray, control_set: int, at_nodes: tuple[FloatArray, FloatArray], chosen: IntArray
    ) -> FloatArray:
        """Return s_a(z), (a, c q), of candidates (c, d) of one control set, node by node.

        Kernel and marginals are products, so that the nodes' part is the same for all candidates.
        """
        posterior, mask = self.expectations.posterior, self.expectations.mask[control_set]
        h, (others, theirs) = posterior.hyperparameters, at_nodes
        ours = posterior.correlations.matrix(points, np.broadcast_to(mask, points.shape))
        seen = posterior.whiten((ours[:, None, :] * others).reshape(len(points) * len(others), -1))
        left = np.maximum(h.signal_variance - np.vecdot(seen, seen), 0.0)
        observed = left + posterior.variance - h.signal_variance
        shift = self._prior(points, mask, chosen)[:, :, None] * (h.signal_variance * theirs)[:, None, :]
        shift = shift.reshape(len(chosen), -1)
        shift -= self._white[chosen] @ seen.T
        shift /= np.sqrt(observed)
        return np.asarray(shift)

    def _prior(self, points: FloatArray, mask: FloatArray, rows: IntArray) -> FloatArray:
        """Return, (a, c), the product over `mask` of k_l(a_l, x_l) where a controls l, of z_l(x_l) where not."""
        e, settings = self.expectations, self.alternatives.of(rows)
        kernel, count = e.posterior.hyperparameters.product_kernel, len(e.mask) // len(self.spaces)
        out = kernel.matrix(settings.points, points, e.mask[settings.sets] * mask)
        alone = 1.0 - (1.0 - e.mask) * mask
        outside = [
            factors_outside(kernel, space, alone[k * count : (k + 1) * count], points)
            for k, space in enumerate(self.spaces)
        ]
        out *= np.concatenate(outside)[settings.sets]
        return out


def _expected_rise(means: FloatArray, shift: FloatArray) -> FloatArray:
    """Return E_Z[max_a (m_a + s_a Z)] - max_a m_a, (b,), for means (a,) and shifts (a, b)."""
    nodes = np.linspace(-WIDEST, WIDEST, STEPS)
    weights = np.exp(-0.5 * np.square(nodes))
    below = (means - means.max())[:, None]
    out = np.zeros(shift.shape[1])
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        out += weight * (below + node * shift).max(axis=0)
    return np.asarray(np.maximum(out, 0.0))
