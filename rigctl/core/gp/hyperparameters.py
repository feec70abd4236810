"""The parameters of the surrogate: values and exact JSON.

How a response has aged: terms in time that stand between past outcomes and those of now.

A trial at time t gave y = f(x) - D(t) + noise, f being the response of now and D(t) what it has changed by since. Only
the difference from now is modelled: so f, and all that integrates or climbs it, stays as it is, and D is correlated
noise on the past. Times are trial numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.kernels import KernelName, ProductKernel
from rigctl.errors import RigctlError
from rigctl.flaws import got, require
from rigctl.text import decimals_for

Kind = Literal["step", "ramp", "season", "wander"]


@dataclass(frozen=True, slots=True)
class Term:
    """Describe one way in which the response has changed, by its prior; own units of the outcome."""

    kind: Kind
    since: int
    """The first trial of the changed response, or of the ramp; 0 for a season."""
    noticed: int
    """The trial whose outcome gave it away."""
    scale: float
    """Prior sd: of a step's height, a ramp's or a wander's rise per trial, a season's amplitude."""
    period: float = 0.0
    """Of a season, trials."""
    reshaped: float = 0.0
    """Share of the signal by which outcomes from before a step differ in shape too; 0: in level only."""
    change: float = 0.0
    """How much larger the value is now than before, as estimated when it was last looked at; see `told`."""
    change_sd: float = 0.0
    """Its standard deviation."""

    def basis(self, times: FloatArray, now: float) -> FloatArray:
        """Return D(t) per unit of what is unknown, (n, 1 or 2); of a wander the time since, whose root is its sd."""
        if self.kind == "step":
            return np.asarray((times < self.since)[:, None], dtype=float)
        if self.kind == "season":
            angle, today = 2 * np.pi * times / self.period, 2 * np.pi * now / self.period
            return np.stack([np.cos(today) - np.cos(angle), np.sin(today) - np.sin(angle)], axis=1)
        return np.asarray(np.maximum(now - np.maximum(times, self.since), 0.0))[:, None]

    def covariance(self, a: FloatArray, b: FloatArray, now: float, signal: FloatArray | None = None) -> FloatArray:
        """Return Cov[D(a), D(b)], own units squared, (n, m).

        Args:
            a: (n,), times.
            b: (m,), times.
            now: the time D is counted from.
            signal: (n, m), prior covariance of f at the two trials' inputs, own units squared.
        """
        left, right = self.basis(a, now), self.basis(b, now)
        if self.kind == "wander":
            return np.asarray(self.scale**2 * np.minimum(left, right.T))
        out = self.scale**2 * (left @ right.T)
        if self.reshaped and signal is not None:
            out += self.reshaped**2 * (left @ right.T) * signal
        return np.asarray(out)


def covariance(
    terms: Sequence[Term], a: FloatArray, b: FloatArray, now: float, signal: FloatArray | None = None
) -> FloatArray:
    """Return the sum over terms, which are independent; arguments as of `Term.covariance`."""
    return np.asarray(sum((t.covariance(a, b, now, signal) for t in terms), np.zeros((len(a), len(b)))))


def terms_of(stored: Sequence[Mapping[str, Any]]) -> tuple[Term, ...]:
    """Return the terms of which `asdict` has made these; raises ValueError if keys are missing or unknown."""
    known = {f.name for f in fields(Term)}
    for term in stored:
        require(set(term) == known, sorted(term), f"must be the keys {', '.join(sorted(known))}", where="ageing")
    return tuple(Term(**term) for term in stored)


TWO_SIDED = 1.959964
"""Standard deviations of the 95 % interval."""


def told(term: Term, turn: float, *, outcome: str = "the outcome", unit: str = "") -> str:
    """Say in plain sentences how the response has changed; `turn` is -1 where less is better, `unit` as shown."""
    low, high = (turn * term.change + side * TWO_SIDED * term.change_sd for side in (-1, 1))
    noticed = f"(noticed at trial {term.noticed})"
    if term.kind == "season":
        swing = _between(max(low, 0.0), high, term, unit)
        return f"{outcome} swings with a period of about {term.period:.3g} trials {noticed}. It does so by {swing}"
    if low > 0:
        by = f"risen by {_between(low, high, term, unit)}"
    elif high < 0:
        by = f"fallen by {_between(-high, -low, term, unit)}"
    else:
        by = f"changed by {_between(low, high, term, unit)}"
    if term.kind == "step":
        shape = ". Earlier trials count less, as not only the level has changed" if term.reshaped else ""
        return f"the response has changed at trial {term.since} {noticed}. By that {outcome} has {by}{shape}"
    word = "has drifted steadily" if term.kind == "ramp" else "has wandered"
    return f"the response {word} since trial {term.since} {noticed}. By then {outcome} had {by}"


def _between(low: float, high: float, term: Term, unit: str) -> str:
    places = decimals_for([term.change_sd])
    return f"{low:.{places}f} to {high:.{places}f} {unit}".rstrip()


VERSION = 1
"""Of their JSON form, which policies keep in their state."""
AGED = 2
"""Of that form where the response has aged; where it has not, nothing of it is written."""
CATEGORICAL = 3
"""Of that form where a variable is a category; where none is, nothing of it is written."""


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
    levels: tuple[int, ...] = ()
    """(d,), as of `ProductKernel`."""

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` takes; floats survive exactly."""
        values = {"version": VERSION, **asdict(self), "lengthscales": list(self.lengthscales)}
        ageing, levels = list(values.pop("ageing")), list(values.pop("levels"))
        if ageing:
            values |= {"version": AGED, "ageing": ageing}
        return {**values, "version": CATEGORICAL, "levels": levels} if levels else values

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Hyperparameters:
        """Return the inverse of `to_json`.

        Raises:
            ValueError: keys are missing or unknown, or a newer rigctl wrote them.
        """
        version, values = stored.get("version", 0), {k: v for k, v in stored.items() if k != "version"}
        if version > CATEGORICAL:
            raise ValueError(f"hyper-parameters: of version {version}, this rigctl knows up to {CATEGORICAL}")
        ageing, levels = terms_of(values.pop("ageing", ())), tuple(values.pop("levels", ()))
        known = {f.name for f in fields(cls)} - {"ageing", "levels"}
        if set(values) != known:
            raise ValueError(
                got(sorted(values), f"must be the keys {', '.join(sorted(known))}", where="hyper-parameters")
            )
        return cls(**{**values, "lengthscales": tuple(values["lengthscales"])}, ageing=ageing, levels=levels)

    @classmethod
    def remembered(cls, state: Mapping[str, Any] | None) -> Hyperparameters | None:
        """Return those in a policy's memory; None where it has none. Raises as `from_json`."""
        stored = (state or {}).get("hyperparameters")
        return None if stored is None else cls.from_json(stored)

    @property
    def product_kernel(self) -> ProductKernel:
        """Return the kernel of correlations; times `signal_sd`^2 they are covariances."""
        return ProductKernel(self.kernel, np.array(self.lengthscales), self.levels)

    @property
    def theta(self) -> FloatArray:
        """Return the logarithms that are learned, (d + 2,), as in `core.gp.priors`."""
        return np.asarray(np.log([self.signal_sd, self.noise_sd, *self.lengthscales]))

    def with_values(self, values: FloatArray) -> Hyperparameters:
        """Return those that have other values of what is learned, (d + 2,): the exponentials of `theta`."""
        signal_sd, noise_sd, *lengthscales = (float(v) for v in values)
        return replace(self, signal_sd=signal_sd, noise_sd=noise_sd, lengthscales=tuple(lengthscales))

    def residual(self, y: FloatArray) -> FloatArray:
        """Return outcomes (n,), own units, less the prior mean, standardised."""
        return np.asarray((y - self.y_shift) / self.y_scale - self.mean)

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
