"""Variables of a process and how they vary when nobody controls them."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from statistics import NormalDist
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sim_rig.errors import PlantError

FloatArray = NDArray[np.float64]

_STANDARD = NormalDist()
_ROUNDS = 5000
_CLOSE = 1e-11
_FLATTEST = 100.0


def _moments(loc: float, scale: float, low: float, high: float) -> tuple[float, float]:
    """Return mean and sd of N(loc, scale^2) cut to [low, high] (Johnson, Kotz & Balakrishnan 1994, 13.10)."""
    a, b = (low - loc) / scale, (high - loc) / scale
    mass = _STANDARD.cdf(b) - _STANDARD.cdf(a)
    if mass <= 0.0:
        raise PlantError(f"normal({loc}, {scale}) has no mass in [{low}, {high}]")
    pa, pb = _STANDARD.pdf(a), _STANDARD.pdf(b)
    shift = (pa - pb) / mass
    variance = 1.0 + (a * pa - b * pb) / mass - shift * shift
    return loc + scale * shift, scale * math.sqrt(max(variance, 0.0))


@dataclass(frozen=True, slots=True)
class CutNormal:
    """Cuts a normal distribution to a range; given are the mean and sd of the cut variable itself.

    Raises:
        PlantError: no cut normal distribution has this mean and sd in this range.
    """

    mean: float
    sd: float
    low: float
    high: float
    loc: float = field(init=False)
    scale: float = field(init=False)

    def __post_init__(self) -> None:
        loc, scale = self.mean, self.sd
        span = self.high - self.low
        for _ in range(_ROUNDS):
            mean, sd = _moments(loc, scale, self.low, self.high)
            if abs(mean - self.mean) + abs(sd - self.sd) < _CLOSE * span:
                object.__setattr__(self, "loc", loc)
                object.__setattr__(self, "scale", scale)
                return
            if scale > _FLATTEST * span or sd <= 0.0:
                break  # it would have to be flatter than flat
            loc += self.mean - mean
            scale *= self.sd / sd
        raise PlantError(f"mean {self.mean}, sd {self.sd} in [{self.low}, {self.high}]: no cut normal has these")

    def sample(self, rng: np.random.Generator) -> float:
        return float(self.quantile(np.array([rng.random()]))[0])

    def quantile(self, p: FloatArray) -> FloatArray:
        """Invert the distribution function; `p`: (n,) in (0, 1) -> (n,) engineering units."""
        floor = _STANDARD.cdf((self.low - self.loc) / self.scale)
        ceiling = _STANDARD.cdf((self.high - self.loc) / self.scale)
        mass = np.clip(floor + np.asarray(p, dtype=float) * (ceiling - floor), 1e-300, 1.0 - 1e-16)
        z = np.array([_STANDARD.inv_cdf(float(q)) for q in mass])
        return np.clip(self.loc + self.scale * z, self.low, self.high)


class Noise:
    """Gives an instrument's noise as a function of seed, instrument and time, however often and by whom it is read.

    Two readings of one instrument at the same instant are equal.
    """

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._key = int(seed.generate_state(1, np.uint64)[0])

    def at(self, instrument: str, time_s: float) -> float:
        """Return a standard normal number."""
        moment = struct.unpack("<Q", struct.pack("<d", time_s))[0]
        return float(np.random.default_rng((self._key, crc32(instrument.encode()), moment)).standard_normal())


@dataclass(frozen=True, slots=True)
class PlantVariable:
    """Describes one quantity of the process."""

    name: str
    unit: str
    low: float
    """Lowest setpoint, engineering units."""
    high: float
    """Highest setpoint, engineering units."""
    natural: CutNormal
    """How it varies when left alone."""

    @classmethod
    def of(cls, name: str, unit: str, bounds: tuple[float, float], mean: float, sd: float) -> PlantVariable:
        """Make a variable that naturally varies as a normal distribution cut to its own range."""
        low, high = bounds
        return cls(name, unit, low, high, CutNormal(mean, sd, low, high))


def to_unit(variables: tuple[PlantVariable, ...], x: FloatArray) -> FloatArray:
    """Map (n, d), engineering units -> (n, d), 0 at each variable's lowest setpoint and 1 at its highest."""
    low = np.array([v.low for v in variables])
    high = np.array([v.high for v in variables])
    return np.asarray((x - low) / (high - low))
