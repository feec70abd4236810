"""A natural range apart from the range of setpoints: tap water of pH 7.8 where 5.5 to 6.5 can be chosen.

The unit interval is what can be chosen. A variable that is left alone may be elsewhere, so its distribution is one of
[0, 1] stretched over its natural range. Kernels depend on distances only: integrals over the natural range are those of
[0, 1] with a kernel as much narrower, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.kernels import Kernel1D
from rigctl.core.experiment.marginals.families import Marginal, marginal_from_engineering


@dataclass(frozen=True, slots=True)
class Stretched:
    """Distribute a variable over [low, high] as another marginal is distributed over [0, 1].

    Raises:
        ValueError: the interval is empty or not finite.
    """

    marginal: Marginal
    low: float
    """Unit cube; may lie outside [0, 1], as `high` may."""
    high: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"natural range: got [{self.low}, {self.high}], must be finite and rising")

    @property
    def mean(self) -> float:
        return self.low + self.span * self.marginal.mean

    def quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(self.low + self.span * self.marginal.quantile(p))

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:
        return self.marginal.z(self.inside(b), kernel.narrowed(self.span))

    def Z(self, b: FloatArray, b2: FloatArray, kernel: Kernel1D) -> FloatArray:  # noqa: N802 - the paper's symbol
        return self.marginal.Z(self.inside(b), self.inside(b2), kernel.narrowed(self.span))

    def zz(self, kernel: Kernel1D) -> float:
        return self.marginal.zz(kernel.narrowed(self.span))

    @property
    def span(self) -> float:
        return self.high - self.low

    def inside(self, b: FloatArray | float) -> FloatArray:
        """Return where values lie on the marginal that is stretched, elementwise."""
        return np.asarray((np.asarray(b, dtype=float) - self.low) / self.span)


def stretched(marginal: Marginal, low: float, high: float) -> Marginal:
    """Return a marginal of [0, 1] over [low, high], unit cube; itself where that is [0, 1]."""
    return marginal if (low, high) == (0.0, 1.0) else Stretched(marginal, low, high)


def natural_marginal(
    kind: str,
    params: Mapping[str, Any] | Sequence[float],
    setpoints: tuple[float, float],
    natural: tuple[float, float] | None = None,
) -> Marginal:
    """Make a marginal on the unit cube of setpoints of what an operator writes, for a natural range of its own.

    Args:
        kind: as for `marginal_from_engineering`.
        params: as there.
        setpoints: lowest and highest setpoint, engineering units.
        natural: lowest and highest natural value, engineering units; None: those of the setpoints.

    Raises:
        ValueError: as there.
    """
    if natural is None or kind == "empirical":  # readings are where they are
        return marginal_from_engineering(kind, params, *setpoints)
    low, high = (share_of(value, setpoints) for value in natural)
    return stretched(marginal_from_engineering(kind, params, *natural), low, high)


def share_of(value: float, setpoints: tuple[float, float]) -> float:
    """Return where a value lies between lowest and highest setpoint: 0 and 1 there."""
    return (value - setpoints[0]) / (setpoints[1] - setpoints[0])
