"""A grid: which problems, costs, variances, policies, seeds and budgets; and its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rigctl.bench.asking.labels import policy_spec
from rigctl.bench.asking.options import check_policy
from rigctl.bench.cell import Cell, PolicySpec
from rigctl.bench.names import must_be_one_of
from rigctl.bench.problems.catalogue import check, usual_costs, varies
from rigctl.errors import UsageError

VARIANCES = (0.04,)
SEEDS = 10
PLURALS = {"problems": "problem", "variances": "variance", "policies": "policy", "seed": "seeds", "cost": "costs"}
KEYS = ("problem", "costs", "variance", "policy", "seeds", "budget", "model")


@dataclass(frozen=True, slots=True)
class Block:
    """The product of everything in it, at one budget.

    Raises:
        UsageError: something is empty or out of range.
    """

    problems: tuple[str, ...]
    policies: tuple[PolicySpec, ...]
    budget: float
    """Currency units."""
    costs: tuple[str, ...] | None = None
    """None: each problem's usual ones."""
    variances: tuple[float, ...] = VARIANCES
    seeds: tuple[int, ...] = tuple(range(SEEDS))
    model: Mapping[str, Any] = field(default_factory=dict)
    """Model options of all its policies; a policy's own come before them."""

    def __post_init__(self) -> None:
        for name in ("problems", "policies", "costs", "variances", "seeds"):
            if getattr(self, name) == ():
                raise UsageError(f"grid: no {name}; give at least one")
        if not self.budget > 0:
            raise UsageError(f"grid: budget: got {self.budget}, must be more than nothing")
        if any(seed < 0 for seed in self.seeds):
            raise UsageError(f"grid: seeds: got {list(self.seeds)}, must be 0 or more")

    def cells(self, data: Path | None = None) -> tuple[Cell, ...]:
        """Problem by problem, seed by seed, so that a stopped grid has every policy on the same seeds."""
        return tuple(
            Cell(
                problem,
                costs,
                variance if varies(problem) else 0.0,
                replace(policy, model={**self.model, **policy.model}),
                seed,
                self.budget,
                None if data is None else str(data),
            )
            for problem in self.problems
            for variance in self.variances
            for costs in self.costs or (usual_costs(problem),)
            for seed in self.seeds
            for policy in self.policies
        )


@dataclass(frozen=True, slots=True)
class Grid:
    """Some blocks."""

    blocks: tuple[Block, ...]

    def cells(self, data: Path | None = None) -> tuple[Cell, ...]:
        """All cells, each once, their names and options checked.

        Raises:
            UsageError: a problem, costs, a policy or an option does not exist, or two definitions share a label.
        """
        cells = {cell.id: cell for block in self.blocks for cell in block.cells(data)}
        for cell in {(c.problem, c.costs): c for c in cells.values()}.values():
            check(cell)
        specs = {repr(c.policy): c.policy for c in cells.values()}
        for spec in specs.values():
            check_policy(spec)
        _labels_differ(tuple(cells.values()))
        return tuple(cells.values())

    def to_json(self) -> list[dict[str, Any]]:
        """What was asked, block by block."""
        return [asdict(block) for block in self.blocks]


def _labels_differ(cells: Sequence[Cell]) -> None:
    """In one table a label must mean one thing, or rows of different policies would be averaged."""
    seen: dict[tuple[object, ...], Cell] = {}
    for cell in cells:
        key = (cell.problem, cell.costs, cell.variance, cell.policy.label, cell.seed, cell.budget)
        if key in seen:
            raise UsageError(
                f"grid: label {cell.policy.label!r} stands for two policies on {cell.problem}: "
                f"{seen[key].policy} and {cell.policy}; give them labels of their own"
            )
        seen[key] = cell


def read_grid(path: Path) -> Grid:
    """A grid from a YAML file: a mapping, or a list of them under `grids` (docs/bench.md).

    Raises:
        UsageError: it cannot be read, or something in it does not hold.
    """
    import yaml  # noqa: PLC0415 - only where a file is read

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: is not YAML: {error}") from error
    blocks = content.get("grids", [content]) if isinstance(content, Mapping) else content
    if not isinstance(blocks, list) or not all(isinstance(b, Mapping) for b in blocks):
        raise UsageError(f"{path}: must be a mapping with the keys {', '.join(KEYS)}, or a list of them under `grids`")
    return Grid(tuple(block_of(b, f"{path}: grid {i}") for i, b in enumerate(blocks, 1)))


def from_options(
    problems: Sequence[str],
    policies: Sequence[str],
    budget: float,
    *,
    costs: Sequence[str] | None = None,
    variances: Sequence[float] | None = None,
    seeds: int = SEEDS,
    hyperparameters: str = "learned",
) -> Grid:
    """A grid of one block, from the command line.

    Raises:
        UsageError: something in it does not hold.
    """
    block = Block(
        problems=tuple(problems),
        policies=tuple(policy_spec(label) for label in policies),
        budget=budget,
        costs=tuple(costs) if costs else None,
        variances=tuple(variances) if variances else VARIANCES,
        seeds=tuple(range(seeds)),
        model={} if hyperparameters == "learned" else {"hyperparameters": hyperparameters},
    )
    return Grid((block,))


def block_of(given: Mapping[str, Any], where: str) -> Block:
    """A block from a file's keys, plural or singular, one value or a list.

    Raises:
        UsageError: a key is unknown or missing, or a value is of the wrong kind.
    """
    content = {PLURALS.get(str(key), str(key)): value for key, value in given.items()}
    for key in content:
        must_be_one_of(key, KEYS, f"{where}: key")
    for key in ("problem", "policy", "budget"):
        if key not in content:
            raise UsageError(f"{where}: {key} is missing")
    seeds = content.get("seeds", SEEDS)
    try:
        return Block(
            problems=tuple(str(v) for v in _listed(content["problem"])),
            policies=tuple(policy_spec(v) for v in _listed(content["policy"])),
            budget=float(content["budget"]),
            costs=tuple(str(v) for v in _listed(content["costs"])) if content.get("costs") is not None else None,
            variances=tuple(float(v) for v in _listed(content.get("variance", list(VARIANCES)))),
            seeds=tuple(int(v) for v in (range(seeds) if isinstance(seeds, int) else _listed(seeds))),
            model=dict(content.get("model") or {}),
        )
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
