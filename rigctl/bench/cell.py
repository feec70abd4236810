"""One cell of a grid: what is run, and its name on disk.

Names that a person typed, and the nearest ones there are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from annotated_types import MinLen

from rigctl.errors import UsageError
from rigctl.flaws import got
from rigctl.plugins import did_you_mean


def must_be_one_of(name: object, allowed: Iterable[str], what: str) -> None:
    """Refuse a name that is not allowed; the UsageError names the nearest that is, and all others."""
    known = list(allowed)
    if name in known:
        return
    must = f"must be one of {', '.join(known) or '(there are none)'}"
    raise UsageError(got(str(name), must, did_you_mean(str(name), known), where=what))


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy of a grid: a short label, and what it stands for."""

    label: Annotated[str, MinLen(1)]
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Nested as the policy's dataclass is."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Instead of the problem's model options."""
    reading: bool = True
    """Whether it is told what the variables read before a trial, where they are read."""


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
    rho: float | None = None
    """How far what is read before a trial persists in it, in [0, 1]; None: nothing is read."""
    reading_sd: float = 0.0
    """Standard deviation of the readings' errors, unit cube."""

    @property
    def id(self) -> str:
        """Return a file name that can be read, and differs wherever anything asked for differs."""
        content = {k: v for k, v in asdict(self).items() if k != "data"}
        if self.rho is None:  # named as before there were readings, so that what was run before is found again
            del content["rho"], content["reading_sd"], content["policy"]["reading"]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
        numbers = f"{self.variance:g}-{self.policy.label}-b{self.budget:g}-s{self.seed}"
        return re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{self.scene}-{self.costs}-{numbers}-{digest}")

    @property
    def scene(self) -> str:
        """Return the problem as tables name it: `airfoil`, or with readings `airfoil, rho 0.9`."""
        if self.rho is None:
            return self.problem
        error = f", error {self.reading_sd:g}" if self.reading_sd else ""
        return f"{self.problem}, rho {self.rho:g}{error}"
