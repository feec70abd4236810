"""What the next trial of a control set may cost at most, and how well its mean cost is known.

The costs' spread is relative to a set's geometric mean, and judged on three scales: as they are, by their square roots
and by their logarithms. How skewed costs are decides how much each scale counts, by its likelihood (Box and Cox 1964,
with the sets' means and the common variance integrated out). On every scale the sets lend each other their variance as
far as their variances agree (Smyth 2004, moderated t), and the next cost is predicted by Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, log, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray

TAIL: Final = NormalDist().cdf(-2.0)
"""Share of trials that cost more than "at most": beyond two standard deviations of a normal."""
POWERS: Final = (1.0, 0.5, 1e-9)
"""Of a cost on each scale; the last is the logarithm, to nine digits."""
GUESS: Final = 0.05
"""Relative spread that is guessed beforehand; it only counts once costs have been seen to vary."""
GUESS_WORTH: Final = 0.5
"""Degrees of freedom that the guess is worth."""
STEADY: Final = 4
"""A set of which so many trials all cost the same has no spread, however the others vary."""
LEAST_SHARE: Final = 1e-3
"""A free trial counts as this share of its set's mean, for zero has no logarithm."""
FARTHEST: Final = 4.0
"""No trial is predicted to cost more than this times the dearest of its set: two trials would else forbid a third."""


@dataclass(frozen=True, slots=True)
class CostSpread:
    """Hold how one control set's costs are spread, currency units."""

    most: float
    """The next trial costs more than this with probability `TAIL`."""
    error: float = 0.0
    """Standard error of the logarithm of the mean cost."""
    freedom: float = np.inf

    def interval(self, mean: float, level: float) -> tuple[float, float]:
        """Return where the mean cost is with this probability."""
        from scipy.special import stdtrit  # noqa: PLC0415 - heavy: not for commands that decide nothing

        half = 0.0 if self.error == 0 else float(stdtrit(self.freedom, 0.5 + level / 2)) * self.error
        return mean * exp(-half), mean * exp(min(half, log(FARTHEST)))


def spreads(costs: Sequence[FloatArray]) -> tuple[CostSpread, ...]:
    """Return the spread of every set's costs (T_i,), none empty; exact for costs that never vary."""
    varying = any(np.ptp(c) > 0 for c in costs)
    spread = [i for i, c in enumerate(costs) if varying and c.max() > 0 and (np.ptp(c) > 0 or c.size < STEADY)]
    found = dict(zip(spread, _spread([costs[i] for i in spread]), strict=True)) if spread else {}
    return tuple(found.get(i, CostSpread(float(c.max()))) for i, c in enumerate(costs))


def _spread(costs: Sequence[FloatArray]) -> list[CostSpread]:
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy: not for commands that decide nothing

    count = np.array([c.size for c in costs])
    owner = np.repeat(np.arange(len(costs)), count)
    logs = np.log(np.concatenate([np.maximum(c, LEAST_SHARE * c.mean()) for c in costs]))
    centre = np.bincount(owner, logs) / count
    logs -= centre[owner]
    mean, sd, freedom, evidence = (np.array(v) for v in zip(*(_on_scale(logs, owner, p) for p in POWERS), strict=True))
    weights = np.exp(evidence - evidence.max())[:, None] / np.exp(evidence - evidence.max()).sum()
    wide = sd * np.sqrt(1 + 1 / count)
    farthest = np.log([c.max() for c in costs]) - centre + log(FARTHEST)
    ends = mean - stdtrit(freedom, TAIL) * wide
    powers = np.array(POWERS)[:, None]
    high = np.asarray((weights * np.minimum(np.log1p(powers * ends) / powers, farthest)).sum(axis=0))
    # from 43 trials on, all sets together: as far as so many of them have come (conformal prediction, Vovk et al. 2005)
    seen = (np.expm1(logs) - mean[0, owner]) / sd[0, owner]
    if rank := int(TAIL * (seen.size + 1)):
        come = np.log1p(np.maximum(mean[0] + np.sort(seen)[-rank] * wide[0], 0.0))
        high = np.maximum(high, np.minimum(come, farthest))
    # of a log-normal's mean (Cox's method, in Zhou and Gao 1997): var m + s^2/2; or of costs as they are
    variance = np.square(sd[-1])
    error = np.sqrt(variance / count + np.square(variance) / (2 * freedom[-1]))
    error = np.maximum(error, sd[0] / (1 + mean[0]) / np.sqrt(count))
    return [CostSpread(*map(float, row)) for row in zip(np.exp(centre + high), error, freedom[-1], strict=True)]


def _on_scale(logs: FloatArray, owner: IntArray, power: float) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return mean, spread and degrees of freedom of every set on a scale, and the logarithm of its likelihood."""
    scaled, count = np.expm1(power * logs) / power, np.bincount(owner)
    mean = np.bincount(owner, scaled) / count
    squares = np.bincount(owner, np.square(scaled - mean[owner])).astype(float)
    own = (count - 1).astype(float)
    total, pool = fsum(squares) + GUESS_WORTH * GUESS**2, fsum(own) + GUESS_WORTH
    lent = np.minimum(_agreement(squares, own), pool - own)
    variance = (lent * total / pool + squares) / (lent + own)
    return mean, np.sqrt(variance), lent + own, -0.5 * fsum(own) * log(total)


def _agreement(squares: FloatArray, own: FloatArray) -> float:
    """Return the degrees of freedom that what all sets have shown is worth to each, by how far their variances agree.

    Smyth (2004, section 6.2), with 1/x + 1/(2 x^2) for the trigamma function and 1/x + 1/(3 x^2) for the digamma's.
    """
    seen = squares > np.finfo(float).eps
    if seen.sum() < 2:
        return np.inf
    d = own[seen]
    logs = np.log(squares[seen] / d) + 1 / d + 1 / (3 * d**2)
    excess = float(logs.var(ddof=1)) - float(np.mean(2 / d + 2 / d**2))
    return np.inf if excess <= 0 else (1 + sqrt(1 + 2 * excess)) / excess
