"""The relaxation eps_t of UCB-CVS: by how much a cheaper control set may look worse and still be played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import Problem


@dataclass(frozen=True, slots=True)
class Epsilon:
    """The eps schedule (Tay et al., NeurIPS 2023, section 4.1): never negative; 0 ignores all costs.

    Raises:
        ValueError: an option is out of its range, or does not belong to the schedule.
    """

    schedule: Literal["constant", "linear", "list"] = "linear"
    start: float = 1.0
    """The constant, or where the line starts."""
    unit: Literal["spread", "outcome"] = "spread"
    """What `start` and `values` are counted in: the spread of the outcome as the model is told (`signal_sd`) or, where
    it learns, as the standard deviation of the outcomes at its last fit; or outcome units."""
    trials: int | None = None
    """The line reaches 0 after this many trials; None: with the last of the budget."""
    values: tuple[float, ...] = ()
    """The list, one per trial; 0 after its end."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.start) and self.start >= 0):
            raise ValueError(f"epsilon.start: got {self.start}, must be finite and >= 0")
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"epsilon.trials: got {self.trials}, must be >= 1")
        if self.trials is not None and self.schedule != "linear":
            raise ValueError(f"epsilon.trials: got {self.trials} for the schedule {self.schedule!r}, is for 'linear'")
        if (self.schedule == "list") != bool(self.values):
            raise ValueError(f"epsilon.values: got {len(self.values)} of them for the schedule {self.schedule!r}")
        if not all(np.isfinite(v) and v >= 0 for v in self.values):
            raise ValueError(f"epsilon.values: got {list(self.values)}, must all be finite and >= 0")

    def now(self, problem: Problem, history: History, spread: float) -> float:
        """eps_t of the next trial, outcome units; points known before the campaign are no trials.

        Args:
            problem: for its budget.
            history: for the trials and money so far.
            spread: of the outcome, its own units.
        """
        played = sum(o.control_set >= 0 for o in history.observations)
        if self.schedule == "list":
            amount = self.values[played] if played < len(self.values) else 0.0
        elif self.schedule == "constant":
            amount = self.start
        elif self.trials is not None:
            amount = self.start * max(0.0, 1.0 - played / self.trials)
        else:
            amount = self.start * max(0.0, 1.0 - history.spent / problem.budget)
        return amount * (spread if self.unit == "spread" else 1.0)
