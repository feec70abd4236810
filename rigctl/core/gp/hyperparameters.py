"""The parameters of the surrogate: values and exact JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.kernels import KernelName, ProductKernel
from rigctl.core.gp.terms import Term, terms_of
from rigctl.errors import RigctlError

VERSION = 1
"""Of their JSON form, which policies keep in their state."""
AGED = 2
"""Of that form where the response has aged; where it has not, nothing of it is written."""


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
    ageing: tuple[Term, ...] = ()
    """How the response has changed; empty: as far as anybody can tell it has not."""

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` takes; floats survive exactly."""
        values = {"version": VERSION, **asdict(self), "lengthscales": list(self.lengthscales)}
        ageing = list(values.pop("ageing"))
        return {**values, "version": AGED, "ageing": ageing} if ageing else values

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Hyperparameters:
        """Return the inverse of `to_json`.

        Raises:
            ValueError: keys are missing or unknown, or a newer rigctl wrote them.
        """
        version, values = stored.get("version", 0), {k: v for k, v in stored.items() if k != "version"}
        if version > AGED:
            raise ValueError(f"hyper-parameters: of version {version}, this rigctl knows up to {AGED}")
        ageing = terms_of(values.pop("ageing", ()))
        known = {f.name for f in fields(cls)} - {"ageing"}
        if set(values) != known:
            raise ValueError(f"hyper-parameters: got keys {sorted(values)}, must be exactly {sorted(known)}")
        return cls(**{**values, "lengthscales": tuple(values["lengthscales"])}, ageing=ageing)

    @classmethod
    def remembered(cls, state: Mapping[str, Any] | None) -> Hyperparameters | None:
        """Return those in a policy's memory; None where it has none. Raises as `from_json`."""
        stored = (state or {}).get("hyperparameters")
        return None if stored is None else cls.from_json(stored)

    @property
    def product_kernel(self) -> ProductKernel:
        """Return the kernel of correlations; times `signal_sd`^2 they are covariances."""
        return ProductKernel(self.kernel, np.array(self.lengthscales))

    def noise_variances(self, noise: FloatArray) -> FloatArray:
        """Return each observation's noise variance, (n,), standardised; `noise` is (n, 2) as in `History.noise`."""
        known, factor = noise.T
        variances = np.where(np.isnan(known), np.square(factor * self.noise_sd), np.square(known / self.y_scale))
        return np.asarray(variances)

    @property
    def signal_variance(self) -> float:
        """Return the prior variance, standardised."""
        return self.signal_sd**2


class FitFailed(RigctlError):
    """Says why no start led to a finite optimum."""
