"""What a reading before a trial is worth: learned from pairs, and used in decisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.experiment.history import ALONE, History, Look, Observation
from rigctl.core.marginals.conditional import conditional
from rigctl.core.marginals.families import TruncatedNormal, Uniform
from rigctl.core.natural import Learned, persistences, present

A, B, BOTH = 0, 1, 2
"""The control sets of the fixture `problem`."""
NORMAL = TruncatedNormal.from_moments(0.45, 0.15)


def of_b(problem, marginal):
    """The problem with this marginal of b."""
    a, b = problem.space.variables
    return replace(problem, space=replace(problem.space, variables=(a, replace(b, marginal=marginal))))


def pairs(rho, count, tau=0.0, seed=0):
    """Readings of b before and values during trials that left it alone, each (count,)."""
    rng = np.random.default_rng(seed)
    g = rng.standard_normal((2, 10 * count))
    before, during = NORMAL.loc + NORMAL.scale * np.array([g[0], rho * g[0] + np.sqrt(1 - rho**2) * g[1]])
    inside = (np.minimum(before, during) > 0) & (np.maximum(before, during) < 1)
    return before[inside][:count] + tau * rng.standard_normal(count), during[inside][:count]


def looked(before, during, tau=0.0, control_set=A):
    """One trial per pair."""
    return History.of(
        Observation(t, control_set, (0.5, float(x)), 1.0, 10, look=Look((None, float(r)), (0.0, tau)))
        for t, (r, x) in enumerate(zip(before, during, strict=True), 1)
    )


def marginal_of_b(problem, history):
    return present(problem, history)[0].space.variables[1].marginal


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("tau", [0.0, 0.05])
def test_what_persists_is_learned_from_many_pairs(problem, rho, tau):
    """Of 400 pairs it is found to 0.07, whatever the readings' errors."""
    known = persistences(of_b(problem, NORMAL), looked(*pairs(rho, 400, tau), tau))
    assert known[0] is None
    assert known[1].rho == pytest.approx(rho, abs=0.07)
    assert known[1].tau == pytest.approx(tau)
    assert known[1].pairs == 400


def test_a_reading_narrows_what_is_expected_of_the_trial(problem):
    """Decisions see the conditional marginal of what was read, and the usual one of what was not, with a note."""
    history = looked(*pairs(0.9, 40))
    now = replace(of_b(problem, NORMAL), look=Look((None, 0.7), (0.0, 0.0)))
    rho = persistences(now, history)[1].rho
    presented, notes = present(now, history)
    assert presented.space.variables[1].marginal == conditional(NORMAL, rho, 0.0, 0.7)
    assert presented.space.variables[0] == problem.space.variables[0]
    assert notes == ("a: it was not read before the trial, so its usual spread is expected",)


def test_nothing_is_trusted_before_there_are_enough_pairs(problem):
    """Seven pairs of eight leave the marginal as it is; pairs of trials that controlled the variable never count."""
    now = replace(of_b(problem, NORMAL), look=Look((0.5, 0.7), (0.0, 0.0)))
    assert marginal_of_b(now, looked(*pairs(1.0, 7))) is NORMAL
    assert marginal_of_b(now, looked(*pairs(1.0, 40), control_set=B)) is NORMAL
    assert marginal_of_b(now, looked(*pairs(1.0, 8))) != NORMAL
    few = replace(of_b(problem, Learned(Uniform(), 12)), look=now.look)
    assert marginal_of_b(few, looked(*pairs(1.0, 11))) == Uniform()


def test_pairs_of_an_earlier_supply_are_forgotten(problem):
    """Once a change is noticed only later pairs count."""
    old, new = pairs(1.0, 60), pairs(0.0, 30, seed=1)
    before = np.concatenate([0.2 * old[0], 0.8 + 0.2 * new[0]])
    during = np.concatenate([0.2 * old[1], 0.8 + 0.2 * new[1]])
    known = persistences(of_b(problem, Learned()), looked(before, during))[1]
    assert 25 <= known.pairs <= 30
    assert known.rho < 0.3


def test_persistence_may_be_told(problem):
    """A problem that says what persists is believed, from the first trial on."""
    now = replace(of_b(problem, NORMAL), look=Look((0.5, 0.7), (0.0, 0.1)), persistence=(0.0, 0.8))
    assert marginal_of_b(now, History()) == conditional(NORMAL, 0.8, 0.1, 0.7)
    assert persistences(replace(now, look=None), History())[1].rho == 0.8


def test_variables_that_still_vary_together_are_told_of(problem):
    """What both readings leave open is correlated: a note that stays the same; independent variables have none."""
    rng = np.random.default_rng(0)
    g = rng.standard_normal((3, 100))
    space = problem.space
    variables = tuple(replace(v, marginal=NORMAL) for v in space.variables)
    both = replace(problem, space=replace(space, variables=variables))
    both = replace(both, look=Look((0.5, 0.5), (0.0, 0.0)))

    def notes(shared, count):
        x = NORMAL.loc + 0.15 * (np.sqrt(shared) * g[0] + np.sqrt(1 - shared) * g[1:])
        rows = zip(x.T[:count], 0.45 + 0.15 * rng.standard_normal((count, 2)), strict=True)
        return present(
            both,
            History.of(
                Observation(t, ALONE, tuple(now), 1.0, 10, look=Look(tuple(then), (0.0, 0.0)))
                for t, (now, then) in enumerate(rows, 1)
            ),
        )[1]

    told = ("a and b: they vary together after a reading. Decisions take them to be independent",)
    assert notes(0.8, 40) == notes(0.8, 100) == told
    assert notes(0.0, 100) == ()
