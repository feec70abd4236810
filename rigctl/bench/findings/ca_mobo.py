"""What Abdolshah et al. report: far less of the dear input at about equal hypervolume; and what it takes to see that.

The paper leaves open what outcomes are counted in before they are weighed, and prints the weights of its order of costs
in an order that its own figures contradict. Every combination is run, and judged by the same three claims: use of the
dearest input, order of use of all inputs, hypervolume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Final

import numpy as np

from rigctl.bench.findings.evidence import Effect, both, effect, missing, open_claim, plain
from rigctl.bench.findings.finding import Finding, Verdict
from rigctl.bench.tables.runs import Run, Setting, Stat, settings_of
from rigctl.core.arrays import FloatArray

FAR_BELOW = 0.5
"""Of MO-UCB's use; the paper's figures are 17.8 against 85.2, a ratio of 0.21."""
EQUAL = 1.05
"""Hypervolumes within this factor are read as `approximately the same`."""
UNUSED = 1e-3
"""Sums of an input over all trials below this count as equal to it, so that none is infinitely less than another."""
_HOLDS: Final[Mapping[Verdict, str]] = {"yes": "holds", "no": "does not hold", "undecided": "open"}


@dataclass(frozen=True, slots=True)
class Combination:
    """One reading of the paper: how the problem is scaled, in what outcomes are counted, how weights are ordered."""

    problem: str
    policy: str
    blind: str
    """MO-UCB in the same units."""
    told: str
    """In words."""

    @property
    def share(self) -> float:
        """Of MO-UCB's use of the dearest input, that has to be undercut; the paper has figures for ZDT3 only."""
        return 1.0 if self.problem == "trays" else FAR_BELOW

    @property
    def where(self) -> str:
        """Paper and section."""
        name = "cross-in-tray and Hoelder table" if self.problem == "trays" else "ZDT3"
        return f"M Experiments, {name}; {self.told}"

    @property
    def claim(self) -> str:
        """In our words."""
        published = "" if self.problem == "trays" else " (17.8 against 85.2 after 500 trials)"
        less = "less" if self.problem == "trays" else "far less"
        return (
            f"CA-MOBO uses {less} of the dearest input than MO-UCB{published} and the inputs in the order of their "
            "costs, at about the same dominated hypervolume."
        )

    @property
    def test(self) -> str:
        """What has to hold."""
        return (
            f"at the end, {self.policy} / {self.blind}: dear input below {self.share:g}; hypervolume between "
            f"1/{EQUAL:g} and {EQUAL:g}; and of {self.policy}'s own use that of x1 least, that of the last input most"
        )


def combinations() -> tuple[Combination, ...]:
    """Of problem, units and order of the weights: as the dearest variable needs it, and as printed."""
    orders = (("ca-mobo", "dearest variable, smallest weight"), ("ca-mobo-printed", "dearest variable, largest weight"))
    units = (
        ("zdt3", "", "units are the ranges seen"),
        ("zdt3", "-own", "outcomes mapped to [0, 1], as they are"),
        ("zdt3-unscaled", "-own", "outcomes unscaled, as they are"),
        ("trays", "", "units are the ranges seen"),
        ("trays", "-own", "outcomes mapped to [0, 1], as they are"),
    )
    return tuple(
        Combination(problem, f"{policy}{suffix}", f"mo-ucb{suffix}", f"{counted}; {order}")
        for problem, suffix, counted in units
        for policy, order in orders
    )


def published(setting: Setting) -> bool:
    """Whether there are as many trials as in the paper; each costs 1."""
    return setting.budget == 500.0


def findings(runs: Sequence[Run]) -> tuple[Finding, ...]:
    """One for each combination; ZDT3 first, then the two trays."""
    return tuple(_judged(runs, combination) for combination in combinations())


def _judged(runs: Sequence[Run], combination: Combination) -> Finding:
    claim = open_claim(combination.where, combination.claim, combination.test, 1)
    here = [run for run in runs if run.setting.problem == combination.problem]
    ours = [run for run in here if run.policy == combination.policy]
    dear, volume = (_ratio(here, combination, column) for column in ("dear_input", "hypervolume"))
    uses = _uses(ours)
    if dear is None or volume is None or uses is None:
        return missing(claim)
    least, most = uses
    verdicts: dict[str, Verdict] = {
        "dear_input": dear.below(combination.share),
        "order": both(least.below(), most.above()),
        "hypervolume": volume.within(EQUAL),
    }
    blind = [run for run in here if run.policy == combination.blind]
    return replace(
        claim,
        verdict=both(*verdicts.values()),
        figures="; ".join(
            (
                f"dear input {_mean(ours):.1f} against {_mean(blind):.1f}, ratio {dear.short()}: "
                f"{_HOLDS[verdicts['dear_input']]}",
                f"use of each input {_all(ours)} (MO-UCB {_all(blind)}): {_HOLDS[verdicts['order']]}",
                f"hypervolume ratio {volume.short()}: {_HOLDS[verdicts['hypervolume']]}",
            )
        ),
        settings=(1, 1),
        numbers={
            "verdicts": verdicts,
            "dear_input": dear.to_json(),
            "hypervolume": volume.to_json(),
            "x1_to_least_other": least.to_json(),
            "last_to_most_other": most.to_json(),
            "used": {combination.policy: _used(ours).tolist(), combination.blind: _used(blind).tolist()},
        },
    )


def _ratio(runs: Sequence[Run], combination: Combination, column: str) -> Effect | None:
    """Of the column's last values, CA-MOBO / MO-UCB."""
    measure = plain(lambda run: run.at_share(column, 1.0))
    return effect(runs, settings_of(runs), (combination.policy,), (combination.blind,), measure)


def _uses(runs: Sequence[Run]) -> tuple[Effect, Effect] | None:
    """Of each run's own use of its inputs: x1 to the least of the others, and the last to the most of the others."""
    pairs = []
    for run in runs:
        used = np.maximum(run.used, UNUSED)
        if len(used) > 1:
            pairs.append((log(used[0] / used[1:].min()), log(used[-1] / used[:-1].max())))
    if not pairs:
        return None
    least, most = (Stat.of(logs) for logs in zip(*pairs, strict=True))
    return Effect(least, 1, int(least.mean < 0)), Effect(most, 1, int(most.mean < 0))


def _used(runs: Sequence[Run]) -> FloatArray:
    """(d,), mean over runs that tell it."""
    told = [run.used for run in runs if len(run.used)]
    return np.mean(told, axis=0) if told else np.empty(0)


def _all(runs: Sequence[Run]) -> str:
    return ", ".join(f"{used:.1f}" for used in _used(runs)) or "-"


def _mean(runs: Sequence[Run]) -> float:
    return Stat.of(run.at_share("dear_input", 1.0) for run in runs).mean
