"""A grid: which problems, costs, variances, policies, seeds and budgets; and its cells.

Before anything runs: whether every policy of a grid can be built, and fits every problem that it is to play.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from rigctl.bench.asking.options import build, build_policy, merged_model, model_overrides, policy_spec
from rigctl.bench.cell import Cell, PolicySpec, must_be_one_of
from rigctl.bench.problems.catalogue import MULTI_OUTCOME, bench_problem, check, entry_of
from rigctl.bench.problems.functions import DATA_FILES
from rigctl.bench.problems.problem import BenchProblem
from rigctl.core.experiment.money import MICROS_PER_UNIT
from rigctl.core.experiment.policy import mistakes_of
from rigctl.errors import PluginError, UsageError, reason
from rigctl.flaws import Flaw, got


def check_cells(cells: Iterable[Cell], where: str) -> None:
    """Refuse cells of one grid and budget that cannot start; those that differ by their seed only are looked at once.

    Problems are built without their truth, which can take seconds to find. Messages begin with `where`, such as the
    grid's place in its file.

    Raises:
        UsageError: a name, an option or data do not hold, or a policy does not fit a problem.
    """
    kept = {(c.problem, c.costs, c.variance, repr(c.policy)): c for c in cells}.values()
    problems = {(c.problem, c.costs, c.variance): c for c in kept}
    with _told(where):
        for cell in problems.values():
            check(cell)
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
        raise UsageError(error.flaw.within(where)) from error


def _outline(cell: Cell) -> BenchProblem:
    try:
        return bench_problem(cell, solved=False)
    except (OSError, EOFError, BadZipFile, KeyError, TypeError, ValueError) as error:
        if cell.problem not in DATA_FILES:
            raise
        file = Path(cell.data or "") / DATA_FILES[cell.problem]
        why = reason(error) if isinstance(error, OSError) else "it does not hold the arrays"
        raise UsageError(f"{file}: cannot be read: {why}; name a directory with the arrays by --data DIR") from error


def _check_fit(outline: BenchProblem, cell: Cell) -> None:
    spec = cell.policy
    policy = build_policy(spec, outline.options.get(spec.policy))
    problem = outline.problem(cell.budget, model_overrides(spec))
    model, d = problem.model, problem.space.dimension
    wrong = [str(Flaw(clash.lead, clash.allowed, where=f"model.{clash.key}")) for clash in model.clashes()]
    if model.lengthscales is not None and len(model.lengthscales) != d:
        allowed = f"must be {d}: one per variable"
        wrong.append(str(got(len(model.lengthscales), allowed, where="model.lengthscales", lead=" of them")))
    for key, what in mistakes_of(policy, problem):
        # the keys are a configuration's; in a grid, outcomes come with the problem
        more = f"; problems that have some: {', '.join(MULTI_OUTCOME)}" if key == "further_outcomes" else ""
        wrong.append(f"{key.replace('policy.', 'options.', 1)}: {what}{more}")
    if wrong:
        raise UsageError(f"policy {spec.label}: {'; '.join(wrong)}")


VARIANCES = (0.04,)
SEEDS = 10
PLURALS = {
    "problem": "problems",
    "cost": "costs",
    "variance": "variances",
    "policy": "policies",
    "seed": "seeds",
    "rho": "rhos",
}
"""Keys of a file in the singular: one value may stand there, or a list."""
KEYS = (*PLURALS.values(), "budget", "model", "reading_sd")


@dataclass(frozen=True, slots=True)
class Block:
    """The product of everything in it, at one budget.

    Raises:
        UsageError: something is empty or out of range.
    """

    problems: tuple[str, ...]
    policies: tuple[PolicySpec, ...]
    budget: float | None = None
    """Currency units; None: each problem's own."""
    costs: tuple[str, ...] | None = None
    """None: each problem's usual ones."""
    variances: tuple[float, ...] = VARIANCES
    seeds: tuple[int, ...] = tuple(range(SEEDS))
    model: Mapping[str, Any] = field(default_factory=dict)
    """Model options of all its policies; a policy's own come before them."""
    rhos: tuple[float | None, ...] = (None,)
    """How far what is read before a trial persists in it; None: nothing is read."""
    reading_sd: float = 0.0
    """Of the readings' errors, unit cube."""
    where: str = field(default="grid", compare=False)
    """Where it stands, for messages."""

    def __post_init__(self) -> None:
        for name in ("problems", "policies", "costs", "variances", "seeds"):
            if getattr(self, name) == ():
                raise UsageError(f"{self.where}: no {name}; give at least one")
        if self.budget is not None and not (isfinite(self.budget) and self.budget * MICROS_PER_UNIT >= 1):
            raise UsageError(got(self.budget, "must be more than nothing, and finite", where=f"{self.where}: budget"))
        wrong = [rho for rho in self.rhos if rho is not None and not 0 <= rho <= 1]
        if wrong:
            raise UsageError(got(wrong[0], "must be from 0 to 1", where=f"{self.where}: rho"))
        if not (isfinite(self.reading_sd) and self.reading_sd >= 0):
            raise UsageError(got(self.reading_sd, "must be >= 0", where=f"{self.where}: reading_sd"))
        if any(seed < 0 for seed in self.seeds):
            raise UsageError(got(list(self.seeds), "must be 0 or more", where=f"{self.where}: seeds"))

    def cells(self, data: Path | None = None) -> tuple[Cell, ...]:
        """Return cells by problem and seed, so that a stopped grid has every policy on the same seeds."""
        return tuple(
            Cell(
                problem,
                costs,
                variance if entry_of(problem).varies else 0.0,
                replace(policy, model=merged_model(self.model, policy.model)),
                seed,
                self._budget_of(problem),
                None if data is None else str(data),
                rho if entry_of(problem).varies else None,
                self.reading_sd if rho is not None and entry_of(problem).varies else 0.0,
            )
            for problem in self.problems
            for variance in self.variances
            for rho in self.rhos
            for costs in self.costs or (entry_of(problem).usual,)
            for seed in self.seeds
            for policy in self.policies
        )

    def _budget_of(self, problem: str) -> float:
        budget = entry_of(problem).budget if self.budget is None else self.budget
        if budget is None:
            raise UsageError(f"{self.where}: budget is missing, and {problem} has none of its own")
        return budget


@dataclass(frozen=True, slots=True)
class Grid:
    """Some blocks."""

    blocks: tuple[Block, ...]

    def cells(self, data: Path | None = None) -> tuple[Cell, ...]:
        """Return all cells, each once, with nothing wrong that can be known before they run.

        Raises:
            UsageError: a name, an option or data do not hold, a policy does not fit a problem, or two definitions share
                a label.
        """
        for block in self.blocks:
            for problem in block.problems:
                entry_of(problem, f"{block.where}: problem")
            check_cells(block.cells(data), block.where)
        cells = {cell.id: cell for block in self.blocks for cell in block.cells(data)}
        _labels_differ(cells.values())
        return tuple(cells.values())

    def to_json(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in asdict(block).items() if k != "where"} for block in self.blocks]


def _labels_differ(cells: Iterable[Cell]) -> None:
    """Refuse a label of two meanings: in one table, rows of different policies would be averaged."""
    seen: dict[tuple[object, ...], Cell] = {}
    for cell in cells:
        key = (cell.scene, cell.costs, cell.variance, cell.policy.label, cell.seed, cell.budget)
        if key in seen:
            raise UsageError(
                f"grid: label {cell.policy.label!r} stands for two policies on {cell.problem}: "
                f"{seen[key].policy} and {cell.policy}; give them labels of their own"
            )
        seen[key] = cell


def read_grid(path: Path) -> Grid:
    """Read a grid from a YAML file: a mapping, or a list of them under `grids` (docs/bench.md).

    Raises:
        UsageError: it cannot be read, or something in it does not hold.
    """
    import yaml  # noqa: PLC0415 - only where a file is read

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not YAML: {error}") from error
    if isinstance(content, Mapping) and "grids" in content and len(content) > 1:
        beside = ", ".join(str(key) for key in content if key != "grids")
        raise UsageError(f"{path}: beside grids stands {beside}, which belongs into each of the grids")
    blocks = content.get("grids", [content]) if isinstance(content, Mapping) else content
    if not isinstance(blocks, list) or not blocks or not all(isinstance(b, Mapping) for b in blocks):
        raise UsageError(f"{path}: must be a mapping with the keys {', '.join(KEYS)}, or a list of them under `grids`")
    return Grid(tuple(block_of(b, f"{path}: grid {i}") for i, b in enumerate(blocks, 1)))


def from_options(
    problems: Sequence[str],
    policies: Sequence[str],
    budget: float | None,
    *,
    costs: Sequence[str] | None = None,
    variances: Sequence[float] | None = None,
    seeds: int = SEEDS,
    hyperparameters: str = "learned",
) -> Grid:
    """Return a grid of one block, from the command line; raises UsageError if something in it does not hold."""
    model = None if hyperparameters == "learned" else {"hyperparameters": hyperparameters}
    given = {"problem": problems, "policy": policies, "budget": budget, "seeds": seeds}
    said = {"costs": costs, "variance": variances, "model": model}
    return Grid((block_of({**given, **{k: v for k, v in said.items() if v is not None}}, "grid"),))


def block_of(given: Mapping[str, Any], where: str) -> Block:
    """Return a block from a file's keys, plural or singular, one value or a list.

    Raises:
        UsageError: a key is unknown or missing, or a value is of the wrong kind.
    """
    content = {PLURALS.get(str(key), str(key)): value for key, value in given.items() if value is not None}
    if len(content) < sum(value is not None for value in given.values()):
        raise UsageError(got(", ".join(map(str, given)), "must name each key once, singular or plural", where=where))
    for key in content:
        must_be_one_of(key, KEYS, f"{where}: key")
    if isinstance(content.get("seeds"), int) and content["seeds"] is not True:  # how many
        content["seeds"] = list(range(content["seeds"]))
    for key in content.keys() & PLURALS.values():
        content[key] = list(content[key]) if isinstance(content[key], list | tuple) else [content[key]]
    for key in content.keys() & {"variances", "rhos"}:
        content[key] = list(map(_number, content[key]))
    content["budget"] = _number(content.get("budget"))
    content["policies"] = [asdict(policy_spec(one, f"{where}: policy")) for one in content.get("policies", ())]
    block: Block = build(Block, {**content, "where": where}, f"{where}: ")
    return block


def _number(value: Any) -> Any:
    """Return a number for text that is one: `1e3`, to YAML 1.1."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value
