"""What the papers found, asked of a table of results: each claim with its figures, and whether it is reproduced.

A verdict is `yes` or `no` only where the 95 % confidence interval over seeds (Student's t, paired: a seed fixes
function, initial points and noise for every policy) lies on one side of what was claimed; otherwise, and without the
runs it needs, at the published budget, a claim is `undecided`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from rigctl.bench.names import must_be_one_of
from rigctl.bench.summary_runs import runs_of

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["yes", "no", "undecided"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim of a paper and what these runs say of it."""

    where: str
    """Paper and section."""
    claim: str
    """In our words."""
    test: str
    """What has to hold for a `yes`."""
    verdict: Verdict
    figures: str
    """What came out, with its uncertainty; or what is missing."""
    settings: tuple[int, int]
    """In how many of how many published settings there were runs to judge by."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The figures for programs."""

    def to_json(self) -> dict[str, Any]:
        """Everything, by name."""
        return {
            "where": self.where,
            "claim": self.claim,
            "test": self.test,
            "reproduced": self.verdict,
            "figures": self.figures,
            "settings": {"judged": self.settings[0], "published": self.settings[1]},
            "numbers": dict(self.numbers),
        }


def findings_of(paper: str, frame: pd.DataFrame) -> tuple[Finding, ...]:
    """The findings of `unknown-cost`, `ucb-cvs`, `gittins` or `ca-mobo` on these results.

    Raises:
        UsageError: there is no such paper, or the table is not one of this bench.
    """
    from rigctl.bench import findings_ca_mobo, findings_gittins, findings_ucb_cvs, findings_unknown_cost  # noqa: PLC0415

    papers = {
        "unknown-cost": findings_unknown_cost,
        "ucb-cvs": findings_ucb_cvs,
        "gittins": findings_gittins,
        "ca-mobo": findings_ca_mobo,
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
