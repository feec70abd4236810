"""What came of a trial, against what was expected of it.

Expected of one trial is more than a control set's value: what is left alone varies, the model does not know everything,
and outcomes are noisy. By the law of total variance the spread is the root of Var[mu(X)] + E[sigma(X)^2] + noise^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rigctl.core.advice.worth import half_width
from rigctl.core.bounds.expectations import natural_nodes
from rigctl.core.costs.beliefs import believe
from rigctl.core.costs.fields import cost_field, predicted_upper
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.natural import present
from rigctl.core.experiment.problem import Problem, sign
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import fit_history
from rigctl.text import decimals_for, in_full

NODES = 512

Verdict = Literal["above", "within", "below"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was expected of one number of a trial before it ran."""

    mean: float
    sd: float
    low: float
    high: float

    def verdict(self, value: float) -> Verdict:
        return "below" if value < self.low else "above" if value > self.high else "within"


@dataclass(frozen=True, slots=True)
class CameOf:
    """A trial's outcome and cost beside what was expected; a forecast is None where nothing was known yet."""

    outcome: float | None
    """None: it gave none."""
    expected: Prediction | None
    cost: float
    """Currency units."""
    expected_cost: Prediction | None


def came_of(
    problem: Problem,
    before: History,
    known: Hyperparameters | None,
    control_set: int,
    setting: Sequence[float],
    *,
    outcome: float | None,
    cost: float,
) -> CameOf:
    """Hold a trial against what was expected of it.

    `before` are all trials before it, `known` the hyper-parameters that the decision was made by (None: learned from
    `before`). The setting is (k,), unit cube; an outcome of None was not measured; the cost is what was charged,
    currency units.
    """
    expected = forecast(problem, before, known, control_set, setting)
    return CameOf(outcome, expected, cost, forecast_cost(problem, before, control_set, setting))


def forecast(
    problem: Problem, before: History, known: Hyperparameters | None, control_set: int, setting: Sequence[float]
) -> Prediction | None:
    """Return what is expected of one trial's outcome; None while no outcomes say in what numbers to think of it."""
    told = problem.model.hyperparameters == "fixed"
    if not told and (not before.complete or np.ptp(before.y) == 0):
        return None
    problem, _ = present(problem, before)
    # as many outcomes as the hyper-parameters know of: they are not learned anew
    fitted = fit_history(problem, before, known, len(before.complete), under_way=False)
    posterior, h = fitted.posterior, fitted.hyperparameters
    nodes = natural_nodes(problem.space, NODES, np.random.default_rng(0))
    nodes[:, list(problem.space.control_sets[control_set].indices)] = setting
    mu, sigma = posterior.mean(nodes), posterior.sd(nodes)
    sd = float(np.sqrt(mu.var() + np.square(sigma).mean() + (h.y_scale * h.noise_sd) ** 2))
    mean, half = sign(problem) * float(mu.mean()), half_width(sd)
    return Prediction(mean, sd, mean - half, mean + half)


def forecast_cost(problem: Problem, before: History, control_set: int, setting: Sequence[float]) -> Prediction | None:
    """Return what is expected of one trial's cost; None for a set that was never tried, unless costs are known."""
    belief = believe(problem, before, "empirical-bernstein")[control_set]
    if problem.known_cost_field is None and belief.mean is None:
        return None
    if not problem.costs_by_setting:
        mean, most = belief.mean or 0.0, to_units(belief.upper)
    else:
        field = cost_field(problem, before)
        mean = float(field.mean(control_set, np.array([setting], dtype=float))[0])
        most = to_units(predicted_upper(problem, before, control_set, setting, field))
    half = max(most - mean, 0.0)  # two standard deviations; costs are skewed, so it is as many times less below
    return Prediction(mean, half / 2, mean * mean / (mean + half) if mean else 0.0, mean + half)


def told(found: CameOf, *, outcome: str, unit: str, currency: str) -> tuple[str, ...]:
    """Say in plain sentences what came of a trial; `unit` as shown."""
    lines = []
    if found.outcome is None:
        lines.append("It gave no outcome.")
    elif found.expected is None:
        lines.append(f"It gave {in_full(found.outcome, 4)} {unit}".rstrip() + "; before that nobody could tell.")
    else:
        e, places = found.expected, decimals_for([found.expected.sd / 10])
        said = e.verdict(found.outcome)
        gave = f"{found.outcome:.{places}f} {unit}".rstrip()
        lines.append(
            f"{outcome} was {gave}: {said} the {e.low:.{places}f} to {e.high:.{places}f} expected of one trial."
        )
    if found.expected_cost is None:
        return (*lines, f"It cost {in_full(found.cost, 4)} {currency}; nothing was known of its cost before.")
    c = found.expected_cost
    verdict = {"within": "as expected", "above": "more than expected", "below": "less than expected"}[
        c.verdict(found.cost)
    ]
    cost, mean, high = (in_full(amount, 4) for amount in (found.cost, c.mean, c.high))
    return (*lines, f"It cost {cost} {currency}, {verdict} ({mean}, at most {high}).")
