"""Small problems to decide on."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from rigctl import History, ModelOptions, Observation, Problem, Space, Uniform, Variable, play
from rigctl.core.advice.rules import planner
from rigctl.core.experiment.money import to_micros

FIXED = ModelOptions(hyperparameters="fixed", lengthscales=(0.3, 0.3), signal_sd=1.0, noise_sd=0.01, mean=0.0)


def make_space(sets=(("a",), ("b",), ("a", "b"))):
    """Two variables, a on [0, 10] and b on [-1, 1]."""
    variables = [Variable("a", "mM", 0.0, 10.0, Uniform()), Variable("b", "V", -1.0, 1.0, Uniform())]
    return Space.of(variables, sets)


def unit_space(names="ab", sets=(("a",), ("b",), ("a", "b")), marginal=None):
    """Variables on [0, 1], all with the same marginal, by default uniform."""
    return Space.of([Variable(n, "", 0.0, 1.0, marginal or Uniform()) for n in names], sets)


def make_history(rows):
    """Rows of (control set, x, y, cost in currency units)."""
    return History.of(
        Observation(t, i, None if x is None else tuple(x), y, to_micros(cost))
        for t, (i, x, y, cost) in enumerate(rows, start=1)
    )


def hill(x):
    """Best at (0.3, 0.6)."""
    return float(np.exp(-8 * (x[0] - 0.3) ** 2 - 2 * (x[1] - 0.6) ** 2))


def anywhere(rng, d):
    return rng.random(d)


def campaign(policy, problem, cost, outcome=hill, *, seed=0, most=None, nature=anywhere):
    """Play; what is not controlled is where nature puts it, and a trial costs what its control set does, or proposal.

    What a policy may not propose is an error, and its state goes through JSON.
    """

    def observe(p):
        x = nature(np.random.default_rng([seed, p.trial, 1]), problem.space.dimension)
        x[list(problem.space.control_sets[p.control_set].indices)] = p.setting
        charged = to_micros(float(cost(p) if callable(cost) else cost[p.control_set]))
        return Observation(p.trial, p.control_set, tuple(x.tolist()), float(outcome(x)), charged)

    return play(policy, problem, observe, seed, most=most)


def proposals_of(played):
    return [decided.proposal for decided in played.decisions]


@dataclass(frozen=True)
class Priced:
    """Known costs of settings (b, k) of a control set, by a function of both; flat where a policy climbs."""

    price: Callable[[int, np.ndarray], np.ndarray]

    def mean(self, control_set, settings):
        return np.asarray(self.price(control_set, np.asarray(settings)))

    def gradient(self, control_set, settings):
        return np.zeros(np.shape(settings))

    def upper(self, control_set, settings):
        return self.mean(control_set, settings)


@dataclass(frozen=True)
class Slope:
    """A known cost that rises with one variable of the set, by default its first: base + slope * setting."""

    base: float = 1.0
    slope: float = 4.0
    column: int = 0

    def mean(self, control_set, settings):
        return self.base + self.slope * settings[:, self.column]

    def gradient(self, control_set, settings):
        out = np.zeros(settings.shape)
        out[:, self.column] = self.slope
        return out

    def upper(self, control_set, settings):
        return self.mean(control_set, settings)


@pytest.fixture
def problem():
    """Two variables, three control sets, fixed hyper-parameters, a budget of 10."""
    return Problem(make_space(), to_micros(10), floor=0.0, model=FIXED)


@pytest.fixture(scope="module")
def few_days():
    """Rules are sought and stated on 128 days: what is promised of them holds of any days."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "DAYS", ((10**9, 128),))
        yield
