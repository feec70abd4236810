"""What Abdolshah et al., "Cost-aware Multi-objective Bayesian optimisation" (CA-MOBO, 2020), make of an order of costs.

A person says which variables are dear to use, dearest first. At trial t each gets an exponential density of rate
1/(w t + 1) with random w (Definition 1), and a setting costs C = prod_j (1 - rate_j exp(-rate_j x_j)) (eq. 8), between
0 and 1: little at small x_j, and less different between settings as t grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rigctl.core.experiment.arrays import FloatArray

Sorting = Literal["ours", "paper"]
"""Which variable gets the largest w. `paper`: the dearest, as printed. `ours`: the cheapest. The slope of ln C by x is
rate^2 exp(-rate x) / (1 - rate exp(-rate x)); it grows with the rate, so the dearest variable is only avoided most
if it has the largest rate, hence the smallest w."""


@dataclass(frozen=True, slots=True, eq=False)
class CostPreference:
    """Say how much of a setting's worth its cost leaves, in one trial. Settings are (b, d), unit cube."""

    columns: tuple[int, ...]
    """(k,), of the ordered variables, dearest first."""
    falling: tuple[bool, ...]
    """(k,): whether it is small values that are dear."""
    rates: FloatArray
    """(k,), in (0, 1]."""

    @classmethod
    def drawn(
        cls, columns: Sequence[int], falling: Sequence[bool], t: int, sorting: Sorting, rng: np.random.Generator
    ) -> CostPreference:
        """Draw the weights of trial t >= 1 from a flat Dirichlet distribution."""
        rising = np.sort(rng.dirichlet(np.ones(len(columns))))
        weights = rising if sorting == "ours" else rising[::-1]
        return cls(tuple(columns), tuple(falling), 1.0 / (weights * t + 1.0))

    def kept(self, points: FloatArray, controlled: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return 1 - C, (b,), in (0, 1], and its gradient, (b, d), 0 for what is not controlled.

        A variable that a control set leaves alone is not used at all, so it counts as one used at its cheapest value.
        (Without it the product would have fewer factors, so C would be larger: leaving a dear variable alone would
        cost more than using it.)

        Args:
            points: (b, d), unit cube; values of variables that are not controlled do not count.
            controlled: (b, d), 1 where the row's control set controls the variable.
        """
        at, used = points[:, self.columns], controlled[:, self.columns]
        amount = np.where(np.array(self.falling), 1.0 - at, at) * used
        density = self.rates * np.exp(-self.rates * amount)
        factors = 1.0 - density
        gradient = np.zeros_like(points)
        for j, column in enumerate(self.columns):
            others = np.delete(factors, j, axis=1).prod(axis=1)
            turned = -1.0 if self.falling[j] else 1.0
            gradient[:, column] = -turned * used[:, j] * self.rates[j] * density[:, j] * others
        return np.asarray(1.0 - factors.prod(axis=1)), gradient
