"""Random search: every control set and every setting that can be paid is as likely as any other."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.asking import trial_rng
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import BudgetSpent
from rigctl.core.policies.check import _problem
from rigctl.core.policies.random_search import RandomSearch


def proposals(problem, history=None, count=300):
    known = history or History()
    return [RandomSearch().propose({}, problem, known, trial_rng(seed, 1))[0] for seed in range(count)]


def test_control_sets_and_settings_are_as_likely_as_any_other():
    """A hundred of each of three sets, give or take four standard deviations; settings fill the range evenly."""
    problem = replace(_problem(maximise=True, outcomes=1), budget=to_micros(1000))
    played = proposals(problem)
    counts = np.bincount([p.control_set for p in played], minlength=len(problem.space.control_sets))
    assert len(counts) == 3
    assert np.abs(counts - 100).max() < 4 * np.sqrt(300 * 2 / 9)
    settings = np.sort([u for p in played for u in p.setting])
    assert np.abs(settings - np.linspace(0, 1, len(settings))).max() < 0.1


def test_a_set_that_does_not_fit_is_not_drawn():
    """Of known costs only those that the budget still buys; with none left it has finished."""
    problem = replace(_problem(maximise=True, outcomes=1), known_costs=(1.0, 5.0, 9.0), budget=to_micros(6))
    assert {p.control_set for p in proposals(problem)} == {0, 1}
    with pytest.raises(BudgetSpent):
        proposals(replace(problem, budget=to_micros(0.5)), count=1)
