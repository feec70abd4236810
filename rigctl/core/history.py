"""What has been observed so far: frozen, appended to by returning a new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rigctl.core.money import Micros, to_units
from rigctl.core.space import FloatArray


@dataclass(frozen=True, slots=True)
class Observation:
    """One charged trial.

    A failed or lost trial has no outcome (`y is None`), and still has cost. `x` is what was measured, also for
    controlled variables (the read-back, not the setpoint); `None` where the trial ended before it was measured.
    """

    trial: int
    control_set: int
    """Index into `Space.control_sets`."""
    x: tuple[float, ...] | None
    """(d,), unit cube."""
    y: float | None
    """The outcome in its own units."""
    cost: Micros
    cost_known: bool = True
    """False where the cost was estimated (a meter fell or could not be read)."""


@dataclass(frozen=True, slots=True)
class History:
    """All charged trials, in order."""

    observations: tuple[Observation, ...] = ()

    def append(self, observation: Observation) -> History:
        """A longer history; this one stays as it is."""
        return History((*self.observations, observation))

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> History:
        """A history of these observations."""
        return cls(tuple(observations))

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def complete(self) -> tuple[Observation, ...]:
        """The observations a model can learn from: measured inputs and an outcome."""
        return tuple(o for o in self.observations if o.x is not None and o.y is not None)

    @property
    def x(self) -> FloatArray:
        """(n, d), unit cube: inputs of the complete observations."""
        rows = [o.x for o in self.complete]
        return np.array(rows, dtype=float) if rows else np.empty((0, 0))

    @property
    def y(self) -> FloatArray:
        """(n,), outcome's own units: outcomes of the complete observations."""
        return np.array([o.y for o in self.complete], dtype=float)

    @property
    def spent(self) -> Micros:
        """The sum of all costs, exact; failed and lost trials count."""
        return sum(o.cost for o in self.observations)

    def costs(self, control_set: int) -> FloatArray:
        """(T_i,), currency units: every known cost this control set has had."""
        known = [to_units(o.cost) for o in self.observations if o.control_set == control_set and o.cost_known]
        return np.array(known, dtype=float)

    def trials_of(self, control_set: int) -> int:
        """How many charged trials this control set has had, T_i."""
        return sum(o.control_set == control_set for o in self.observations)
