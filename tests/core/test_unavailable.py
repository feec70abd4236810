"""Control sets that cannot be played now: no policy plays them, and each says why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.asking import next_proposal, trial_rng, validate
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import BudgetSpent
from rigctl.core.policies.check import _played, _problem
from rigctl.core.policies.fallback import fallback, repeat
from rigctl.core.policies.registry import policy_class, policy_names
from tests.golden import Golden

OPTIONS = {"ca-mobo": {"order": ["a", "b"]}}


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


def test_nothing_else_plays_it_either(golden: Golden):
    """Neither safe exploration nor a proposal played again; a policy that knows nothing of it is corrected."""
    problem = _problem(maximise=True, outcomes=1)
    away = replace(problem, unavailable={0: "away", 1: "away"})
    assert {fallback(away, History(), trial_rng(1, n), "").control_set for n in range(5)} == {2}
    last = fallback(replace(problem, unavailable={1: "", 2: ""}), History(), trial_rng(1, 1), "")
    golden(validate(last, away))
    assert repeat(away, History(), last, "") is None
    with pytest.raises(BudgetSpent):
        fallback(replace(away, unavailable=dict.fromkeys(range(3), "away")), History(), trial_rng(1, 1), "")
