"""Hyper-parameters that outcomes leave open are drawn, and intervals allow for them."""

import numpy as np
import pytest

from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.expectations import errors
from rigctl.core.experiment.history import History
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import ModelOptions, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import MOST_ROWS, fit_history, with_plausible
from rigctl.core.gp.noticing import OutcomeRecord
from rigctl.core.gp.plausible import plausible
from rigctl.core.gp.priors import LogLikelihood, log_prior
from rigctl.core.gp.surrogate import fit
from tests.core.conftest import make_history

OPTIONS = ModelOptions(kernel="matern-5/2")


def record_of(n, d=1, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    y = np.sin(6 * x[:, 0]) + noise * rng.standard_normal(n)
    return OutcomeRecord(x, y, np.arange(1.0, n + 1), float(n))


def logs(drawn):
    return np.log([[h.signal_sd, h.noise_sd, *h.lengthscales] for h in drawn])


def problem_of(model=OPTIONS):
    space = Space.of([Variable(n, "", 0.0, 1.0, Uniform()) for n in "ab"], [["a"], ["a", "b"]])
    return Problem(space, to_micros(50), model=model)


def test_the_same_draws_come_of_the_same_state():
    """Bit for bit, and they are not all one."""
    record = record_of(12)
    mode = fit(record.x, record.y, OPTIONS).hyperparameters
    one, other = (plausible(record, mode, "dimension-scaled", np.random.default_rng(3)) for _ in range(2))
    assert one == other
    assert len(set(one)) > len(one) // 2


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["dimension-scaled", "gamma"])
def test_draws_are_those_of_the_posterior_on_a_grid(prior):
    """Means and spreads of all draws of some campaigns against sums over a grid of theta."""
    record = record_of(9)
    options = ModelOptions(kernel="matern-5/2", prior=prior)
    mode = fit(record.x, record.y, options).hyperparameters
    y = (record.y - mode.y_shift) / mode.y_scale
    likelihood, density = LogLikelihood(record.x, y, mode.kernel), log_prior(prior, 1)
    axes = [np.linspace(-2.5, 4, 21), np.linspace(-8, 1.5, 21), np.linspace(-5, 4, 25)]
    theta = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    height = [likelihood.value_and_gradient(t)[0] + density.value_and_gradient(t)[0] for t in theta]
    weight = np.exp(np.array(height) - max(height))
    weight /= weight.sum()
    mean = weight @ theta
    sd = np.sqrt(weight @ np.square(theta - mean))
    drawn = np.concatenate([logs(plausible(record, mode, prior, np.random.default_rng(k))) for k in range(20)])
    assert (np.abs(drawn.mean(axis=0) - mean) < 0.5 * sd).all()
    assert drawn.std(axis=0) == pytest.approx(sd, rel=0.4)


def test_many_outcomes_leave_less_open_than_few():
    """In every direction, and in the widest less than half."""
    few, many = (record_of(n) for n in (5, 120))
    spreads = [
        logs(plausible(r, fit(r.x, r.y, OPTIONS).hyperparameters, "dimension-scaled", np.random.default_rng(0))).std(
            axis=0
        )
        for r in (few, many)
    ]
    assert (spreads[1] < spreads[0]).all()
    assert spreads[1].max() < 0.5 * spreads[0].max()


def test_given_hyperparameters_leave_nothing_open():
    """Who gives them knows them."""
    fixed = ModelOptions(hyperparameters="fixed", lengthscales=(0.3, 0.3), signal_sd=1.0, noise_sd=0.1, mean=0.0)
    history = make_history([(1, x, float(x[0]), 1.0) for x in np.random.default_rng(0).random((8, 2))])
    posterior = fit_history(problem_of(fixed), history).posterior
    assert with_plausible(problem_of(fixed), history, posterior) == (posterior,)


@pytest.mark.slow
def test_so_many_outcomes_are_taken_to_leave_nothing_open():
    """Their draws would cost more than they tell."""
    x = np.random.default_rng(0).random((MOST_ROWS + 1, 2))
    history = make_history([(1, at, float(at[0]), 1.0) for at in x])
    posterior = fit_history(problem_of(), history, Hyperparameters((0.5, 0.5), 1.0, 0.1)).posterior
    assert len(with_plausible(problem_of(), history, posterior)) == 1


def test_errors_are_those_of_the_first_means():
    """A mixture's mean products about one point, by plain draws."""
    rng = np.random.default_rng(1)
    means = [rng.normal(size=2) for _ in range(3)]
    roots = [rng.normal(size=(2, 2)) for _ in range(3)]
    draws = np.concatenate([m + rng.standard_normal((200_000, 2)) @ r.T for m, r in zip(means, roots, strict=True)])
    off = draws - means[0]
    assert errors(means, [r @ r.T for r in roots]) == pytest.approx(off.T @ off / len(off), rel=0.02, abs=0.02)


@pytest.mark.slow
def test_few_outcomes_tell_of_a_wide_interval():
    """The model takes four outcomes on a line for all there is, though they may as well be four of a ripple."""
    problem = problem_of()
    x = np.array([[0.1, 0.5], [0.4, 0.5], [0.6, 0.5], [0.9, 0.5]])
    history = make_history([(1, at, float(at[0]), 1.0) for at in x])
    found = recommend(problem, history, trial_rng(0, 1), 0.0).choice
    alone = fit_history(problem, history, under_way=False).posterior
    assert isinstance(history, History)
    at = np.array([[found.setpoints["a"], found.setpoints.get("b", 0.5)]])
    assert found.high - found.low > 4 * 1.96 * float(alone.sd(at)[0])
