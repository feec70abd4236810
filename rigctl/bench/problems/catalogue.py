"""Every problem of the bench by name, and which costs it can have."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import cast, get_args

from rigctl.bench.cell import Cell
from rigctl.bench.names import must_be_one_of
from rigctl.bench.problems.full_control import CostsName, FunctionName, full_control
from rigctl.bench.problems.functions import DATA_FILES, data_file
from rigctl.bench.problems.multi_outcome import trays, zdt3
from rigctl.bench.problems.problem import BenchProblem, control_set_problem, cost_names, recipes

DIMENSIONS = (4, 8, 16)
"""Of the full-control problems (Xie et al., section 4)."""
MULTI_OUTCOME = ("zdt3", "zdt3-unscaled", "trays")
UNIT_COSTS = ("unit",)


def problem_names() -> tuple[str, ...]:
    """Return the names of all problems."""
    return (*recipes(), *_full_control(), *MULTI_OUTCOME)


def costs_of(problem: str) -> tuple[str, ...]:
    """Return the names of the costs that a problem can have.

    Raises:
        UsageError: there is no such problem.
    """
    must_be_one_of(problem, problem_names(), "problem")
    if problem in recipes():
        return cost_names()
    return UNIT_COSTS if problem in MULTI_OUTCOME else get_args(CostsName)


def usual_costs(problem: str) -> str:
    """Return what is meant where no costs are named."""
    return "moderate" if problem in recipes() else costs_of(problem)[0]


def varies(problem: str) -> bool:
    """Tell whether the problem has uncontrolled variables."""
    return problem in recipes()


def check(cell: Cell) -> None:
    """Refuse what does not exist: problem, costs or data.

    Raises:
        UsageError: one does not exist; names the nearest that does.
    """
    must_be_one_of(cell.costs, costs_of(cell.problem), f"costs of {cell.problem}")
    if cell.problem in DATA_FILES:
        data_file(cell.problem, None if cell.data is None else Path(cell.data))


def bench_problem(cell: Cell) -> BenchProblem:
    """Return the problem of a cell, its truth computed once per process.

    Raises:
        UsageError: a name is unknown, or its data are not there.
    """
    check(cell)
    data = None if cell.data is None else str(Path(cell.data).resolve())
    seeded = cell.problem in recipes() and recipes()[cell.problem].seeded
    return _built(cell.problem, cell.costs, cell.variance, cell.seed if seeded else 0, data)


def _full_control() -> dict[str, tuple[FunctionName, int]]:
    names: tuple[FunctionName, ...] = get_args(FunctionName)
    return {f"{name}{d}": (name, d) for name in names for d in DIMENSIONS}


@lru_cache(maxsize=32)
def _built(problem: str, costs: str, variance: float, seed: int, data: str | None) -> BenchProblem:
    """Build a problem; all that a worker remembers between cells, as a truth can take as many seconds as a campaign."""
    if problem in recipes():
        return control_set_problem(problem, costs, variance, seed, None if data is None else Path(data))
    if problem in MULTI_OUTCOME:
        return trays() if problem == "trays" else zdt3(mapped=problem == "zdt3")
    function, dimension = _full_control()[problem]
    return full_control(function, dimension, cast("CostsName", costs))  # checked by name
