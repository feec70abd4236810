"""Control sets that cannot be played now: no policy plays them, and each says why."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.asking import next_proposal, trial_rng, validate
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import BudgetSpent, Proposal
from rigctl.core.policies.check import _played, _problem
from rigctl.core.policies.fallback import fallback, repeat
from rigctl.core.policies.registry import policy_class, policy_names
from tests.core.conftest import make_history

OPTIONS = {"ca-mobo": {"order": ["a", "b"]}}


@pytest.mark.slow
@pytest.mark.parametrize("name", policy_names())
def test_no_policy_plays_what_cannot_be_played(name):
    """At the beginning, and once there is a model; each set's report says why; afterwards nothing is amiss."""
    policy, nature = policy_class(name)(**OPTIONS.get(name, {})), np.random.default_rng(5)
    problem = replace(
        _problem(maximise=True, outcomes=2 if name in ("ca-mobo", "mo-ucb") else 1), budget=to_micros(400)
    )
    without, state, history = replace(problem, unavailable={0: "the pump is away"}), None, History()
    for trial in range(1, 7):
        now = without if trial <= 5 else problem
        proposal, state = next_proposal(policy, state, now, history, trial_rng(5, trial))
        if trial <= 5:
            assert proposal.control_set != 0
            told = [report for report in proposal.sets if report.control_set == ("a",)]
            assert [(report.eligible, report.ruled_out) for report in told] == [(False, "the pump is away")] * len(told)
        history = history.append(_played(problem, proposal, nature, failed=False))


def test_nothing_else_plays_it_either(golden):
    """Neither safe exploration nor a proposal played again; a policy that knows nothing of it is corrected."""
    problem = _problem(maximise=True, outcomes=1)
    away = replace(problem, unavailable={0: "away", 1: "away"})
    assert {fallback(away, History(), trial_rng(1, n), "").control_set for n in range(5)} == {2}
    last = fallback(replace(problem, unavailable={1: "", 2: ""}), History(), trial_rng(1, 1), "")
    golden(validate(last, away))
    assert repeat(away, History(), last, "") is None
    with pytest.raises(BudgetSpent):
        fallback(replace(away, unavailable=dict.fromkeys(range(3), "away")), History(), trial_rng(1, 1), "")


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


def test_nothing_that_fits_ends_it(problem, golden):
    """The error names what is left and the cheapest set."""
    history = make_history([(0, (0.5, 0.5), 1.0, 4.9), (1, (0.5, 0.5), 1.0, 4.0), (2, (0.5, 0.5), 1.0, 1.0)])
    with golden.raises(BudgetSpent):
        fallback(problem, history, trial_rng(3, 4), "")


def last_proposal(**changes):
    return replace(Proposal(1, "p", "explore", 1, (0.25,), "because"), **changes)


def test_a_proposal_is_played_again_where_it_can_be_paid(problem, golden):
    """Control set and setting are the last ones; trial, policy and reason say what happened."""
    history = make_history([(1, (0.5, 0.5), 1.0, 0.1)] * 2)
    again = repeat(problem, history, last_proposal(notes=("n",)), "no decision")
    assert (again.trial, again.policy, again.control_set, again.setting) == (3, "fallback", 1, (0.25,))
    golden(again.reason)
    golden(again.technical)
    assert again.notes == ()
    assert validate(again, problem) == []


def test_a_proposal_that_cannot_be_played_or_paid_is_not_played_again(problem):
    """Out of its range, of a control set that is gone, or dearer than what is left."""
    history = make_history([(1, (0.5, 0.5), 1.0, 0.1)] * 2)
    for last in (last_proposal(setting=(1.5,)), last_proposal(control_set=9)):
        assert repeat(problem, history, last, "") is None
    assert repeat(replace(problem, budget=history.spent), history, last_proposal(), "") is None
    assert repeat(replace(problem, budget=history.spent + 1), history, last_proposal(), "") is None
