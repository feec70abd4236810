"""Every problem of the bench by name, and which costs it can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from math import pi, sin
from pathlib import Path
from typing import Any, get_args

from rigctl.bench.cell import Cell, must_be_one_of
from rigctl.bench.problems.drawn import PREFIX, drawn, seed_of
from rigctl.bench.problems.full_control import CostsName, FunctionName, full_control
from rigctl.bench.problems.functions import DATA_FILES, data_file
from rigctl.bench.problems.problem import COST_SETS, BenchProblem, control_set_problem, recipes, trays, zdt3
from rigctl.bench.problems.rules import Nature, RuleTruth
from rigctl.errors import UsageError

DIMENSIONS = (4, 8, 16)
"""Of the full-control problems (Xie et al., section 4)."""
MULTI_OUTCOME: Mapping[str, Callable[[], BenchProblem]] = {
    "zdt3": zdt3,
    "zdt3-unscaled": partial(zdt3, mapped=False),
    "trays": trays,
}
STEPS: Mapping[int, float] = {30: -1.0, 55: 0.7}
"""From which trial on by how much."""
RAMP_FROM, RAMP = 20, -0.03
"""From which trial on, and the rise per trial."""
PERIOD, SWING = 24, 0.6
LEVELS: Mapping[str, Callable[[int], float]] = {
    "step": lambda trial: sum(height for since, height in STEPS.items() if trial >= since),
    "ramp": lambda trial: RAMP * max(trial - RAMP_FROM, 0),
    "season": lambda trial: SWING * sin(2 * pi * trial / PERIOD),
}
"""Of plants that age, by the trial's number: what is added to the outcome, whose usual spread is 1.

It is common to all settings, so the truth of a problem stays what it is: a policy that knew the level would play as on
the problem that does not age.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A problem, before its costs are chosen."""

    costs: tuple[str, ...]
    usual: str
    """Costs that are meant where none are named."""
    build: Callable[..., BenchProblem]
    """From costs; and from variance, seed and data where it varies."""
    varies: bool = False
    """Whether it has uncontrolled variables."""
    seeded: bool = False
    """Whether every seed has a function of its own."""
    budget: float | None = None
    """Budget of the problem itself, currency units; None: the grid must name one."""


def catalogue() -> Mapping[str, Entry]:
    kinds = tuple(base + kind for base in COST_SETS for kind in ("", "-exact", "-known"))
    entries = {
        name: Entry(kinds, "moderate", partial(control_set_problem, name), varies=True, seeded=recipe.seeded)
        for name, recipe in recipes().items()
    }
    for name, kind in product(recipes(), LEVELS):
        entries[f"{name}@{kind}"] = replace(entries[name], build=partial(_ageing, name, kind))
    for function in get_args(FunctionName):
        for d in DIMENSIONS:
            entries[f"{function}{d}"] = Entry(get_args(CostsName), "uniform", partial(full_control, function, d))
    for name, build in MULTI_OUTCOME.items():
        entries[name] = Entry(("unit",), "unit", lambda _costs, build=build: build())
    return entries


def _ageing(name: str, kind: str, *args: Any, **options: Any) -> BenchProblem:
    return replace(control_set_problem(name, *args, **options), level=LEVELS[kind])


def entry_of(problem: str, where: str = "problem") -> Entry:
    """Return the problem of that name; `drawn-17` is the problem drawn from seed 17.

    Raises:
        UsageError: there is none; names the nearest that there is.
    """
    seed = seed_of(problem)
    if seed is not None:
        outline = drawn(seed, solved=False)
        return Entry((outline.costs,), outline.costs, lambda _costs: outline.bench, budget=outline.budget)
    entries = catalogue()
    must_be_one_of(problem, (*entries, f"{PREFIX}0"), where)
    return entries[problem]


def check(cell: Cell) -> None:
    """Refuse what does not exist: problem, costs or data.

    Raises:
        UsageError: one does not exist; names the nearest that does.
    """
    must_be_one_of(cell.costs, entry_of(cell.problem).costs, f"costs of {cell.problem}")
    plain = cell.problem.partition("@")[0]
    if plain in DATA_FILES:
        data_file(plain, None if cell.data is None else Path(cell.data))


def bench_problem(cell: Cell, *, solved: bool = True) -> BenchProblem:
    """Return the problem of a cell, its truth computed once per process; not `solved`, it has none.

    Raises:
        UsageError: a name is unknown, or its data are not there.
    """
    check(cell)
    data = None if cell.data is None else str(Path(cell.data).resolve())
    seed = cell.seed if entry_of(cell.problem).seeded else 0
    return _built(cell.problem, cell.costs, cell.variance, seed, data, solved=solved)


@lru_cache(maxsize=32)
def _built(problem: str, costs: str, variance: float, seed: int, data: str | None, *, solved: bool) -> BenchProblem:
    """Build a problem; all that a worker remembers between cells, as a truth can take as many seconds as a campaign."""
    entry, of_drawn = entry_of(problem), seed_of(problem)
    if of_drawn is not None:
        return drawn(of_drawn, solved=solved).bench
    if not entry.varies:
        return entry.build(costs)
    return entry.build(costs, variance, seed, None if data is None else Path(data), solved=solved)


def rule_truth(cell: Cell) -> RuleTruth | None:
    """Return the truth about rules of a cell with readings, computed once per process; None without."""
    if cell.rho is None:
        return None
    data = None if cell.data is None else str(Path(cell.data).resolve())
    seed = cell.seed if entry_of(cell.problem).seeded else 0
    return _solved(cell.problem, cell.variance, seed, data, Nature(cell.rho, cell.reading_sd))


@lru_cache(maxsize=8)
def _solved(problem: str, variance: float, seed: int, data: str | None, nature: Nature) -> RuleTruth:
    bench = _built(problem, entry_of(problem).usual, variance, seed, data, solved=True)
    if bench.truth is None:
        raise UsageError(f"problem {problem}: every variable is controlled, so there is nothing to read")
    recipe, sets = recipes()[problem], [s.indices for s in bench.space.control_sets]
    objective = recipe.objective(seed, None if data is None else Path(data))
    return RuleTruth.of(objective, bench.marginals, sets, bench.truth, nature)
