"""The baselines for partially specified queries, and their forms per unit cost (algorithms, section 4.3).

Hayashi, Honda, Kashima: Bayesian optimization with partially specified queries, Machine Learning 111 (2022), as
run by Tay, Foo, Urano, Leong, Low: Bayesian Optimization with Cost-varying Variable Subsets, NeurIPS 2023; sections
and appendices below are the latter's. They ignore costs, or divide by them; neither does well where costs differ much.

Per unit cost (appendix B) a bound or a sample is counted from the outcome's floor: a ratio needs a zero, and the zero
of the standardised outcomes the paper divides is arbitrary. A set that was never tried is tried once first, as a score
per unknown cost may be the largest there is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from rigctl.core.acquisition.fourier import FantasyImprovement, SampledFunction
from rigctl.core.acquisition.outlook import Choice, Outlook, OutlookPolicy
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.search import Peak, Screening, Search, Surface
from rigctl.core.experiment.problem import JsonState, sign
from rigctl.core.experiment.space import Space
from rigctl.flaws import require

SCREENING = Screening(cube=(128, 512, 2048), around=(32, 128, 384), reaches=(0.6, 0.2))
CLIMBERS = 16
"""Settings of every control set that are climbed from, besides the peaks of bounds and means."""
ARRIVED = 1e-5
"""A climb ends when it promises less than this share of the signal's sd, or of the improvement."""

HOPEFUL = "{} could turn out best"
GUESSED = "in one fair guess at how everything responds, this setting of {} is best"
GAINING = "this setting of {} promises the largest gain over what was seen"


@dataclass(frozen=True, slots=True)
class Scores:
    """Hold the best score of each of some control sets, and where it is."""

    what: str
    """Name of the score, for technical reasons."""
    plain: str
    """What the best one has, in words for everybody; with {} for the control set."""
    peaks: Mapping[int, Peak]
    logarithmic: bool = False
    """Whether scores are logarithms of positive numbers; else they are values in outcome units."""

    def rated(self, peak: Peak, outlook: Outlook, *, per_cost: bool) -> float:
        """Return a peak's score, or score per expected cost."""
        if not per_cost:
            return peak.value
        cost = outlook.cost_at(peak.control_set, peak.setting)
        return peak.value - log(cost) if self.logarithmic else (peak.value - outlook.floor) / cost

    def told(self, rated: float, outlook: Outlook, *, per_cost: bool) -> str:
        if self.logarithmic:
            return f"{self.what}{' per unit cost' if per_cost else ''}, {exp(rated):.4g}"
        if per_cost:
            return f"{self.what} above the floor per unit cost, {rated:.4g}"
        return f"{self.what} {sign(outlook.problem) * rated:.4g}"


@dataclass(frozen=True, slots=True)
class Psq(OutlookPolicy):
    """Play the best score, or score per cost: what the three policies share."""

    per_cost: bool = False
    """Divide by the set's mean cost (appendix B)."""

    def choose(self, outlook: Outlook, state: JsonState, rng: np.random.Generator) -> Choice:  # noqa: ARG002
        """Play the best score; the first of equals."""
        fitting = outlook.fitting()
        among = fitting if self.per_cost else undominated(outlook.problem.space, fitting)
        scores = self._scores(outlook, among, rng)
        at = outlook.affordable({i: peak.setting for i, peak in scores.peaks.items()})
        peaks = {i: replace(scores.peaks[i], setting=setting) for i, setting in at.items()}
        costs = outlook.costs_now()
        untried = [i for i in peaks if costs[i] is None] if self.per_cost else []
        if untried:
            chosen = outlook.first_to_meter(untried)
            reason = f"{outlook.label(chosen)} has never been tried, so nobody knows yet what it costs"
            technical = f"{outlook.label(chosen)} was never tried, and without its cost there is no score per cost"
        else:
            rated = {i: scores.rated(p, outlook, per_cost=self.per_cost) for i, p in peaks.items()}
            chosen = max(rated, key=lambda i: (rated[i], -i))
            told = scores.told(rated[chosen], outlook, per_cost=self.per_cost)
            technical = f"{outlook.label(chosen)} has the largest {told}"
            reason = scores.plain.format(outlook.label(chosen)) + (" for its money" if self.per_cost else "")
        return Choice(
            chosen,
            "optimise",
            reason,
            list(peaks),
            setting=peaks[chosen].setting,
            technical=technical,
            compared={i: p.setting for i, p in peaks.items()},
            left_out="controls less than another set, and cost plays no part",
        )

    @abstractmethod
    def _scores(self, outlook: Outlook, among: Sequence[int], rng: np.random.Generator) -> Scores: ...


@dataclass(frozen=True, slots=True)
class UcbPsq(Psq):
    """Play the policy `ucb-psq`: the largest upper bound, whatever it costs (Algorithm 1 with eps = 0)."""

    name = "ucb-psq"

    def _scores(self, outlook: Outlook, among: Sequence[int], rng: np.random.Generator) -> Scores:  # noqa: ARG002
        return _upper_bounds(outlook, among)


@dataclass(frozen=True, slots=True)
class TsPsq(Psq):
    """Play the policy `ts-psq`: Thompson sampling, the best setting of one function drawn from the posterior."""

    name = "ts-psq"

    features: int = 1024
    """Random Fourier features of the prior's draw (appendix C.2)."""

    def __post_init__(self) -> None:
        require(self.features >= 1, self.features, "must be >= 1", where="features")

    def _scores(self, outlook: Outlook, among: Sequence[int], rng: np.random.Generator) -> Scores:
        h, space = outlook.fitted.hyperparameters, outlook.problem.space
        e = Expectations.of(outlook.fitted.posterior, space)
        drawn = SampledFunction.draw(e, space, among, self.features, rng)
        peaks = _peaks(outlook, e, drawn, among, rng, tolerance=ARRIVED * h.signal_sd)
        return Scores(
            "sampled value", GUESSED, {i: replace(p, value=h.y_shift + h.y_scale * p.value) for i, p in peaks.items()}
        )


@dataclass(frozen=True, slots=True)
class EiPsq(Psq):
    """Play the policy `ei-psq`: the largest expected improvement of a setting's value (appendix C.2).

    Over the best fantasised value of the points seen so far, as full queries, also where no control set is one. Before
    there is any outcome to improve on it goes by upper bounds.
    """

    name = "ei-psq"

    fantasies: int = 32
    """Fantasies of the function at the data points."""

    def __post_init__(self) -> None:
        require(self.fantasies >= 1, self.fantasies, "must be >= 1", where="fantasies")

    def _scores(self, outlook: Outlook, among: Sequence[int], rng: np.random.Generator) -> Scores:
        if not outlook.history.complete:
            return _upper_bounds(outlook, among)
        e = Expectations.of(outlook.fitted.posterior, outlook.problem.space)
        improvement = FantasyImprovement.draw(e, self.fantasies, rng)
        peaks = _peaks(outlook, e, improvement, among, rng, tolerance=ARRIVED)
        scale = log(outlook.fitted.hyperparameters.y_scale)
        own = {i: replace(p, value=p.value + scale) for i, p in peaks.items()}
        return Scores("expected improvement", GAINING, own, logarithmic=True)


def _upper_bounds(outlook: Outlook, among: Sequence[int]) -> Scores:
    return Scores("upper bound", HOPEFUL, {i: Peak(i, outlook.bounds[i].upper_at, outlook.upper[i]) for i in among})


def _peaks(
    outlook: Outlook,
    e: Expectations,
    surface: Surface,
    among: Sequence[int],
    rng: np.random.Generator,
    *,
    tolerance: float,
) -> Mapping[int, Peak]:
    known = {b.control_set: (b.upper_at, b.best_mean_at) for b in outlook.bounds}
    lengthscales = np.array(e.posterior.hyperparameters.lengthscales)
    search = Search(e, outlook.problem.space, lengthscales, SCREENING, (CLIMBERS,), tolerance)
    return search.peaks(surface, among, known, rng)


def undominated(space: Space, among: Sequence[int]) -> list[int]:
    """Return those that are no strict subset of another.

    Where cost plays no part a set within another never wins (section 4): the expectation over a variable, of a bound,
    of a sample or of an improvement, is never more than its best value.
    """
    members = {i: frozenset(space.control_sets[i].indices) for i in among}
    return [i for i in among if not any(members[i] < other for other in members.values())]
