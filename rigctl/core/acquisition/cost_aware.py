"""What cost-aware acquisitions look at before they choose: posterior, costs, the best so far, what lambda means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rigctl.core.acquisition.improvement import expected_improvement
from rigctl.core.acquisition.maximisers import Found
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import CostField, Problem, sign
from rigctl.core.gp.model import Fitted
from rigctl.core.money import to_micros, to_units
from rigctl.core.policy import BudgetSpent, NotWorthIt, Proposal, SetReport


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What one decision knows. Values are larger the better; standardised ones are those of the posterior inside."""

    problem: Problem
    history: History
    fitted: Fitted
    field: CostField
    best: float
    """The best value so far, standardised."""
    spread: float
    """How much the outcome varies, standardised: the unit of scores that are not logarithms."""
    weight: float
    """Today's lambda, in its own units."""
    unit: float
    """Standardised value per unit of currency that lambda is counted in."""
    selective: bool
    """Whether a trial that is not worth its cost counts as out of play: not where lambda has no say."""

    @property
    def rate(self) -> float:
        """Lambda, as standardised value per unit of currency."""
        return self.weight * self.unit

    def own(self, standardised: float) -> float:
        """That value as an outcome, in its own units."""
        h = self.fitted.hyperparameters
        return sign(self.problem) * (h.y_shift + h.y_scale * standardised)

    def label(self, found: Found) -> str:
        """The control set, as written in reasons."""
        return self.problem.space.control_sets[found.control_set].label

    def fits(self, cost: float) -> bool:
        """Whether a trial that may cost so much, currency, fits what is left of the budget."""
        return self.history.spent + to_micros(cost) <= self.problem.budget

    def gain(self, found: Found) -> float:
        """How much a trial there is expected to improve on the best so far, outcome units."""
        h = self.fitted.hyperparameters
        best = h.y_shift + h.y_scale * self.best
        return float(expected_improvement(np.array([found.mean]), np.array([found.sd]), best)[0])

    def worth_it(self, found: Found) -> bool:
        """The stopping rule (section 3.2) turned round: whether a trial there gains more than it costs.

        EI(best) > lambda c exactly where the index exceeds the best: the answer for a setting chosen by its index, or
        by EI per cost, holds for all settings; for another choice it holds for that one only.
        """
        return self.gain(found) > self.fitted.hyperparameters.y_scale * self.rate * found.cost

    def report(self, found: Found) -> SetReport:
        """One control set, at the best setting found: both bounds are those of that setting, not of others.

        The cost's lower bound is as far below its mean as the predicted most is above.
        """
        s, at = sign(self.problem), self.problem.space.setpoints(found.control_set, found.setting)
        width = self.problem.model.beta * found.sd
        metered = self.history.costs(found.control_set).size > 0
        told = metered or self.problem.known_costs is not None or self.problem.known_cost_field is not None
        return SetReport(
            control_set=self.problem.space.control_sets[found.control_set].names,
            upper=s * (found.mean + width),
            lower=s * (found.mean - width),
            upper_at=at,
            lower_at=at,
            mean=s * found.mean,
            sd=found.sd,
            cost_mean=found.cost if told else None,
            cost_lcb=max(0.0, 2 * found.cost - found.most) if told else 0.0,
            trials=self.history.trials_of(found.control_set),
            eligible=found.fits and (self.worth_it(found) or not self.selective),
        )


def all_variables(problem: Problem) -> list[int]:
    """The control sets that leave nothing uncontrolled: at most one."""
    return [i for i, s in enumerate(problem.space.control_sets) if len(s.indices) == problem.space.dimension]


def best_so_far(problem: Problem, history: History, fitted: Fitted) -> float:
    """The largest posterior mean, standardised, among the settings played; the prior's mean before any.

    A point known beforehand counts as a setting of the control set of all variables; where there is none, and nothing
    was played yet, as a setting of every set.
    """
    if not history.complete:
        return fitted.hyperparameters.mean
    x = history.x
    played = np.array([o.control_set for o in history.complete])
    whole = all_variables(problem)
    sets = np.where(played < 0, whole[0], played) if whole else played
    rows, of = x[sets >= 0], sets[sets >= 0]
    if not rows.size:
        count = len(problem.space.control_sets)
        rows, of = np.tile(x, (count, 1)), np.repeat(np.arange(count), len(x))
    expectations = Expectations.of(fitted.posterior, problem.space)
    return float(expectations.mean(expectations.inner(rows, of), of).max())


def typical_cost(problem: Problem, field: CostField) -> float:
    """What a trial costs with every controlled variable in the middle of its range, averaged over the control sets."""
    sets = problem.space.control_sets
    return float(np.mean([field.mean(i, np.full((1, len(s.indices)), 0.5))[0] for i, s in enumerate(sets)]))


def best_that_fits(view: View, found: tuple[Found, ...]) -> Found:
    """The highest score of those that fit; the first of equals.

    Raises:
        BudgetSpent: none does.
    """
    fitting = [f for f in found if f.fits]
    if not fitting or view.history.spent >= view.problem.budget:
        raise nothing_fits(view, min(f.most for f in found))
    return max(fitting, key=lambda f: (f.score, -f.control_set))


def nothing_fits(view: View, cheapest: float) -> BudgetSpent:
    """What to raise when no trial fits; `cheapest` is what the cheapest may cost, currency units."""
    left = to_units(view.problem.budget - view.history.spent)
    return BudgetSpent(f"{left:g} left; the cheapest useful trial may cost {cheapest:g}")


def stopped(view: View, chosen: Found) -> NotWorthIt:
    """What to raise when the stopping rule fired at the most promising setting and is to end the campaign."""
    return NotWorthIt(
        f"no trial is worth its cost at lambda = {view.weight:.3g}: {view.label(chosen)}, the most promising, is "
        f"expected to improve the best so far, {view.own(view.best):.4g}, by {view.gain(chosen):.3g} and to cost "
        f"{chosen.cost:.4g}"
    )


def proposal_of(
    policy: str, view: View, found: tuple[Found, ...], chosen: Found, *, reason: str, phase: str = "search"
) -> Proposal:
    """One of the settings found, or a Sobol point in its place, as a proposal."""
    return Proposal(
        trial=len(view.history) + 1,
        policy=policy,
        phase=phase,
        control_set=chosen.control_set,
        setting=chosen.setting,
        reason=reason,
        sets=tuple(view.report(f) for f in found),
        predicted_cost=chosen.most,
        notes=view.fitted.posterior.notes,
    )
