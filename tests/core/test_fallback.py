from __future__ import annotations

import numpy as np
import pytest

from rigctl.core.fallback import fallback
from rigctl.core.history import History
from rigctl.core.policy import BudgetSpent, trial_rng, validate
from tests.core.conftest import make_history


def test_the_set_tried_least_is_played_inside_its_range(problem):
    """Every proposal may be played, and the sets take turns."""
    history, played = History(), []
    for _ in range(6):
        proposal = fallback(problem, history, trial_rng(3, len(history) + 1), "policy failed")
        assert validate(proposal, problem) == []
        assert proposal.trial == len(history) + 1
        played.append(proposal.control_set)
        history = make_history([(i, (0.5, 0.5), 1.0, 0.1) for i in played])
    assert sorted(played) == [0, 0, 1, 1, 2, 2]


def test_it_is_a_function_of_seed_and_history(problem):
    """Asked twice it answers the same; another seed gives another setting."""
    first = fallback(problem, History(), trial_rng(3, 1), "why")
    assert fallback(problem, History(), trial_rng(3, 1), "why") == first
    assert fallback(problem, History(), trial_rng(4, 1), "why").setting != first.setting


def test_settings_spread_over_the_range(problem):
    """Over many seeds the settings fill the unit interval."""
    settings = [fallback(problem, History(), trial_rng(seed, 1), "").setting[0] for seed in range(64)]
    assert np.ptp(settings) > 0.8


def test_a_set_that_no_longer_fits_is_passed_over(problem):
    """The dear set is tried least, but what is left only pays the cheap one."""
    history = make_history(
        [(0, (0.5, 0.5), 1.0, 0.1)] * 3 + [(1, (0.5, 0.5), 1.0, 0.1)] * 3 + [(2, (0.5, 0.5), 1.0, 9.0)]
    )
    assert fallback(problem, history, trial_rng(3, 8), "").control_set == 0


def test_nothing_that_fits_ends_it(problem):
    """The error names what is left and the cheapest set."""
    history = make_history([(0, (0.5, 0.5), 1.0, 4.9), (1, (0.5, 0.5), 1.0, 4.0), (2, (0.5, 0.5), 1.0, 1.0)])
    with pytest.raises(BudgetSpent, match=r"0\.1 left; the cheapest, a\+b, takes 1"):
        fallback(problem, history, trial_rng(3, 4), "")
