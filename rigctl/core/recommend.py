"""What to run from now on: the cheapest control set that is good enough, at its best setting.

Unlike a trial's choice this looks at posterior means, not at optimistic bounds: nothing is left to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from rigctl.core.bounds.best import SetBounds, best_bounds
from rigctl.core.costs.beliefs import believe
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem, sign, value_floor
from rigctl.core.gp.model import fit_history
from rigctl.core.multi_objective.trade_off import Front, front_of
from rigctl.core.natural import present
from rigctl.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rigctl.core.gp.hyperparameters import Hyperparameters

LEVEL = 0.95
"""Coverage of the interval, if the model is right."""
ONE_OF_SEVERAL = "; the other outcomes are not weighed here, see the trade-off"


@dataclass(frozen=True, slots=True)
class Option:
    """One control set at its best setting. Outcomes in their own units, costs in currency."""

    control_set: tuple[str, ...]
    setpoints: Mapping[str, float]
    """Engineering units."""
    expected: float
    low: float
    """Lower end of the interval for the expected outcome."""
    high: float
    cost_per_trial: float | None
    """Mean metered cost, of this setting where costs depend on it; None: never tried."""
    trials: int
    loss: float = 0.0
    """How much worse (positive) or better (negative) its expected outcome is than the recommended one's."""
    saving: float | None = 0.0
    """How much cheaper (positive) or dearer (negative) a trial is than the recommended one; None: never tried."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to run from now on, and what else there is."""

    choice: Option
    alternatives: tuple[Option, ...]
    """All other control sets, best expected outcome first."""
    tolerance: float
    threshold: float
    """What an expected outcome must reach to be good enough."""
    reason: str
    front: Front | None = None
    """What several outcomes can be had together; None where there is one."""


def recommend(
    problem: Problem,
    history: History,
    rng: np.random.Generator,
    tolerance: float,
    hyperparameters: Hyperparameters | None = None,
    *,
    further: Sequence[JsonState] = (),
) -> Recommendation:
    """i* of algorithms section 1, by posterior means: the cheapest set within `tolerance` of the best.

    Only sets that have given an outcome are recommended; the others are listed. Where all outcomes were known
    beforehand, any set may be. With several outcomes it is the first that counts here; the Pareto front stands beside.

    Args:
        problem: what is to be recommended for.
        history: all trials.
        rng: starts of the search.
        tolerance: how much worse than the best is good enough, as a share.
        hyperparameters: of the last fit, if known.
        further: what the policy remembers of the further outcomes' models (`outcomes.to_state`).

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    if not history.complete:
        raise PolicyError("recommend: no trial has given an outcome yet; run some first")
    problem, _ = present(problem, history)
    fitted = fit_history(problem, history, hyperparameters)
    bounds = best_bounds(fitted.posterior, problem.space, problem.model, rng, None)
    floor = value_floor(problem, history)
    tried = sorted({o.control_set for o in history.complete if o.control_set >= 0}) or list(range(len(bounds)))
    best = max(bounds[i].best_mean for i in tried)
    threshold = min(best, floor + (1 - tolerance) * (best - floor))
    good = [i for i in tried if bounds[i].best_mean >= threshold]
    charged = _charged(problem, history, bounds)
    chosen = min(good, key=lambda i: (charged[i] or 0.0, -bounds[i].best_mean))
    options = [_option(problem, history, i, bounds[i], charged[i]) for i in range(len(bounds))]
    choice = options[chosen]
    others = sorted((i for i in range(len(bounds)) if i != chosen), key=lambda i: -bounds[i].best_mean)
    return Recommendation(
        choice=choice,
        alternatives=tuple(_compared(problem, options[i], choice) for i in others),
        tolerance=tolerance,
        threshold=sign(problem) * threshold,
        reason=_reason(len(good), len(bounds), tolerance, choice) + (ONE_OF_SEVERAL if problem.further else ""),
        front=front_of(problem, history, fitted, further),
    )


def _charged(problem: Problem, history: History, bounds: Sequence[SetBounds]) -> list[float | None]:
    """(m,): what a trial of each set costs on average, at its best setting where that matters; None: nobody knows."""
    means = [c.mean for c in believe(problem, history, "empirical-bernstein")]
    told = problem.known_cost_field is not None
    if problem.cost_model == "per-set" and not told:
        return means
    field = cost_field(problem, history)
    return [
        float(field.mean(i, np.array([b.best_mean_at]))[0]) if told or means[i] is not None else None
        for i, b in enumerate(bounds)
    ]


def _option(problem: Problem, history: History, index: int, b: SetBounds, cost: float | None) -> Option:
    s = sign(problem)
    half = NormalDist().inv_cdf(0.5 + LEVEL / 2) * b.best_mean_sd
    return Option(
        control_set=problem.space.control_sets[index].names,
        setpoints=problem.space.setpoints(index, b.best_mean_at),
        expected=s * b.best_mean,
        low=s * b.best_mean - half,
        high=s * b.best_mean + half,
        cost_per_trial=cost,
        trials=history.trials_of(index),
    )


def _compared(problem: Problem, option: Option, choice: Option) -> Option:
    both = option.cost_per_trial is not None and choice.cost_per_trial is not None
    saving = (choice.cost_per_trial or 0.0) - (option.cost_per_trial or 0.0) if both else None
    return Option(
        option.control_set,
        option.setpoints,
        option.expected,
        option.low,
        option.high,
        option.cost_per_trial,
        option.trials,
        loss=sign(problem) * (choice.expected - option.expected),
        saving=saving,
    )


def _reason(good: int, count: int, tolerance: float, choice: Option) -> str:
    label = "+".join(choice.control_set)
    if tolerance == 0:
        equals = "" if good == 1 else f"; {good - 1} more are expected to be as good, but cost no less"
        return f"{label} is expected to be the best of {count} control sets{equals}"
    if good == 1:
        return f"only {label} of {count} control sets is expected within {tolerance:.3g} of the best"
    return f"{good} of {count} control sets are expected within {tolerance:.3g} of the best; {label} costs least"
