"""Ratios between policies with their uncertainty, and what they decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, isfinite, log, sqrt
from typing import Any

from rigctl.bench.findings.finding import Finding, Verdict
from rigctl.bench.tables.runs import Run, Setting, Stat, number, pick, policies_of, regret_floor, settings_of

Measure = Callable[[Run], float]
"""One positive number of a run."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Effect:
    """How two groups of policies compare: a log ratio, its mean over settings per seed, and its spread over seeds."""

    logs: Stat
    """Of log(ours / theirs) over seeds."""
    settings: int
    """In which both were run with some seeds in common."""
    lower_in: int
    """In how many the plain mean (over policies and seeds; not of logs) of ours is the lower."""

    @property
    def ratio(self) -> float:
        """Geometric mean of ours / theirs."""
        return exp(self.logs.mean)

    @property
    def interval(self) -> tuple[float, float]:
        """Of the ratio; everything where a single seed tells nothing of the spread."""
        if self.logs.n < 2:
            return 0.0, inf
        around = student(self.logs.n) * self.logs.se
        return exp(self.logs.mean - around), exp(self.logs.mean + around)

    def below(self, bound: float = 1.0) -> Verdict:
        """Whether the ratio is below the bound."""
        low, high = self.interval
        return "yes" if high < bound else "no" if low > bound else "undecided"

    def above(self, bound: float = 1.0) -> Verdict:
        """Whether the ratio is above the bound."""
        return opposite(self.below(bound))

    def within(self, factor: float) -> Verdict:
        """Whether the ratio lies between 1 / factor and factor (for sure: yes; for sure not: no)."""
        low, high = self.interval
        if 1 / factor < low and high < factor:
            return "yes"
        return "no" if high < 1 / factor or low > factor else "undecided"

    def __str__(self) -> str:
        """E.g. `ratio 0.31 [0.22, 0.44] over 10 seeds, lower in 5 of 6 settings`."""
        where = f", lower in {self.lower_in} of {self.settings} settings" if self.settings > 1 else ""
        return f"ratio {self.short()}{where}"

    def short(self) -> str:
        """Ratio, interval, seeds."""
        low, high = self.interval
        spread = f" [{low:.2g}, {high:.2g}]" if self.logs.n > 1 else ""
        return f"{self.ratio:.2g}{spread} over {self.logs.n} seed{'s' if self.logs.n > 1 else ''}"

    def to_json(self) -> dict[str, Any]:
        """Ratio, interval, seeds, settings."""
        low, high = self.interval
        return {
            "ratio": number(self.ratio),
            "interval": [number(low), number(high)],
            "seeds": self.logs.n,
            "settings": self.settings,
            "lower_in": self.lower_in,
        }


def student(n: int) -> float:
    """Student's t of a two-sided 95 % interval of a mean of n values."""
    from scipy.special import stdtrit  # noqa: PLC0415 - only where verdicts are asked for

    return float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))


def opposite(verdict: Verdict) -> Verdict:
    """Of the contrary claim."""
    return {"yes": "no", "no": "yes"}.get(verdict, verdict)  # type: ignore[return-value]  # of a Verdict


def both(*verdicts: Verdict) -> Verdict:
    """Of a claim that needs them all."""
    if "no" in verdicts:
        return "no"
    return "yes" if verdicts and set(verdicts) == {"yes"} else "undecided"


def regret(column: str = "simple", share: float = 1.0) -> Callable[[float], Measure]:
    """A regret at a share of the budget, raised to the floor below which regrets count as equal."""
    return lambda floor: lambda run: max(run.at_share(column, share), floor)


def plain(measure: Measure) -> Callable[[float], Measure]:
    """A measure that needs no floor."""
    return lambda _floor: measure


def effect(
    runs: Sequence[Run],
    settings: Iterable[Setting],
    ours: Sequence[str],
    theirs: Sequence[str],
    measure: Callable[[float], Measure] | None = None,
) -> Effect | None:
    """Ours against theirs, every policy of a group counting alike; None where no setting has runs of both.

    Only settings in which every policy of both groups was run count, and only seeds that all of these have.
    """
    tables = {}
    for setting in settings:
        here = pick(runs, setting)
        if {*ours, *theirs} <= set(policies_of(here)):
            tables[setting] = _table(here, (*ours, *theirs), (measure or regret())(regret_floor(here)))
    seeds = sorted(set.intersection(*(set(t) for t in tables.values()))) if tables else []
    if not seeds:
        return None
    per_seed = [
        sum(_log_mean(table[seed], ours) - _log_mean(table[seed], theirs) for table in tables.values()) / len(tables)
        for seed in seeds
    ]
    lower = sum(_mean(t, seeds, ours) < _mean(t, seeds, theirs) for t in tables.values())
    return Effect(Stat.of(per_seed), len(tables), lower)


Values = Mapping[str, float]
"""By policy."""


def _table(runs: Sequence[Run], policies: Sequence[str], measure: Measure) -> dict[int, dict[str, float]]:
    """Seed -> policy -> positive value; only seeds that every policy has."""
    found: dict[int, dict[str, float]] = {}
    for policy in policies:
        for run in pick(runs, policy=policy):
            value = measure(run)
            if isfinite(value) and value > 0:
                found.setdefault(run.seed, {})[policy] = value
    return {seed: values for seed, values in found.items() if set(values) == set(policies)}


def _log_mean(values: Values, policies: Sequence[str]) -> float:
    return sum(log(values[p]) for p in policies) / len(policies)


def _mean(table: Mapping[int, Values], seeds: Sequence[int], policies: Sequence[str]) -> float:
    return sum(table[seed][p] for seed in seeds for p in policies) / (len(seeds) * len(policies))


def judged(claim: Finding, found: Effect | None, decide: Callable[[Effect], Verdict]) -> Finding:
    """The claim with a verdict and figures; `undecided` and what is missing where there was nothing to judge by."""
    if found is None:
        return missing(claim)
    return replace(
        claim,
        verdict=decide(found),
        figures=str(found),
        settings=(found.settings, claim.settings[1]),
        numbers=found.to_json(),
    )


def missing(claim: Finding) -> Finding:
    """A claim that these runs say nothing of."""
    judged_in = (0, claim.settings[1])
    return replace(
        claim,
        verdict="undecided",
        figures="the runs it needs are not there",
        settings=judged_in,
    )


def open_claim(where: str, claim: str, test: str, published: int) -> Finding:
    """A claim before it is judged; `published`: the number of settings the paper judged it on."""
    return Finding(where, claim, test, "undecided", "", (0, published))


def difference(one: Effect, other: Effect) -> Effect:
    """How two effects over different settings compare: ratio of their ratios.

    Treats them as independent. Sharing seeds, they are rather correlated positively, so that the interval is too wide,
    not too narrow.
    """
    logs = Stat(
        one.logs.mean - other.logs.mean,
        sqrt(one.logs.se**2 + other.logs.se**2),
        min(one.logs.n, other.logs.n),
    )
    return Effect(logs, one.settings + other.settings, 0)


def of_base(costs: str) -> str:
    """`cheap-known` -> `cheap`."""
    return costs.partition("-")[0]


def chosen(
    runs: Sequence[Run],
    problems: Sequence[str] | None = None,
    costs: Sequence[str] | None = None,
    variances: Sequence[float] | None = None,
) -> list[Setting]:
    """The settings among the runs that are of these problems, costs (`cheap` includes `cheap-known`) and variances."""
    return [
        s
        for s in settings_of(runs)
        if (problems is None or s.problem in problems)
        and (costs is None or of_base(s.costs) in costs)
        and (variances is None or s.variance in variances)
    ]
