"""A paper as data: its experiments as grids, the budgets it was judged at, and its claims, in a YAML file beside this.

`grids` are read like a grid file of anybody's (docs/bench.md); `quick` forms are for a first look and for continuous
integration: the same code on a few cells. What was ambiguous, and how it was decided: docs/papers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Literal

from rigctl.bench.asking.grid import Block, Grid, block_of
from rigctl.bench.asking.options import build
from rigctl.bench.names import must_be_one_of
from rigctl.bench.papers.evidence import Expected
from rigctl.bench.problems.functions import DATA_FILES
from rigctl.bench.tables.results import PolicyScenario
from rigctl.errors import UsageError

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
    """In our words."""
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
    """Read a paper's file.

    Raises:
        UsageError: there is no such paper.
    """
    import yaml  # noqa: PLC0415 - only where a file is read

    must_be_one_of(name, PAPERS, "paper")
    content: dict[str, Any] = yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    return Paper(
        budgets=tuple(build(Budget, b, f"paper {name}: budget") for b in content["budgets"]),
        grids=tuple(block_of(b, f"paper {name}: grid {i}") for i, b in enumerate(content["grids"], 1)),
        quick=tuple(block_of(b, f"paper {name}: quick {i}") for i, b in enumerate(content["quick"], 1)),
        claims=tuple(build(Claim, c, f"paper {name}: claim {c.get('id')}") for c in content["claims"]),
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
    """Return the grid of a paper, or its quick form.

    Args:
        name: one of `PAPERS`.
        quick: a few cells that finish within about a minute on one core, without arrays.
        arrays: False leaves out the problems that need a directory of arrays.
        seeds: how many instead of the published number, from 0 on.
        problems: only these; none: all of the paper's.
        costs: likewise.

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
