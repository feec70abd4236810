"""Control sets of equal cost, and what equal means where costs are only metered (algorithms, section 4.2).

Tay et al. (NeurIPS 2023, section 4.2) explore by *cost group*: the control sets with the same known cost. Metered costs
are never the same, so here sets are one group as long as their mean costs cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt

import numpy as np

from rigctl.core.costs.beliefs import charges
from rigctl.core.costs.changeovers import without
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import Problem

APART = 3.0
"""Means further apart than this many standard errors of their difference are not of one group."""
SCATTER = 0.02
"""Standard deviation of a cost, as a share of its mean, guessed before any set was metered twice."""
GUESS_WORTH = 1.0
"""Degrees of freedom that guess is worth against what all sets have shown together."""
SHARED_WORTH = 2.0
"""Degrees of freedom what all sets have shown together is worth against what one set has shown itself."""
ROUNDING = 1e-9
"""Relative difference below which known costs are the same number."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Estimate the mean cost of a control set, currency units."""

    mean: float
    error: float = 0.0
    """Standard error of the mean; 0 where the cost is known."""
    count: int = 1
    """How many trials were metered."""


@dataclass(frozen=True, slots=True)
class CostGroup:
    """Hold control sets whose costs cannot be told apart."""

    members: tuple[int, ...]
    """Indices of control sets, ascending."""
    cost: float | None
    """Mean over the members' trials, currency units; None where none was metered."""

    def plays(self, history: History) -> int:
        return sum(history.trials_of(i) for i in self.members)


def estimates(problem: Problem, history: History) -> tuple[CostEstimate | None, ...]:
    """Return what is known of each set's cost: as given, else from the meters; None for a set without any trial.

    A set none of whose trials could be metered counts at what its trials were charged.
    """
    if problem.known_costs is not None:
        return tuple(CostEstimate(c) for c in problem.known_costs)
    history = without(problem, history)
    return estimated([charges(history, i) for i in range(len(problem.space.control_sets))])


def estimated(costs: Sequence[FloatArray]) -> tuple[CostEstimate | None, ...]:
    """Return means and standard errors from each set's metered costs (T_i,); None where there are none.

    One trial shows no scatter, so the sets lend each other theirs, relative to their means: first the common relative
    scatter from all repeated trials, then each set's own, drawn towards it while it has few trials.
    """
    squares = [float(np.square(c - c.mean()).sum()) if c.size else 0.0 for c in costs]
    # fsum: a sum that depends on the order of the sets could regroup them
    relative = fsum(s / float(c.mean()) ** 2 for s, c in zip(squares, costs, strict=True) if s > 0 and c.mean() > 0)
    repeats = sum(max(c.size - 1, 0) for c in costs)
    common = (GUESS_WORTH * SCATTER**2 + relative) / (GUESS_WORTH + repeats)
    out: list[CostEstimate | None] = []
    for s, c in zip(squares, costs, strict=True):
        if not c.size:
            out.append(None)
            continue
        mean = float(c.mean())
        variance = (SHARED_WORTH * common * mean**2 + s) / (SHARED_WORTH + c.size - 1)
        out.append(CostEstimate(mean, sqrt(variance / c.size), c.size))
    return tuple(out)


def cost_groups(costs: Sequence[CostEstimate | None]) -> tuple[CostGroup, ...]:
    """Group by rising cost: the two groups most alike are merged time and again, until no two are alike.

    How alike is judged by the groups' pooled means. Linking sets one by one (single linkage of overlapping intervals)
    fails as exploration plays the promising members and leaves the others at one trial: such a vague cost overlaps with
    both its own and the next group, and would chain them together however well their means are known.

    A set of unknown cost is its own group, ahead of all others: it may be the cheapest.
    """
    unknown = [CostGroup((i,), None) for i, c in enumerate(costs) if c is None]
    pools = [_Pool(((i, c),)) for i, c in enumerate(costs) if c is not None]
    while len(pools) > 1:
        distances = _distances(pools)
        one, other = divmod(int(distances.argmin()), len(pools))
        if distances[one, other] > APART:
            break
        merged = _Pool(pools[one].members + pools[other].members)
        pools = [p for row, p in enumerate(pools) if row not in {one, other}] + [merged]
    groups = [CostGroup(tuple(sorted(i for i, _ in p.members)), p.estimate.mean) for p in pools]
    return (*unknown, *sorted(groups, key=lambda g: (g.cost or 0.0, g.members)))


@dataclass(frozen=True, slots=True)
class _Pool:
    """Hold control sets taken for equally dear so far."""

    members: tuple[tuple[int, CostEstimate], ...]

    @property
    def estimate(self) -> CostEstimate:
        """Pool all their trials; by fsum, so that the order of the members does not matter."""
        count = sum(c.count for _, c in self.members)
        mean = fsum(c.count * c.mean for _, c in self.members) / count
        return CostEstimate(mean, sqrt(fsum((c.count * c.error) ** 2 for _, c in self.members)) / count, count)


def _distances(pools: Sequence[_Pool]) -> FloatArray:
    """Return the differences of the means in standard errors, (p, p); infinite on and below the diagonal."""
    pooled = [p.estimate for p in pools]
    means, errors = np.array([c.mean for c in pooled]), np.array([c.error for c in pooled])
    apart = np.abs(means[:, None] - means)
    apart[apart <= ROUNDING * np.maximum(np.abs(means[:, None]), np.abs(means))] = 0.0
    error = np.hypot(errors[:, None], errors)
    known_apart = np.where(apart > 0, np.inf, 0.0)
    out = np.divide(apart, error, out=known_apart, where=error > 0)
    out[np.tril_indices(len(pools))] = np.inf
    return np.asarray(out)


def size_groups(problem: Problem, costs: Sequence[CostEstimate | None]) -> tuple[CostGroup, ...]:
    """Group by rising number of controlled variables, as Hoang et al. do where costs are unknown."""
    sizes = [len(c.indices) for c in problem.space.control_sets]
    out = []
    for size in sorted(set(sizes)):
        members = tuple(i for i, s in enumerate(sizes) if s == size)
        known = [c for c in (costs[i] for i in members) if c is not None]
        trials = sum(c.count for c in known)
        out.append(CostGroup(members, sum(c.count * c.mean for c in known) / trials if trials else None))
    return tuple(out)
