"""How variables that are left alone go on from what they read before a trial: each persists for a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import Look
from rigctl.core.experiment.marginals.conditional import conditional
from rigctl.core.experiment.marginals.families import Marginal


@dataclass(frozen=True, slots=True)
class Nature:
    """Read every variable before a trial; in the trial it is a Gaussian copy of what it was then, cut to its range."""

    rho: float
    """Correlation of before and during, of the marginal's parent. 0: independent, 1: the same value."""
    error_sd: float = 0.0
    """Of the readings, unit cube."""

    def look(self, before: FloatArray, deviates: FloatArray) -> Look:
        """Return the readings of values (d,), unit cube, given standard normal deviates (d,)."""
        readings = before + self.error_sd * deviates
        return Look(tuple(readings.tolist()), (self.error_sd,) * len(before))

    def during(self, marginals: Sequence[Marginal], before: FloatArray, quantiles: FloatArray) -> FloatArray:
        """Return the values in the trial, (d,), given those before it (d,), at these quantiles (d,)."""
        if self.rho == 1.0:
            return np.array(before)
        each = zip(self.given(marginals, before), quantiles, strict=True)
        return np.array([marginal.quantile(q) for marginal, q in each])

    def given(self, marginals: Sequence[Marginal], before: FloatArray) -> tuple[Marginal, ...]:
        """Return the marginals of the trial, given the values before it (d,)."""
        return tuple(conditional(m, self.rho, 0.0, float(b)) for m, b in zip(marginals, before, strict=True))
