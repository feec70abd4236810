"""Trials that play one setting again and again, so that what changes in between shows.

They are decided where every trial is (`core.asking.next_proposal`), at trial numbers that depend on nothing else. The
setting is the configured one; or the one that would be recommended when the first of them is due, which is kept in the
policy's state from then on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rigctl.core.costs.beliefs import left_for_a_trial
from rigctl.core.costs.fields import predicted_upper
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.policy import PRODUCTION, Proposal
from rigctl.core.experiment.problem import JsonState, Problem

KEPT = "reference"
"""Of a policy's state: the setting that is repeated."""


def is_due(problem: Problem, trial: int) -> bool:
    """Tell whether the trial of that number plays the reference."""
    return problem.reference is not None and trial % problem.reference.every == 0


def reference_proposal(
    policy: str, problem: Problem, history: History, state: JsonState, rng: np.random.Generator
) -> tuple[Proposal, JsonState] | None:
    """Return the reference as a proposal, and the state with its setting; None if none is due or can be played now.

    Args:
        policy: its name.
        problem: with concrete marginals.
        history: all trials.
        state: the policy's.
        rng: starts of the search for what would be recommended.
    """
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
    label = chosen.label
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
