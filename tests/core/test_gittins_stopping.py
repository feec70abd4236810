"""Expected improvement under the cost-per-sample rule, which its own choice cannot answer for all settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.asking import trial_rng
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import NotWorthIt
from rigctl.core.policies.published.gittins import ExpectedImprovement
from tests.core.test_gittins_policies import FIXED, make_problem


def test_ei_goes_on_while_any_setting_is_worth_its_cost():
    """Its own choice, dear and the most promising, is not worth it; a cheap one elsewhere is. Once none is, it ends."""
    problem = make_problem((("a",), ("b",)), budget=1000.0, known_costs=(5.0, 0.01), marginal=Uniform())
    short = replace(FIXED, lengthscales=(0.1, 0.5))
    rng = np.random.default_rng(0)
    points = [tuple(map(float, rng.random(2))) for _ in range(4)]
    history = History.of(
        Observation(t, t % 2, x, float(0.1 * np.sin(9 * sum(x))), to_micros(1)) for t, x in enumerate(points, start=1)
    )
    policy = ExpectedImprovement(
        cost_weight=1.0, cost_unit=1.0, outcome_unit=1.0, stopping="cost-per-sample", initial=0
    )
    proposal, _ = policy.propose({}, replace(problem, model=short), history, trial_rng(1, 1))
    assert proposal.control_set == 0
    dear = replace(problem, model=short, known_costs=(5.0, 4.0))
    with pytest.raises(NotWorthIt):
        policy.propose({}, dear, history, trial_rng(1, 1))
