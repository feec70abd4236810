"""Control sets that cannot be played now: no policy plays them, and each says why."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl import History, Proposal
from rigctl.core.asking import next_proposal, trial_rng, validate
from rigctl.core.experiment.money import to_micros
from rigctl.core.policies.check import _played, _problem
from rigctl.core.policies.fallback import fallback, repeat
from rigctl.policies import BudgetSpent, policy_class, policy_names
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
    """The sets take turns; asked twice it answers the same; over many seeds settings fill the unit interval."""
    history, played = History(), []
    for _ in range(6):
        proposal = fallback(problem, history, trial_rng(3, len(history) + 1), "policy failed")
        assert validate(proposal, problem) == []
        assert proposal.trial == len(history) + 1
        played.append(proposal.control_set)
        history = make_history([(i, (0.5, 0.5), 1.0, 0.1) for i in played])
    assert sorted(played) == [0, 0, 1, 1, 2, 2]
    found, again = ([fallback(problem, History(), trial_rng(seed, 1), "") for seed in range(64)] for _ in "ab")
    assert found == again
    assert np.ptp([p.setting[0] for p in found]) > 0.8


def test_a_set_that_no_longer_fits_is_passed_over(problem, golden):
    """What is left pays the cheap one only; then the error names what is left and the cheapest set."""
    history = make_history(
        [(0, (0.5, 0.5), 1.0, 0.1)] * 3 + [(1, (0.5, 0.5), 1.0, 0.1)] * 3 + [(2, (0.5, 0.5), 1.0, 9.0)]
    )
    assert fallback(problem, history, trial_rng(3, 8), "").control_set == 0
    history = make_history([(0, (0.5, 0.5), 1.0, 4.9), (1, (0.5, 0.5), 1.0, 4.0), (2, (0.5, 0.5), 1.0, 1.0)])
    with golden.raises(BudgetSpent):
        fallback(problem, history, trial_rng(3, 4), "")


def last_proposal(**changes):
    return replace(Proposal(1, "p", "explore", 1, (0.25,), "because"), **changes)


def test_a_proposal_is_played_again_where_it_can_be_paid(problem, golden):
    """Control set and setting are the last ones; not out of range, of a set that is gone, or too dear."""
    history = make_history([(1, (0.5, 0.5), 1.0, 0.1)] * 2)
    again = repeat(problem, history, last_proposal(notes=("n",)), "no decision")
    assert (again.trial, again.policy, again.control_set, again.setting) == (3, "fallback", 1, (0.25,))
    golden(again.reason)
    golden(again.technical)
    assert again.notes == ()
    assert validate(again, problem) == []
    for last in (last_proposal(setting=(1.5,)), last_proposal(control_set=9)):
        assert repeat(problem, history, last, "") is None
    assert repeat(replace(problem, budget=history.spent), history, last_proposal(), "") is None
    assert repeat(replace(problem, budget=history.spent + 1), history, last_proposal(), "") is None
