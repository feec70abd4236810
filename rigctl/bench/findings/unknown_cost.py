"""What Hoang et al. report: less regret at equal cost, and many more evaluations once committing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rigctl.bench.findings.evidence import effect, judged, missing, open_claim, plain, regret
from rigctl.bench.findings.finding import Finding
from rigctl.bench.tables.runs import Run, Setting, Stat, pick, settings_of

OURS = "u-alg1-share"
"""U's own policy as its experiments run it: exploration spends 60 % of the budget."""
BASELINES = ("ts-psq", "ucb-psq", "etc-50-size")
PUBLISHED = 16
"""Four problems, two cost sets, two variances."""
MANY = 1.5
"""Times as many evaluations as the busiest baseline's are read as `many more`; the paper names no number."""


def published(setting: Setting) -> bool:
    """Whether the budget is the paper's."""
    return setting.budget == 100.0


def findings(runs: Sequence[Run]) -> tuple[Finding, ...]:
    """All of them."""
    return (*(_less_regret(runs, share) for share in (0.25, 0.5, 1.0)), *_against_each(runs), more_evaluations(runs))


def _less_regret(runs: Sequence[Run], share: float) -> Finding:
    claim = open_claim(
        f"U Experiments, Fig. 1, at {share:.0%} of the budget",
        "The proposed policy has less simple regret than the baselines at equal cost.",
        "geometric mean of regret, Algorithm 1 / the mean baseline, below 1",
        PUBLISHED,
    )
    found = effect(runs, settings_of(runs), (OURS,), BASELINES, regret(share=share))
    return judged(claim, found, lambda e: e.below())


def _against_each(runs: Sequence[Run]) -> list[Finding]:
    """The paper's wording is `often`, so each baseline apart says more than their mean."""
    return [
        judged(
            open_claim(
                "U Experiments, Fig. 1, at the end",
                f"The proposed policy has less simple regret than {baseline} at equal cost.",
                "geometric mean of regret, Algorithm 1 / this baseline, below 1",
                PUBLISHED,
            ),
            effect(runs, settings_of(runs), (OURS,), (baseline,)),
            lambda e: e.below(),
        )
        for baseline in BASELINES
    ]


def more_evaluations(runs: Sequence[Run]) -> Finding:
    """U Fig. 2: trials that the same money buys, from where Algorithm 1 commits to the end of the budget."""
    claim = open_claim(
        "U Experiments, Fig. 2",
        "Once it commits, the proposed policy gets many more evaluations out of the same budget than the baselines.",
        f"evaluations after its exploration, Algorithm 1 / busiest baseline over the same costs, above {MANY:g}",
        PUBLISHED,
    )
    begins = {s: _commits_at(runs, s) for s in settings_of(runs)}
    usable = [s for s in begins if np.isfinite(begins[s])]
    measure = plain(lambda run: late_evaluations(run, begins[run.setting]))
    effects = {baseline: effect(runs, usable, (OURS,), (baseline,), measure) for baseline in BASELINES}
    known = {name: found for name, found in effects.items() if found is not None}
    if len(known) < len(BASELINES):
        return missing(claim)
    busiest = min(known, key=lambda name: known[name].ratio)
    figures = f"against {busiest}, the busiest: {known[busiest]}"
    done = judged(claim, known[busiest], lambda e: e.above(MANY))
    return replace(done, figures=figures, numbers={name: e.to_json() for name, e in known.items()})


def _commits_at(runs: Sequence[Run], setting: Setting) -> float:
    """Mean cost at which Algorithm 1's runs stop exploring; NaN if one never commits."""
    ends = []
    for run in pick(runs, setting, OURS):
        exploring = [i for i, phase in enumerate(run.phase) if phase == "explore"]
        if exploring and exploring[-1] == len(run) - 1:
            return float("nan")
        ends.append(float(run.spent[exploring[-1]]) if exploring else 0.0)
    return Stat.of(ends).mean


def late_evaluations(run: Run, begin: float) -> float:
    """Trials from that cost to the end of the budget; at least 0.5, so that none at all still has a ratio."""
    counts = run.at_cost("trial", np.array([begin, run.setting.budget]))
    return max(float(counts[1] - counts[0]), 0.5)
