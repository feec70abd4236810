"""What a trial is expected to cost: by control set, and by setting where that matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rigctl.core.costs.beliefs import CostBelief, believe
from rigctl.core.costs.fields import BelievedCosts, cost_field

if TYPE_CHECKING:
    from rigctl.core.experiment.arrays import FloatArray
    from rigctl.core.experiment.history import History
    from rigctl.core.experiment.problem import CostField, Problem


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Hold what is believed of costs, currency units."""

    beliefs: tuple[CostBelief, ...]
    """(m,), by control set."""
    field: CostField | None
    """Where costs depend on the setting."""
    told: bool
    """Whether the field is known, not learned."""

    @classmethod
    def of(cls, problem: Problem, history: History) -> Prices:
        """Learn them from what was metered, unless the problem knows them."""
        beliefs = believe(problem, history, "empirical-bernstein")
        told = problem.known_cost_field is not None
        field = cost_field(problem, history, beliefs) if problem.costs_by_setting else None
        return cls(beliefs, field, told)

    def at(self, control_set: int, settings: FloatArray) -> FloatArray | None:
        """Return the mean cost of a trial at each of the settings (b, k), (b,); None: nobody knows."""
        mean = self.beliefs[control_set].mean
        if self.field is None:
            return None if mean is None else np.full(len(settings), mean)
        return np.asarray(self.field.mean(control_set, settings)) if self.told or mean is not None else None

    def interval(self, control_set: int, setting: FloatArray, level: float) -> tuple[float, float] | None:
        """Return where the mean cost of a trial at this setting (1, k) is with this probability; None: nobody knows."""
        mean, spread = self.at(control_set, setting), self.beliefs[control_set].spread
        if isinstance(self.field, BelievedCosts) and control_set in self.field.processes:
            spread = self.field.processes[control_set].spread(setting)
        if mean is None or spread is None:
            return None if mean is None else (float(mean[0]), float(mean[0]))
        return spread.interval(float(mean[0]), level)
