"""What the policies that choose by an acquisition have in common: which sets fit, where to play, how to say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.acquisition.outlook import Outlook, first_point
from rigctl.core.costs.groups import CostEstimate, estimates
from rigctl.core.experiment.problem import sign
from rigctl.core.money import to_units
from rigctl.core.policy import Proposal


@dataclass(frozen=True, slots=True)
class Choice:
    """A control set, and why."""

    control_set: int
    phase: str
    reason: str
    eligible: Sequence[int]
    """Control sets that were in the running."""
    threshold: float | None = None
    """What a set's upper bound had to reach, as a value (larger is better)."""
    setting: tuple[float, ...] | None = None
    """(k,), unit cube; None: where the set's upper bound is largest."""


def too_few_outcomes(outlook: Outlook) -> bool:
    """Whether hyper-parameters still have to be learned from d + 1 outcomes; fixed ones hold from the start."""
    problem = outlook.problem
    fewest = problem.space.dimension + 1 if problem.model.hyperparameters == "learned" else 1
    return len(outlook.history.complete) < fewest


def proposal_of(policy: str, outlook: Outlook, choice: Choice, sobol_seed: int) -> Proposal:
    """The choice as a proposal: at its setting, or at a scrambled Sobol point while there are too few outcomes."""
    problem, chosen = outlook.problem, choice.control_set
    upper_at = tuple(float(v) for v in outlook.bounds[chosen].upper_at)
    setting = upper_at if choice.setting is None else choice.setting
    reason = choice.reason
    if too_few_outcomes(outlook):
        point = first_point(len(setting), outlook.history.trials_of(chosen), sobol_seed)
        # where costs depend on the setting the point may be too dear for what is left; the upper maximiser fits
        setting, where = (point, "Sobol point") if outlook.fits(chosen, point) else (upper_at, "setting that fits")
        reason += f"; at a {where}: too few outcomes for a model"
    return Proposal(
        trial=len(outlook.history) + 1,
        policy=policy,
        phase=choice.phase,
        control_set=chosen,
        setting=setting,
        reason=reason,
        sets=outlook.reports(choice.eligible),
        threshold=None if choice.threshold is None else sign(problem) * choice.threshold,
        predicted_cost=to_units(outlook.predicted(chosen, setting)) or None,
        notes=outlook.fitted.posterior.notes,
    )


def fitting_sets(outlook: Outlook) -> list[int]:
    """Every control set that is predicted to fit the remaining budget.

    Raises:
        BudgetSpent: none does.
    """
    return outlook.affordable(range(len(outlook.problem.space.control_sets)))


def cost_at(outlook: Outlook, control_set: int, setting: Sequence[float]) -> float:
    """Expected cost of a trial of this set at this setting (k,), currency units, positive."""
    return float(outlook.field.mean(control_set, np.array([setting], dtype=float))[0])


def costs_now(outlook: Outlook) -> tuple[CostEstimate | None, ...]:
    """What a trial of each set costs; where that depends on the setting, at its upper maximiser.

    None for a set that was never tried, unless all costs are known.
    """
    problem = outlook.problem
    on_average = estimates(problem, outlook.history)
    if problem.cost_model == "per-set" and problem.known_cost_field is None:
        return on_average
    told = problem.known_cost_field is not None
    return tuple(
        CostEstimate(cost_at(outlook, i, outlook.bounds[i].upper_at)) if told or c is not None else None
        for i, c in enumerate(on_average)
    )


def label_of(outlook: Outlook, control_set: int) -> str:
    """`a+b`, as written in reasons."""
    return outlook.problem.space.control_sets[control_set].label


def first_to_meter(outlook: Outlook, unknown: Sequence[int]) -> int:
    """Of sets never tried the one with the fewest variables, as control costs; of these the most promising."""
    sets = outlook.problem.space.control_sets
    return min(unknown, key=lambda i: (len(sets[i].indices), -outlook.upper[i], i))
