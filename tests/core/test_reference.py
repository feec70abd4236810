"""A setting that is played again every so many trials: when, which one, and never beyond the budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from rigctl.core.advice.response import replicates
from rigctl.core.asking import Played, next_proposal, play, trial_rng
from rigctl.core.experiment.history import Observation
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import Proposal
from rigctl.core.experiment.problem import Problem, ReferenceTrials
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from tests.golden import Golden

SPACE = Space.of([Variable(n, "", 0.0, 1.0, Uniform()) for n in "ab"], [["a"], ["b"], ["a", "b"]])
GIVEN = ReferenceTrials(5, 1, (0.25,))


def _played(reference: ReferenceTrials | None, budget: float = 16.0, cost: float = 1.0) -> Played:
    rng = np.random.default_rng(4)

    trials = count(1)

    def observe(p: Proposal) -> Observation:
        x = rng.random(2)
        x[list(SPACE.control_sets[p.control_set].indices)] = p.setting
        y = float(np.sin(3 * x[0]) + x[1] + 0.05 * rng.standard_normal())
        return Observation(next(trials), p.control_set, tuple(x.tolist()), y, to_micros(cost))

    problem = Problem(SPACE, to_micros(budget), reference=reference)
    return play(LikelyMaximisers(), problem, observe, seed=1)


def _references(played: Played) -> list[Proposal]:
    return [d.proposal for d in played.decisions if d.proposal.phase == "reference"]


def test_the_configured_setting_is_played_every_so_many_trials() -> None:
    """Trials 5, 10 and 15 play it, whatever the policy wants; the others are the policy's."""
    played = _played(GIVEN)
    found = _references(played)
    assert [p.trial for p in found] == [5, 10, 15]
    assert {(p.control_set, p.setting) for p in found} == {(1, (0.25,))}
    assert played.history.spent <= played.problem.budget
    assert [played.history.complete[i].trial for i in replicates(played.problem, played.history)] == [5, 10, 15]
    assert not _references(_played(None))


def test_without_one_the_first_recommendation_is_kept() -> None:
    """What would be recommended at the first of them is played in all."""
    found = _references(_played(ReferenceTrials(5)))
    assert len(found) == 3
    assert len({(p.control_set, p.setting) for p in found}) == 1


@pytest.mark.parametrize("budget", [4.0, 4.5])
def test_a_reference_that_does_not_fit_the_budget_is_left_out(budget: float) -> None:
    """The fifth trial would cost what is not there any more."""
    played = _played(GIVEN, budget)
    assert not _references(played)
    assert played.history.spent <= played.problem.budget


def test_a_reference_that_cannot_be_played_leaves_the_trial_to_the_policy() -> None:
    """An instrument that is away is no reason to wait."""
    played = _played(GIVEN)
    before = replace(played.history, observations=played.history.observations[:4])
    barred = replace(played.problem, unavailable={1: "its pump is away"})
    proposal, _ = next_proposal(LikelyMaximisers(), played.decisions[3].state, barred, before, trial_rng(1, 5))
    assert proposal.phase != "reference"


def test_every_trial_cannot_be_a_reference(golden: Golden) -> None:
    """Nothing would be left to decide."""
    with pytest.raises(ValueError) as refused:
        ReferenceTrials(1)
    golden(refused.value)
