"""Ratios between policies with their uncertainty, and what they decide.

A verdict is `yes` or `no` only where the 95 % confidence interval over seeds (Student's t, paired: a seed fixes
function, initial points and noise for every policy) lies on one side of what was claimed, otherwise `undecided`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rigctl.bench.tables.results import SCENARIO, Stat, group_index, scenario_index, scenarios_of

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["yes", "no", "undecided"]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Expected:
    """The side of a number on which a quantity is claimed to lie; one of the three is given.

    Raises:
        ValueError: none is, or several are.
    """

    below: float | None = None
    above: float | None = None
    within: float | None = None
    """Between 1 / this factor and this factor."""

    def __post_init__(self) -> None:
        if sum(bound is not None for bound in (self.below, self.above, self.within)) != 1:
            raise ValueError("below, above, within: must be exactly one of them")

    def verdict(self, interval: Interval) -> Verdict:
        """Return `yes` if all of the interval lies on that side, `no` if all lies beyond."""
        least = -inf if self.above is None else self.above
        most = inf if self.below is None else self.below
        if self.within is not None:
            least, most = 1.0 / self.within, self.within
        low, high = interval
        if least < low and high < most:
            return "yes"
        return "no" if high < least or low > most else "undecided"


def both(*verdicts: Verdict) -> Verdict:
    """Return the verdict on a claim that needs all of these."""
    if "no" in verdicts:
        return "no"
    return "yes" if verdicts and set(verdicts) == {"yes"} else "undecided"


def interval(stat: Stat) -> Interval:
    """Return the confidence interval of a mean; everything where a single seed tells nothing of the spread."""
    from scipy.special import stdtrit  # noqa: PLC0415 - only where verdicts are asked for

    if stat.n < 2:
        return -inf, inf
    around = float(stdtrit(stat.n - 1, 0.975)) * stat.se
    return stat.mean - around, stat.mean + around


@dataclass(frozen=True, slots=True)
class Effect:
    """How two groups of policies compare: a log ratio, its mean over scenarios per seed, and its spread over seeds."""

    logs: Stat
    """Of log(ours / theirs) over seeds."""
    settings: int
    """Scenarios in which both were run with some seeds in common."""
    lower_in: int
    """In how many the plain mean (over policies and seeds; not of logs) of ours is the lower."""

    @property
    def ratio(self) -> float:
        """Return the geometric mean of ours / theirs."""
        return exp(self.logs.mean)

    @property
    def interval(self) -> Interval:
        low, high = interval(self.logs)
        return exp(low), exp(high) if high < 700 else inf  # a float holds no number with a logarithm larger by much

    def __str__(self) -> str:
        """Return e.g. `ratio 0.31 [0.22, 0.44] over 10 seeds, lower in 5 of 6 settings`."""
        where = f", lower in {self.lower_in} of {self.settings} settings" if self.settings > 1 else ""
        return f"ratio {self.short()}{where}"

    def short(self) -> str:
        low, high = self.interval
        spread = f" [{low:.2g}, {high:.2g}]" if self.logs.n > 1 else ""
        return f"{self.ratio:.2g}{spread} over {self.logs.n} seed{'s' if self.logs.n > 1 else ''}"

    def by_name(self) -> dict[str, Any]:
        return {
            "ratio": self.ratio,
            "interval": self.interval,
            "seeds": self.logs.n,
            "settings": self.settings,
            "lower_in": self.lower_in,
        }


def effect(values: pd.Series, ours: Sequence[str], theirs: Sequence[str]) -> Effect | None:
    """Compare ours with theirs, every policy of a group counting alike; None where no scenario has runs of both.

    Only scenarios in which every policy of both groups was run count, and only seeds that all of these have.

    Args:
        values: a number per run; where it is unknown or not positive the run does not count.
        ours: labels of policies.
        theirs: likewise.
    """
    wanted = [*ours, *theirs]
    ran = group_index(values).unique()
    scenarios = [s for s in scenarios_of(values) if all((*s, policy) in ran for policy in wanted)]
    if not scenarios:
        return None
    counted = values.where(values > 0)[scenario_index(values).isin(scenarios)]
    table = counted.unstack("policy").reindex(columns=wanted).dropna()
    logs = np.log(table[[*ours]]).mean(axis=1) - np.log(table[[*theirs]]).mean(axis=1)
    per_seed = logs.groupby(level="seed").agg(["mean", "count"])
    per_seed = per_seed[per_seed["count"] == len(scenarios)]
    if per_seed.empty:
        return None
    means = table[table.index.isin(per_seed.index, level="seed")].groupby(level=SCENARIO).mean()
    lower = means[[*ours]].mean(axis=1) < means[[*theirs]].mean(axis=1)
    return Effect(Stat.of(per_seed["mean"]), len(scenarios), int(lower.sum()))


def difference(one: Effect, other: Effect) -> Effect:
    """Compare two effects over different scenarios by the ratio of their ratios.

    Treats them as independent. Sharing seeds, they are rather correlated positively, so that the interval is too wide,
    not too narrow.
    """
    a, b = one.logs, other.logs
    return Effect(Stat(a.mean - b.mean, sqrt(a.se**2 + b.se**2), min(a.n, b.n)), one.settings + other.settings, 0)
