"""What a table of results says: means and standard errors per scenario and policy, and ours against the published.

`summarise` is the table of figures; `compare` asks how much better one policy is than the best of others. Both can be
had as plain text.

How much money one policy needs to get where another ended, of what the other took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from math import exp, log, nan
from typing import Any

import numpy as np
import pandas as pd

from rigctl.bench.tables.results import (
    FLOOR_SHARE,
    FLOORS,
    GROUP,
    RUN,
    SCENARIO,
    SHARES,
    PolicyScenario,
    Stat,
    at_share,
    by_share,
    floors_text,
    group_index,
    policies_of,
    regret_floor,
    scenarios_of,
    steps,
    trials_of,
    within,
)
from rigctl.errors import UsageError

PLACES = 20
"""Even steps of the budget at which a recommendation was judged."""
NOISE = 0.01
"""Standard deviation of the noise of the bench's problems. A regret below it counts as it: nobody is asked to reach
what could not be told from it."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Ours against one other policy on one scenario, by inference regret, paired by seeds."""

    scenario: PolicyScenario
    other: str
    ours: Stat
    """Inference regret at the end."""
    theirs: Stat
    difference: Stat
    """Ours minus theirs."""
    money: float
    """What ours spent until it was first as good as theirs at the end, by what theirs spent until it first was."""
    never: int
    """Seeds on which ours never was. They count as if it had been at the end of the budget, which flatters ours."""


def reached(frame: pd.DataFrame, ours: str, others: Sequence[str]) -> tuple[Reached, ...]:
    """Return a row per scenario and other policy that share seeds with ours.

    Raises:
        UsageError: the table is not one of this bench.
    """
    trials = trials_of(frame)
    rows = []
    for scenario in scenarios_of(trials):
        runs = within(trials, [scenario])
        there = policies_of(runs)
        for other in (name for name in others if name in there and ours in there and name != ours):
            row = _row(scenario, runs, ours, other)
            rows += [row] if row is not None else []
    return tuple(rows)


def _row(scenario: PolicyScenario, runs: pd.DataFrame, ours: str, other: str) -> Reached | None:
    places = np.linspace(0.0, scenario.budget, PLACES + 1)[1:]
    regrets: Any = steps(runs, "inference", runs["spent"], places)
    pair = [regrets.xs(name, level="policy").droplevel(SCENARIO) for name in (ours, other)]
    seeds = pair[0].index.intersection(pair[1].index)
    mine, theirs = (table.loc[seeds].to_numpy(dtype=float) for table in pair)
    if not len(seeds) or np.isnan(theirs[:, -1]).any():
        return None
    bar = np.maximum(theirs[:, -1:], NOISE)
    there = [np.maximum(table, NOISE) <= bar for table in (mine, theirs)]
    never = ~there[0].any(axis=1)
    taken = np.where(never, PLACES, there[0].argmax(axis=1) + 1) / (there[1].argmax(axis=1) + 1)
    ends = mine[:, -1], theirs[:, -1], mine[:, -1] - theirs[:, -1]
    ours_end, their_end, difference = (Stat.of(pd.Series(values)) for values in ends)
    money = float(np.exp(np.log(taken).mean()))
    return Reached(scenario, other, ours_end, their_end, difference, money, int(never.sum()))


def reached_text(rows: Sequence[Reached]) -> str:
    """Return a line per row, and the geometric mean of the money."""
    lines = [
        f"{row.scenario}: {row.ours} against {row.other}'s {row.theirs} at the end, difference {row.difference}; "
        f"as good as that after {row.money:.0%} of the money"
        + (f" (never with {row.never} of {row.ours.n} seeds)" if row.never else "")
        for row in rows
    ]
    mean = exp(sum(log(row.money) for row in rows) / len(rows)) if rows else float("nan")
    return "\n".join([*lines, f"geometric mean of the money: {mean:.0%}"])


REGRETS = ("inference", "simple")
MEASURES = ("simple", "inference", "quality", "cost_regret", "cost_varying", "dear_input", "hypervolume", "trial")
"""Columns shown at each share of the budget; all but simple and inference regret and hypervolume are cumulated."""


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """One policy on one scenario, over its seeds. Regrets in outcome units (cost regret: currency)."""

    scenario: PolicyScenario
    policy: str
    seeds: int
    at_share: Mapping[tuple[str, float], Stat]
    """(one of `MEASURES`, share of the budget) -> its value then; without those that the problem does not have."""
    decision_s: Stat
    """CPU seconds a decision took, mean over each run's trials."""

    def by_name(self) -> dict[str, Any]:
        head = {**self.scenario._asdict(), "policy": self.policy, "seeds": self.seeds}
        return {**head, **by_share(self.at_share), "decision_s": self.decision_s}


def summarise(frame: pd.DataFrame) -> tuple[PolicySummary, ...]:
    """Return one row per scenario and policy, sorted; raises UsageError if the table is not one of this bench."""
    trials = trials_of(frame)
    stats = {(name, share): _stats(at_share(trials, name, share)) for name in MEASURES for share in SHARES}
    decision_s = _stats(trials["decision_s"].groupby(level=RUN).mean())
    seeds = group_index(at_share(trials, "trial")).value_counts()
    return tuple(
        PolicySummary(
            scenario=PolicyScenario(*group[:-1]),
            policy=group[-1],
            seeds=int(seeds[group]),
            at_share={key: of[group] for key, of in stats.items() if stats[key[0], 1.0][group].n},
            decision_s=decision_s[group],
        )
        for group in decision_s
    )


def _stats(values: pd.Series) -> dict[tuple[Any, ...], Stat]:
    groups: Any = values.groupby(level=GROUP)
    return {group: Stat.of(of_seeds) for group, of_seeds in groups}


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours against the best published policy on one scenario at one share of the budget."""

    scenario: PolicyScenario
    regret: str
    """One of `FLOORS`."""
    share: float
    ours: Stat
    """Over the seeds both have."""
    best_policy: str
    """The published policy against which the ratio is largest: of equally many seeds the one with the smallest mean."""
    best: Stat
    """Over the seeds both have: some are harder than others, so while a grid is not finished the rest would mislead."""
    difference: Stat
    """Ours minus that policy's, paired: a seed fixes function, initial points and noise for every policy."""
    floor: float
    """Both means count as at least this."""
    missing: tuple[str, ...] = ()
    """Published policies that were not run here, or on none of our seeds: the best may be one of them."""

    @property
    def ratio(self) -> float:
        """Return ours by the best published, both at least the floor; below 1 is better."""
        return max(self.ours.mean, self.floor) / max(self.best.mean, self.floor)

    @property
    def no_worse(self) -> bool:
        return self.ratio <= 1.0

    def by_name(self) -> dict[str, Any]:
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "scenario"}
        return {**self.scenario._asdict(), **told, "ratio": self.ratio, "no_worse": self.no_worse}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours against the best published policy everywhere: means of ratios are of simple and inference regret alone.

    A regret below `FLOOR_SHARE` (1e-4) of the outcome's range is taken as that: two policies that both found the
    optimum are equal, whatever the last digits say, and a mean of exactly zero still has a ratio.
    """

    ours: str
    published: tuple[str, ...]
    ratios: tuple[Ratio, ...]

    def geometric_mean(self, regret: str | None = None, share: float | None = None) -> float:
        """Return that of all ratios, or of those of one regret or share only; NaN if there are none."""
        regrets = REGRETS if regret is None else (regret,)
        chosen = [r.ratio for r in self.ratios if r.regret in regrets and share in {None, r.share}]
        return exp(sum(map(log, chosen)) / len(chosen)) if chosen else nan

    @property
    def no_worse_everywhere(self) -> bool:
        return bool(self.ratios) and all(r.no_worse for r in self.ratios if r.regret in REGRETS)

    def by_name(self) -> dict[str, Any]:
        return {
            "ours": self.ours,
            "published": self.published,
            "floor_share": FLOOR_SHARE,
            "geometric_mean": {
                "all": self.geometric_mean(),
                **{regret: self.geometric_mean(regret) for regret in FLOORS},
                **{f"{share:g}": self.geometric_mean(share=share) for share in SHARES},
            },
            "no_worse_everywhere": self.no_worse_everywhere,
            "ratios": [r.by_name() for r in self.ratios],
        }


def compare(frame: pd.DataFrame, ours: str, published: Sequence[str]) -> Comparison:
    """Compare ours with the best of the published, on each scenario at 25, 50 and 100 % of the budget.

    Raises:
        UsageError: the table has no runs of ours, or of none of the published.
    """
    trials = trials_of(frame)
    present = policies_of(trials)
    if ours not in present or not set(published) & set(present):
        have = ", ".join(present) or "none"
        raise UsageError(f"compare: got {ours} against {', '.join(published)}; the results have {have}")
    ratios: list[Ratio] = []
    for scenario in scenarios_of(trials):
        runs = within(trials, [scenario])
        if ours in policies_of(runs):
            ratios += _ratios(scenario, runs, ours, published)
    return Comparison(ours, tuple(published), tuple(ratios))


def _ratios(scenario: PolicyScenario, runs: pd.DataFrame, ours: str, published: Sequence[str]) -> list[Ratio]:
    """Return at most one of each regret and share: against the policy that fares best."""
    rows = []
    for regret in FLOORS:
        for share in SHARES:
            floor = regret_floor(runs, regret, share)
            table = at_share(runs, regret, share).unstack("policy")
            mine = table[ours]
            pairs = {p: table[p].where(mine.notna()) for p in published if p in table}
            known = {p: theirs.dropna() for p, theirs in pairs.items() if theirs.notna().any()}
            missing = tuple(p for p in published if p not in known)
            ratios = []
            for p, theirs in known.items():
                here = mine[theirs.index]
                stats = Stat.of(here), p, Stat.of(theirs), Stat.of(here - theirs)
                ratios.append(Ratio(scenario, regret, share, *stats, floor, missing))
            if ratios:
                rows.append(max(ratios, key=lambda r: (r.ratio, -r.best.mean)))
    return rows


def summary_text(rows: Sequence[PolicySummary]) -> str:
    """Return a table per scenario, a line per policy and share of the budget, mean ± standard error."""
    blocks = []
    for scenario, group in groupby(rows, key=lambda row: row.scenario):
        of_scenario = list(group)
        known = [name for name in MEASURES if any((name, 1.0) in row.at_share for row in of_scenario)]
        head = ["policy", "seeds", "budget", *(name.replace("_", " ") for name in known), "decision ms"]
        lines = [_line(row, share, known) for row in of_scenario for share in SHARES]
        blocks.append(f"{scenario}\n{table_text([head, *lines])}")
    return "\n\n".join(blocks)


def _line(row: PolicySummary, share: float, known: Sequence[str]) -> list[str]:
    stats = [row.at_share.get((name, share)) for name in known]
    told = ["" if stat is None else str(stat) for stat in stats]
    end = share == SHARES[-1]
    return [row.policy, str(row.seeds), f"{share:.0%}", *told, f"{1e3 * row.decision_s.mean:.3g}" if end else ""]


def comparison_text(comparison: Comparison) -> str:
    """Return a line per scenario, regret and share, and the geometric means."""
    head = ["setting", "regret", "budget", "seeds", comparison.ours, "best published", "its regret", "ratio", ""]
    lines = []
    for r in comparison.ratios:
        measured = [str(r.ours.n), str(r.ours), r.best_policy, str(r.best), f"{r.ratio:.3g}"]
        lines.append(
            [str(r.scenario), r.regret.replace("_", " "), f"{r.share:.0%}", *measured, "" if r.no_worse else "worse"]
        )
    # where a published policy is missing, the best of the others may be easier to beat
    missing = {r.scenario: r.missing for r in comparison.ratios if r.missing}
    without = [f"\nWithout {', '.join(policies)}: {scenario}." for scenario, policies in missing.items()]
    worse = sum(not r.no_worse for r in comparison.ratios)
    means = ", ".join(f"{regret.replace('_', ' ')} {comparison.geometric_mean(regret):.3g}" for regret in FLOORS)
    return (
        f"{table_text([head, *lines])}\n"
        f"geometric mean of the ratios: {comparison.geometric_mean():.3g} ({means}); "
        f"worse in {worse} of {len(comparison.ratios)}.\n"
        f"The mean of all is of simple and inference regret. {floors_text(FLOORS)}"
        f"{''.join(without)}"
    )


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        rest = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *rest]).rstrip())
    return "\n".join(lines)
