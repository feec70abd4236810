"""The Pandora's Box Gittins index, and expected improvement with and without costs (algorithms, section 4.4).

After Xie, Astudillo, Frazier, Scully and Terenin, "Cost-aware Bayesian optimization via the Pandora's Box Gittins
index". Opening a box costs and shows what is in it; once no closed box is worth its cost, the best open one is taken.

Carried over to control sets: a box is a control set with a setting, what is in it the setting's value F_i(x^i), whose
posterior mean and sd are exact. On one control set of all variables that is the paper's own problem.

The *best so far* is the largest posterior mean among the settings played. Without noise that is the paper's best
observed value; with noise the best observed one would be too good, and a trial of a control set shows F_i only
together with what the uncontrolled variables happened to be.

lambda (`cost_weight`) has a unit: value per cost. By default value is in spreads of the outcome (learned
hyper-parameters: the standard deviation of the outcomes so far, so that lambda belongs to standardised outcomes as in
the paper; fixed ones: the signal's sd), and cost in what a trial costs at the middle of its ranges, averaged over the
control sets. So neither the outcome's unit nor the currency matters. `outcome_unit` and `cost_unit` give lambda other
units: the paper's synthetic benchmarks have `cost_unit: 1`; to say what money is worth, set both to 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from rigctl.core.acquisition.improvement import Acquired, gittins_index, log_expected_improvement
from rigctl.core.acquisition.maximisers import (
    BestSetting,
    Score,
    View,
    best_that_fits,
    proposal_of,
    stopped,
    typical_cost,
)
from rigctl.core.acquisition.outlook import (
    SPREAD_EVENLY,
    WHAT_FITS,
    all_variables,
    fewest_outcomes,
    first_point,
    sobol_seed_of,
    warm_starts,
)
from rigctl.core.bounds.expectations import value_at
from rigctl.core.costs.feasibility import margin
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.gp.model import fit_again
from rigctl.flaws import require

COSTS_COUNT_LESS = "Nothing is worth its cost at present, so costs count for less from the next trial on"


@dataclass(frozen=True, slots=True)
class CostAware(Policy, ABC):
    """Share what the four policies have in common: their options, and everything but the score."""

    name: ClassVar[str]
    by_lambda: ClassVar[bool] = False
    """Whether the score depends on lambda."""

    cost_weight: float = 1e-4
    """Lambda: how much value a unit of cost is worth; the module says in which units."""
    stopping: Literal["budget", "cost-per-sample"] = "budget"
    """`cost-per-sample` also ends the campaign once no trial is worth its cost, lambda times it."""
    outcome_unit: float | None = None
    """Value that counts as 1 in lambda, outcome units; None: how much the outcome varies."""
    cost_unit: float | None = None
    """Cost that counts as 1 in lambda, currency units; None: what a trial costs in the middle of its ranges."""
    initial: int | None = None
    """Outcomes from Sobol points before the model decides; None: 2(d+1) where one control set is all variables (the
    paper), else as many as hyper-parameters can be learned from."""

    def __post_init__(self) -> None:
        for field, value in (
            ("cost_weight", self.cost_weight),
            ("outcome_unit", self.outcome_unit),
            ("cost_unit", self.cost_unit),
        ):
            require(value is None or value > 0, value, "must be > 0", where=field)
        require(self.initial is None or self.initial >= 0, self.initial, "must be >= 0", where="initial")

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """Propose a Sobol point at first, then wherever the score is largest."""
        sobol_seed = sobol_seed_of(state, rng)
        view = self._view(state, problem, history)
        found = view.best(self._score(view), rng, warm_starts(state), margin=margin(problem))
        kept = {
            **state,
            **view.fitted.to_state(),
            "maximisers": {str(f.control_set): list(f.setting) for f in found},
            "sobol_seed": sobol_seed,
        }
        if len(history.complete) < self._initial_outcomes(problem):
            return self._sobol_point(view, found, sobol_seed), kept
        chosen = best_that_fits(view, found)
        reason, technical = self._praise(view, chosen)
        if not view.worth_it(chosen) and not self._other_is_worth_it(view, rng):
            consequence, remembered = self._not_worth_it(view, chosen)
            kept = {**kept, **remembered}
            if consequence:
                reason, technical = f"{reason}. {COSTS_COUNT_LESS}", technical + consequence
        return proposal_of(self.name, view, found, chosen, reason=reason, technical=technical), kept

    # What the policies differ in --------------------------------------------------------------------------------

    @abstractmethod
    def _score(self, view: View) -> Score:
        """Return what to maximise, of standardised means and sds: a logarithm, or in spreads of the outcome."""

    @abstractmethod
    def _praise(self, view: View, chosen: BestSetting) -> tuple[str, str]:
        """Say why this setting, in plain words and in the paper's."""

    def _weight(self, state: JsonState) -> float:  # noqa: ARG002 - what is remembered may change lambda
        return self.cost_weight

    def _other_is_worth_it(self, view: View, rng: np.random.Generator) -> bool:  # noqa: ARG002 - some have to look
        """Tell whether another setting is worth its cost: never where the score weighs costs."""
        return False

    def _not_worth_it(self, view: View, chosen: BestSetting) -> tuple[str, dict[str, object]]:
        """Return what follows when the stopping rule fires: more for the technical reason, and more to remember.

        Raises:
            NotWorthIt: it ends the campaign.
        """
        if self.stopping == "cost-per-sample":
            raise stopped(view, chosen)
        return "", {}

    # What they share --------------------------------------------------------------------------------------------

    def _view(self, state: JsonState, problem: Problem, history: History) -> View:
        fitted, field = fit_again(problem, history, state), cost_field(problem, history)
        h = fitted.hyperparameters
        spread = h.signal_sd if problem.model.hyperparameters == "fixed" else 1.0
        value = spread if self.outcome_unit is None else self.outcome_unit / h.y_scale
        cost = typical_cost(problem, field) if self.cost_unit is None else self.cost_unit
        return View(
            problem,
            history,
            fitted,
            field,
            spread=spread,
            weight=self._weight(state),
            unit=value / cost,
            selective=self.by_lambda or self.stopping == "cost-per-sample",
        )

    def _initial_outcomes(self, problem: Problem) -> int:
        if self.initial is not None:
            return self.initial
        if len(problem.space.control_sets) == 1 and all_variables(problem) == [0]:
            return 2 * (problem.space.dimension + 1)
        return fewest_outcomes(problem)

    def _sobol_point(self, view: View, found: tuple[BestSetting, ...], sobol_seed: int) -> Proposal:
        """Propose the control set with the fewest trials, of those that fit, at its next Sobol point.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
        """
        history, sets = view.history, view.problem.space.control_sets
        uniform = [first_point(len(s.indices), history.trials_of(i), sobol_seed) for i, s in enumerate(sets)]
        points = [view.problem.space.evenly(i, at) for i, at in enumerate(uniform)]
        most = [float(view.field.upper(i, np.array([point]))[0]) for i, point in enumerate(points)]
        fitting = [i for i, cost in enumerate(most) if view.fits(cost) and i not in view.problem.unavailable]
        done, wanted = len(history.complete), self._initial_outcomes(view.problem)
        few = f"{done} of the {wanted} outcomes are there that the first model needs"
        yet = f"{done} of the {wanted} first results are in"
        if not fitting or history.spent >= view.problem.budget:
            at = best_that_fits(view, found)
            reason, technical = f"{yet}. {WHAT_FITS}", f"at a setting that fits: {few}"
            return proposal_of(self.name, view, found, at, reason=reason, technical=technical, phase="initial")
        i = min(fitting, key=lambda i: (history.trials_of(i), i))
        mean, sd = value_at(view.fitted.posterior, view.problem.space, i, points[i])
        cost = view.cost_at(i, points[i])
        at = replace(found[i], setting=points[i], most=most[i], mean=mean, sd=sd, cost=cost)
        reason = f"{yet}, and {view.label(i)} has been tried least. {SPREAD_EVENLY}"
        technical = f"at a Sobol point: {few}"
        return proposal_of(self.name, view, found, at, reason=reason, technical=technical, phase="initial")


@dataclass(frozen=True, slots=True)
class GittinsIndex(CostAware):
    """Play the policy `pbgi`: the box with the highest index (eq. 6), at a fixed lambda; its fields are its options."""

    name = "pbgi"
    by_lambda = True

    def _score(self, view: View) -> Score:
        def score(mean: FloatArray, sd: FloatArray, cost: FloatArray) -> Acquired:
            index = gittins_index(mean, sd, view.rate * cost, view.rate)
            above = 1.0 / view.spread
            return Acquired(
                above * (index.value - view.attained), above * index.by_mean, above * index.by_sd, above * index.by_cost
            )

        return score

    def _praise(self, view: View, chosen: BestSetting) -> tuple[str, str]:
        index = view.own(view.attained + view.spread * chosen.score)
        label = view.label(chosen.control_set)
        return (
            f"weighing what a trial may gain against what it costs, this setting of {label} comes first",
            f"{label} has the setting with the best Gittins index, {index:.4g} at lambda = {view.weight:.3g}; "
            f"the best so far is {view.own(view.attained):.4g}",
        )


@dataclass(frozen=True, slots=True)
class DecayingGittinsIndex(GittinsIndex):
    """Play the policy `pbgi-d`: lambda shrinks when the stopping rule fires (section 3.3, 3); fields are options.

    Lambda starts where the authors' published code starts. The trial of the decision in which the rule fires is still
    chosen by the lambda it fired at.
    """

    name = "pbgi-d"

    cost_weight: float = 0.1
    """Lambda of the first trial; the module says in which units."""
    decay: float = 0.5
    """Beta: what lambda is multiplied with each time the rule has fired."""
    last_weight: float = 1e-4
    """With cost-per-sample stopping: the rule ends the campaign once lambda is no larger than this."""

    def __post_init__(self) -> None:
        GittinsIndex.__post_init__(self)  # super() would look for the class that slots=True has replaced
        require(0 < self.decay < 1, self.decay, "must be between 0 and 1", where="decay")
        require(self.last_weight > 0, self.last_weight, "must be > 0", where="last_weight")

    def _weight(self, state: JsonState) -> float:
        return float(state.get("cost_weight", self.cost_weight))

    def _not_worth_it(self, view: View, chosen: BestSetting) -> tuple[str, dict[str, object]]:
        if self.stopping == "cost-per-sample" and view.weight <= self.last_weight:
            raise stopped(view, chosen)
        lower = self.decay * view.weight
        return f"; no better, so lambda falls to {lower:.3g} for the next trial", {"cost_weight": lower}


@dataclass(frozen=True, slots=True)
class ExpectedImprovement(CostAware):
    """Play the policy `ei`: the largest expected improvement, whatever it costs (eq. 3, c = 1); fields are options."""

    name = "ei"

    def _score(self, view: View) -> Score:
        return lambda mean, sd, _cost: log_expected_improvement(mean, sd, view.attained)

    def _other_is_worth_it(self, view: View, rng: np.random.Generator) -> bool:
        """Ask the largest improvement per cost, which the rule spares longest; this policy does not go there."""
        if self.stopping != "cost-per-sample":
            return False
        return any(view.worth_it(f) for f in view.best(view.per_cost, rng, {}) if f.fits)

    def _praise(self, view: View, chosen: BestSetting) -> tuple[str, str]:
        label = view.label(chosen.control_set)
        return (
            f"this setting of {label} promises the largest gain over the best so far",
            f"{label} has the setting that promises the largest improvement, "
            f"{view.gain(chosen):.3g} expected on the best so far, {view.own(view.attained):.4g}",
        )


@dataclass(frozen=True, slots=True)
class ExpectedImprovementPerCost(CostAware):
    """Play the policy `eipc`: the largest expected improvement per unit of cost (eq. 3); its fields are its options."""

    name = "eipc"

    def _score(self, view: View) -> Score:
        return view.per_cost

    def _praise(self, view: View, chosen: BestSetting) -> tuple[str, str]:
        label = view.label(chosen.control_set)
        return (
            f"this setting of {label} promises the largest gain for its cost",
            f"{label} has the setting that promises the largest improvement for its cost, "
            f"{view.gain(chosen):.3g} for {chosen.cost:.3g}; the best so far is {view.own(view.attained):.4g}",
        )
