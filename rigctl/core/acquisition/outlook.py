"""What a policy looks at before it chooses, and how its choice becomes a proposal.

`outlook_of` fits the surrogate on its schedule, finds every control set's best upper bound, lower bound and mean with
the settings that have them, and forms the beliefs about costs. It is assembled once per decision; policies differ in
what they choose from it. `OutlookPolicy` is such a policy but for the choice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

import numpy as np

from rigctl.core.bounds.best import SetBounds
from rigctl.core.bounds.expectations import Expectations, value_at
from rigctl.core.bounds.grid import scrambled
from rigctl.core.bounds.limits import Limits, bounded
from rigctl.core.costs.beliefs import CostBelief, CostBound, believe, booked_when_free, left_for_a_trial, too_dear
from rigctl.core.costs.changeovers import Changeovers
from rigctl.core.costs.feasibility import within
from rigctl.core.costs.fields import cost_field, predicted_upper
from rigctl.core.costs.groups import CostEstimate, estimates
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, under_way
from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros, to_micros, to_units
from rigctl.core.experiment.natural import fingerprint
from rigctl.core.experiment.policy import BudgetSpent, Policy, Proposal, SetReport
from rigctl.core.experiment.problem import CostField, JsonState, Problem, sign, value_floor
from rigctl.core.gp.model import Fitted, fit_again
from rigctl.text import percent

SPREAD_EVENLY = "Too few results yet to aim, so the setting is one of an even spread"
AT_MOST = 1.2
"""A change costs at most so many times what it is expected to."""
WHAT_FITS = "Too few results yet to aim, so the setting is one that the money allows"


@dataclass(frozen=True, slots=True)
class Choice:
    """Name a control set, where to play it, and why."""

    control_set: int
    phase: str
    reason: str
    """See `Proposal.reason`."""
    eligible: Sequence[int]
    """Control sets that were in the running."""
    threshold: float | None = None
    """What a set's upper bound had to reach, as a value (larger is better)."""
    setting: tuple[float, ...] | None = None
    """(k,), unit cube; None: where the set's upper bound is largest."""
    first: bool | None = None
    """Whether a scrambled Sobol point of the set is played instead; None: while there are too few outcomes."""
    remembered: JsonState = field(default_factory=dict)
    """What the policy wants to find in its state next time."""
    technical: str = ""
    """See `Proposal.technical`."""
    compared: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """By control set the settings (k,) that were compared; where there is none, the set's upper maximiser."""
    left_out: str = "not compared in this trial"
    """Why the others were not in the running, where neither money nor the threshold says so."""


@dataclass(frozen=True, eq=False)
class Context:
    """Hold what every decision by a model begins with. Values are larger the better; costs in currency."""

    problem: Problem
    history: History
    fitted: Fitted
    field: CostField
    """What every setting is believed to cost."""
    _: KW_ONLY
    limits: Limits | None = None
    """Of further outcomes; None: there are none."""

    @property
    def too_few_outcomes(self) -> bool:
        """Tell whether hyper-parameters still wait for d + 1 outcomes; fixed ones hold from the start."""
        return len(self.history.complete) < fewest_outcomes(self.problem)

    @property
    def outcomes_have_a_unit(self) -> bool:
        """Tell whether outcomes or fixed hyper-parameters give the outcome's scale."""
        told = self.problem.model.hyperparameters == "fixed"
        return told or (len(self.history.complete) > 0 and float(np.ptp(self.history.y)) > 0)

    def label(self, control_set: int) -> str:
        """Return `a+b`, as written in reasons."""
        return self.problem.space.shown(control_set)

    def cost_at(self, control_set: int, setting: Sequence[float]) -> float:
        """Return what a trial of this set at this setting (k,) is expected to cost, currency units, positive."""
        return float(self.field.mean(control_set, np.array([setting], dtype=float))[0])

    def spent_on(self, control_set: int) -> Micros:
        """Return what all its trials were charged; `booked` counts free ones too."""
        return sum(o.cost for o in self.history.observations if o.control_set == control_set)

    def has_had_least_money(self, control_set: int, among: Sequence[int]) -> bool:
        return all(self.spent_on(control_set) <= self.spent_on(i) for i in among)

    def affords(self, most: Micros) -> bool:
        """Tell whether a trial may cost so much, by the ceiling and by what is left of the budget."""
        return most <= left_for_a_trial(self.problem, self.history)

    def nothing_fits(self, cheapest: float) -> BudgetSpent:
        """Return what to raise when no trial fits; `cheapest` is what the cheapest may cost, currency units."""
        return BudgetSpent(too_dear(self.problem, self.history, to_micros(cheapest), "the cheapest useful trial"))

    @cached_property
    def attained(self) -> float:
        """Return the largest posterior mean among the settings played, standardised; the prior's mean before any.

        A setting whose outcome is awaited was played: to play it again before that comes would gain little. A point
        known beforehand counts as a setting of the control set of all variables; where there is none, and nothing was
        played yet, as a setting of every set.
        """
        history, space = self.history, self.problem.space
        if not history.complete:
            return self.fitted.hyperparameters.mean
        awaited = under_way(history)
        played = np.array([o.control_set for o in (*history.complete, *awaited)])
        x = np.concatenate([history.x, np.array([o.x for o in awaited], dtype=float).reshape(-1, space.dimension)])
        whole = all_variables(self.problem)
        sets = np.where(played < 0, whole[0], played) if whole else played
        rows, of = x[sets >= 0], sets[sets >= 0]
        if not rows.size:
            count = len(space.control_sets)
            rows, of = np.tile(x, (count, 1)), np.repeat(np.arange(count), len(x))
        means = Expectations.of(self.fitted.posterior, space).means(rows, of)
        if self.limits is None:
            return float(means.max())
        kept = [self.limits.keeps(int(i), space.setting(int(i), row)) for row, i in zip(rows, of, strict=True)]
        return float(means[kept].max() if any(kept) else means.min())


@dataclass(frozen=True, eq=False)
class Outlook(Context):
    """Hold today's beliefs about every control set."""

    bounds: tuple[SetBounds, ...]
    costs: tuple[CostBelief, ...]
    floor: float
    """The worst value the outcome can take."""
    changeovers: Changeovers
    """What changes cost."""
    changed: bool = False
    """Whether hyper-parameters or marginals are others than at the last decision: bounds from before do not count."""
    moved: frozenset[int] = frozenset()
    """Control sets whose maximisers are those of what is affordable now: their bounds do not count later."""

    @property
    def upper(self) -> tuple[float, ...]:
        """Return the best upper bound of the value of every control set, in their order."""
        return tuple(b.upper for b in self.bounds)

    @property
    def lower(self) -> float:
        """Return the highest of the control sets' lower bounds."""
        return max(b.lower for b in self.bounds)

    def predicted(self, control_set: int, setting: Sequence[float] | None = None) -> Micros:
        """Return what a trial of this set may cost at most.

        Where costs depend on the setting: at the setting (k,) given, else at the set's upper maximiser, of those that
        fit what is left (`feasibility.within`).
        """
        at = self.bounds[control_set].upper_at if setting is None else setting
        most = predicted_upper(self.problem, self.history, control_set, at, self.field)
        return most + to_micros(AT_MOST * self.to_change(control_set, at))

    def to_change(self, control_set: int, setting: Sequence[float]) -> float:
        """Return what a trial of this set at this setting (k,) costs more for what it changes, currency units."""
        members = self.problem.space.control_sets[control_set].indices
        return float(self.changeovers.costs(members, np.array([setting], dtype=float))[0])

    @cached_property
    def never_tried(self) -> frozenset[int]:
        """Return the control sets whose costs nobody knows: never charged, nor told."""
        if self.problem.costs_told:
            return frozenset()
        return frozenset(i for i in range(len(self.bounds)) if not self.history.trials_of(i))

    @cached_property
    def _guessed(self) -> Mapping[int, float]:
        """Return what control sets never tried are assumed to cost; at first all variables cost the same.

        Where all that was tried was free, so is the rest.
        """
        tried, free = any(c.mean is not None for c in self.costs), booked_when_free(self.costs) / MICROS_PER_UNIT
        sizes = [1.0 * len(s.indices) for s in self.problem.space.control_sets]
        assumed = {i: self.costs[i].assumed for i in self.never_tried}
        return {i: (free if tried else sizes[i]) if price is None else price for i, price in assumed.items()}

    def prices(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return what a trial of this set at each of the settings (b, k) is expected to cost, (b,), currency units.

        What it changes counts; of a set that was never tried it is what that is assumed to cost.
        """
        members = self.problem.space.control_sets[control_set].indices
        price = self._guessed.get(control_set) or self.field.mean(control_set, settings)
        return np.asarray(price + self.changeovers.costs(members, settings))

    def kept(self, control_set: int, setting: Sequence[float]) -> tuple[float, ...]:
        """Return the setting (k,) with what is dear to change where the last trial left it."""
        members = self.problem.space.control_sets[control_set].indices
        return self.changeovers.kept(members, setting)

    def fits(self, control_set: int, setting: Sequence[float] | None = None) -> bool:
        """Tell whether such a trial can be played and is predicted to fit what is left; see `predicted`."""
        return control_set not in self.problem.unavailable and self.affords(self.predicted(control_set, setting))

    def fitting(self, among: Sequence[int] | None = None) -> list[int]:
        """Return the control sets (None: of all) that are predicted to fit the remaining budget.

        Raises:
            BudgetSpent: none does.
        """
        asked = range(len(self.bounds)) if among is None else among
        fitting = [i for i in asked if self.fits(i)]
        if self.history.spent >= self.problem.budget or not fitting:
            playable = [i for i in asked if i not in self.problem.unavailable]
            raise self.nothing_fits(to_units(min((self.predicted(i) for i in playable or asked), default=0)))
        return fitting

    def affordable(self, settings: Mapping[int, tuple[float, ...]]) -> Mapping[int, tuple[float, ...]]:
        """Keep, of settings (k,) by control set, those that fit: where costs depend on the setting others may.

        If none does, the sets' upper maximisers, of which that is known.
        """
        fitting = {i: at for i, at in settings.items() if self.fits(i, at)}
        return fitting or {i: self.bounds[i].upper_at for i in settings}

    def within(self, among: Iterable[int]) -> list[int]:
        """Return the control sets that have a setting where limits are likely enough to be kept."""
        return [i for i in among if self.bounds[i].within]

    def most_promising(self, among: Sequence[int]) -> int:
        """Return the set with the largest upper bound; the first of equals."""
        return max(among, key=lambda i: (self.upper[i], -i))

    def first_to_meter(self, unknown: Sequence[int]) -> int:
        """Return, of sets never tried, one with the fewest variables, as control costs; of these the most promising."""
        sets = self.problem.space.control_sets
        return min(unknown, key=lambda i: (len(sets[i].indices), -self.upper[i], i))

    def costs_now(self) -> tuple[CostEstimate | None, ...]:
        """Return what a trial of each set costs; where that depends on the setting, at its upper maximiser.

        None for a set that was never tried, unless all costs are known.
        """
        on_average = estimates(self.problem, self.history)
        if not self.problem.costs_by_setting:
            return on_average
        told = self.problem.known_cost_field is not None
        return tuple(
            CostEstimate(self.cost_at(i, self.bounds[i].upper_at)) if told or c is not None else None
            for i, c in enumerate(on_average)
        )

    def proposal(self, policy: str, choice: Choice, sobol_seed: int) -> Proposal:
        """Return the choice as a proposal of the policy, priced at the setting it is for."""
        chosen, reason, technical = choice.control_set, choice.reason, choice.technical
        upper_at = tuple(float(v) for v in self.bounds[chosen].upper_at)
        setting = upper_at if choice.setting is None else choice.setting
        if self.too_few_outcomes if choice.first is None else choice.first:
            uniform = first_point(len(setting), self.history.trials_of(chosen), sobol_seed)
            point = self.problem.space.evenly(chosen, uniform)
            # where costs depend on the setting the point may be too dear for what is left; the upper maximiser fits
            fits = self.fits(chosen, point)
            setting = point if fits else upper_at
            reason += f". {SPREAD_EVENLY if fits else WHAT_FITS}"
            where = "Sobol point" if fits else "setting that fits"
            technical = f"{technical or choice.reason}; at a {where}: too few outcomes for a model"
        elif self.limits is not None:
            held = dict(zip(self.problem.space.control_sets[chosen].indices, setting, strict=True))
            kept = self.limits.told(held)
            reason += "".join(f". It keeps {k.label({})} with a probability of {percent(k.probability)}" for k in kept)
        stays = _stays(self, chosen, setting)
        if stays:
            reason += f". {stays} stays where the last trial left it, as a change costs more"
        return Proposal(
            trial=len(self.history) + 1,
            policy=policy,
            phase=choice.phase,
            control_set=chosen,
            setting=setting,
            reason=reason,
            sets=self._reports(choice, setting),
            threshold=None if choice.threshold is None else sign(self.problem) * choice.threshold,
            predicted_cost=to_units(self.predicted(chosen, setting)) or None,
            notes=self.fitted.posterior.notes,
            technical=technical,
        )

    def to_state(self) -> dict[str, object]:
        """Return what `outlook_of` wants to find in the state next time."""
        return {
            **self.fitted.to_state(),
            "naturals": fingerprint(self.problem.space),
            "maximisers": {str(b.control_set): [float(v) for v in b.upper_at] for b in self.bounds},
            **({} if self.limits is None else {"limits": self.limits.to_state()}),
        }

    def _reports(self, choice: Choice, setting: Sequence[float]) -> tuple[SetReport, ...]:
        """Report every set at the setting it was compared at, the chosen one at the setting it is played at."""
        at = {**{b.control_set: b.upper_at for b in self.bounds}, **choice.compared, choice.control_set: setting}
        return tuple(self._report(i, tuple(map(float, at[i])), choice) for i in range(len(self.bounds)))

    def _report(self, i: int, setting: tuple[float, ...], choice: Choice) -> SetReport:
        cost, known = self.costs[i], self.outcomes_have_a_unit
        each = not self.problem.costs_by_setting
        return SetReport.of(
            self.problem,
            self.history,
            i,
            setting,
            self._value(i, setting) if known else None,
            cost_mean=cost.mean if each or cost.mean is None else self.cost_at(i, setting),
            cost_lcb=cost.lcb,
            eligible=i in choice.eligible and i not in self.problem.unavailable,
            ruled_out=_ruled_out(self, i, setting, choice),
            spent=to_units(self.spent_on(i)),
            best_lower=sign(self.problem) * self.bounds[i].lower if known else None,
            best_lower_at=self.problem.space.setpoints(i, self.bounds[i].lower_at),
        )

    def _value(self, i: int, setting: tuple[float, ...]) -> tuple[float, float]:
        """Return mean and spread of a set's value at a setting, own units: those it was judged by, if it was."""
        b = self.bounds[i]
        if setting == tuple(b.upper_at):
            return b.mean_at_upper, b.sd_at_upper
        if setting == tuple(b.best_mean_at):
            return b.best_mean, b.best_mean_sd
        return value_at(self.fitted.posterior, self.problem.space, i, setting)


def _stays(outlook: Outlook, control_set: int, setting: Sequence[float]) -> str:
    """Return `a and b`, variables that are dear to change and that the setting leaves as they are; empty: none."""
    members, c = outlook.problem.space.control_sets[control_set].indices, outlook.changeovers
    kept = [i for i, at in zip(members, setting, strict=True) if c.parts[i] > 0 and at == c.left_at[i]]
    return " and ".join(outlook.problem.space.variables[i].name for i in kept)


def _ruled_out(outlook: Outlook, i: int, setting: tuple[float, ...], choice: Choice) -> str:
    if i == choice.control_set:
        return ""
    if i in outlook.problem.unavailable:
        return outlook.problem.unavailable[i]
    if not outlook.fits(i, setting):
        return "does not fit the rest of the budget"
    if i in choice.eligible:
        return ""
    if choice.threshold is None:
        return choice.left_out
    return (
        "not good enough, even at its best" if outlook.upper[i] <= choice.threshold else "ruled out by an earlier trial"
    )


def outlook_of(
    problem: Problem,
    history: History,
    state: JsonState,
    rng: np.random.Generator,
    cost_bound: CostBound = "empirical-bernstein",
) -> Outlook:
    """Fit, bound and cost everything, warm-started from the state of the last decision (`Outlook.to_state`)."""
    fitted = fit_again(problem, history, state)
    limits = Limits.of(problem, history, state.get("limits", ()), under_way=True)
    bounds = bounded(limits, fitted.posterior, problem, rng, warm_starts(state))
    costs = believe(problem, history, cost_bound)
    field, moved = cost_field(problem, history, costs), frozenset[int]()
    if problem.costs_by_setting:
        left = to_units(max(0, left_for_a_trial(problem, history)))
        affordable = within(left, problem, fitted.posterior, bounds, field, rng=rng, limits=limits)
        moved = frozenset(i for i, (new, old) in enumerate(zip(affordable, bounds, strict=True)) if new is not old)
        bounds = affordable
    changed = fitted.refitted or state.get("naturals", fingerprint(problem.space)) != fingerprint(problem.space)
    changed = changed or limits is not None  # where limits are believed to be kept may be elsewhere by now
    floor = value_floor(problem, history, fitted.posterior.left_out)
    changeovers = Changeovers.of(problem, history)
    return Outlook(problem, history, fitted, field, bounds, costs, floor, changeovers, changed, moved, limits=limits)


class OutlookPolicy(Policy, ABC):
    """Choose by the outlook: this is all of a policy but the choice.

    A subclass is a frozen dataclass with a `name`, whose fields are its options.
    """

    __slots__ = ()
    name: str

    @property
    def cost_bound(self) -> CostBound:
        """Say which lower bounds the outlook has of costs."""
        return "empirical-bernstein"

    @abstractmethod
    def choose(self, outlook: Outlook, state: JsonState, rng: np.random.Generator) -> Choice:
        """Choose the next trial.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
        """

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """Look, choose, and remember."""
        sobol_seed = sobol_seed_of(state, rng)
        outlook = outlook_of(problem, history, state, rng, self.cost_bound)
        choice = self.choose(outlook, state, rng)
        proposal = outlook.proposal(self.name, choice, sobol_seed)
        return proposal, {**outlook.to_state(), **choice.remembered, "sobol_seed": sobol_seed}


def warm_starts(state: JsonState) -> Mapping[int, FloatArray]:
    """Return each control set's maximiser at the last decision, (k,), unit cube."""
    return {int(i): np.array(at) for i, at in state.get("maximisers", {}).items()}


def sobol_seed_of(state: JsonState, rng: np.random.Generator) -> int:
    """Return the seed of a campaign's first points: drawn in every decision, kept from the first one on."""
    drawn = rng.integers(2**31)
    return int(state.get("sobol_seed", drawn))


def first_point(size: int, play: int, sobol_seed: int) -> tuple[float, ...]:
    """Return point number `play` of a scrambled Sobol sequence over a set's own `size` variables, unit cube."""
    return tuple(scrambled(size, play, 1, np.random.default_rng([sobol_seed, size]))[0].tolist())


def fewest_outcomes(problem: Problem) -> int:
    """Return how many outcomes a model needs before it decides."""
    return problem.space.dimension + 1 if problem.model.hyperparameters == "learned" else 1


def all_variables(problem: Problem) -> list[int]:
    """Return the control sets that leave nothing uncontrolled: at most one."""
    return [i for i, s in enumerate(problem.space.control_sets) if len(s.indices) == problem.space.dimension]
