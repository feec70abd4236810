"""The baselines for partially specified queries, and their forms per unit cost (algorithms, section 4.3).

Hayashi, Honda, Kashima: Bayesian optimization with partially specified queries, Machine Learning 111 (2022), as
run by Tay, Foo, Urano, Leong, Low: Bayesian Optimization with Cost-varying Variable Subsets, NeurIPS 2023; sections
and appendices below are the latter's. They ignore costs, or divide by them; neither does well where costs differ much.

Per unit cost (appendix B) a bound or a sample is counted from the outcome's floor: a ratio needs a zero, and the zero
of the standardised outcomes the paper divides is arbitrary. A set that was never tried is tried once first, as a score
per unknown cost may be the largest there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from rigctl.core.acquisition.fantasies import FantasyImprovement
from rigctl.core.acquisition.fourier import SampledFunction
from rigctl.core.acquisition.outlook import Outlook, look, remember
from rigctl.core.acquisition.proposing import (
    Choice,
    cost_at,
    costs_now,
    first_to_meter,
    fitting_sets,
    label_of,
    proposal_of,
)
from rigctl.core.acquisition.search import Peak, maximise
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.core.experiment.space import Space
from rigctl.core.policy import Proposal

ARRIVED = 1e-5
"""A climb ends when it promises less than this share of the signal's sd, or of the improvement."""

Scorer = Callable[[Outlook, Sequence[int], np.random.Generator], Mapping[int, Peak]]
"""The best score of each of some control sets, and where."""


@dataclass(frozen=True, slots=True)
class UcbPsq:
    """The policy `ucb-psq`: the setting with the largest upper bound, whatever it costs (Algorithm 1 with eps = 0)."""

    name = "ucb-psq"

    per_cost: bool = False
    """Divide by the set's mean cost (appendix B)."""

    def initial_state(self, problem: Problem) -> JsonState:  # noqa: ARG002  # the Policy protocol's signature
        """Nothing fitted."""
        return {}

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """The next trial.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
        """
        rule = _Rule(self.name, "upper bound", self.per_cost)
        return rule.propose(_upper_bounds, state, problem, history, rng)


@dataclass(frozen=True, slots=True)
class TsPsq:
    """The policy `ts-psq`: Thompson sampling, the best setting of one function drawn from the posterior.

    Raises:
        ValueError: an option is out of its range.
    """

    name = "ts-psq"

    per_cost: bool = False
    """Divide by the set's mean cost (appendix B)."""
    features: int = 1024
    """Random Fourier features of the prior's draw (appendix C.2)."""

    def __post_init__(self) -> None:
        if self.features < 1:
            raise ValueError(f"features: got {self.features}, must be >= 1")

    def initial_state(self, problem: Problem) -> JsonState:  # noqa: ARG002  # the Policy protocol's signature
        """Nothing fitted."""
        return {}

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """The next trial.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
        """
        rule = _Rule(self.name, "sampled value", self.per_cost)
        return rule.propose(self._samples, state, problem, history, rng)

    def _samples(self, outlook: Outlook, among: Sequence[int], rng: np.random.Generator) -> dict[int, Peak]:
        """The best value of each set under the drawn function, outcome units."""
        h, space = outlook.fitted.hyperparameters, outlook.problem.space
        e = Expectations.of(outlook.fitted.posterior, space)
        drawn = SampledFunction.draw(e, space, among, self.features, rng)
        tolerance = ARRIVED * h.signal_sd
        peaks = maximise(drawn, e, among, _known_peaks(outlook), rng, tolerance=tolerance)
        return {i: Peak(h.y_shift + h.y_scale * p.value, p.setting) for i, p in peaks.items()}


@dataclass(frozen=True, slots=True)
class EiPsq:
    """The policy `ei-psq`: the largest expected improvement of a setting's value (appendix C.2).

    Over the best fantasised value of the points seen so far, as full queries, also where no control set is one.

    Raises:
        ValueError: an option is out of its range.
    """

    name = "ei-psq"

    per_cost: bool = False
    """Divide by the set's mean cost (appendix B)."""
    fantasies: int = 32
    """Fantasies of the function at the data points."""

    def __post_init__(self) -> None:
        if self.fantasies < 1:
            raise ValueError(f"fantasies: got {self.fantasies}, must be >= 1")

    def initial_state(self, problem: Problem) -> JsonState:  # noqa: ARG002  # the Policy protocol's signature
        """Nothing fitted."""
        return {}

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """The next trial; before there is any outcome to improve on, by upper bounds.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
        """
        if not history.complete:
            rule = _Rule(self.name, "upper bound", self.per_cost)
            return rule.propose(_upper_bounds, state, problem, history, rng)
        rule = _Rule(self.name, "expected improvement", self.per_cost, logarithmic=True)
        return rule.propose(self._improvements, state, problem, history, rng)

    def _improvements(self, outlook: Outlook, among: Sequence[int], rng: np.random.Generator) -> dict[int, Peak]:
        """The logarithm of each set's best expected improvement, outcome units."""
        e = Expectations.of(outlook.fitted.posterior, outlook.problem.space)
        improvement = FantasyImprovement.draw(e, self.fantasies, rng)
        peaks = maximise(improvement, e, among, _known_peaks(outlook), rng, tolerance=ARRIVED)
        scale = log(outlook.fitted.hyperparameters.y_scale)
        return {i: Peak(p.value + scale, p.setting) for i, p in peaks.items()}


def _upper_bounds(outlook: Outlook, among: Sequence[int], _rng: np.random.Generator) -> dict[int, Peak]:
    """Outcome units."""
    return {i: Peak(outlook.upper[i], outlook.bounds[i].upper_at) for i in among}


def _known_peaks(outlook: Outlook) -> dict[int, tuple[tuple[float, ...], ...]]:
    return {b.control_set: (b.upper_at, b.best_mean_at) for b in outlook.bounds}


def _affordable(outlook: Outlook, peaks: Mapping[int, Peak]) -> Mapping[int, Peak]:
    """The peaks that fit the budget; where costs depend on the setting a peak may not, though its set does elsewhere.

    If none does, the sets' upper maximisers, of which that is known.
    """
    fitting = {i: p for i, p in peaks.items() if outlook.fits(i, p.setting)}
    return fitting or {i: Peak(p.value, outlook.bounds[i].upper_at) for i, p in peaks.items()}


def undominated(space: Space, among: Sequence[int]) -> list[int]:
    """Those that are no strict subset of another.

    Where cost plays no part a set within another never wins (section 4): the expectation over a variable, of a bound,
    of a sample or of an improvement, is never more than its best value.
    """
    members = {i: frozenset(space.control_sets[i].indices) for i in among}
    return [i for i in among if not any(members[i] < other for other in members.values())]


@dataclass(frozen=True, slots=True)
class _Rule:
    """What the three policies share: play the best score, or score per cost."""

    policy: str
    what: str
    """Name of the score, for reasons."""
    per_cost: bool
    logarithmic: bool = False
    """Whether scores are logarithms of positive numbers; else they are values."""

    def propose(
        self, scorer: Scorer, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        sobol_seed = int(state.get("sobol_seed", rng.integers(2**31)))
        outlook = look(problem, history, state, "empirical-bernstein", rng)
        fitting = fitting_sets(outlook)
        among = fitting if self.per_cost else undominated(problem.space, fitting)
        choice = self._choice(outlook, _affordable(outlook, scorer(outlook, among, rng)))
        return proposal_of(self.policy, outlook, choice, sobol_seed), {**remember(outlook), "sobol_seed": sobol_seed}

    def _choice(self, outlook: Outlook, peaks: Mapping[int, Peak]) -> Choice:
        """The first of equals."""
        costs = costs_now(outlook)
        untried = [i for i in peaks if costs[i] is None] if self.per_cost else []
        if untried:
            chosen = first_to_meter(outlook, untried)
            reason = f"{label_of(outlook, chosen)} was never tried, and without its cost there is no score per cost"
        else:
            rated = {i: self._rated(outlook, p.value, cost_at(outlook, i, p.setting)) for i, p in peaks.items()}
            chosen = max(rated, key=lambda i: (rated[i], -i))
            reason = f"{label_of(outlook, chosen)} has the largest {self._told(outlook, rated[chosen])}"
        return Choice(chosen, "optimise", reason, list(peaks), setting=peaks[chosen].setting)

    def _rated(self, outlook: Outlook, score: float, cost: float) -> float:
        if not self.per_cost:
            return score
        return score - log(cost) if self.logarithmic else (score - outlook.floor) / cost

    def _told(self, outlook: Outlook, rated: float) -> str:
        if self.logarithmic:
            return f"{self.what}{' per unit cost' if self.per_cost else ''}, {exp(rated):.4g}"
        if self.per_cost:
            return f"{self.what} above the floor per unit cost, {rated:.4g}"
        return f"{self.what} {sign(outlook.problem) * rated:.4g}"
