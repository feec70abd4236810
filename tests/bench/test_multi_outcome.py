import numpy as np
import pytest

from rigctl.bench.problems.problem import trays, zdt3
from rigctl.bench.running.simulate import columns, simulate
from rigctl.core.multi_objective.trade_off import hypervolume


def test_zdt3_is_the_published_function():
    """Negated and mapped; pymoo's is the reference, which nobody here wrote."""
    from pymoo.problems.multi.zdt import ZDT3

    x = np.random.default_rng(0).random((200, 5))
    theirs = ZDT3(n_var=5).evaluate(x)
    assert zdt3(mapped=False).objective(x) == pytest.approx(-theirs)
    assert zdt3().objective(x) == pytest.approx(np.stack([1 - theirs[:, 0], (10 - theirs[:, 1]) / 10.7733691], axis=1))


@pytest.mark.parametrize("mapped", [True, False])
def test_the_front_of_zdt3_is_known(mapped):
    """Its hypervolume is that of pymoo's front, and no random point reaches beyond it."""
    from pymoo.problems.multi.zdt import ZDT3

    problem, reference = zdt3(mapped=mapped), np.zeros(2) if mapped else np.array([-1.0, -10.0])
    front = -ZDT3(n_var=5).pareto_front()
    if mapped:
        front = np.stack([1 + front[:, 0], (10 + front[:, 1]) / 10.7733691], axis=1)
    along = np.linspace(0.0, 1.0, 20_001)[:, None] * np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    best = hypervolume(problem.objective(along), reference)
    assert best == pytest.approx(hypervolume(front, reference), rel=5e-3)
    cloud = problem.objective(np.random.default_rng(1).random((1000, 5)) ** 3)
    assert hypervolume(cloud, reference) < best


def test_trays_have_their_published_minima():
    """Cross-in-tray at (1.3494, 1.3494), Hoelder table at (8.0550, 9.6646), each worth 1; nothing is worth more."""
    f = trays().objective
    assert f((np.array([[1.3494, -1.3494]]) + 10) / 20)[0, 0] == pytest.approx(1.0, abs=1e-5)
    assert f((np.array([[-8.05502, 9.66459]]) + 10) / 20)[0, 1] == pytest.approx(1.0, abs=1e-5)
    assert f(np.random.default_rng(0).random((5000, 2))).max() <= 1.0 + 1e-6


def table(problem, policy, trials, seed):
    return columns(problem, simulate(problem, policy, problem.problem(float(trials)), seed))
