"""How an uncontrolled variable varies: density, quantiles and 1-D kernel integrals (algorithms, section 3)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Marginal(Protocol):
    """A distribution on the unit interval (readings may fall a little outside)."""

    def quantile(self, p: FloatArray) -> FloatArray:
        """Inverse distribution function, elementwise."""
        ...
