"""When a campaign ends before its budget is spent: once no trial is expected to be worth its cost.

A trial is worth its cost c where the improvement EI that it is expected to make on the best so far is worth more. One
unit of the outcome is worth w (`Problem.stop_worth`). The rule ends a campaign when no setting x of any control set i
is worth its cost, whichever policy chooses the trials:

    max over i, x of [ ln EI_i(x) - ln c_i(x) ] <= ln lambda,   lambda = 1 / w

(Xie, Cai, Terenin, Frazier and Scully, "Cost-aware stopping for Bayesian optimization", arXiv 2507.12453). It must hold
in several decisions in a row, as single fits and searches err. EI counts as if a trial told the value of its setting
without noise, so noise makes the rule stop later, not earlier. Trials count that the rest of the budget cannot pay, or
that cannot be played now: others, which improve nothing themselves, may yet tell where those are best played.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from rigctl.core.acquisition.maximisers import View, stopped
from rigctl.core.acquisition.outlook import fewest_outcomes, warm_starts
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.gp.model import fit_again
from rigctl.errors import counted

KEPT = "stopping"
"""Of a policy's state: what the rule remembers."""
STEADY = 3
"""Decisions in a row in which the rule must hold."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Say how near a campaign is to being stopped."""

    breaks_even: float
    """What one unit of the outcome must be worth for the most promising trial to be worth its cost, currency units."""
    warning: str
    """Plain words, once the rule holds; empty before."""
    technical: str
    state: JsonState
    """What the rule remembers."""


def standing(problem: Problem, history: History, state: JsonState) -> Standing | None:
    """Weigh the most promising trial against its cost.

    Marginals are concrete; `state` is the policy's after its last decision, and has what the rule remembers. Nothing is
    drawn from the generator of the trial, so a policy decides as it would without the rule.

    Returns:
        None where nothing is to end the campaign early, or too few outcomes are there.

    Raises:
        NotWorthIt: the rule has held in `STEADY` decisions in a row.
    """
    if problem.stop_worth is None or len(history.complete) < fewest_outcomes(problem):
        return None
    before = state.get(KEPT, {})
    fitted, field = fit_again(problem, history, before), cost_field(problem, history)
    view = View(
        problem,
        history,
        fitted,
        field,
        spread=1.0,
        weight=1.0 / problem.stop_worth,
        unit=1.0 / fitted.hyperparameters.y_scale,
        selective=True,
    )
    rng = np.random.default_rng(len(history))
    each = view.best(view.per_cost, rng, warm_starts(before), fits=lambda _: True)
    found = max(each, key=lambda f: (f.score, -f.control_set))
    held = 0 if view.worth_it(found) else int(before.get("held", 0)) + 1
    if held >= STEADY:
        raise stopped(view, found)
    more, gain = counted(STEADY - held, "more time"), view.gain(found)
    return Standing(
        found.cost / gain if gain > 0 else inf,
        f"No trial is expected to be worth its cost now. Found {more} in a row, this ends the campaign" if held else "",
        f"most worth its cost: {view.label(found.control_set)}, which would gain {gain:.3g}, worth "
        f"{problem.stop_worth * gain:.4g}, and cost {found.cost:.4g}",
        {
            **fitted.to_state(),
            "held": held,
            "maximisers": {str(f.control_set): [float(u) for u in f.setting] for f in each},
        },
    )
