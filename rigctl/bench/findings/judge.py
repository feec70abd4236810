"""What the papers found, asked of a table of results: each claim with its figures, and whether it is reproduced.

A verdict is `yes` or `no` only where the 95 % confidence interval over seeds (Student's t, paired: a seed fixes
function, initial points and noise for every policy) lies on one side of what was claimed; otherwise, and without the
runs it needs, at the published budget, a claim is `undecided`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rigctl.bench.findings import ca_mobo, gittins, ucb_cvs, unknown_cost
from rigctl.bench.findings.finding import Finding
from rigctl.bench.names import must_be_one_of
from rigctl.bench.tables.runs import runs_of

if TYPE_CHECKING:
    import pandas as pd


def findings_of(paper: str, frame: pd.DataFrame) -> tuple[Finding, ...]:
    """The findings of `unknown-cost`, `ucb-cvs`, `gittins` or `ca-mobo` on these results.

    Raises:
        UsageError: there is no such paper, or the table is not one of this bench.
    """
    papers = {
        "unknown-cost": unknown_cost,
        "ucb-cvs": ucb_cvs,
        "gittins": gittins,
        "ca-mobo": ca_mobo,
    }
    must_be_one_of(paper, list(papers), "paper")
    judge, runs = papers[paper], runs_of(frame)
    judged = judge.findings([run for run in runs if judge.published(run.setting)])
    elsewhere = judge.findings([run for run in runs if not judge.published(run.setting)])
    return tuple(a if a.settings[0] else _noted(a, b) for a, b in zip(judged, elsewhere, strict=True))


def _noted(finding: Finding, elsewhere: Finding) -> Finding:
    """Figures from other budgets are shown, but another budget than the published one judges nothing."""
    if not elsewhere.settings[0]:
        return finding
    return replace(finding, figures=f"at other budgets than published: {elsewhere.figures}", numbers=elsewhere.numbers)


def findings_text(findings: Sequence[Finding]) -> str:
    """A paragraph each."""
    told = {"yes": "reproduced", "no": "NOT reproduced", "undecided": "not decidable with these runs"}
    blocks = []
    for finding in findings:
        judged, published = finding.settings
        extent = "" if judged == published else f" ({judged} of {published} published settings run)"
        blocks.append(
            f"{finding.where}: {finding.claim}\n"
            f"  {told[finding.verdict]}{extent}: {finding.figures}\n"
            f"  tested: {finding.test}"
        )
    return "\n\n".join(blocks)
