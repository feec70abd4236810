"""One cell of a grid: what is run, and its name on disk."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy of a grid: a short label, and what it stands for."""

    label: str
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Nested as the policy's dataclass is."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Instead of the problem's model options."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulated campaign."""

    problem: str
    costs: str
    variance: float
    policy: PolicySpec
    seed: int
    budget: float
    """Currency units."""
    data: str | None = None
    """Directory of the arrays some problems need; not part of the cell's identity."""

    @property
    def id(self) -> str:
        """Return a file name that can be read, and differs wherever anything asked for differs."""
        content = {k: v for k, v in asdict(self).items() if k != "data"}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
        numbers = f"{self.variance:g}-{self.policy.label}-b{self.budget:g}-s{self.seed}"
        return re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{self.problem}-{self.costs}-{numbers}-{digest}")
