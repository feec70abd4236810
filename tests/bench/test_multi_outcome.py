"""Problems of several outcomes, and how they are played."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rigctl.bench.problems.multi_outcome import random_forest, run_multi, trays, zdt3
from rigctl.core.multi_objective.hypervolume import hypervolume
from rigctl.core.policies.ca_mobo import CaMobo, MoUcb


def test_zdt3_is_the_published_function():
    """Negated and mapped; pymoo's is the reference, which nobody here wrote."""
    from pymoo.problems.multi.zdt import ZDT3

    x = np.random.default_rng(0).random((200, 5))
    theirs = ZDT3(n_var=5).evaluate(x)
    assert zdt3(mapped=False).f(x) == pytest.approx(-theirs)
    assert zdt3().f(x) == pytest.approx(np.stack([1 - theirs[:, 0], (10 - theirs[:, 1]) / 10.7733691], axis=1))


@pytest.mark.parametrize("mapped", [True, False])
def test_the_front_of_zdt3_is_known(mapped):
    """Its hypervolume is that of pymoo's front, and no random point reaches beyond it."""
    from pymoo.problems.multi.zdt import ZDT3

    problem = zdt3(mapped=mapped)
    front = -ZDT3(n_var=5).pareto_front()
    if mapped:
        front = np.stack([1 + front[:, 0], (10 + front[:, 1]) / 10.7733691], axis=1)
    assert problem.best == pytest.approx(hypervolume(front, np.array(problem.reference)), rel=5e-3)
    cloud = problem.f(np.random.default_rng(1).random((1000, 5)) ** 3)
    assert hypervolume(cloud, np.array(problem.reference)) < problem.best


def test_trays_have_their_published_minima():
    """Cross-in-tray at (1.3494, 1.3494), Hoelder table at (8.0550, 9.6646), each worth 1; nothing is worth more."""
    f = trays().f
    assert f((np.array([[1.3494, -1.3494]]) + 10) / 20)[0, 0] == pytest.approx(1.0, abs=1e-5)
    assert f((np.array([[-8.05502, 9.66459]]) + 10) / 20)[0, 1] == pytest.approx(1.0, abs=1e-5)
    assert f(np.random.default_rng(0).random((5000, 2))).max() <= 1.0 + 1e-6


def test_a_larger_forest_works_more_and_errs_less():
    """The largest has no work left over and small errors; the smallest the other way round; both come out the same."""
    f = random_forest().f
    least, most = f(np.array([[0.0, 0.0], [0.3, 0.15]]))
    assert 0.99 < least[0] < 1.0
    assert 0.0 < most[0] < least[0]
    assert least[1] < 0.4
    assert most[1] > 0.9
    assert (f(np.array([[0.0, 0.0]]))[0] == least).all()


def test_a_run_is_told_trial_by_trial():
    """Hypervolumes never shrink, use adds up, and the same seed plays the same."""
    problem = trays()
    policy = CaMobo(problem.order_names)
    rows = list(run_multi(problem, policy, 6, seed=3))
    assert [r.trial for r in rows] == [1, 2, 3, 4, 5, 6]
    assert all(b.hypervolume >= a.hypervolume for a, b in pairwise(rows))
    assert rows[-1].used == pytest.approx(np.sum([r.x for r in rows], axis=0))
    assert rows[-1].dear == rows[-1].used[0]
    assert all(r.y == tuple(problem.f(np.array([r.x]))[0]) for r in rows)
    assert rows == list(run_multi(problem, policy, 6, seed=3))


def test_the_order_of_costs_saves_the_dear_inputs():
    """On ZDT3 the policy that knows the order has used far less in all, and least of the dearest input."""
    problem = zdt3(mapped=False)
    *_, aware = run_multi(problem, CaMobo(problem.order_names, units="own"), 25, seed=0)
    *_, blind = run_multi(problem, MoUcb(units="own"), 25, seed=0)
    assert sum(aware.used) < 0.75 * sum(blind.used)
    assert aware.dear == aware.used[0] < aware.used[-1]
    assert aware.hypervolume > 0.75 * blind.hypervolume
