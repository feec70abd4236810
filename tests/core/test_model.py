"""From a history to a posterior, as one trial follows the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.core.policy import trial_rng


def outcome(x):
    return float(np.sin(5 * x[0]) + x[1])


@pytest.mark.parametrize(
    "model", [ModelOptions(max_points=50), ModelOptions(max_points=50, bounds="pointwise", nodes=8)]
)
def test_a_decision_depends_on_the_history_and_not_on_how_it_came(problem, model):
    """A campaign of 80 trials decides every time, bit for bit, as a process that has just read the journal.

    Over refits, past the limit of exact conditioning, and over several choices of inducing inputs.
    """
    problem = replace(problem, model=model, budget=10**12)
    policy = ExploreThenCommit()
    rng = np.random.default_rng(0)
    known = rng.random((40, 2))
    history = History.of(Observation(t, t % 3, tuple(x), outcome(x), 10**6) for t, x in enumerate(known, start=1))
    state = policy.initial_state(problem)
    for t in range(41, 81):
        decided = policy.propose(state, problem, history, trial_rng(3, t))
        fresh = policy.propose(state, problem, History.of(history.observations), trial_rng(3, t))
        assert decided == fresh
        proposal, state = decided
        x = rng.random(2)
        x[list(problem.space.control_sets[proposal.control_set].indices)] = proposal.setting
        history = history.append(Observation(t, proposal.control_set, tuple(x), outcome(x), 10**6))


def test_what_is_kept_between_trials_is_used(problem):
    """The second look at the same data takes over the factor of the first; other hyper-parameters have their own."""
    rows = [Observation(t, 0, tuple(x), outcome(x), 1) for t, x in enumerate(np.random.default_rng(1).random((9, 2)))]
    history = History.of(rows)
    first = fit_history(problem, history)
    assert fit_history(problem, history).posterior.L is first.posterior.L
    other = replace(problem, model=replace(problem.model, noise_sd=0.3))
    assert fit_history(other, history).posterior.L is not first.posterior.L
    assert fit_history(problem, history).posterior.L is first.posterior.L
