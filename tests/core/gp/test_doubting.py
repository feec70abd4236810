"""Single outcomes that all others speak against are left out of the model, and nothing else is."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.experiment.history import History, Memo, Observation
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import ModelOptions, Problem, value_floor
from rigctl.core.gp.doubting import DOUBTED, believable, doubted, judged, without
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import fit_history, given_without
from rigctl.core.gp.noticing import OutcomeRecord
from rigctl.core.gp.surrogate import fit
from tests.core.conftest import unit_space

OPTIONS = ModelOptions(kernel="matern-5/2")
H = Hyperparameters((0.5, 0.5), signal_sd=1.2, noise_sd=0.1, y_shift=1.0, y_scale=0.8, kernel="matern-5/2")
FALSE = 17


def response(x):
    return 1.0 + np.sin(4 * x[:, 0]) * np.cos(2 * x[:, 1])


def trials(n=40, seed=0, false=None):
    """Outcomes with little noise; that of `FALSE` as `false` says."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    y = response(x) + 0.05 * rng.standard_normal(n)
    if false is not None:
        y[FALSE] = false
    return x, y


def record_of(x, y):
    return OutcomeRecord(x, y, np.arange(1.0, len(y) + 1), float(len(y)))


def by(record, h=H):
    return fit(record.x, record.y, OPTIONS, h, refit=False)


def problem_of(**options):
    return Problem(unit_space(sets=[["a"], ["a", "b"]]), to_micros(50), model=replace(OPTIONS, **options))


def history_of(x, y):
    rows = zip(x.tolist(), y.tolist(), strict=True)
    return History.of(Observation(t, 1, tuple(at), v, to_micros(1)) for t, (at, v) in enumerate(rows, start=1))


def test_errors_are_those_of_models_that_were_never_given_the_outcome():
    """An outcome is left out if, and only if, it is further off than believable by a model of all others."""
    found, limit = set(), believable(40, 2)
    for false in np.linspace(0.2, 1.8, 9):
        record = record_of(*trials(false=false))
        rest = by(without(record, np.array([FALSE])))
        at, noise = record.x[FALSE : FALSE + 1], H.y_scale * H.noise_sd
        off = abs(record.y[FALSE] - rest.mean(at)[0]) / np.hypot(rest.sd(at)[0], noise)
        assert (FALSE in doubted(record, OPTIONS, by(record))) == (off > limit)
        found.add(off > limit)
    assert found == {True, False}


def test_of_fewer_outcomes_more_is_believable():
    """Of very many outcomes one may be four spreads off, of fewer more, and of hardly any all that there is."""
    limits = [believable(n, 3) for n in (7, 10, 20, 50, 1000, 10**6)]
    assert limits == sorted(limits, reverse=True)
    assert limits[-1] == pytest.approx(DOUBTED, abs=1e-3)
    assert believable(6, 3) == np.inf


def test_without_a_strange_outcome_nothing_is_changed_by_a_bit():
    """Posterior and learned hyper-parameters are those of all outcomes."""
    x, y = trials()
    fitted = fit_history(problem_of(), history_of(x, y))
    plain = fit(x, y, OPTIONS)
    assert fitted.posterior.left_out == ()
    assert fitted.hyperparameters == plain.hyperparameters
    np.testing.assert_array_equal(fitted.posterior.alpha, plain.alpha)
    then = fit_history(problem_of(), history_of(x, y), fitted.hyperparameters, len(y))
    np.testing.assert_array_equal(then.posterior.alpha, plain.alpha)


@pytest.mark.parametrize("false", [3.5, -2.0, 250.0, -25.0, 1e9])
def test_hyperparameters_learned_with_a_false_outcome_do_not_make_room_for_it(false):
    """Learned afresh from all outcomes, the model is the one that was never given the false one."""
    x, y = trials(false=false)
    fitted = fit_history(problem_of(), history_of(x, y))
    rest = without(record_of(x, y), np.array([FALSE]))
    plain = fit(rest.x, rest.y, OPTIONS).hyperparameters
    assert fitted.posterior.left_out == (FALSE,)
    assert fitted.hyperparameters.noise_sd * fitted.hyperparameters.y_scale == pytest.approx(
        plain.noise_sd * plain.y_scale, rel=0.05
    )
    assert np.abs(fitted.posterior.mean(x) - response(x)).max() < 0.15


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (1.0, 1e4), (-3.0, 7.0)])
def test_units_of_the_outcome_change_nothing(factor, shift):
    """Scaled, shifted or minimised, the same outcomes are left out."""
    x, y = trials(false=3.0)
    problem = replace(problem_of(), maximise=factor > 0)
    assert fit_history(problem, history_of(x, factor * y + shift)).posterior.left_out == (FALSE,)


@pytest.mark.slow
def test_an_outcome_is_believed_as_soon_as_two_more_bear_it_out():
    """A sharp hill is learnt when it is played again twice: one repetition may be lucky, too."""
    x, y = trials(false=3.0)
    known = fit_history(problem_of(), history_of(x, y)).hyperparameters
    places = [np.concatenate([x, np.repeat(x[FALSE : FALSE + 1], more, axis=0)]) for more in (1, 2)]
    for previous, at in ((known, len(y)), (None, 0)):
        once = fit_history(problem_of(), history_of(places[0], np.append(y, 3.02)), previous, at)
        assert once.posterior.left_out == (FALSE, len(y))
        twice = fit_history(problem_of(), history_of(places[1], np.append(y, [3.02, 2.97])), previous, at)
        assert not {FALSE, len(y), len(y) + 1} & set(twice.posterior.left_out)
        assert twice.posterior.mean(x[FALSE : FALSE + 1])[0] > 2.0


def test_two_lucky_outcomes_at_one_place_do_not_make_the_true_ones_around_them_false():
    """Two predict each other, but all others speak against both; so do three of nine at one place."""
    x, y = trials()
    x[30], y[[FALSE, 30]] = x[FALSE], 3.0
    x[[5, 9, 12]] = x[FALSE] + [[0.04, 0.0], [-0.03, 0.03], [0.0, -0.04]]
    y[[5, 9, 12]] = response(x[[5, 9, 12]])
    assert fit_history(problem_of(), history_of(x, y)).posterior.left_out == (FALSE, 30)
    x, y = trials()
    there = np.arange(2, 38, 4)
    x[there] = x[FALSE]
    y[there] = response(x[there]) + 0.05 * np.random.default_rng(1).standard_normal(len(there))
    false = there[1:4]
    y[false] = 3.0
    assert fit_history(problem_of(), history_of(x, y)).posterior.left_out == tuple(false.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_two_lucky_outcomes_are_told_from_two_true_ones_beside_them(seed):
    """All four are at one place, and each two predict each other."""
    x, y = trials(16, seed)
    x[[5, 8, 10]] = x[3] + [[0.0, 0.0], [0.06, 0.0], [0.0, -0.06]]
    y[[3, 5, 8, 10]] = 3.0, 3.0, *response(x[[8, 10]])
    record = record_of(x, y)
    assert doubted(record, OPTIONS, by(record)).tolist() == [3, 5]


@pytest.mark.slow
def test_three_in_succession_are_no_outliers_but_a_change():
    """Two outcomes after a step are left out; with the third all three count, and a step is noticed."""
    x, y = trials(60)
    y[40:] += 2.0
    known = fit_history(problem_of(), history_of(x[:40], y[:40])).hyperparameters
    out = [fit_history(problem_of(), history_of(x[:n], y[:n]), known, 40).posterior.left_out for n in (41, 42, 43)]
    assert out == [(40,), (40, 41), ()]
    found, at = known, 40
    for n in range(41, 61):
        fitted = fit_history(problem_of(), history_of(x[:n], y[:n]), found, at)
        found, at = fitted.hyperparameters, fitted.fitted_at
    assert [t.kind for t in found.ageing] == ["step"]
    assert abs(found.ageing[0].change - 2.0) < 0.2


@pytest.mark.slow
def test_of_many_trials_false_ones_are_found_too():
    """Where inducing inputs stand for the trials."""
    x, y = trials(130, false=12.0)
    known = fit_history(problem_of(max_points=60), history_of(x, y)).hyperparameters
    fitted = fit_history(problem_of(max_points=60), history_of(x, y), known, len(y))
    assert fitted.posterior.left_out == (FALSE,)


def test_several_false_outcomes_do_not_hide_one_another():
    """Two of forty that are a hundredfold are left out both; the floor stays what it is without a false one."""
    x, y = trials()
    y[[5, 30]] *= 100.0
    left_out, learned = judged(record_of(x, y), OPTIONS, None, Memo())
    assert left_out.tolist() == [5, 30]
    assert learned.hyperparameters.y_scale < 2.0
    x, y = trials(false=-25.0)
    problem, history = problem_of(), history_of(x, y)
    assert value_floor(problem, history, fit_history(problem, history).posterior.left_out) == np.delete(y, FALSE).min()


def test_a_posterior_without_some_trials_is_that_of_the_others():
    """By the same hyper-parameters, and it says which are left out."""
    x, y = trials()
    posterior = fit_history(problem_of(), history_of(x, y)).posterior
    found = given_without(problem_of(), history_of(x, y), posterior, (3, 8))
    rest = without(record_of(x, y), np.array([3, 8]))
    np.testing.assert_array_equal(found.alpha, by(rest, posterior.hyperparameters).alpha)
    assert found.left_out == (3, 8)
