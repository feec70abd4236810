"""What is told of a response that has changed, and whether it is the plant or the sensor that has.

Two sensors of one outcome, read in the same trials, tell: their difference depends neither on what was played nor on
what the plant does. Where the first has moved against the second by as much as the outcome has changed, one of the
sensors has aged; where not at all, the plant has, or both sensors alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Literal

import numpy as np

from rigctl.core.advice.reference import replicates
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import Problem, sign
from rigctl.core.gp.hyperparameters import Term, told

FEWEST = 4
"""Pairs of readings on either side of a change; with fewer nothing is said of sensors."""
SURE = 5.0
"""Odds from which on one explanation is called the likelier."""

Blame = Literal["plant", "sensor", "other sensor", "unknown"]
_WHY: Mapping[Blame, str] = {
    "plant": "the second sensor has moved along, so it is the plant that has changed, or both sensors alike",
    "sensor": "the second sensor has not moved along, so it is the first sensor that has aged",
    "other sensor": "it is the second sensor that has moved, and the plant and the first sensor have hardly changed",
    "unknown": "the readings of both sensors fit more than one explanation, so it cannot be told yet",
}
ONE_SENSOR = "whether the plant has changed or its sensor cannot be told: one sensor alone measures this outcome"


def told_of_response(
    problem: Problem, history: History, terms: Sequence[Term], *, outcome: str, unit: str
) -> tuple[str, ...]:
    """Say how the response has changed, what reference trials show of it, and whether plant or sensor has.

    Args:
        problem: with its reference trials, if it has any.
        history: all trials.
        terms: as found; none: nothing is said.
        outcome: its name.
        unit: its unit, as shown.
    """
    if not terms:
        return ()
    lines = [told(term, sign(problem), outcome=outcome, unit=unit) for term in terms]
    judged = [t for t in terms if t.kind != "season"]
    if judged:
        lines += _replicated(problem, history, judged[-1], unit)
        lines.append(_who(problem, history, judged[-1]))
    return tuple(lines)


def _replicated(problem: Problem, history: History, term: Term, unit: str) -> list[str]:
    """Say what the same setting gave before and since, where it was played on both sides."""
    rows = [history.complete[i] for i in replicates(problem, history)]
    before, since = ([o.y or 0.0 for o in rows if (o.trial >= term.since) is late] for late in (False, True))
    if not before or not since:
        return []
    means = " and ".join(
        f"{np.mean(ys):.4g} {unit}".rstrip() + f" {when} (mean of {len(ys)})"
        for ys, when in ((before, "before"), (since, "since"))
    )
    return [f"the reference setting gave {means}"]


def _who(problem: Problem, history: History, term: Term) -> str:
    names = [f.name for f in problem.further]
    second = problem.reference.second_sensor if problem.reference is not None else ""
    if second not in names:
        return ONE_SENSOR
    place = names.index(second)
    rows = [o for o in history.complete if len(o.further) > place]
    pairs = Pairs(
        np.array([o.trial for o in rows], dtype=float),
        np.array([o.y for o in rows], dtype=float),
        np.array([o.further[place] for o in rows]),
    )
    # of a drift the mean since it began has gone half the way
    share = sign(problem) * (1.0 if term.kind == "step" else 0.5)
    return blamed(pairs, share * term.change, abs(share) * term.change_sd, term.since)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Hold what two sensors of one quantity have read in the same trials, own units."""

    times: FloatArray
    """(n,), trial numbers."""
    first: FloatArray
    """(n,), the outcome's readings."""
    second: FloatArray
    """(n,), the other sensor's, in the same unit."""


def blamed(readings: Pairs, change: float, change_sd: float, since: int) -> str:
    """Say whether the plant or a sensor has changed, and on what grounds; without the last full stop.

    Explanations, as likely as each other beforehand: the plant has (no difference has moved), or the first sensor (the
    difference has moved by the change), or the second alone (it has moved, and the first outcome has not changed). Or
    more than one of these, which cannot be told apart.

    Args:
        readings: of both sensors.
        change: of the first outcome since the change, own units.
        change_sd: its standard deviation.
        since: the first trial after the change.
    """
    times, first, second = readings.times, readings.first, readings.second
    apart = first - second
    before, after = apart[times < since], apart[times >= since]
    if min(len(before), len(after)) < FEWEST:
        return f"both sensors were read in too few trials on one side of trial {since} ({FEWEST} are needed)"
    moved = float(after.mean() - before.mean())
    spread = sqrt((before.var() * len(before) + after.var() * len(after)) / (len(apart) - 2))
    sd = max(spread, 1e-12 * abs(change)) * sqrt(1 / len(before) + 1 / len(after))
    # of each explanation the log-density of (moved, change), what is free integrated out over the same wide prior
    wide = max(abs(change), change_sd, abs(moved))
    plant = _log_normal(moved, sd) + _log_normal(change, sqrt(change_sd**2 + wide**2))
    own = _log_normal(moved - change, sqrt(sd**2 + change_sd**2)) + _log_normal(change, sqrt(change_sd**2 + wide**2))
    other = _log_normal(moved, sqrt(sd**2 + wide**2)) + _log_normal(change, change_sd)
    both = _log_normal(moved, sqrt(sd**2 + wide**2)) + _log_normal(change, sqrt(change_sd**2 + wide**2))
    found: dict[Blame, float] = {"plant": plant, "sensor": own, "other sensor": other, "unknown": both}
    best, next_best = sorted(found, key=lambda b: -found[b])[:2]
    return _WHY[best if found[best] - found[next_best] > log(SURE) else "unknown"]


def _log_normal(x: float, sd: float) -> float:
    return -0.5 * (x / sd) ** 2 - log(sd)
