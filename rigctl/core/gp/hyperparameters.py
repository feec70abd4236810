"""The parameters of the surrogate: values and exact JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from rigctl.core.kernels import KernelName, ProductKernel
from rigctl.errors import RigctlError


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Hold all there is to know of a fit besides the data, which together give the posterior back exactly.

    The model describes y' = (y - y_shift) / y_scale; `signal_sd`, `noise_sd` and `mean` are on that scale.
    """

    lengthscales: tuple[float, ...]
    """(d,), unit cube."""
    signal_sd: float
    noise_sd: float
    mean: float = 0.0
    y_shift: float = 0.0
    y_scale: float = 1.0
    kernel: KernelName = "squared-exponential"

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` takes; floats survive exactly."""
        return {**asdict(self), "lengthscales": list(self.lengthscales)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Hyperparameters:
        """Return the inverse of `to_json`.

        Raises:
            ValueError: keys are missing or unknown.
        """
        known = {f.name for f in fields(cls)}
        if set(stored) != known:
            raise ValueError(f"hyper-parameters: got keys {sorted(stored)}, must be exactly {sorted(known)}")
        return cls(**{**stored, "lengthscales": tuple(stored["lengthscales"])})

    @property
    def product_kernel(self) -> ProductKernel:
        """Return the kernel of correlations; times `signal_sd`^2 they are covariances."""
        return ProductKernel(self.kernel, np.array(self.lengthscales))

    @property
    def signal_variance(self) -> float:
        """Return the prior variance, standardised."""
        return self.signal_sd**2


class FitFailed(RigctlError):
    """Says why no start led to a finite optimum."""
