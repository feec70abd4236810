"""Linear algebra keeps to one thread while something is decided or advised, and only then."""

from dataclasses import dataclass, field

import pytest
import scipy.linalg.blas  # noqa: F401 - a library of its own
from threadpoolctl import threadpool_info, threadpool_limits

from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import Finished
from rigctl.core.experiment.problem import Problem
from rigctl.threads import VARIABLES, one_thread
from tests.core.conftest import make_space


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def of_ones_own(monkeypatch):
    """A process that nobody has told how many threads to use, and that uses two."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with threadpool_limits(2):
        yield


def test_one_thread_counts_meanwhile():
    """Afterwards the caller has as many as before."""
    assert threads() == {2}
    with one_thread():
        assert threads() == {1}
    assert threads() == {2}


@dataclass
class Counting:
    """Ends at once, and keeps how many threads there were."""

    name: str = "counting"
    seen: list[set[int]] = field(default_factory=list)

    def initial_state(self, _problem):
        return {}

    def propose(self, *_asked):
        self.seen.append(threads())
        raise Finished("counted")


def test_a_decision_keeps_to_one_thread():
    """Whoever asks for it; and after an error its caller has as many threads as before."""
    policy = Counting()
    with pytest.raises(Finished):
        next_proposal(policy, {}, Problem(make_space(), 1000, known_costs=None), History(), trial_rng(0, 1))
    assert policy.seen == [{1}]
    assert threads() == {2}
