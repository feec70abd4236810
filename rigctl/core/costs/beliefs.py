"""What is believed about each control set's cost (algorithms, section 4.1; U Algorithm 1, lines 22 to 24).

What the next trial of a control set may cost at most, and how well its mean cost is known.

The costs' spread is relative to a set's geometric mean, and judged on three scales: as they are, by their square roots
and by their logarithms. How skewed costs are decides how much each scale counts, by its likelihood (Box and Cox 1964,
with the sets' means and the common variance integrated out). On every scale the sets lend each other their variance as
far as their variances agree (Smyth 2004, moderated t), and the next cost is predicted by Student's t.

What a control set that was never tried is assumed to cost: by its variables, where other sets have paid for them.

Control adds up, so a set's cost is what every trial costs and a part for each of its variables. Parts are alike
beforehand and may be zero or twice as much; the sets that were tried teach those that share variables with them, which
is linear regression with normal priors (MacKay 2003, chapter 28), in the form that needs the sets' covariance only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, fsum, log, sqrt
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from rigctl.core.costs.changeovers import without
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros, to_micros, to_units
from rigctl.core.experiment.policy import BudgetSpent
from rigctl.core.experiment.problem import Problem
from rigctl.text import in_full

RAISE: Final = "raise budget.max_per_trial in a new campaign, and `rigctl trial import` takes these trials along"
TAIL: Final = NormalDist().cdf(-2.0)
"""Share of trials that cost more than "at most": beyond two standard deviations of a normal."""
POWERS: Final = (1.0, 0.5, 1e-9)
"""Of a cost on each scale; the last is the logarithm, to nine digits."""
GUESS: Final = 0.05
"""Relative spread that is guessed beforehand; it only counts once costs have been seen to vary."""
GUESS_WORTH: Final = 0.5
"""Degrees of freedom that the guess is worth."""
STEADY: Final = 4
"""A set of which so many trials all cost the same has no spread, however the others vary."""
LEAST_SHARE: Final = 1e-3
"""A free trial counts as this share of its set's mean, for zero has no logarithm."""
FARTHEST: Final = 4.0
"""No trial is predicted to cost more than this times the dearest of its set: two trials would else forbid a third."""


@dataclass(frozen=True, slots=True)
class CostSpread:
    """Hold how one control set's costs are spread, currency units."""

    most: float
    """The next trial costs more than this with probability `TAIL`."""
    error: float = 0.0
    """Standard error of the logarithm of the mean cost."""
    freedom: float = np.inf
    count: int = 1
    """Trials behind it."""

    @property
    def of_one(self) -> CostSpread:
        """Return how well the cost at one setting is known, where some of what trials differ by is their settings."""
        return replace(self, error=self.error * sqrt(1 + self.count))

    def interval(self, mean: float, level: float) -> tuple[float, float]:
        """Return where the mean cost is with this probability."""
        from scipy.special import stdtrit  # noqa: PLC0415 - heavy: not for commands that decide nothing

        half = 0.0 if self.error == 0 else float(stdtrit(self.freedom, 0.5 + level / 2)) * self.error
        return mean * exp(-half), mean * exp(min(half, log(FARTHEST)))


def spreads(costs: Sequence[FloatArray]) -> tuple[CostSpread, ...]:
    """Return the spread of every set's costs (T_i,), none empty; exact for costs that never vary."""
    varying = any(np.ptp(c) > 0 for c in costs)
    spread = [i for i, c in enumerate(costs) if varying and c.max() > 0 and (np.ptp(c) > 0 or c.size < STEADY)]
    found = dict(zip(spread, _spread([costs[i] for i in spread]), strict=True)) if spread else {}
    return tuple(found.get(i, CostSpread(float(c.max()))) for i, c in enumerate(costs))


def _spread(costs: Sequence[FloatArray]) -> list[CostSpread]:
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy: not for commands that decide nothing

    count = np.array([c.size for c in costs])
    owner = np.repeat(np.arange(len(costs)), count)
    logs = np.log(np.concatenate([np.maximum(c, LEAST_SHARE * c.mean()) for c in costs]))
    centre = np.bincount(owner, logs) / count
    logs -= centre[owner]
    mean, sd, freedom, evidence = (np.array(v) for v in zip(*(_on_scale(logs, owner, p) for p in POWERS), strict=True))
    weights = np.exp(evidence - evidence.max())[:, None] / np.exp(evidence - evidence.max()).sum()
    wide = sd * np.sqrt(1 + 1 / count)
    farthest = np.log([c.max() for c in costs]) - centre + log(FARTHEST)
    ends = mean - stdtrit(freedom, TAIL) * wide
    powers = np.array(POWERS)[:, None]
    high = np.asarray((weights * np.minimum(np.log1p(powers * ends) / powers, farthest)).sum(axis=0))
    # from 43 trials on, all sets together: as far as so many of them have come (conformal prediction, Vovk et al. 2005)
    seen = (np.expm1(logs) - mean[0, owner]) / sd[0, owner]
    rank = int(TAIL * (seen.size + 1))
    if rank:
        come = np.log1p(np.maximum(mean[0] + np.sort(seen)[-rank] * wide[0], 0.0))
        high = np.maximum(high, np.minimum(come, farthest))
    # of a log-normal's mean (Cox's method, in Zhou and Gao 1997): var m + s^2/2; or of costs as they are
    variance = np.square(sd[-1])
    error = np.sqrt(variance / count + np.square(variance) / (2 * freedom[-1]))
    error = np.maximum(error, sd[0] / (1 + mean[0]) / np.sqrt(count))
    found = zip(np.exp(centre + high).tolist(), error.tolist(), freedom[-1].tolist(), count.tolist(), strict=True)
    return [CostSpread(*row) for row in found]


def _on_scale(logs: FloatArray, owner: IntArray, power: float) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return mean, spread and degrees of freedom of every set on a scale, and the logarithm of its likelihood."""
    scaled, count = np.expm1(power * logs) / power, np.bincount(owner)
    mean = np.bincount(owner, scaled) / count
    squares = np.bincount(owner, np.square(scaled - mean[owner])).astype(float)
    own = (count - 1).astype(float)
    total, pool = fsum(squares) + GUESS_WORTH * GUESS**2, fsum(own) + GUESS_WORTH
    lent = np.minimum(_agreement(squares, own), pool - own)
    variance = (lent * total / pool + squares) / (lent + own)
    return mean, np.sqrt(variance), lent + own, -0.5 * fsum(own) * log(total)


def _agreement(squares: FloatArray, own: FloatArray) -> float:
    """Return the degrees of freedom that what all sets have shown is worth to each, by how far their variances agree.

    Smyth (2004, section 6.2), with 1/x + 1/(2 x^2) for the trigamma function and 1/x + 1/(3 x^2) for the digamma's.
    """
    seen = squares > np.finfo(float).eps
    if seen.sum() < 2:
        return np.inf
    d = own[seen]
    logs = np.log(squares[seen] / d) + 1 / d + 1 / (3 * d**2)
    excess = float(logs.var(ddof=1)) - float(np.mean(2 / d + 2 / d**2))
    return np.inf if excess <= 0 else (1 + sqrt(1 + 2 * excess)) / excess


TOLD: Final = 0.5
"""Standard deviation of a part that the configuration forecasts, as a share of it; of one that nobody forecasts: 1."""
APART: Final = 0.2
"""Standard deviation of a set's cost from the sum of its parts, as a share of it."""
LEAST: Final = 0.1
"""A set is assumed to cost at least this share of what its size suggests."""


def assumed(problem: Problem, paid: Mapping[int, float]) -> Sequence[tuple[float, float]]:
    """Return what every control set is assumed to cost and that at most, (m,), from the mean costs of those tried.

    At most: two standard deviations up, of a log-normal. Costs nobody has met are not negative, and rather too dear.
    Empty where nothing is known: no set was tried, and the configuration forecasts no cost.
    """
    members = np.array([[c in s.indices for c in range(problem.space.dimension)] for s in problem.space.control_sets])
    sizes, tried, costs = members.sum(axis=1), list(paid), np.array(list(paid.values()))
    told = problem.forecast_costs is not None
    shape = np.array(problem.forecast_costs) if told else sizes.astype(float)
    if not shape.max() > 0 or not (told or tried) or (tried and not costs.max() > 0):
        return ()
    # how costs compare is forecast, what they amount to is metered
    shape = np.maximum(shape, 1e-3 * shape.max())
    prior = shape * (float(np.mean(costs / shape[tried])) if tried else 1.0)
    part = (TOLD if told else 1.0) * float(np.mean(prior / sizes))
    # one part for each shared variable, and one for what every trial costs
    covariance = part**2 * (1.0 + members.astype(float) @ members.T)
    seen = covariance[np.ix_(tried, tried)] + np.diag(np.square(APART * np.maximum(costs, LEAST * part)))
    gain = np.linalg.solve(seen, covariance[tried]).T if tried else np.zeros((len(sizes), 0))
    mean = np.maximum(prior + gain @ (costs - prior[tried]), LEAST * prior)
    variance = np.maximum(covariance.diagonal() - np.sum(gain * covariance[:, tried], axis=1), 0.0)
    apart = np.sqrt(np.log1p((variance + np.square(APART * mean)) / np.square(mean)))
    return list(zip(mean.tolist(), (mean * np.exp(2 * apart)).tolist(), strict=True))


CostBound = Literal["hoeffding", "empirical-bernstein"]


@dataclass(frozen=True, slots=True)
class CostBelief:
    """Hold what one control set's trials cost, currency units."""

    mean: float | None
    """Mean of the known costs, or of what trials were charged where none is known; None before the first."""
    lcb: float
    """Lower confidence bound of the mean, never negative; 0 before the first."""
    upper: Micros
    """What the next trial is predicted to cost at most: one in 44 costs more. Exact where costs never vary, so that a
    trial which costs exactly what is left still runs. Of a set never tried it is assumed by its variables."""
    spread: CostSpread | None = None
    """How the set's costs are spread; None: it was never tried, or costs are known."""
    assumed: float | None = None
    """What a trial of a set never tried is assumed to cost; None: it was tried, or there is nothing to go by."""


FREE_SHARE = 0.02
"""Of the dearest set's mean cost."""


def charges(history: History, control_set: int) -> FloatArray:
    """Return the known costs of a set's trials, (T_i,), currency units; where none is known, what they were charged."""
    known = history.costs(control_set)
    if known.size or not history.trials_of(control_set):
        return known
    return np.array([to_units(o.cost) for o in history.observations if o.control_set == control_set and o.charged])


def _seen(history: History, control_set: int, costs: FloatArray) -> FloatArray:
    """Return what a set's trials have cost, and those that ended early where they had cost more by then."""
    if history.costs(control_set).size == history.trials_of(control_set):
        return costs
    early = (o for o in history.observations if o.control_set == control_set and o.charged and o.x is None)
    at_least = np.array([to_units(o.cost) for o in early if not o.cost_known])
    return np.append(costs, at_least[at_least > costs.max()])


def booked_when_free(beliefs: Sequence[CostBelief]) -> Micros:
    """Return what a free trial counts as where control sets or purposes take turns by what was spent on them.

    A free set would else have its turn for ever; where all are free, trials are counted. The budget counts what was
    charged.
    """
    return max(1, ceil(FREE_SHARE * MICROS_PER_UNIT * max((b.mean or 0.0 for b in beliefs), default=0.0)))


def booked(history: History, beliefs: Sequence[CostBelief]) -> tuple[Micros, ...]:
    """Return the sum of each set's trials, so counted, (m,)."""
    free, total = booked_when_free(beliefs), [0] * len(beliefs)
    for o in history.observations:
        if o.control_set >= 0 and o.charged:
            total[o.control_set] += o.cost or free
    return tuple(total)


def believe(problem: Problem, history: History, bound: CostBound) -> tuple[CostBelief, ...]:
    """Form one belief per control set.

    `hoeffding` (U line 23): width R sqrt(2 ln T / T_i) with R the cost range (`cost_ceiling`, else the dearest trial
    so far) and T the horizon. `empirical-bernstein` (Audibert, Munos and Szepesvari 2009, UCB-V, eq. 2 with zeta = 1,
    c = 1) replaces R by what the set's own costs have shown, so that cheap sets separate when costs hardly vary.

    Where none of a set's trials could be metered, what they were charged by estimate stands in: the set would else pass
    for free.
    """
    sets = range(len(problem.space.control_sets))
    if problem.known_costs is not None:
        return tuple(CostBelief(c, c, to_micros(c)) for _, c in zip(sets, problem.known_costs, strict=True))
    history = without(problem, history)
    charged = {i: charges(history, i) for i in sets}
    costs = {i: c for i, c in charged.items() if c.size}
    dearest = max((float(c.max()) for c in costs.values()), default=0.0)
    log_horizon = log(max(2.0, horizon(problem, history)))
    ceiling = problem.cost_ceiling
    found = [CostBelief(None, 0.0, to_micros(ceiling or 0.0)) for _ in sets]
    for i, (mean, most) in enumerate(assumed(problem, {i: float(c.mean()) for i, c in costs.items()})):
        # a ceiling that is expected to hold makes sure that no trial costs more
        upper = most if ceiling is None or mean > ceiling else min(most, ceiling)
        found[i] = CostBelief(None, 0.0, to_micros(upper), assumed=mean)
    for (i, c), spread in zip(costs.items(), spreads([_seen(history, i, c) for i, c in costs.items()]), strict=True):
        belief = _belief(c, bound, problem.cost_ceiling or dearest, log_horizon, spread)
        # a charge by estimate may be of half a trial: a whole one costs at most no less than the dearest elsewhere
        vague = not history.costs(i).size
        found[i] = replace(belief, upper=max(belief.upper, to_micros(dearest))) if vague else belief
    return tuple(found)


def left_for_a_trial(problem: Problem, history: History) -> Micros:
    """Return the most that the next trial may cost: what is left of the budget, or the ceiling if that is less."""
    left = problem.budget - history.spent
    return left if problem.cost_ceiling is None else min(left, to_micros(problem.cost_ceiling))


def fitting(problem: Problem, history: History, beliefs: Sequence[CostBelief]) -> list[int]:
    """Return the control sets that can be played now and whose next trial is predicted to fit what is left.

    Raises:
        BudgetSpent: none does; names the cheapest.
    """
    left, every = left_for_a_trial(problem, history), range(len(beliefs))
    playable = [i for i in every if i not in problem.unavailable]
    found = [i for i in playable if beliefs[i].upper <= left]
    if not found or left <= 0:
        cheapest = min(playable or every, key=lambda i: beliefs[i].upper)
        what = f"a trial of {problem.space.control_sets[cheapest].label}, the cheapest,"
        raise BudgetSpent(too_dear(problem, history, beliefs[cheapest].upper, what))
    return found


def too_dear(problem: Problem, history: History, least: Micros, what: str) -> str:
    """Say how much the next trial may cost, and what the cheapest takes; the remedy where the ceiling is in its way."""
    most, left = left_for_a_trial(problem, history), problem.budget - history.spent
    digits = 3 if in_full(to_units(most), 3) != in_full(to_units(least), 3) else 6
    there_is, it_takes = in_full(to_units(most), digits), in_full(to_units(least), digits)
    if most < least <= left:
        return f"max_per_trial is {there_is}, and {what} may cost {it_takes} by what trials have cost so far; {RAISE}"
    return f"{there_is} is {'left' if most == left else 'allowed for a trial'}, and {what} may cost {it_takes}"


def horizon(problem: Problem, history: History) -> float:
    """Return T: trials so far (not points known beforehand) plus what the remaining budget buys at the mean cost.

    Where all trials are from before the campaign, it is the mean of what they cost then.
    """
    sets = range(len(problem.space.control_sets))
    trials = sum(history.trials_of(i) for i in sets)
    charged = trials if not history.uncharged else sum(o.charged and o.control_set >= 0 for o in history.observations)
    mean = to_units(history.spent) / charged if charged else 0.0
    if history.uncharged and not charged:
        costs = np.concatenate([history.costs(i) for i in sets])
        mean = float(costs.mean()) if costs.size else 0.0
    left = to_units(max(0, problem.budget - history.spent))
    return trials + (left / mean if mean > 0 else 0.0)


def _belief(costs: FloatArray, bound: CostBound, dearest: float, log_horizon: float, how: CostSpread) -> CostBelief:
    n, mean = costs.size, float(costs.mean())
    width = dearest * sqrt(2 * log_horizon / n)
    if bound == "empirical-bernstein" and n > 1:
        # The range of n uniform draws falls short of the true one by (n-1)/(n+1) on average.
        spread = float(np.ptp(costs)) * (n + 1) / (n - 1)
        width = min(width, sqrt(2 * float(costs.var()) * log_horizon / n) + 3 * spread * log_horizon / n)
    return CostBelief(mean, max(mean - width, 0.0), ceil(round(how.most * MICROS_PER_UNIT, 3)), how)
