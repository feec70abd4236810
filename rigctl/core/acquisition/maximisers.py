"""Maximises a score over all control sets and settings: any function of a setting's mean, sd and cost.

mu and s are the exact mean and sd of F_i(x^i) (algorithms, section 3); on a control set of all variables that is the
process itself, so ordinary full-control problems are the same thing.

What cost-aware acquisitions look at before they choose: the best so far, what lambda means, what a trial gains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.acquisition.improvement import Acquired, expected_improvement, log_improvement_per_cost
from rigctl.core.acquisition.outlook import Context
from rigctl.core.bounds.ascent import Visited
from rigctl.core.bounds.expectations import FLOOR, Expectations, ValueSpread
from rigctl.core.bounds.search import Screening, Search
from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.experiment.policy import NotWorthIt, Proposal, SetReport
from rigctl.core.experiment.problem import CostField, Problem, sign
from rigctl.core.experiment.space import Space


@dataclass(frozen=True, eq=False)
class View(Context):
    """Hold what one decision knows besides. Standardised values are those of the posterior inside."""

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

    def best(
        self,
        score: Score,
        rng: np.random.Generator,
        warm_starts: Mapping[int, FloatArray],
        *,
        fits: Fits | None = None,
        margin: float = 1.0,
    ) -> tuple[BestSetting, ...]:
        """Return every control set's best setting that fits, in their order; none fits of one that cannot be played.

        Args:
            score: what to maximise.
            rng: points to screen; the same generator state gives the same settings bit for bit.
            warm_starts: settings (k,) on the unit cube to start from as well, by control set.
            fits: whether a predicted cost does; None: by what is left of the budget.
            margin: where the best setting does not fit, another is taken whose cost fits even divided by this.
        """
        posterior, space = self.fitted.posterior, self.problem.space
        e, every = Expectations.of(posterior, space), range(len(space.control_sets))
        surface = _Scored(e, ValueSpread(e), space, self.field, score)
        climbers = (max(CLIMBERS // len(every), FEWEST_CLIMBERS),)
        search = Search(e, space, np.array(posterior.hyperparameters.lengthscales), SCREENING, climbers, TOLERANCE)
        found = search.maxima(surface, every, warm_starts, rng)
        picked = (_pick(surface, i, found, fits or self.fits, margin) for i in every)
        return tuple(replace(f, fits=f.fits and f.control_set not in self.problem.unavailable) for f in picked)

    def per_cost(self, mean: FloatArray, sd: FloatArray, cost: FloatArray) -> Acquired:
        """Score by expected improvement per cost: if none of the best settings by it is worth its cost, none is."""
        return log_improvement_per_cost(mean, sd, self.attained, cost)

    def gain(self, found: BestSetting) -> float:
        """Return how much a trial there is expected to improve on the best so far, outcome units."""
        h = self.fitted.hyperparameters
        best = h.y_shift + h.y_scale * self.attained
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
        i, known = found.control_set, self.outcomes_have_a_unit
        told = self.problem.costs_told or self.history.costs(i).size > 0
        worth_it = self.worth_it(found) or not self.selective
        beyond = "does not fit the rest of the budget" if not found.fits else "" if worth_it else "not worth its cost"
        beyond = self.problem.unavailable.get(i, beyond)
        return SetReport.of(
            self.problem,
            self.history,
            i,
            found.setting,
            (found.mean, found.sd) if known else None,
            cost_mean=found.cost if told else None,
            cost_lcb=max(0.0, 2 * found.cost - found.most) if told else 0.0,
            eligible=found.fits and worth_it,
            ruled_out=beyond,
            spent=to_units(self.spent_on(i)),
        )


def typical_cost(problem: Problem, field: CostField) -> float:
    """Return what a trial costs in the middle of its ranges, averaged over the control sets."""
    sets = problem.space.control_sets
    return float(np.mean([field.mean(i, np.full((1, len(s.indices)), 0.5))[0] for i, s in enumerate(sets)]))


def best_that_fits(view: View, found: tuple[BestSetting, ...]) -> BestSetting:
    """Return the highest score of those that fit the budget, the first of equals; raises BudgetSpent if none does."""
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


SCREENING = Screening(cube=(64, 256, 512), around=(32, 96, 256), reaches=(0.5, 0.15, 0.05), most_moved=6.0)
"""An acquisition that has narrowed down peaks ever closer to the best trial; in high dimension a step in all variables
goes nowhere."""
CLIMBERS, FEWEST_CLIMBERS = 32, 8
"""Settings that are climbed from: so many shared out evenly over the control sets, and so many of each at least."""
TOLERANCE = 1e-6
"""A climb ends when it promises less; so scores must be logarithms, or in spreads of the outcome."""

Score = Callable[[FloatArray, FloatArray, FloatArray], Acquired]
"""(mean (b,), sd (b,), both standardised; cost (b,), currency) -> value and derivatives."""
Fits = Callable[[float], bool]
"""Whether what a trial is predicted to cost at most, currency, fits the remaining budget."""


@dataclass(frozen=True, slots=True, eq=False)
class BestSetting:
    """Hold the best setting of one control set. Values are in outcome units, larger is better; costs in currency."""

    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube."""
    score: float
    mean: float
    sd: float
    cost: float
    """Expected."""
    most: float
    """What a trial there is predicted to cost at most."""
    fits: bool
    """Whether that fits the budget; if not, no setting looked at does, and this is the best regardless of it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """See the score as a function of settings: a `Surface`. Standardised."""

    expectations: Expectations
    spread: ValueSpread
    space: Space
    field: CostField
    score: Score

    def value(self, points: FloatArray, sets: IntArray) -> FloatArray:
        mean, sd = self.moments(points, sets)
        return self.score(mean, sd, self.costs(points, sets, self.field.mean)).value

    def moments(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd, (b,) each, of settings given as rows (b, d); the sd is floored as its slope is."""
        e = self.expectations
        mean, sd = np.empty(len(points)), np.empty(len(points))
        for rows in blocks(len(points), len(e.posterior.x)):
            inner = e.inner(points[rows], sets[rows])
            mean[rows], sd[rows] = e.mean(inner, sets[rows]), self.spread.sd(inner, sets[rows])
        return mean, np.asarray(np.maximum(sd, np.sqrt(FLOOR * e.prior_variance[sets])))

    def costs(self, points: FloatArray, sets: IntArray, of: Callable[[int, FloatArray], FloatArray]) -> FloatArray:
        """Return `of` (mean or upper of the cost field) at settings given as rows (b, d), (b,)."""
        out = np.empty(len(points))
        for i in np.unique(sets):
            rows = np.flatnonzero(sets == i)
            out[rows] = of(int(i), points[np.ix_(rows, self.space.control_sets[i].indices)])
        return out

    def cost_slopes(self, points: FloatArray, sets: IntArray) -> FloatArray:
        """Return derivatives of the mean cost by the setting, (b, d), 0 for uncontrolled variables."""
        out = np.zeros_like(points)
        for i in np.unique(sets):
            rows = np.flatnonzero(sets == i)
            at = np.ix_(rows, self.space.control_sets[i].indices)
            out[at] = self.field.gradient(int(i), points[at])
        return out

    def value_and_gradient(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the score, (b,), and its gradient, (b, d): by the chain rule from mean, sd and cost."""
        e = self.expectations
        inner = e.inner(points, sets)
        mean = e.mean(inner, sets)
        sd, sd_slope = self.spread.sd_and_slope(inner, sets)
        scored = self.score(mean, sd, self.costs(points, sets, self.field.mean))
        slope = scored.by_mean[:, None] * e.alpha[sets] + scored.by_sd[:, None] * sd_slope
        gradient = e.posterior.correlations.contract_slopes(points, inner * slope, e.mask[sets])
        if np.any(scored.by_cost):
            gradient += scored.by_cost[:, None] * self.cost_slopes(points, sets)
        return scored.value, gradient


def _pick(surface: _Scored, i: int, found: tuple[Visited, Visited], fits: Fits, margin: float) -> BestSetting:
    """Return the best of one control set's settings that fits the budget; the best of all if none does."""
    points, values = (np.concatenate(parts) for parts in zip(*(looked.of(i) for looked in found), strict=True))
    order = np.argsort(-values, kind="stable")
    rows, sets = points[order], np.full(len(order), i)
    most = surface.costs(rows[:1], sets[:1], surface.field.upper)
    at, fitting = 0, fits(float(most[0]))
    if not fitting:  # rarely, at the end of a campaign; so not looked at before
        most = surface.costs(rows, sets, surface.field.upper)
        below = [row for row, cost in enumerate(most) if fits(float(cost) / margin)]
        at, fitting = (below[0], True) if below else (0, False)
    best = rows[at : at + 1]
    mean, sd = surface.moments(best, sets[:1])
    h = surface.expectations.posterior.hyperparameters
    return BestSetting(
        control_set=i,
        setting=surface.space.setting(i, best[0]),
        score=float(values[order[at]]),
        mean=float(h.y_shift + h.y_scale * mean[0]),
        sd=float(h.y_scale * sd[0]),
        cost=float(surface.costs(best, sets[:1], surface.field.mean)[0]),
        most=float(most[at]),
        fits=fitting,
    )
