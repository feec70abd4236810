"""The papers' claims, asked of a table of results: each with its figures, and whether it is reproduced.

Without the runs it needs, at the published budget, a claim is `undecided`; figures from other budgets are shown, but
judge nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from rigctl.bench.papers.paper import (
    Claim,
    Effect,
    Expected,
    Verdict,
    Where,
    both,
    difference,
    effect,
    interval,
    paper_of,
)
from rigctl.bench.tables.results import (
    RUN,
    SCENARIO,
    USED,
    PolicyScenario,
    Stat,
    at_share,
    best_set,
    group_index,
    left_behind,
    regret_floor,
    scenario_index,
    scenarios_of,
    steps,
    trials_of,
    within,
)

if TYPE_CHECKING:
    import pandas as pd

REGRETS = ("simple", "inference")
UNUSED = 1e-3
"""Sums of an input over all trials below this count as equal to it, so that none is infinitely less than another."""


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """One claim of a paper and what these runs say of it."""

    claim: Claim
    verdict: Verdict = "undecided"
    figures: str = "the runs it needs are not there"
    """What came out, with its uncertainty; or what is missing."""
    settings: int = 0
    """Scenarios, or other cases that the paper counts, there were runs of to judge by."""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def by_name(self) -> dict[str, Any]:
        return {
            "id": self.claim.id,
            "where": self.claim.place,
            "claim": self.claim.statement,
            "test": self.claim.test,
            "reproduced": self.verdict,
            "figures": self.figures,
            "settings": {"judged": self.settings, "published": self.claim.published},
            "numbers": dict(self.numbers),
        }


def findings_of(name: str, frame: pd.DataFrame) -> tuple[JudgedClaim, ...]:
    """Judge every claim of `unknown-cost`, `ucb-cvs`, `gittins` or `ca-mobo` by these results.

    Raises:
        UsageError: there is no such paper, or the table is not one of this bench.
    """
    paper = paper_of(name)
    trials = trials_of(frame)
    published = [s for s in scenarios_of(trials) if paper.published(s)]
    elsewhere = [s for s in scenarios_of(trials) if s not in published]
    findings = []
    for claim in paper.claims:
        found, other = (_found(claim, within(trials, scenarios)) for scenarios in (published, elsewhere))
        if other.settings and not found.settings:
            told = f"at other budgets than published: {other.figures}"
            found = replace(found, figures=told, numbers=other.numbers)
        findings.append(found)
    return tuple(findings)


def _found(claim: Claim, trials: pd.DataFrame) -> JudgedClaim:
    judges: Mapping[str, Callable[[pd.DataFrame, Claim], JudgedClaim]] = {
        "ratio": _ratio,
        "contrast": _contrast,
        "wins": _wins,
        "late-plays": _late_plays,
        "inputs": _inputs,
    }
    here = _where(trials, claim.where)
    return JudgedClaim(claim) if here.empty else judges[claim.kind](here, claim)


def _where(trials: pd.DataFrame, where: Where) -> pd.DataFrame:
    return within(trials, [s for s in scenarios_of(trials) if s in where])


def _measured(trials: pd.DataFrame, claim: Claim) -> pd.Series:
    """Return the claim's quantity of each run; regrets raised to the floor below which they count as equal."""
    if claim.quantity == "late-evaluations":
        return _late_evaluations(trials, claim.ours)
    values = at_share(trials, claim.quantity, claim.share)
    if claim.quantity not in REGRETS:
        return values
    floors = trials.groupby(level=SCENARIO).apply(regret_floor)
    return values.clip(lower=floors.reindex(scenario_index(values)).to_numpy())


def _late_evaluations(trials: pd.DataFrame, ours: Sequence[str]) -> pd.Series:
    """Return each run's trials from the mean cost at which ours stop exploring to the end of the budget.

    At least 0.5, so that none at all still has a ratio. Scenarios where a run of ours never stops are left out.
    """

    def commits_at(runs: pd.DataFrame) -> float:
        mine = runs[runs.index.isin(ours, level="policy")]
        return left_behind(mine, mine["phase"] == "explore") if len(mine) else nan

    begins = trials.groupby(level=SCENARIO).apply(commits_at)
    since = trials["spent"] / begins.reindex(scenario_index(trials)).to_numpy()
    late = at_share(trials, "trial") - steps(trials, "trial", since, np.ones(1))[0]
    return late[begins.reindex(scenario_index(late)).notna().to_numpy()].clip(lower=0.5)


def _ratio(trials: pd.DataFrame, claim: Claim) -> JudgedClaim:
    """Judge the geometric mean of ours / theirs: of the groups, of every pair, or against the best of theirs."""
    groups: dict[str, tuple[Sequence[str], Sequence[str]]]
    if claim.pairs == "each":
        groups = {f"{a} / {b}": ((a,), (b,)) for a in claim.ours for b in claim.theirs}
    elif claim.pairs == "busiest":
        groups = {theirs: (claim.ours, (theirs,)) for theirs in claim.theirs}
    else:
        groups = {"": (claim.ours, claim.theirs)}
    values = _measured(trials, claim)
    found = {name: effect(values, *pair) for name, pair in groups.items()}
    known = {name: e for name, e in found.items() if e is not None}
    if len(known) < len(groups):
        return JudgedClaim(claim)
    numbers = {name: e.by_name() for name, e in known.items()}
    if claim.pairs == "each":
        verdict = both(*(claim.expect.verdict(e.interval) for e in known.values()))
        figures = "; ".join(f"{name} {e.short()}" for name, e in known.items())
        return JudgedClaim(claim, verdict, figures, min(e.settings for e in known.values()), numbers)
    name, least = min(known.items(), key=lambda item: item[1].ratio)
    verdict = claim.expect.verdict(least.interval)
    if claim.pairs == "busiest":
        return JudgedClaim(claim, verdict, f"against {name}, the busiest: {least}", least.settings, numbers)
    return JudgedClaim(claim, verdict, str(least), least.settings, least.by_name())


def _contrast(trials: pd.DataFrame, claim: Claim) -> JudgedClaim:
    """Judge the ratio of two ratios ours / theirs, of different places."""
    first, second = claim.parts
    here, there = (_where(trials, part.where) for part in claim.parts)
    if second.reference:
        there = _where(there, Where(costs=tuple(s.base_costs for s in scenarios_of(here))))
    one, other = (
        None if part.empty else effect(_measured(part, claim), claim.ours, claim.theirs) for part in (here, there)
    )
    if one is None or other is None:
        return JudgedClaim(claim)
    return JudgedClaim(
        claim,
        claim.expect.verdict(difference(one, other).interval),
        f"{first.told} {one}; {second.told} {other}",
        one.settings + (0 if second.reference else other.settings),
        {first.name: one.by_name(), second.name: other.by_name()},
    )


def _wins(trials: pd.DataFrame, claim: Claim) -> JudgedClaim:
    """Count in how many combinations of problem, costs and policy each variance ends lowest, mean over seeds.

    More wins than chance would give with a probability of 5 % are believed.
    """
    values = at_share(trials, claim.quantity, claim.share)
    counted = [
        any(policy in case.policies and PolicyScenario(*scenario) in case.where for case in claim.cases)
        for *scenario, policy, _seed in values.index
    ]
    means = values[counted].groupby(level=["problem", "costs", "policy", "variance"]).mean().unstack("variance")
    means = means.reindex(columns=list(claim.variances)).dropna()
    if means.empty:
        return JudgedClaim(claim)
    lowest: list[Any] = list(means.idxmin(axis=1))
    wins = {variance: lowest.count(variance) for variance in claim.variances}
    total, (*others, largest) = len(lowest), wins.values()
    p = 1 / len(wins)
    chance = sum(comb(total, k) * p**k * (1 - p) ** (total - k) for k in range(largest, total + 1))
    verdict: Verdict = "no" if largest <= max(others) else "yes" if chance < 0.05 else "undecided"
    told = ", ".join(f"{variance:g}: {count}" for variance, count in wins.items())
    return JudgedClaim(
        claim,
        "undecided" if total < claim.fewest else verdict,
        f"lowest in {told} of {total} combinations (p = {chance:.2g} against chance)",
        total,
        {"wins": {f"{variance:g}": count for variance, count in wins.items()}, "p": chance},
    )


def _late_plays(trials: pd.DataFrame, claim: Claim) -> JudgedClaim:
    """Judge each policy's share of trials on sets other than the best in the second half of the budget."""
    ran = group_index(trials).unique()
    here = within(trials, [s for s in scenarios_of(trials) if all((*s, policy) in ran for policy in claim.ours)])
    if here.empty:
        return JudgedClaim(claim)
    best = here.groupby(level=SCENARIO).apply(best_set)
    elsewhere = here["control_set"] != best.reindex(scenario_index(here)).to_numpy()
    late = here["spent"] - here["cost"] >= 0.5 * here.index.get_level_values("budget")
    shares = elsewhere[late].groupby(level=RUN).mean().reindex(here.index.unique())
    by_seed = shares.groupby(level=["policy", "seed"]).agg(lambda each: each.mean(skipna=False))
    stats = {policy: Stat.of(by_seed.xs(policy, level="policy")) for policy in claim.ours}
    return JudgedClaim(
        claim,
        both(*(claim.expect.verdict(interval(stat)) for stat in stats.values())),
        f"share of late trials on other sets: {', '.join(f'{policy}: {stat}' for policy, stat in stats.items())}",
        len(scenarios_of(here)),
        dict(stats),
    )


def _inputs(trials: pd.DataFrame, claim: Claim) -> JudgedClaim:
    """Judge the use of the dear input, the order of use of all inputs, and the hypervolume, ours against theirs."""
    ours, blind = *claim.ours, *claim.theirs
    dear, volume = (effect(at_share(trials, name), [ours], [blind]) for name in ("dear_input", "hypervolume"))
    used, used_blind = (_used(trials, policy) for policy in (ours, blind))
    if dear is None or volume is None or used.empty:
        return JudgedClaim(claim)
    logs = used.clip(lower=UNUSED).apply(np.log)
    to_least = Stat.of(logs.iloc[:, 0] - logs.iloc[:, 1:].min(axis=1))
    to_most = Stat.of(logs.iloc[:, -1] - logs.iloc[:, :-1].max(axis=1))
    least, most = (Effect(stat, 1, int(stat.mean < 0)) for stat in (to_least, to_most))
    verdicts: dict[str, Verdict] = {
        "dear_input": claim.expect.verdict(dear.interval),
        "order": both(Expected(below=1.0).verdict(least.interval), Expected(above=1.0).verdict(most.interval)),
        "hypervolume": claim.hypervolume.verdict(volume.interval),
    }
    told = {name: {"yes": "holds", "no": "does not hold", "undecided": "open"}[v] for name, v in verdicts.items()}
    each, each_blind = used.mean().tolist(), used_blind.mean().tolist()
    totals = at_share(trials, "dear_input").groupby(level="policy").mean()
    figures = (
        f"dear input {totals[ours]:.1f} against {totals[blind]:.1f}, ratio {dear.short()}: {told['dear_input']}",
        f"use of each input {_listed(each)} (MO-UCB {_listed(each_blind)}): {told['order']}",
        f"hypervolume ratio {volume.short()}: {told['hypervolume']}",
    )
    numbers = {
        "verdicts": verdicts,
        "dear_input": dear.by_name(),
        "hypervolume": volume.by_name(),
        "x1_to_least_other": least.by_name(),
        "last_to_most_other": most.by_name(),
        "used": {ours: each, blind: each_blind},
    }
    return JudgedClaim(claim, both(*verdicts.values()), "; ".join(figures), 1, numbers)


def _used(trials: pd.DataFrame, policy: str) -> pd.DataFrame:
    """Return the sum of each input over all trials, (runs, d), of the runs that tell it."""
    mine = trials[trials.index.isin([policy], level="policy")]
    names = sorted((n for n in mine.columns if n.startswith(USED)), key=lambda n: int(n.removeprefix(USED)))
    return mine[names].groupby(level=RUN).last().dropna(axis="columns", how="all").dropna()


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values) or "-"


def findings_text(findings: Sequence[JudgedClaim]) -> str:
    told = {"yes": "reproduced", "no": "NOT reproduced", "undecided": "not decidable with these runs"}
    blocks = []
    for finding in findings:
        claim, judged = finding.claim, finding.settings
        extent = "" if judged == claim.published else f" ({judged} of {claim.published} published settings run)"
        verdict = f"{told[finding.verdict]}{extent}: {finding.figures}"
        blocks.append(f"{claim.place}: {claim.statement}\n  {verdict}\n  tested: {claim.test}")
    return "\n\n".join(blocks)
