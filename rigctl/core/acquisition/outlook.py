"""What every bound-based policy looks at before it chooses: bounds, costs, affordability, first points.

Assembled once per decision; the policies differ only in what they choose from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from rigctl.core.bounds.best import SetBounds, best_bounds
from rigctl.core.costs.beliefs import CostBelief, CostBound, believe
from rigctl.core.costs.feasibility import within
from rigctl.core.costs.fields import cost_field, predicted_upper
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import CostField, JsonState, Problem, sign, value_floor
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import Fitted, fit_history
from rigctl.core.money import Micros, to_units
from rigctl.core.natural import fingerprint
from rigctl.core.policy import BudgetSpent, SetReport


@dataclass(frozen=True, slots=True)
class Outlook:
    """Today's beliefs. Bounds are values (larger is better), costs in currency."""

    problem: Problem
    history: History
    fitted: Fitted
    bounds: tuple[SetBounds, ...]
    costs: tuple[CostBelief, ...]
    field: CostField
    """What every setting is believed to cost."""
    floor: float
    """The worst value the outcome can take."""
    changed: bool = False
    """Whether hyper-parameters or marginals are others than at the last decision: bounds from before do not count."""
    moved: frozenset[int] = frozenset()
    """Control sets whose maximisers are those of what is affordable now: their bounds do not count later."""

    @property
    def upper(self) -> tuple[float, ...]:
        """u_i, per control set."""
        return tuple(b.upper for b in self.bounds)

    @property
    def lower(self) -> float:
        """The largest l_i."""
        return max(b.lower for b in self.bounds)

    def predicted(self, control_set: int, setting: Sequence[float] | None = None) -> Micros:
        """What a trial of this set may cost at most.

        Where costs depend on the setting: at the setting (k,) given, else at the set's upper maximiser, of those that
        fit what is left (`affording.within`).
        """
        if self.problem.cost_model == "per-set" and self.problem.known_cost_field is None:
            return self.costs[control_set].upper
        at = self.bounds[control_set].upper_at if setting is None else setting
        return predicted_upper(self.problem, self.history, control_set, at, self.field)

    def fits(self, control_set: int, setting: Sequence[float] | None = None) -> bool:
        """Whether such a trial is predicted to fit what is left of the budget; see `predicted`."""
        return self.history.spent + self.predicted(control_set, setting) <= self.problem.budget

    def affordable(self, among: Sequence[int]) -> list[int]:
        """Those of `among` that fit the remaining budget.

        Raises:
            BudgetSpent: none does.
        """
        fitting = [i for i in among if self.fits(i)]
        left = to_units(self.problem.budget - self.history.spent)
        if left <= 0 or not fitting:
            cheapest = min((self.predicted(i) for i in among), default=0)
            raise BudgetSpent(f"{left:g} left; the cheapest useful trial may cost {to_units(cheapest):g}")
        return fitting

    def reports(self, eligible: Sequence[int]) -> tuple[SetReport, ...]:
        """One report per control set, in the outcome's own units."""
        s, space = sign(self.problem), self.problem.space
        return tuple(
            SetReport(
                control_set=chosen.names,
                upper=s * b.upper,
                lower=s * b.lower,
                upper_at=space.setpoints(i, b.upper_at),
                lower_at=space.setpoints(i, b.lower_at),
                mean=s * b.mean_at_upper,
                sd=b.sd_at_upper,
                cost_mean=c.mean,
                cost_lcb=c.lcb,
                trials=self.history.trials_of(i),
                eligible=i in eligible,
            )
            for i, (chosen, b, c) in enumerate(zip(space.control_sets, self.bounds, self.costs, strict=True))
        )


def look(
    problem: Problem, history: History, state: JsonState, cost_bound: CostBound, rng: np.random.Generator
) -> Outlook:
    """Fit, bound and cost everything, warm-started from the state of the last decision."""
    stored = state.get("hyperparameters")
    previous = None if stored is None else Hyperparameters.from_json(stored)
    fitted = fit_history(problem, history, previous, int(state.get("fitted_at", 0)))
    warm = {int(i): np.array(at) for i, at in state.get("maximisers", {}).items()}
    bounds = best_bounds(fitted.posterior, problem.space, problem.model, rng, warm)
    costs = believe(problem, history, cost_bound)
    field, moved = cost_field(problem, history), frozenset[int]()
    if problem.cost_model == "per-setting" or problem.known_cost_field is not None:
        left = to_units(max(0, problem.budget - history.spent))
        affordable = within(left, problem, fitted.posterior, bounds, field, rng=rng)
        moved = frozenset(i for i, (new, old) in enumerate(zip(affordable, bounds, strict=True)) if new is not old)
        bounds = affordable
    changed = fitted.refitted or state.get("naturals", fingerprint(problem.space)) != fingerprint(problem.space)
    floor = value_floor(problem, history)
    return Outlook(problem, history, fitted, bounds, costs, field, floor, changed, moved)


def remember(outlook: Outlook) -> dict[str, object]:
    """What `look` wants to find in the state next time."""
    return {
        "hyperparameters": outlook.fitted.hyperparameters.to_json(),
        "fitted_at": outlook.fitted.fitted_at,
        "naturals": fingerprint(outlook.problem.space),
        "maximisers": {str(b.control_set): [float(v) for v in b.upper_at] for b in outlook.bounds},
    }


@dataclass(frozen=True, slots=True)
class Intersection:
    """Running intersections of confidence bounds (U Algorithm 1, lines 10 to 20).

    Valid for one fit and one belief about the marginals only: `restarted` when `Outlook.changed`.
    """

    lcb: float
    """Largest lower bound seen."""
    ucb: tuple[float, ...]
    """Per set, smallest upper bound seen."""

    @classmethod
    def of(cls, state: JsonState, count: int) -> Intersection:
        """As kept in the state; unbounded where it was never seen."""
        lcb = state.get("lcb")
        ucb: Mapping[str, float] = state.get("ucb", {})
        return cls(-inf if lcb is None else lcb, tuple(ucb.get(str(i), inf) for i in range(count)))

    @classmethod
    def restarted(cls, count: int) -> Intersection:
        """Nothing seen yet."""
        return cls(-inf, (inf,) * count)

    def narrowed(self, lower: float, upper: Mapping[int, float]) -> Intersection:
        """With today's largest lower bound and the upper bounds of some sets."""
        return Intersection(max(self.lcb, lower), tuple(min(u, upper.get(i, inf)) for i, u in enumerate(self.ucb)))

    def to_state(self) -> dict[str, object]:
        """JSON: unbounded entries are left out."""
        return {
            "lcb": None if self.lcb == -inf else self.lcb,
            "ucb": {str(i): u for i, u in enumerate(self.ucb) if u != inf},
        }


def first_point(size: int, play: int, sobol_seed: int) -> tuple[float, ...]:
    """Point number `play` of a scrambled Sobol sequence over a set's own `size` variables, unit cube."""
    from scipy.stats import qmc  # noqa: PLC0415 - heavy: not for commands that decide nothing

    sequence = qmc.Sobol(size, scramble=True, rng=np.random.default_rng([sobol_seed, size]))
    if play:  # scipy's fast_forward(0) overflows
        sequence.fast_forward(play)
    return tuple(float(v) for v in sequence.random(1)[0])
