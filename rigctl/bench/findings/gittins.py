"""What Xie et al. report in section 4.2: on Ackley, Levy and Rosenbrock, who wins with d = 16; d = 4 and 8 are a draw.

Their BMSEI, MSEI and KG are not among our policies, so nothing is said of them. Regret is that of the best point so
far, initial points included, at the end of the budget unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rigctl.bench.findings.evidence import Effect, both, effect, missing, open_claim, regret
from rigctl.bench.findings.finding import Finding, Verdict
from rigctl.bench.tables.runs import Run, Setting, function_and_d, settings_of

SIMILAR = 1.5
"""Regrets within this factor are read as `matching` or `similar`; the paper shows it in figures on a log axis."""
EARLY = 0.25
"""Of the budget: `small cost budgets`."""
OURS = ("pbgi", "pbgi-d")


@dataclass(frozen=True, slots=True)
class Claim:
    """Every policy of the first group against every one of the second, on one problem."""

    text: str
    problem: str
    costs: Literal["uniform", "varying"]
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    expected: Literal["below", "above", "match"] = "below"
    share: float = 1.0

    @property
    def test(self) -> str:
        """In words."""
        ratio = f"geometric mean of regret, {' and '.join(self.ours)} / {' and '.join(self.theirs)}, each pair"
        wanted = {"below": "below 1", "above": "above 1", "match": f"between 1/{SIMILAR:g} and {SIMILAR:g}"}
        return f"{ratio} {wanted[self.expected]} at {self.share:.0%} of the budget"

    def verdict(self, found: Effect) -> Verdict:
        """Of one pair."""
        if self.expected == "match":
            return found.within(SIMILAR)
        return found.below() if self.expected == "below" else found.above()


def claims() -> tuple[Claim, ...]:
    """All of them, by function."""
    return (
        Claim("PBGI and PBGI-D beat EIPC and EI on many-peaked Ackley.", "ackley16", "varying", OURS, ("eipc", "ei")),
        Claim("With uniform costs they beat EI and TS on Ackley.", "ackley16", "uniform", OURS, ("ei", "ts")),
        Claim("UCB does not beat PBGI and PBGI-D on Ackley either.", "ackley16", "uniform", OURS, ("ucb",)),
        Claim(
            "PBGI-D beats EIPC on Levy while little has been spent.",
            *("levy16", "varying", ("pbgi-d",), ("eipc",)),
            share=EARLY,
        ),
        Claim("PBGI-D matches EIPC on Levy in the end.", "levy16", "varying", ("pbgi-d",), ("eipc",), "match"),
        Claim("PBGI is worse than PBGI-D on Levy if costs vary.", "levy16", "varying", ("pbgi",), ("pbgi-d",), "above"),
        Claim("With uniform costs PBGI does well on Levy.", "levy16", "uniform", ("pbgi",), ("ei", "ts")),
        Claim(
            "PBGI and PBGI-D are best on the unimodal Rosenbrock while little has been spent.",
            *("rosenbrock16", "varying", OURS, ("eipc", "ei")),
            share=EARLY,
        ),
        Claim("EIPC overtakes PBGI and PBGI-D on Rosenbrock in the end.", "rosenbrock16", "varying", ("eipc",), OURS),
        Claim("With uniform costs EI beats PBGI on Rosenbrock.", "rosenbrock16", "uniform", ("ei",), ("pbgi",)),
        Claim("With uniform costs PBGI-D beats PBGI on Rosenbrock.", "rosenbrock16", "uniform", ("pbgi-d",), ("pbgi",)),
        *_draws(),
    )


def _draws() -> Iterator[Claim]:
    """With few variables."""
    text = "With four or eight variables PBGI and PBGI-D do about as well as the others."
    for d in (4, 8):
        for function in ("ackley", "levy", "rosenbrock"):
            yield Claim(text, f"{function}{d}", "varying", OURS, ("eipc", "ei"), "match")
            yield Claim(text, f"{function}{d}", "uniform", OURS, ("ei", "ucb", "ts"), "match")


def published(setting: Setting) -> bool:
    """Whether the budget is the one read off the paper's figures: 10 d where costs are uniform, else 25 d."""
    d = function_and_d(setting.problem)[1]
    return setting.budget == d * (10.0 if setting.costs == "uniform" else 25.0)


def findings(runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Each claim judged."""
    return tuple(_judged(runs, claim) for claim in claims())


def _judged(runs: Sequence[Run], claim: Claim) -> Finding:
    asked = open_claim(f"P section 4.2, {claim.problem}, {claim.costs} costs", claim.text, claim.test, 1)
    settings = [s for s in settings_of(runs) if (s.problem, s.costs) == (claim.problem, claim.costs)]
    measure = regret(share=claim.share)
    pairs = {f"{a} / {b}": effect(runs, settings, (a,), (b,), measure) for a in claim.ours for b in claim.theirs}
    known = {name: found for name, found in pairs.items() if found is not None}
    if len(known) < len(pairs):
        return missing(asked)
    return replace(
        asked,
        verdict=both(*(claim.verdict(found) for found in known.values())),
        figures="; ".join(f"{name} {found.short()}" for name, found in known.items()),
        settings=(1, 1),
        numbers={name: found.to_json() for name, found in known.items()},
    )
