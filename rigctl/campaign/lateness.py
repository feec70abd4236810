"""How late the watch has looked: counts by size, which take the same room after a month."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor, log

LEAST_S = 1e-4
"""Below that a look counts as in time."""
STEP = 1.1
"""Ratio of one size to the next: quantiles are told to a tenth of themselves."""


@dataclass(slots=True)
class Lateness:
    """Counts how late looks came, wall seconds; mutable."""

    worst_s: float = 0.0
    looks: int = 0
    _sizes: Counter[int] = field(default_factory=Counter)

    def add(self, late_s: float) -> None:
        self.worst_s = max(self.worst_s, late_s)
        self.looks += 1
        self._sizes[floor(log(max(late_s, LEAST_S) / LEAST_S, STEP)) + 1 if late_s > LEAST_S else 0] += 1

    def quantile_s(self, share: float) -> float:
        """Return a delay that this share of all looks did not exceed; 0 before the first."""
        left = share * self.looks
        for size, count in sorted(self._sizes.items()):
            left -= count
            if left <= 0:
                return min(LEAST_S * STEP**size, self.worst_s)
        return self.worst_s

    def to_json(self) -> Mapping[str, float]:
        """Return how many looks there were, and how late their median, 99th percentile and worst came."""
        quantiles = {"late_p50_s": self.quantile_s(0.5), "late_p99_s": self.quantile_s(0.99)}
        return {"looks": self.looks, **quantiles, "late_max_s": self.worst_s}
