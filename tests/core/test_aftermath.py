"""What came of a trial, against what was expected of it."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.advice.aftermath import CameOf, Prediction, came_of, forecast, forecast_cost, told
from rigctl.core.experiment.history import History
from rigctl.core.experiment.marginals.families import TruncatedNormal
from rigctl.core.gp.model import fit_history
from tests.core.claims import unreadable
from tests.core.conftest import make_history

NATURE = TruncatedNormal(0.4, 0.2)


def left_alone(problem):
    """The problem with a second variable that varies by a truncated normal."""
    a, b = problem.space.variables
    space = replace(problem.space, variables=(a, replace(b, marginal=NATURE)))
    return replace(problem, space=space, model=replace(problem.model, noise_sd=0.1))


def drawn_history(problem, rng, n):
    """Trials, and the outcome of one more, of a function drawn from the model's own prior."""
    x = rng.random((n + 1, 2))
    x[:, 1] = NATURE.quantile(rng.random(n + 1))
    h = fit_history(problem, History()).hyperparameters
    covariance = h.signal_variance * h.product_kernel.to(x).matrix(x) + h.noise_sd**2 * np.eye(n + 1)
    y = np.linalg.cholesky(covariance) @ rng.standard_normal(n + 1)
    return make_history([(0, x[t], float(y[t]), 0.3) for t in range(n)]), float(x[n, 0]), float(y[n])


@pytest.mark.slow
def test_nineteen_of_twenty_trials_come_within_what_was_expected(problem):
    """Functions drawn from the model, one variable left alone, noise: the range holds 95 %, and z is standard."""
    problem, rng, z = left_alone(problem), np.random.default_rng(0), []
    within = 0
    for _ in range(600):
        history, at, y = drawn_history(problem, rng, 6)
        expected = forecast(problem, history, None, 0, (at,))
        within += expected.verdict(y) == "within"
        z.append((y - expected.mean) / expected.sd)
    assert within / 600 == pytest.approx(0.95, abs=0.025)
    assert np.std(z) == pytest.approx(1.0, abs=0.1)
    assert np.mean(z) == pytest.approx(0.0, abs=0.1)


def test_the_spread_of_one_trial_is_more_than_that_of_its_mean(problem):
    """What is left alone and noise belong to it: Monte Carlo over both agrees."""
    problem = left_alone(problem)
    history, at, _ = drawn_history(problem, np.random.default_rng(1), 12)
    expected = forecast(problem, history, None, 0, (at,))
    posterior, rng = fit_history(problem, history).posterior, np.random.default_rng(2)
    x = np.column_stack([np.full(20_000, at), NATURE.quantile(rng.random(20_000))])
    y = posterior.mean(x) + posterior.sd(x) * rng.standard_normal(len(x)) + 0.1 * rng.standard_normal(len(x))
    assert expected.mean == pytest.approx(y.mean(), abs=0.02)
    assert expected.sd == pytest.approx(y.std(), rel=0.03)
    down = replace(problem, maximise=False)
    turned = History.of(replace(o, y=-o.y) for o in history.observations)
    assert forecast(down, turned, None, 0, (at,)).mean == pytest.approx(-expected.mean)


def test_nothing_is_expected_before_anything_is_known(problem, golden):
    """Of the outcome while it has no unit, of the cost while the set was never tried."""
    learned = replace(problem, model=replace(problem.model, hyperparameters="learned"))
    assert forecast(learned, History(), None, 0, (0.5,)) is None
    assert forecast_cost(learned, History(), 0, (0.5,)) is None
    found = came_of(learned, History(), None, 0, (0.5,), outcome=3.0, cost=0.5)
    lines = told(found, outcome="growth", unit="cm2", currency="EUR")
    golden(lines)


def test_a_cost_is_held_against_what_the_set_has_cost(problem):
    """Mean, and the most that the budget counts with: of four costs more than two standard deviations up."""
    history = make_history([(0, (0.5, 0.5), 1.0, cost) for cost in (0.3, 0.32, 0.28, 0.3)])
    expected = forecast_cost(problem, history, 0, (0.5,))
    assert expected.mean == pytest.approx(0.3)
    assert 2 < (expected.high - 0.3) / np.std([0.3, 0.32, 0.28, 0.3], ddof=1) < 4.5
    assert [expected.verdict(c) for c in (0.2, 0.31, 0.4)] == ["below", "within", "above"]


@pytest.mark.parametrize(
    ("outcome", "cost", "lines"),
    [
        (13.4, 0.69, ("growth was 13.40 cm2: within the 12.80 to 14.00 expected of one trial.",
                      "It cost 0.69 EUR, as expected (0.65, at most 0.82).")),
        (11.0, 0.9, ("growth was 11.00 cm2: below the 12.80 to 14.00 expected of one trial.",
                     "It cost 0.9 EUR, more than expected (0.65, at most 0.82).")),
        (None, 0.1, ("It gave no outcome.", "It cost 0.1 EUR, less than expected (0.65, at most 0.82).")),
    ],
)  # fmt: skip
def test_what_came_of_it_is_told_plainly(outcome, cost, lines):
    """Above, below or within, for outcome and cost."""
    found = CameOf(outcome, Prediction(13.4, 0.306, 12.8, 14.0), cost, Prediction(0.65, 0.085, 0.48, 0.82))
    said = told(found, outcome="growth", unit="cm2", currency="EUR")
    assert said == lines
    assert not any(unreadable(line) for line in said)
