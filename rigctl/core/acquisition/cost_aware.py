"""What cost-aware acquisitions look at before they choose: the best so far, what lambda means, what a trial gains."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.acquisition.improvement import expected_improvement
from rigctl.core.acquisition.maximisers import BestSetting
from rigctl.core.acquisition.outlook import Context
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.experiment.policy import NotWorthIt, Proposal, SetReport
from rigctl.core.experiment.problem import CostField, Problem, sign


@dataclass(frozen=True, slots=True, eq=False)
class View(Context):
    """Hold what one decision knows besides. Standardised values are those of the posterior inside."""

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
        """Return Lambda, as standardised value per unit of currency."""
        return self.weight * self.unit

    def own(self, standardised: float) -> float:
        """Return that value as an outcome, in its own units."""
        h = self.fitted.hyperparameters
        return sign(self.problem) * (h.y_shift + h.y_scale * standardised)

    def fits(self, cost: float) -> bool:
        """Tell whether a trial that may cost so much, currency, fits what is left of the budget."""
        return self.affords(to_micros(cost))

    def gain(self, found: BestSetting) -> float:
        """Return how much a trial there is expected to improve on the best so far, outcome units."""
        h = self.fitted.hyperparameters
        best = h.y_shift + h.y_scale * self.best
        return float(expected_improvement(np.array([found.mean]), np.array([found.sd]), best)[0])

    def worth_it(self, found: BestSetting) -> bool:
        """Turn the stopping rule (section 3.2) round: tell whether a trial there gains more than it costs.

        EI(best) > lambda c exactly where the index exceeds the best: the answer for a setting chosen by its index, or
        by EI per cost, holds for all settings; for another choice it holds for that one only.
        """
        return self.gain(found) > self.fitted.hyperparameters.y_scale * self.rate * found.cost

    def report(self, found: BestSetting) -> SetReport:
        """Report one control set at the best setting found: both bounds are those of that setting, not of others.

        The cost's lower bound is as far below its mean as the predicted most is above.
        """
        s, i = sign(self.problem), found.control_set
        width = self.problem.model.beta * found.sd
        told = self.problem.costs_told or self.history.costs(i).size > 0
        known, worth_it = self.outcomes_have_a_unit, self.worth_it(found) or not self.selective
        beyond = "does not fit the rest of the budget" if not found.fits else "" if worth_it else "not worth its cost"
        beyond = self.problem.unavailable.get(i, beyond)
        return SetReport(
            control_set=self.problem.space.control_sets[i].names,
            at=self.problem.space.setpoints(i, found.setting),
            mean=s * found.mean if known else None,
            sd=found.sd if known else None,
            lower=s * (found.mean - width) if known else None,
            upper=s * (found.mean + width) if known else None,
            cost_mean=found.cost if told else None,
            cost_lcb=max(0.0, 2 * found.cost - found.most) if told else 0.0,
            trials=self.history.trials_of(i),
            eligible=found.fits and worth_it,
            ruled_out=beyond,
            spent=to_units(self.spent_on(i)),
        )


def typical_cost(problem: Problem, field: CostField) -> float:
    """Return what a trial costs in the middle of its ranges, averaged over the control sets."""
    sets = problem.space.control_sets
    return float(np.mean([field.mean(i, np.full((1, len(s.indices)), 0.5))[0] for i, s in enumerate(sets)]))


def playable(problem: Problem, found: tuple[BestSetting, ...]) -> tuple[BestSetting, ...]:
    """Return them with those of control sets that cannot be played now as ones that do not fit."""
    return tuple(replace(f, fits=f.fits and f.control_set not in problem.unavailable) for f in found)


def best_that_fits(view: View, found: tuple[BestSetting, ...]) -> BestSetting:
    """Return the highest score of those that fit; the first of equals.

    Raises:
        BudgetSpent: none does.
    """
    fitting = [f for f in found if f.fits]
    if not fitting or view.history.spent >= view.problem.budget:
        raise view.nothing_fits(min(f.most for f in found))
    return max(fitting, key=lambda f: (f.score, -f.control_set))


def stopped(view: View, chosen: BestSetting) -> NotWorthIt:
    """Return what to raise when the stopping rule fired at the most promising setting and is to end the campaign."""
    return NotWorthIt(
        f"no trial is worth its cost any more: the most promising, {view.label(chosen.control_set)}, would gain "
        f"{view.gain(chosen):.3g} and cost {chosen.cost:.4g}"
    )


def proposal_of(
    policy: str,
    view: View,
    found: tuple[BestSetting, ...],
    chosen: BestSetting,
    *,
    reason: str,
    technical: str,
    phase: str = "search",
) -> Proposal:
    """Return one of the settings found, or a Sobol point in its place, as a proposal."""
    reported = (chosen if f.control_set == chosen.control_set else f for f in found)
    return Proposal(
        trial=len(view.history) + 1,
        policy=policy,
        phase=phase,
        control_set=chosen.control_set,
        setting=chosen.setting,
        reason=reason,
        sets=tuple(replace(view.report(f), ruled_out="") if f is chosen else view.report(f) for f in reported),
        predicted_cost=chosen.most,
        notes=view.fitted.posterior.notes,
        technical=technical,
    )
