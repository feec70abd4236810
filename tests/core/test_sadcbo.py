"""SADCBO: sensitivities and the change of mind against scikit-learn, and what is kept, watched and controlled."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from rigctl.core.acquisition.outlook import outlook_of
from rigctl.core.asking import trial_rng
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import Problem
from rigctl.core.policies.published.sadcbo import BETA, Sadcbo, change_of_mind, divergence, maximisers, most_of
from tests.core.conftest import FIXED, hill, make_history, make_space

MODEL = replace(FIXED, kernel="squared-exponential", noise_sd=0.1)


def only_a(x):
    return float(np.sin(3 * x[0]))


def seen(n, function=hill, seed=1):
    x = np.random.default_rng(seed).random((n, 2))
    return make_history([(i % 3, row, function(row), (0.1, 0.1, 1.0)[i % 3]) for i, row in enumerate(x)])


def problem_of(**changes):
    return replace(Problem(make_space(), to_micros(100), floor=-2.0, model=MODEL), **changes)


def outlook_after(history, problem=None):
    return outlook_of(problem or problem_of(), history, {}, trial_rng(1, len(history) + 1))


def regression(x, y):
    return GaussianProcessRegressor(RBF(0.3), alpha=MODEL.noise_sd**2, optimizer=None).fit(x, y)


def test_sensitivities_are_those_of_another_library():
    """The root of the divergence from the prediction with one variable at 0, by scikit-learn's moments."""
    history = seen(7)
    x = np.random.default_rng(2).random((5, 2))
    mean, sd = regression(history.x, history.y).predict(x, return_std=True)
    expected = np.empty((5, 2))
    for j in range(2):
        at = x * np.where(np.arange(2) == j, 0.0, 1.0)
        there, wide = regression(history.x, history.y).predict(at, return_std=True)
        expected[:, j] = np.sqrt(np.log(wide / sd) + (sd**2 + (mean - there) ** 2) / (2 * wide**2) - 0.5)
    assert divergence(outlook_after(history).fitted.posterior, x) == pytest.approx(expected, rel=1e-5)


def test_the_change_of_mind_is_that_of_another_library():
    """Moments before and after the last outcome by scikit-learn, put together by the equation."""
    history = seen(9)
    outlook = outlook_after(history)
    x, y = history.x, history.y
    before, now = regression(x[:-1], y[:-1]), regression(x, y)
    best, old = x[[y.argmax()]], x[[y[:-1].argmax()]]
    (m_now,), cov = now.predict(best), now.predict(np.concatenate([best, old]), return_cov=True)[1]
    (m_old,), (sd_old,) = before.predict(old, return_std=True)
    spread = np.sqrt(max(cov[0, 0] + sd_old**2 - 2 * cov[0, 1], 1e-16))
    g = (m_old - m_now) / spread
    (m_last,), (sd_last,) = before.predict(x[[-1]], return_std=True)
    noise, v = MODEL.noise_sd**2, sd_last**2
    kl = 0.5 * (np.log(1 + v / noise) - v / (v + noise) + v * (y[-1] - m_last) ** 2 / (v + noise) ** 2)
    everywhere = np.concatenate([x, maximisers(outlook)])
    m, s = now.predict(everywhere, return_std=True)
    m0, s0 = now.predict(x[:-1], return_std=True)
    kappa = (m + np.sqrt(BETA) * s).max() - (m0 - np.sqrt(BETA) * s0).max()
    expected = abs(m_old - m_now) + spread * (norm.pdf(g) + g * norm.cdf(g)) + kappa * np.sqrt(kl / 2)
    assert change_of_mind(outlook) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("shares", "eta", "kept"),
    [
        ([0.5, 0.3, 0.2], 0.4, (0,)),
        ([0.2, 0.3, 0.5], 0.7, (2, 1)),
        ([0.5, 0.5, 0.0], 1.0, (0, 1, 2)),
        ([0.5, 0.5], 0.1, (0,)),
    ],
)
def test_the_fewest_that_matter_most_are_kept(shares, eta, kept):
    """Until their shares add up to more than eta, the first of equals first."""
    assert most_of(np.array(shares), eta) == kept


def test_it_watches_with_the_cheapest_set_and_then_controls_what_matters():
    """A set of the variable without effect is never controlled once watching has ended; that does not come again."""
    problem = problem_of(known_costs=(0.2, 0.1, 1.0))
    watched, state = Sadcbo(eta=0.6).propose({}, problem, seen(40, only_a), trial_rng(1, 41))
    assert (watched.phase, watched.control_set) == ("watch", 1)
    assert not state["controls"]
    ready = {**state, "changes": [1.0] * 20 + [0.01] * 2}
    for changes in ([1e6] * 18, [1e-6] * 30, [1e-6] * 20 + [1e6] * 20):
        assert (
            Sadcbo(eta=0.6).propose({**ready, "changes": changes}, problem, seen(40, only_a), trial_rng(1, 41))[0].phase
            == "watch"
        )
    played, after = Sadcbo(eta=0.6).propose(
        {**ready, "changes": [1e6] * 25}, problem, seen(40, only_a), trial_rng(1, 41)
    )
    assert (played.phase, played.control_set, after["controls"]) == ("control", 0, True)
    again, _ = Sadcbo(eta=0.6).propose(after, problem, seen(41, only_a), trial_rng(1, 42))
    assert again.phase == "control"
    assert played.setting[0] == pytest.approx(np.pi / 6, abs=0.1)


def test_a_dear_variable_must_matter_more():
    """Sensitivity counts by price: a is kept while it is cheap, b where a is a thousand times as dear."""
    cheap = outlook_after(seen(12), problem_of(known_costs=(1.0, 1.0, 1.0)))
    dear = outlook_after(seen(12), problem_of(known_costs=(1000.0, 1.0, 1000.0), budget=to_micros(1e6)))
    assert Sadcbo()._sensitivity(cheap)[0] > 0.5 > Sadcbo()._sensitivity(dear)[0]
