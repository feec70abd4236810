"""Before anything runs: whether every policy of a grid can be built, and fits every problem that it is to play."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile

from rigctl.bench.asking.options import build_policy, check_policy, model_overrides
from rigctl.bench.cell import Cell
from rigctl.bench.problems.catalogue import MULTI_OUTCOME, bench_problem, check
from rigctl.bench.problems.functions import DATA_FILES
from rigctl.bench.problems.problem import BenchProblem
from rigctl.core.experiment.policy import Particular
from rigctl.errors import PluginError, UsageError

PINNED = ("lengthscales", "signal_sd", "noise_sd", "mean")
"""Model options that fixed hyper-parameters cannot do without."""


def check_cells(cells: Iterable[Cell], where: str) -> None:
    """Refuse cells that cannot start. Problems are built without their truth, which can take seconds to find.

    Args:
        cells: of one grid and budget; those that differ by their seed only are looked at once.
        where: what messages begin with, e.g. the grid's place in its file.

    Raises:
        UsageError: a name, an option or data do not hold, or a policy does not fit a problem.
    """
    kept = {(c.problem, c.costs, c.variance, repr(c.policy)): c for c in cells}.values()
    problems = {(c.problem, c.costs, c.variance): c for c in kept}
    with _told(where):
        for cell in problems.values():
            check(cell)
        for cell in {repr(c.policy): c for c in kept}.values():
            check_policy(cell.policy)
    for key, one in problems.items():
        with _told(f"{where}: problem {one.problem}"):
            outline = _outline(one)
            for cell in kept:
                if (cell.problem, cell.costs, cell.variance) == key:
                    _check_fit(outline, cell)


@contextmanager
def _told(where: str) -> Iterator[None]:
    try:
        yield
    except (PluginError, UsageError) as error:
        raise UsageError(f"{where}: {error}") from error


def _outline(cell: Cell) -> BenchProblem:
    try:
        return bench_problem(cell, solved=False)
    except (OSError, EOFError, BadZipFile, KeyError, TypeError, ValueError) as error:
        if cell.problem not in DATA_FILES:
            raise
        file = Path(cell.data or "") / DATA_FILES[cell.problem]
        why = str(error).partition(". ")[0]  # what numpy advises after that is not for strangers' files
        raise UsageError(f"{file}: cannot be read: {why}; name a directory with the arrays by --data DIR") from error


def _check_fit(outline: BenchProblem, cell: Cell) -> None:
    spec = cell.policy
    policy = build_policy(spec, outline.options.get(spec.policy))
    problem = outline.problem(cell.budget, model_overrides(spec))
    model, d = problem.model, problem.space.dimension
    missing = [name for name in PINNED if getattr(model, name) is None] if model.hyperparameters == "fixed" else []
    wrong = [f"model.{name}: got null, must be a number where hyperparameters are fixed" for name in missing]
    if model.lengthscales is not None and len(model.lengthscales) != d:
        wrong.append(f"model.lengthscales: got {len(model.lengthscales)} of them, must be {d}: one per variable")
    for key, what in policy.mistakes(problem) if isinstance(policy, Particular) else ():
        # the keys are a configuration's; in a grid, outcomes come with the problem
        more = f"; problems that have some: {', '.join(MULTI_OUTCOME)}" if key == "further_outcomes" else ""
        wrong.append(f"{key.replace('policy.', 'options.', 1)}: {what}{more}")
    if wrong:
        raise UsageError(f"policy {spec.label}: {'; '.join(wrong)}")
