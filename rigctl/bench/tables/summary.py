"""What a table of bench results says: means and standard errors per setting and policy, and ours against the published.

`summarise` is the table of figures; `compare` asks how much better one policy is than the best of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, nan
from typing import TYPE_CHECKING, Any

from rigctl.bench.tables.runs import (
    FLOOR_SHARE,
    SHARES,
    Run,
    Setting,
    Stat,
    number,
    pick,
    policies_of,
    regret_floor,
    runs_of,
    settings_of,
)
from rigctl.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

REGRETS = ("inference", "simple")
CUMULATED = ("quality", "cost_regret", "cost_varying")


@dataclass(frozen=True, slots=True)
class Summary:
    """One policy on one setting, over its seeds. Regrets in outcome units (cost regret: currency)."""

    setting: Setting
    policy: str
    seeds: int
    at_share: dict[tuple[str, float], Stat]
    """(`simple` or `inference`, share of the budget) -> that regret then."""
    at_end: dict[str, Stat]
    """`quality`, `cost_regret`, `cost_varying` cumulated over the budget; `dear_input`, `hypervolume` where known."""
    evaluations: Stat
    """Trials the budget bought."""
    decision_s: Stat
    """CPU seconds a decision took, mean over each run's trials."""

    def to_json(self) -> dict[str, Any]:
        """Everything, by name."""
        regrets = {
            regret: {f"{share:g}": self.at_share[regret, share].to_json() for share in SHARES} for regret in REGRETS
        }
        return {
            **setting_to_json(self.setting),
            "policy": self.policy,
            "seeds": self.seeds,
            **regrets,
            **{name: stat.to_json() for name, stat in self.at_end.items()},
            "evaluations": self.evaluations.to_json(),
            "decision_s": self.decision_s.to_json(),
        }


def setting_to_json(setting: Setting) -> dict[str, Any]:
    """Its four parts."""
    return {
        "problem": setting.problem,
        "costs": setting.costs,
        "variance": setting.variance,
        "budget": setting.budget,
    }


def summarise(frame: pd.DataFrame) -> tuple[Summary, ...]:
    """One row per setting and policy, in the table's order.

    Raises:
        UsageError: the table is not one of this bench.
    """
    return summarise_runs(runs_of(frame))


def summarise_runs(runs: Sequence[Run]) -> tuple[Summary, ...]:
    """As `summarise`, for runs already taken apart."""
    rows = []
    for setting in settings_of(runs):
        here = pick(runs, setting)
        rows += [_summary(setting, policy, pick(here, policy=policy)) for policy in policies_of(here)]
    return tuple(rows)


def _summary(setting: Setting, policy: str, runs: Sequence[Run]) -> Summary:
    several = any(isfinite(v) for run in runs for v in run.numbers["dear_input"][-1:])
    columns = (*CUMULATED, "dear_input", "hypervolume") if several else CUMULATED
    return Summary(
        setting=setting,
        policy=policy,
        seeds=len(runs),
        at_share={
            (regret, share): Stat.of(run.at_share(regret, share) for run in runs)
            for regret in REGRETS
            for share in SHARES
        },
        at_end={name: Stat.of(run.at_share(name, 1.0) for run in runs) for name in columns},
        evaluations=Stat.of(run.at_share("trial", 1.0) for run in runs),
        decision_s=Stat.of(float(run.numbers["decision_s"].mean()) for run in runs),
    )


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours against the best published policy in one setting at one share of the budget."""

    setting: Setting
    regret: str
    """`inference` or `simple`."""
    share: float
    ours: Stat
    """Over the seeds both have."""
    best_policy: str
    """The published policy against which the ratio is largest: of equally many seeds the one with the smallest mean."""
    best: Stat
    """Over the seeds both have."""
    difference: Stat
    """Ours minus that policy's, paired over the seeds both have: below 0 is better."""
    floor: float
    """What both means are raised to at least before the ratio is taken, outcome units."""
    missing: tuple[str, ...] = ()
    """Published policies that were not run here, or on none of our seeds: the best may be one of them."""

    @property
    def ratio(self) -> float:
        """Ours by the best published, both at least the floor; below 1 is better."""
        return max(self.ours.mean, self.floor) / max(self.best.mean, self.floor)

    @property
    def no_worse(self) -> bool:
        """Whether our mean is at most the best published one (or the floor)."""
        return self.ratio <= 1.0

    def to_json(self) -> dict[str, Any]:
        """Everything, by name."""
        return {
            **setting_to_json(self.setting),
            "regret": self.regret,
            "share": self.share,
            "ours": self.ours.to_json(),
            "best_policy": self.best_policy,
            "best": self.best.to_json(),
            "difference": self.difference.to_json(),
            "floor": number(self.floor),
            "missing": list(self.missing),
            "ratio": number(self.ratio),
            "no_worse": self.no_worse,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours against the best published policy everywhere.

    A regret below `FLOOR_SHARE` (1e-4) of the outcome's range is taken as that: two policies that both found the
    optimum are equal, whatever the last digits say, and a mean of exactly zero still has a ratio.
    """

    ours: str
    published: tuple[str, ...]
    ratios: tuple[Ratio, ...]

    def geometric_mean(self, regret: str | None = None, share: float | None = None) -> float:
        """Of the ratios over all settings and shares, or of one regret or share only; NaN if there are none."""
        chosen = [r.ratio for r in self.ratios if regret in {None, r.regret} and share in {None, r.share}]
        return exp(sum(map(log, chosen)) / len(chosen)) if chosen else nan

    @property
    def no_worse_everywhere(self) -> bool:
        """Whether there are ratios, and none is above 1."""
        return bool(self.ratios) and all(r.no_worse for r in self.ratios)

    def to_json(self) -> dict[str, Any]:
        """Everything, by name."""
        return {
            "ours": self.ours,
            "published": list(self.published),
            "floor_share": FLOOR_SHARE,
            "geometric_mean": {
                "all": number(self.geometric_mean()),
                **{regret: number(self.geometric_mean(regret)) for regret in REGRETS},
                **{f"{share:g}": number(self.geometric_mean(share=share)) for share in SHARES},
            },
            "no_worse_everywhere": self.no_worse_everywhere,
            "ratios": [r.to_json() for r in self.ratios],
        }


def compare(frame: pd.DataFrame, ours: str, published: Sequence[str]) -> Comparison:
    """Ours against the best of the published, in each setting at 25, 50 and 100 % of the budget.

    Raises:
        UsageError: the table has no runs of ours, or of none of the published.
    """
    return compare_runs(runs_of(frame), ours, published)


def compare_runs(runs: Sequence[Run], ours: str, published: Sequence[str]) -> Comparison:
    """As `compare`, for runs already taken apart."""
    present = policies_of(runs)
    if ours not in present or not set(published) & set(present):
        have = ", ".join(present) or "none"
        raise UsageError(f"compare: got {ours} against {', '.join(published)}; the results have {have}")
    ratios: list[Ratio] = []
    for setting in settings_of(runs):
        here = pick(runs, setting)
        others = [p for p in published if p in policies_of(here)]
        if ours in policies_of(here) and others:
            ratios += _ratios(setting, here, ours, published)
    return Comparison(ours, tuple(published), tuple(ratios))


def _ratios(setting: Setting, runs: Sequence[Run], ours: str, published: Sequence[str]) -> list[Ratio]:
    floor = regret_floor(runs)
    rows = []
    for regret in REGRETS:
        for share in SHARES:
            values = {p: _by_seed(runs, p, regret, share) for p in (ours, *published)}
            known = [p for p in published if values[p].keys() & values[ours].keys()]
            if not known:
                continue
            missing = tuple(p for p in published if p not in known)
            ratios = []
            for p in known:
                mine, theirs = _of_common(values[ours], values[p])
                difference = paired(values[ours], values[p])
                ratios.append(Ratio(setting, regret, share, mine, p, theirs, difference, floor, missing))
            rows.append(max(ratios, key=lambda r: (r.ratio, -r.best.mean)))
    return rows


def _of_common(ours: dict[int, float], theirs: dict[int, float]) -> tuple[Stat, Stat]:
    """Over the seeds both have, as some are harder than others: while a grid is not finished the rest would mislead."""
    both = sorted(ours.keys() & theirs.keys())
    return Stat.of(ours[seed] for seed in both), Stat.of(theirs[seed] for seed in both)


def _by_seed(runs: Sequence[Run], policy: str, regret: str, share: float) -> dict[int, float]:
    """Where it is known."""
    found = {run.seed: run.at_share(regret, share) for run in pick(runs, policy=policy)}
    return {seed: value for seed, value in found.items() if isfinite(value)}


def paired(ours: dict[int, float], theirs: dict[int, float]) -> Stat:
    """Ours minus theirs over the seeds both have: a seed fixes function, initial points and noise for every policy."""
    return Stat.of(ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys()))
