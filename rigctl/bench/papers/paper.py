"""A paper's experiments (as grids), evaluation budgets and claims, from the YAML file next to this module.

`grids` are read like a grid file of anybody's (docs/bench.md); `quick` forms are for a first look and for continuous
integration: the same code on a few cells. What was ambiguous, and how it was decided: docs/papers.md.

Ratios between policies with their uncertainty, and what they decide.

A verdict is `yes` or `no` only where the 95 % confidence interval over seeds (Student's t, paired: a seed fixes
function, initial points and noise for every policy) lies on one side of what was claimed, otherwise `undecided`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from math import exp, inf, sqrt
from typing import Any, Literal

import numpy as np
import pandas as pd

from rigctl.bench.asking.grid import Block, Grid, block_of
from rigctl.bench.asking.options import build
from rigctl.bench.cell import must_be_one_of
from rigctl.bench.problems.functions import DATA_FILES
from rigctl.bench.tables.results import SCENARIO, PolicyScenario, Stat, group_index, scenario_index, scenarios_of
from rigctl.errors import UsageError

Verdict = Literal["yes", "no", "undecided"]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Expected:
    """The side of a number on which a quantity is claimed to lie; one of the three is given.

    Raises:
        ValueError: none is, or several are.
    """

    below: float | None = None
    above: float | None = None
    within: float | None = None
    """Between 1 / this factor and this factor."""

    def __post_init__(self) -> None:
        if sum(bound is not None for bound in (self.below, self.above, self.within)) != 1:
            raise ValueError("below, above, within: must be exactly one of them")

    def verdict(self, interval: Interval) -> Verdict:
        """Return `yes` if all of the interval lies on that side, `no` if all lies beyond."""
        least = -inf if self.above is None else self.above
        most = inf if self.below is None else self.below
        if self.within is not None:
            least, most = 1.0 / self.within, self.within
        low, high = interval
        if least < low and high < most:
            return "yes"
        return "no" if high < least or low > most else "undecided"


def both(*verdicts: Verdict) -> Verdict:
    """Return the verdict on a claim that needs all of these."""
    if "no" in verdicts:
        return "no"
    return "yes" if verdicts and set(verdicts) == {"yes"} else "undecided"


def interval(stat: Stat) -> Interval:
    """Return the confidence interval of a mean; everything where a single seed tells nothing of the spread."""
    from scipy.special import stdtrit  # noqa: PLC0415 - only where verdicts are asked for

    if stat.n < 2:
        return -inf, inf
    around = float(stdtrit(stat.n - 1, 0.975)) * stat.se
    return stat.mean - around, stat.mean + around


@dataclass(frozen=True, slots=True)
class Effect:
    """How two groups of policies compare: a log ratio, its mean over scenarios per seed, and its spread over seeds."""

    logs: Stat
    """Of log(ours / theirs) over seeds."""
    settings: int
    """Scenarios in which both were run with some seeds in common."""
    lower_in: int
    """In how many the plain mean (over policies and seeds; not of logs) of ours is the lower."""

    @property
    def ratio(self) -> float:
        """Return the geometric mean of ours / theirs."""
        return exp(self.logs.mean)

    @property
    def interval(self) -> Interval:
        low, high = interval(self.logs)
        return exp(low), exp(high) if high < 700 else inf  # a float holds no number with a logarithm larger by much

    def __str__(self) -> str:
        """Return e.g. `ratio 0.31 [0.22, 0.44] over 10 seeds, lower in 5 of 6 settings`."""
        where = f", lower in {self.lower_in} of {self.settings} settings" if self.settings > 1 else ""
        return f"ratio {self.short()}{where}"

    def short(self) -> str:
        low, high = self.interval
        spread = f" [{low:.2g}, {high:.2g}]" if self.logs.n > 1 else ""
        return f"{self.ratio:.2g}{spread} over {self.logs.n} seed{'s' if self.logs.n > 1 else ''}"

    def by_name(self) -> dict[str, Any]:
        return {
            "ratio": self.ratio,
            "interval": self.interval,
            "seeds": self.logs.n,
            "settings": self.settings,
            "lower_in": self.lower_in,
        }


def effect(values: pd.Series, ours: Sequence[str], theirs: Sequence[str]) -> Effect | None:
    """Compare ours with theirs, every policy of a group counting alike; None where no scenario has runs of both.

    Only scenarios in which every policy of both groups was run count, only seeds that all of these have, and only runs
    whose value is known and positive. `ours` and `theirs` are labels of policies.
    """
    wanted = [*ours, *theirs]
    ran = group_index(values).unique()
    scenarios = [s for s in scenarios_of(values) if all((*s, policy) in ran for policy in wanted)]
    if not scenarios:
        return None
    counted = values.where(values > 0)[scenario_index(values).isin(scenarios)]
    table = counted.unstack("policy").reindex(columns=wanted).dropna()
    logs = np.log(table[[*ours]]).mean(axis=1) - np.log(table[[*theirs]]).mean(axis=1)
    per_seed = logs.groupby(level="seed").agg(["mean", "count"])
    per_seed = per_seed[per_seed["count"] == len(scenarios)]
    if per_seed.empty:
        return None
    means = table[table.index.isin(per_seed.index, level="seed")].groupby(level=SCENARIO).mean()
    lower = means[[*ours]].mean(axis=1) < means[[*theirs]].mean(axis=1)
    return Effect(Stat.of(per_seed["mean"]), len(scenarios), int(lower.sum()))


def difference(one: Effect, other: Effect) -> Effect:
    """Compare two effects over different scenarios by the ratio of their ratios.

    Treats them as independent. Sharing seeds, they are rather correlated positively, so that the interval is too wide,
    not too narrow.
    """
    a, b = one.logs, other.logs
    return Effect(Stat(a.mean - b.mean, sqrt(a.se**2 + b.se**2), min(a.n, b.n)), one.settings + other.settings, 0)


PAPERS = ("unknown-cost", "ucb-cvs", "gittins", "ca-mobo")


@dataclass(frozen=True, slots=True)
class Where:
    """Scenarios: those of these problems, costs and variances; None: of any."""

    problems: tuple[str, ...] | None = None
    costs: tuple[str, ...] | None = None
    """`cheap` includes `cheap-known`."""
    variances: tuple[float, ...] | None = None

    def __contains__(self, scenario: PolicyScenario) -> bool:
        wanted = (self.problems, self.costs, self.variances)
        here = (scenario.problem, scenario.base_costs, scenario.variance)
        return all(some is None or one in some for some, one in zip(wanted, here, strict=True))


@dataclass(frozen=True, slots=True)
class Budget:
    """The published budget of some scenarios."""

    budget: float
    where: Where = field(default_factory=Where)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two places of which a claim says that policies compare differently there."""

    name: str
    told: str
    """In the figures, before the ratio."""
    where: Where
    reference: bool = False
    """Only with costs that were run at the other place too, and not counted among the published settings."""


@dataclass(frozen=True, slots=True)
class Case:
    """Policies that are counted, and where."""

    policies: tuple[str, ...]
    where: Where = field(default_factory=Where)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper claims, and how it is judged: see the functions of `judge` of each kind."""

    id: str
    place: str
    """Paper, section or figure."""
    statement: str
    test: str
    """What has to hold for a `yes`, in words."""
    kind: Literal["ratio", "contrast", "wins", "late-plays", "inputs"] = "ratio"
    published: int = 1
    """Settings on which the paper judged it."""
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    pairs: Literal["together", "each", "busiest"] = "together"
    """Groups together, each policy of the one against each of the other, or against the one that fares best."""
    quantity: str = "simple"
    """A column of the table, or `late-evaluations`: trials since ours have stopped exploring."""
    share: float = 1.0
    """Of the budget, at which the quantity is taken."""
    expect: Expected = field(default_factory=lambda: Expected(below=1.0))
    where: Where = field(default_factory=Where)
    parts: tuple[Part, ...] = ()
    """Of a contrast: two."""
    cases: tuple[Case, ...] = ()
    variances: tuple[float, ...] = ()
    """Of wins: those that compete in the cases, the last of which is claimed to win."""
    fewest: int = 1
    """Of wins: fewer combinations decide nothing."""
    hypervolume: Expected = field(default_factory=lambda: Expected(within=1.05))
    """Of inputs: its ratio, while that of the dear input is as expected."""


@dataclass(frozen=True, slots=True)
class Paper:
    """Everything of one paper."""

    budgets: tuple[Budget, ...]
    grids: tuple[Block, ...]
    quick: tuple[Block, ...]
    claims: tuple[Claim, ...]

    def published(self, scenario: PolicyScenario) -> bool:
        return scenario.budget == next((b.budget for b in self.budgets if scenario in b.where), None)


def paper_of(name: str) -> Paper:
    """Read a paper's file; raises UsageError if there is no such paper."""
    import yaml  # noqa: PLC0415 - only where a file is read

    must_be_one_of(name, PAPERS, "paper")
    content: dict[str, Any] = yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    return Paper(
        budgets=tuple(build(Budget, b, f"paper {name}: budget ") for b in content["budgets"]),
        grids=tuple(block_of(b, f"paper {name}: grid {i}") for i, b in enumerate(content["grids"], 1)),
        quick=tuple(block_of(b, f"paper {name}: quick {i}") for i, b in enumerate(content["quick"], 1)),
        claims=tuple(build(Claim, c, f"paper {name}: claim {c.get('id')}: ") for c in content["claims"]),
    )


def _part(block: Block, problems: Sequence[str], costs: Sequence[str]) -> Block | None:
    """Return a block with only these of its problems and costs; None where it has none of either."""
    some = tuple(p for p in block.problems if p in problems)
    of = tuple(c for c in block.costs or () if c in costs)
    return replace(block, problems=some, costs=of) if some and of else None


def grid_of(
    name: str,
    quick: bool = False,
    *,
    arrays: bool = True,
    seeds: int | None = None,
    problems: Sequence[str] = (),
    costs: Sequence[str] = (),
) -> Grid:
    """Return the grid of a paper, or its quick form: a few cells that take about a minute on one core, without arrays.

    `arrays` False leaves out the problems that need a directory of arrays. `seeds` is how many, from 0 on, instead of
    the published number. Only the problems and costs that are named are in it; where none are, all of the paper's.

    Raises:
        UsageError: there is no such paper, or it has no such problem or costs.
    """
    paper = paper_of(name)
    blocks = paper.quick if quick else paper.grids
    there = dict.fromkeys(p for block in blocks for p in block.problems if arrays or p not in DATA_FILES)
    any_costs = dict.fromkeys(c for block in blocks for c in block.costs or ())
    for problem in problems:
        must_be_one_of(problem, there, f"paper {name}: problem")
    for one in costs:
        must_be_one_of(one, any_costs, f"paper {name}: costs")
    found = (_part(block, problems or tuple(there), costs or tuple(any_costs)) for block in blocks)
    kept = [block for block in found if block is not None]
    if seeds is not None:
        kept = [replace(block, seeds=tuple(range(seeds))) for block in kept]
    if not kept:
        raise UsageError(f"paper {name}: runs none of {', '.join(problems)} with {', '.join(costs)} costs")
    return Grid(tuple(kept))
