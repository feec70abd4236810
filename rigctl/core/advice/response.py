"""What is told of a response that has changed, and whether it is the plant or the sensor that has.

Two sensors of one outcome, read in the same trials, tell: their difference depends neither on what was played nor on
what the plant does. Where the first has moved against the second by as much as the outcome has changed, one of the
sensors has aged; where not at all, the plant has, or both sensors alike.

Trials that play one setting again and again, so that what changes in between shows.

They are decided where every trial is (`core.asking.next_proposal`), at trial numbers that depend on nothing else. The
setting is the configured one; or the one that would be recommended when the first of them is due, which is kept in the
policy's state from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any, Literal

import numpy as np

from rigctl.core.costs.beliefs import left_for_a_trial
from rigctl.core.costs.fields import predicted_upper
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.policy import PRODUCTION, Proposal
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.core.gp.hyperparameters import Term, told
from rigctl.text import in_full

KEPT = "reference"
"""Of a policy's state: the setting that is repeated."""


def is_due(problem: Problem, trial: int) -> bool:
    """Tell whether the trial of that number plays the reference."""
    return problem.reference is not None and trial % problem.reference.every == 0


def reference_proposal(
    policy: str, problem: Problem, history: History, state: JsonState, rng: np.random.Generator
) -> tuple[Proposal, JsonState] | None:
    """Return the reference as a proposal, and the state with its setting; None if none is due or can be played now."""
    trial = len(history) + 1
    if not is_due(problem, trial):
        return None
    found = _setting(problem, history, state, rng)
    if found is None or found[0] in problem.unavailable:
        return None
    control_set, setting = found
    most = predicted_upper(problem, history, control_set, setting)
    if history.spent >= problem.budget or most > left_for_a_trial(problem, history):
        return None
    chosen = problem.space.control_sets[control_set]
    label = problem.space.shown(control_set)
    every = 0 if problem.reference is None else problem.reference.every
    proposal = Proposal(
        trial=trial,
        policy=policy,
        phase="reference",
        control_set=control_set,
        setting=setting,
        reason=f"every {every} trials this setting of {label} is played again, to see whether the plant has changed",
        technical=f"reference trial of {label}, every {every} trials",
        predicted_cost=to_units(most) or None,
    )
    # a policy drops what production has run since; nobody asks it here
    own = {key: value for key, value in state.items() if key != PRODUCTION}
    return proposal, {**own, KEPT: {"control_set": list(chosen.names), "at": list(setting)}}


def kept(after: JsonState, before: JsonState) -> dict[str, Any]:
    """Return the state after a decision, with the reference's setting of the state before, which a policy drops."""
    return {**after, KEPT: before[KEPT]} if KEPT in before else dict(after)


def replicates(problem: Problem, history: History) -> tuple[int, ...]:
    """Return the places in `history.complete` of the outcomes of reference trials.

    Those are the trials of the reference's numbers that played the control set which most of them did.
    """
    if problem.reference is None:
        return ()
    due = [i for i, o in enumerate(history.complete) if o.charged and o.trial and is_due(problem, o.trial)]
    sets = [history.complete[i].control_set for i in due]
    if not sets:
        return ()
    usual = problem.reference.control_set if problem.reference.control_set is not None else sets[-1]
    return tuple(i for i, s in zip(due, sets, strict=True) if s == usual)


def _setting(
    problem: Problem, history: History, state: JsonState, rng: np.random.Generator
) -> tuple[int, tuple[float, ...]] | None:
    """Return control set and setting: configured, kept from the first time, or what would be recommended now."""
    given = problem.reference
    if given is not None and given.control_set is not None:
        return given.control_set, given.setting
    if KEPT in state:
        remembered = state[KEPT]
        return problem.space.index_of(remembered["control_set"]), tuple(map(float, remembered["at"]))
    from rigctl.core.advice.recommend import weigh  # noqa: PLC0415
    from rigctl.core.gp.model import fit_again  # noqa: PLC0415 - only where it is needed

    if not history.complete:
        return None
    weighing = weigh(problem, history, fit_again(problem, history, state).posterior, rng)
    chosen = weighing.chosen(problem, history, 0.0)
    setting = next(s.setting for s in weighing.options if s.control_set == chosen)
    return chosen, tuple(float(np.clip(u, 0.0, 1.0)) for u in setting)


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
    """Say how the response has changed, what reference trials show of it, and whether plant or sensor has."""
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
        f"{in_full(float(np.mean(ys)), 4)} {unit}".rstrip() + f" {when} (mean of {len(ys)})"
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
    apart = [
        np.array([float(o.y or 0.0) - o.further[place] for o in rows if (o.trial >= term.since) is late])
        for late in (False, True)
    ]
    # of a drift the mean since it began has gone half the way
    share = sign(problem) * (1.0 if term.kind == "step" else 0.5)
    return blamed(apart[0], apart[1], share * term.change, abs(share) * term.change_sd, term.since)


def blamed(before: FloatArray, after: FloatArray, change: float, change_sd: float, since: int) -> str:
    """Say whether the plant or a sensor has changed, and on what grounds; without the last full stop.

    `before` and `after` are how far the first sensor's reading was above the second's in each trial, own units, until
    trial `since` and from it on.

    Explanations, as likely as each other beforehand: the plant has (no difference has moved), or the first sensor (the
    difference has moved by the change), or the second alone (it has moved, and the first outcome has not changed). Or
    more than one of these, which cannot be told apart.
    """
    if min(len(before), len(after)) < FEWEST:
        return f"both sensors were read in too few trials on one side of trial {since} ({FEWEST} are needed)"
    moved = float(after.mean() - before.mean())
    spread = sqrt((before.var() * len(before) + after.var() * len(after)) / (len(before) + len(after) - 2))
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
