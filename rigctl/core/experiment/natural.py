"""Marginals learned from the rig: what is believed now of variables that are left alone (algorithms, section 3).

`Learned` is what a configuration declares; `present` turns it into a concrete marginal, a pure function of the history.
Policies are asked by `core.asking.next_proposal`, which presents the problem, as recommending does: so decisions only
ever see concrete marginals. A kernel integral over one that is not is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import ALONE, BEFOREHAND, History, Look, Memo, Observation
from rigctl.core.experiment.kernels import Kernel1D
from rigctl.core.experiment.marginals.conditional import stretched
from rigctl.core.experiment.marginals.drift import Change, Scan, scan
from rigctl.core.experiment.marginals.families import Discrete, Empirical, Marginal, TruncatedNormal, Uniform
from rigctl.core.experiment.marginals.gaussian import largest_sd
from rigctl.core.experiment.persistence import (
    Persistence,
    ReadBefore,
    ReadingPairs,
    conditioned,
    read_before,
    together,
    what_persists,
)
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Space
from rigctl.errors import PolicyError
from rigctl.flaws import require

ENOUGH = 8
"""Readings from which on they are believed rather than the prior: their mean is then known to a third of their sd."""
GROWTH = 1.25
"""Beliefs follow when the trials have grown by a quarter, as hyper-parameters do: O(log n) changes in a campaign."""
MOST_READINGS = 200
"""An empirical marginal keeps at most as many quantiles: kernel integrals are sums over them."""
REJECTED = 0.895
"""5 % point of the Kolmogorov-Smirnov distance when both parameters are fitted, modified for the sample size by
sqrt(n) - 0.01 + 0.85/sqrt(n) (Stephens 1974, "EDF statistics for goodness of fit and some comparisons"; there for the
normal distribution, measured here at 2 to 6 % for truncated ones)."""
NO_SPREAD = 1e-6
"""Less of a spread, as a share of the range, is below what any instrument resolves: the supply does not vary."""
WIDEST = 0.999
"""Share of the largest spread a truncated normal can have; at 1 its parent is infinitely wide."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Declare a marginal to be learned from readings taken while the variable was uncontrolled.

    Raises:
        ValueError: fewer than two readings would be enough.
    """

    prior: Marginal = field(default_factory=Uniform)
    """Believed until there are enough readings, and again after the supply has changed."""
    at_least: int = ENOUGH
    """Readings that are enough."""
    low: float = 0.0
    """The natural range, unit cube: a truncated normal that is learned is cut there."""
    high: float = 1.0

    def __post_init__(self) -> None:
        require(self.at_least >= 2, self.at_least, "must be >= 2", where="learned: at_least")
        require(self.low < self.high, [self.low, self.high], "must be rising", where="learned: natural range")

    @property
    def mean(self) -> float:
        return self.prior.mean

    def quantile(self, p: FloatArray) -> FloatArray:
        return self.prior.quantile(p)

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:  # noqa: ARG002  # the protocol's signature
        """Raise PolicyError, always: nothing is decided by a marginal that is not concrete."""
        raise PolicyError("a learned marginal is concrete in a decision only; ask policies by `next_proposal`")

    def Z(self, b: FloatArray, b2: FloatArray, kernel: Kernel1D) -> FloatArray:  # noqa: ARG002, N802
        return self.z(b, kernel)

    def zz(self, kernel: Kernel1D) -> float:
        return float(self.z(np.empty(0), kernel)[0])


@dataclass(frozen=True, slots=True)
class Belief:
    """Hold the problem as it is believed now."""

    problem: Problem
    """All marginals concrete."""
    notes: tuple[str, ...] = ()
    """What a person should know of them."""
    read: tuple[ReadBefore, ...] = ()
    """What the variables read before the trial to be decided; nothing where nobody looked."""


def present(problem: Problem, history: History) -> tuple[Problem, tuple[str, ...]]:
    """Return the problem as believed now, all marginals concrete, and what a person should know of them."""
    now = belief(problem, history)
    return now.problem, now.notes


def belief(problem: Problem, history: History) -> Belief:
    """Return what is believed of all variables in a trial that leaves them alone.

    A reading counts if it was measured in a trial that left the variable alone, whether or not the trial gave an
    outcome. Readings taken while it was controlled never count, nor do points known beforehand. What was read
    before the trial to be decided narrows the marginals, as far as it is known to persist.
    """
    if problem.look is None and not any(isinstance(v.marginal, Learned) for v in problem.space.variables):
        return Belief(problem)
    trials = _Trials.of(problem.space, history)
    found = _naturals(problem, trials, history.memo)
    usual, notes = _presented(problem, found)
    if problem.look is None and not problem.looks:
        return Belief(usual, notes)
    pairs = _pairs(trials, found)
    known = _persistences(usual, pairs, found)
    if problem.look is None:  # that a supply has changed cannot be told from concrete marginals any more
        kept = tuple(0.0 if p is None else p.rho for p in known)
        return Belief(replace(usual, persistence=kept), notes)
    now = conditioned(usual, known, problem.look)
    notes += (*_unread(problem, problem.look), *together(usual, known, pairs))
    return Belief(now, notes, read_before(usual, now, known, problem.look))


def persistences(problem: Problem, history: History) -> tuple[Persistence | None, ...]:
    """Return by variable how far a reading before a trial is trusted; None where there never was one.

    They are learned from trials that left the variable alone since its supply has changed last; until there are enough
    nothing is trusted. Where `Problem.persistence` says what persists, it is believed.
    """
    trials = _Trials.of(problem.space, history)
    found = _naturals(problem, trials, history.memo)
    return _persistences(_presented(problem, found)[0], _pairs(trials, found), found)


def left_alone(space: Space, history: History, column: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the trials that left a variable alone, (n,), by number, and what it read in them, unit interval."""
    trials = _Trials.of(space, history)
    taken = np.flatnonzero(trials.alone[:, column])
    return np.array([trials.rows[i].trial for i in taken.tolist()], dtype=np.int64), trials.x[taken, column]


def _presented(problem: Problem, found: Sequence[_Natural | None]) -> tuple[Problem, tuple[str, ...]]:
    if not any(found):
        return problem, ()
    variables = problem.space.variables
    learned = tuple(
        replace(v, marginal=n.marginal) if n is not None else v for v, n in zip(variables, found, strict=True)
    )
    space = replace(problem.space, variables=learned)
    return replace(problem, space=space), tuple(n.note for n in found if n is not None and n.note)


def _unread(problem: Problem, look: Look) -> tuple[str, ...]:
    """Say which variables were not read before this trial, though some trial may leave them alone."""
    controlled = [set(c.indices) for c in problem.space.control_sets]
    return tuple(
        f"{v.name}: it was not read before the trial, so its usual spread is expected"
        for i, (v, x) in enumerate(zip(problem.space.variables, look.x, strict=True))
        if x is None and not all(i in members for members in controlled)
    )


def _pairs(trials: _Trials, found: Sequence[_Natural | None]) -> list[ReadingPairs]:
    """Return what each variable read before trials that left it alone, and in them, since its supply is what it is."""
    dimension = len(found)
    nothing = Look((None,) * dimension, (0.0,) * dimension)
    looks = [o.look or nothing for o in trials.rows]
    before = np.array([look.x for look in looks], dtype=float).reshape(len(looks), dimension)
    errors = np.array([look.sd for look in looks], dtype=float).reshape(len(looks), dimension)
    paired = trials.alone & np.isfinite(before)
    pairs = []
    for column, natural in enumerate(found):
        since = 0 if natural is None else natural.since
        taken = since + np.flatnonzero(paired[since:, column])
        pairs.append(ReadingPairs(taken, before[taken, column], errors[taken, column], trials.x[taken, column]))
    return pairs


def _persistences(
    presented: Problem, pairs: Sequence[ReadingPairs], found: Sequence[_Natural | None]
) -> tuple[Persistence | None, ...]:
    """Learn what persists of every variable that was ever read before a trial."""
    at_least = [ENOUGH if n is None else n.at_least for n in found]
    told = presented.persistence or (None,) * len(pairs)
    return what_persists([v.marginal for v in presented.space.variables], pairs, at_least, told)


def fingerprint(space: Space) -> str:
    """Return what is the same while what is believed of the variables left alone is; for a policy's state.

    Confidence bounds of F_i hold for one set of marginals: what is kept of them from earlier decisions (running
    intersections) must be dropped when this changes, as when hyper-parameters do.
    """
    return sha256(repr([v.marginal for v in space.variables]).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, eq=False)
class _Series:
    """Hold the readings of one variable while it was left alone."""

    name: str
    readings: FloatArray
    """(n,), unit interval."""
    rows: NDArray[np.int64]
    """(n,), the row each was taken in."""
    trials: Sequence[int]
    """Trial number of every row."""


@dataclass(frozen=True, slots=True, eq=False)
class _Natural:
    """Hold what is believed of one variable, and what another decision can go on from."""

    marginal: Marginal
    note: str
    """What a person should know of it; empty when nothing."""
    readings: FloatArray
    scan: Scan
    fit: tuple[slice, Marginal] | None
    """Which readings the marginal was fitted to; None where it is the prior."""
    since: int
    """The row from which on its supply is the same."""
    at_least: int


@dataclass(frozen=True, slots=True, eq=False)
class _Trials:
    """Hold the trials in which the variables were measured; rows are counted among them."""

    rows: Sequence[Observation]
    x: FloatArray
    """(n, d), unit cube."""
    alone: NDArray[np.bool_]
    """(n, d): where a variable was left alone."""

    @classmethod
    def of(cls, space: Space, history: History) -> _Trials:
        rows = [o for o in history.observations if o.x is not None and o.control_set != BEFOREHAND]
        x = np.array([o.x for o in rows], dtype=float).reshape(len(rows), space.dimension)
        controls = np.concatenate([space.masks, np.zeros((1, space.dimension))])  # the last row: of a trial left alone
        alone = controls[[-1 if o.control_set == ALONE else o.control_set for o in rows]] == 0
        return cls(rows, x, alone)


def _naturals(problem: Problem, trials: _Trials, memo: Memo) -> list[_Natural | None]:
    """Return what is believed by variable; None where its marginal is declared."""
    space = problem.space
    if not any(isinstance(v.marginal, Learned) for v in space.variables):
        return [None] * space.dimension
    numbers = [o.trial for o in trials.rows]
    earlier: dict[str, _Natural] = memo.get("naturals") or {}
    found: dict[str, _Natural] = {}
    for column, variable in enumerate(space.variables):
        if isinstance(variable.marginal, Learned):
            taken = np.flatnonzero(trials.alone[:, column])
            series = _Series(variable.name, trials.x[taken, column], taken, numbers)
            found[variable.name] = _believed(variable.marginal, series, earlier.get(variable.name))
    memo.keep("naturals", found)
    return [found.get(name) for name in space.names]


def _believed(learned: Learned, series: _Series, earlier: _Natural | None) -> _Natural:
    """Go on from an earlier belief, if it was of these readings."""
    readings = series.readings
    if earlier is not None and not np.array_equal(earlier.readings, readings[: len(earlier.readings)]):
        earlier = None
    scanned = scan(readings, None if earlier is None else earlier.scan)
    last = scanned.changes[-1] if scanned.changes else None
    begins, noticed = (0, 0) if last is None else (last.begins, last.noticed + 1)
    counted = slice(begins, _heeded(series, begins, learned.at_least, noticed))
    since = int(series.rows[begins]) if begins else 0
    fit = None
    if counted.stop - begins >= learned.at_least:
        known = None if earlier is None else earlier.fit
        fit = known if known is not None and known[0] == counted else (counted, _learnt(learned, readings[counted]))
    note = _note(learned, series, last, enough=fit is not None)
    believed = learned.prior if fit is None else fit[1]
    return _Natural(believed, note, readings, scanned, fit, since, learned.at_least)


def _note(learned: Learned, series: _Series, last: Change | None, *, enough: bool) -> str:
    if last is None:
        return ""
    began, noticed = (series.trials[series.rows[i]] for i in (last.begins, last.noticed))
    then = "" if enough else f". Until there are {learned.at_least} newer ones, what was declared is believed"
    return (
        f"{series.name}: the supply has changed at trial {began} (noticed at trial {noticed}). "
        f"Its earlier readings no longer count{then}"
    )


def _heeded(series: _Series, begins: int, enough: int, noticed: int) -> int:
    """Return how many readings from the first are heeded.

    Those of the first 1, 2, 3, 4, 5, 7, 9, 12, ... trials since the supply began, but as soon as there are enough so
    many, and all that gave a change away: were every reading heeded at once, nothing that was computed for one belief
    would hold in the next decision.
    """
    since = int(series.rows[begins]) if begins else 0
    age, step = len(series.trials) - since, 0
    while (longer := max(step + 1, ceil(GROWTH * step))) <= age:
        step = longer
    return max(int(np.searchsorted(series.rows, since + step)), min(begins + enough, len(series.rows)), noticed)


def _learnt(learned: Learned, readings: FloatArray) -> Marginal:
    """Return what readings (n,), unit cube, speak for within the natural range.

    Of a category the prior's shares count as one reading for each level: what was not seen yet may still come.
    """
    if isinstance(learned.prior, Discrete):
        seen = np.bincount(learned.prior.places(readings), minlength=len(learned.prior.values))
        return Discrete.levels((seen + len(seen) * np.array(learned.prior.weights)).tolist())
    inside = (readings - learned.low) / (learned.high - learned.low)
    return stretched(fitted(inside), learned.low, learned.high)


def fitted(readings: FloatArray) -> Marginal:
    """Return the marginal that readings (n,) on the unit interval, in any order, speak for.

    A truncated normal by maximum likelihood (its sufficient statistics are x and x^2, so that is matching mean and
    spread) as long as the largest distance D between its distribution function and that of the readings is no more than
    sampling would explain: Kolmogorov's and Smirnov's test, parameters fitted. Otherwise the readings as they are.

    By Koksma's inequality the two differ by at most D times the variation of f in their E[f(X)], and such expectations
    are all that decisions use. So while the test is passed, the smoother distribution errs no more than
    the readings do; a supply of another shape (two tanks, a stuck valve, an outlier) is left as it is read. The
    readings are not smoothed: kernels that are integrated over them do that already, and more would be bias.

    Readings outside [0, 1] are at the border for the truncated normal, which cannot tell; where they are many the test
    fails, and the readings count as they are.

    Raises:
        ValueError: there is no reading, or one is not finite.
    """
    ordered = np.sort(np.asarray(readings, dtype=float))
    if not ordered.size or not np.isfinite(ordered).all():
        raise ValueError(f"marginal: got {ordered.size} readings, need at least one, all finite")
    normal = _truncated_normal(np.clip(ordered, 0.0, 1.0))
    n = len(ordered)
    if normal is not None and distance(normal, ordered) * (sqrt(n) - 0.01 + 0.85 / sqrt(n)) <= REJECTED:
        return normal
    if n > MOST_READINGS:
        shares = (np.arange(MOST_READINGS) + 0.5) / MOST_READINGS
        ordered = np.quantile(ordered, shares, method="hazen")
    return Empirical(tuple(ordered.tolist()))


def _truncated_normal(readings: FloatArray) -> TruncatedNormal | None:
    """Return the most likely one; None where the readings are as good as equal.

    Readings more spread out than any truncated normal of their mean are given the widest one, nearly a truncated
    exponential or uniform distribution.
    """
    mean, sd = float(readings.mean()), float(readings.std())
    if sd <= NO_SPREAD or not NO_SPREAD < mean < 1 - NO_SPREAD:
        return None
    return TruncatedNormal.from_moments(mean, min(sd, WIDEST * largest_sd(mean)))


def distance(normal: TruncatedNormal, ordered: FloatArray) -> float:
    """Return Kolmogorov's D: the largest difference from the distribution function of readings (n,), rising."""
    n = len(ordered)
    expected = normal.distribution(ordered)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))
