"""What came of the mutants that were played, as lines of a file, and summed up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml

from tests.simulation.mutants.drawing import Mutant

Json = dict[str, Any]
NOTHING: Json = {"found": False, "left": 0, "cpu_s": 0.0, "of_s": 0.0, "shown": ""}
EQUIVALENT: Final = Path(__file__).with_name("equivalent.yaml")


def equivalent() -> dict[str, str]:
    """Return the mutants that make no difference, each with its reason."""
    names: dict[str, str] = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8"))
    return names


class Played:
    """The last word on every mutant, by part."""

    def __init__(self, kept: Iterable[Json] = ()) -> None:
        self._kept: dict[tuple[str, str], Json] = {}
        for one in kept:
            self.add(one)

    @classmethod
    def read(cls, path: Path) -> Played:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return cls(map(json.loads, lines))

    def add(self, kept: Json) -> None:
        self._kept[kept["mutant"], kept["part"]] = kept

    def of(self, mutant: str, part: str) -> Json:
        return self._kept.get((mutant, part), NOTHING)

    def is_over(self, mutant: str, part: str, seconds: float) -> bool:
        """Tell whether there is nothing left to play of it."""
        kept = self._kept.get((mutant, part))
        return kept is not None and (kept["found"] or part == "tests" or kept["left"] == 0 or kept["cpu_s"] >= seconds)

    def found(self, mutant: str, *parts: str) -> bool:
        """Tell whether one of these parts has found it."""
        return any(self.of(mutant, part)["found"] for part in parts)

    def counted(self, mutants: Sequence[Mutant], parts: Sequence[str]) -> list[Mutant]:
        """Return those that all these parts have played, without those that make no difference but were not found."""
        excused = equivalent()
        return [
            m
            for m in mutants
            if all((m.name, part) in self._kept for part in parts)
            and (m.name not in excused or self.found(m.name, *parts))
        ]


def told(mutants: Sequence[Mutant], played: Played, parts: Sequence[str]) -> str:
    """Return the figures by module and operator, and who has survived."""
    counted = played.counted(mutants, parts)
    lines = [*_table("module", counted, played, parts, lambda m: m.module), ""]
    lines += _table("operator", counted, played, parts, lambda m: m.operator)
    times = sorted(played.of(m.name, "simulation")["cpu_s"] for m in counted if played.found(m.name, "simulation"))
    if times:
        within = ", ".join(f"{sum(t <= s for t in times)} within {s} s" for s in (5, 15, 60, 120, 300))
        lines += ["", f"Found by the simulation, seconds of processor: median {median(times):.1f}; {within}."]
    survivors = [m for m in counted if not played.found(m.name, *parts)]
    lines += ["", f"{len(survivors)} survivors:", *(f"- {m.line}: {m.name}" for m in survivors)]
    if stale := [name for name in equivalent() if played.found(name, *parts)]:
        lines += ["", "Found, though equivalent.yaml has them:", *(f"- {name}" for name in stale)]
    return "\n".join(lines)


def least_share(mutants: Sequence[Mutant], played: Played, parts: Sequence[str]) -> float:
    """Return the share that was found of the mutants of the module where it is smallest."""
    by_module: dict[str, list[bool]] = {}
    for mutant in played.counted(mutants, parts):
        by_module.setdefault(mutant.module, []).append(played.found(mutant.name, *parts))
    return min((sum(found) / len(found) for found in by_module.values()), default=1.0)


def _table(
    head: str, mutants: Sequence[Mutant], played: Played, parts: Sequence[str], by: Callable[[Mutant], str]
) -> list[str]:
    columns = {part: (part,) for part in parts} | ({"either": tuple(parts)} if len(parts) > 1 else {})
    counts: dict[str, Counter[str]] = {}
    for mutant in mutants:
        for row in (by(mutant), "all"):
            count = counts.setdefault(row, Counter())
            count["played"] += 1
            count.update({column: played.found(mutant.name, *of) for column, of in columns.items()})
    rows = sorted(counts, key=lambda name: (name == "all", name))
    out = [f"| {head} | played | {' | '.join(columns)} |", f"|---|---:{'|---:' * len(columns)}|"]
    for row in rows:
        count = counts[row]
        shares = (f"{count[column]} ({count[column] / count['played']:.0%})" for column in columns)
        out.append(f"| {row} | {count['played']} | {' | '.join(shares)} |")
    return out
