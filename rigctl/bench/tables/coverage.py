"""How often the intervals told of a recommendation held the truth: of its value, and of what a trial of it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rigctl.bench.problems.drawn import drawn, seed_of
from rigctl.bench.tables.results import SHARES, by_share, trials_of
from rigctl.bench.tables.summary import table_text

if TYPE_CHECKING:
    import pandas as pd

HELD = {"value": "held", "cost": "cost_held"}
"""What an interval is told of, and the column that says whether it held."""
EVERY = "all"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Hold it for one policy, on problems of one family."""

    policy: str
    family: str
    """Of drawn problems; the name of any other; `EVERY`: of all."""
    held: Mapping[tuple[str, float], tuple[int, int]]
    """(`value` or `cost`, share of the budget) -> how many intervals held the truth, and of how many."""

    def by_name(self) -> dict[str, Any]:
        return {"policy": self.policy, "family": self.family, **by_share(self.held)}


def coverage(frame: pd.DataFrame) -> Sequence[Coverage]:
    """Return a row per policy and family, that of all families first; none of results that do not say what held.

    Raises:
        UsageError: the table is not one of this bench.
    """
    if not set(HELD.values()) <= set(frame.columns):
        return []
    trials = trials_of(frame)
    told = trials[trials["held"].notna()]
    families = {name: family_of(str(name)) for name in told.index.unique("problem")}
    found = []
    for policy in sorted(told.index.unique("policy")):
        mine = told.xs(policy, level="policy")
        family = mine.index.get_level_values("problem").map(families)
        each = [(EVERY, mine), *((name, mine[family == name]) for name in sorted(set(family)))]
        found += [Coverage(str(policy), name, _held(part)) for name, part in each]
    return found


def family_of(problem: str) -> str:
    """Return the family of a drawn problem, the name of any other."""
    seed = seed_of(problem)
    return problem if seed is None else drawn(seed, solved=False).family


def _held(told: pd.DataFrame) -> Mapping[tuple[str, float], tuple[int, int]]:
    """Count what was told last within each share of the budget of every campaign."""
    found = {}
    budget: Any = told.index.get_level_values("budget")
    for share in SHARES:
        last: Any = told[told["spent"] <= share * budget + 1e-9].groupby(level=told.index.names).last()
        for what, column in HELD.items():
            found[what, share] = int(last[column].sum()), int(last[column].count())
    return found


def coverage_text(rows: Sequence[Coverage]) -> str:
    """Return a line per policy and family: in percent at the three shares of the budget, and of all three."""
    shares = "/".join(f"{100 * share:.0f}" for share in SHARES)
    lines = [["policy", "problems", f"value {shares}", "all", f"cost {shares}", "all", "intervals"]]
    for row in rows:
        told = []
        for what in HELD:
            counts = [row.held[what, share] for share in SHARES]
            total = sum(held for held, _ in counts), sum(of for _, of in counts)
            told += [" ".join(map(_percent, counts)), _percent(total)]
        lines.append([row.policy, row.family, *told, str(sum(row.held["value", share][1] for share in SHARES))])
    return f"{table_text(lines)}\nHow often the 95 % intervals told of a recommendation held the truth, in percent."


def _percent(counts: tuple[int, int]) -> str:
    held, of = counts
    return f"{100 * held / of:.0f}" if of else "-"
