"""What came of the mutants that were played, as lines of a file, and summed up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.simulation.mutants.drawing import Mutant

Json = dict[str, Any]
NOTHING: Json = {"found": False, "left": 0, "cpu_s": 0.0, "of_s": 0.0, "shown": ""}


class Played:
    """The last word on every mutant, by part."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Json] = {}

    @classmethod
    def read(cls, path: Path) -> Played:
        played = cls()
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            played.add(json.loads(line))
        return played

    def add(self, kept: Json) -> None:
        self._kept[kept["mutant"], kept["part"]] = kept

    def of(self, mutant: str, part: str) -> Json:
        return self._kept.get((mutant, part), NOTHING)

    def has(self, mutant: str, part: str) -> bool:
        return (mutant, part) in self._kept

    def is_over(self, mutant: str, part: str, seconds: float) -> bool:
        """Tell whether there is nothing left to play of it."""
        kept = self._kept.get((mutant, part))
        return kept is not None and (kept["found"] or part == "tests" or kept["left"] == 0 or kept["cpu_s"] >= seconds)

    def found(self, mutant: str, part: str) -> bool:
        return bool(self.of(mutant, part)["found"])


def told(mutants: Sequence[Mutant], played: Played) -> str:
    """Return the figures by module and operator, and who has survived."""
    both = [m for m in mutants if played.has(m.name, "simulation") and played.has(m.name, "tests")]
    lines = [*_table("module", both, played, lambda m: m.module), "", *_table("operator", both, played, _operator)]
    times = sorted(played.of(m.name, "simulation")["cpu_s"] for m in both if played.found(m.name, "simulation"))
    if times:
        within = ", ".join(f"{sum(t <= s for t in times)} within {s} s" for s in (5, 15, 60, 120, 300))
        lines += ["", f"Found by the simulation, seconds of processor: median {median(times):.1f}; {within}."]
    survivors = [m for m in both if not _either(m, played)]
    lines += ["", f"{len(survivors)} survivors:", *(f"- {m.line}: {m.name}" for m in survivors)]
    return "\n".join(lines)


def _either(mutant: Mutant, played: Played) -> bool:
    return any(played.found(mutant.name, part) for part in ("simulation", "tests"))


def _operator(mutant: Mutant) -> str:
    return mutant.operator


def _table(head: str, mutants: Sequence[Mutant], played: Played, by: Callable[[Mutant], str]) -> list[str]:
    counts: dict[str, Counter[str]] = {}
    for mutant in mutants:
        for row in (by(mutant), "all"):
            count = counts.setdefault(row, Counter())
            count["played"] += 1
            count["simulation"] += played.found(mutant.name, "simulation")
            count["tests"] += played.found(mutant.name, "tests")
            count["either"] += _either(mutant, played)
    rows = sorted(name for name in counts if name != "all") + ["all"] * ("all" in counts)
    out = [f"| {head} | played | simulation | tests | either |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        count = counts[row]
        shares = (f"{count[of]} ({count[of] / count['played']:.0%})" for of in ("simulation", "tests", "either"))
        out.append(f"| {row} | {count['played']} | {' | '.join(shares)} |")
    return out
