"""Costs that depend on the setting, and the field a policy is given whichever way costs are known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import lognorm

from rigctl.core.costs.beliefs import believe, horizon
from rigctl.core.costs.fields import cost_field, cost_process, fewest, predicted_upper
from rigctl.core.experiment.history import History, Memo, Observation
from rigctl.core.experiment.money import to_micros, to_units
from tests.core.conftest import make_history
from tests.core.plain import slopes
from tests.profiles import share

X = (0.5, 0.5)


def dosing(setting):
    """What a dose costs: nothing below 0.3, then more and more; plus labour."""
    return 0.2 + 3.0 * np.maximum(setting - 0.3, 0.0) ** 1.5


def metered(count, noise=0.1, seed=0, k=1):
    rng = np.random.default_rng(seed)
    x = rng.random((count, k))
    return x, dosing(x[:, 0]) * np.exp(noise * rng.standard_normal(count) - noise**2 / 2)


def per_setting(problem, history, **changes):
    return cost_field(replace(problem, cost_model="per-setting", **changes), history)


def charged(control_set, x, costs, first=1):
    return [
        Observation(t, control_set, tuple(row), 1.0, to_micros(float(c)))
        for t, (row, c) in enumerate(zip(np.atleast_2d(x).tolist(), costs, strict=True), start=first)
    ]


@pytest.mark.parametrize("k", [1, 3])
def test_it_finds_what_a_dose_costs(k):
    """Within a tenth of the truth inside the range, and new trials cost less than `upper` about 19 of 20 times."""
    process = cost_process(*metered(80, k=k))
    at = np.full((9, k), 0.5)
    at[:, 0] = np.linspace(0.05, 0.95, 9)
    np.testing.assert_allclose(process.mean(at), dosing(at[:, 0]), rtol=0.1)
    fresh, costs = metered(1000, seed=1, k=k)
    assert 0.93 <= np.mean(costs <= process.upper(fresh)) <= 0.999


def test_the_mean_is_the_log_normals():
    """By integration of scipy's density, `upper` no lower than two deviations up; where played often their mean."""
    process = cost_process(*metered(20))
    at = np.array([[0.1], [0.9], [1.4]])
    m = process.posterior.mean(at)
    s = np.sqrt(process.posterior.sd(at) ** 2 + process.noise)
    for i in range(3):
        law = lognorm(s[i], scale=np.exp(m[i]))
        expected = quad(lambda c, law=law: c * law.pdf(c), 0, law.ppf(1 - 1e-12), limit=200)[0]
        assert process.mean(at)[i] == pytest.approx(expected, rel=1e-5)
        assert law.cdf(process.upper(at)[i]) > 0.977
    x, costs = metered(60, noise=0.5)
    x[::2], costs[::2] = 0.6, 1.0 * np.exp(0.5 * np.random.default_rng(5).standard_normal(30))
    found = cost_process(x, costs).mean(np.array([[0.6]]))[0]
    assert found == pytest.approx(costs[::2].mean(), rel=0.12)


@pytest.mark.parametrize("k", [1, 2])
def test_the_gradient_is_that_of_the_mean(k):
    """As central differences have it, also outside the range."""
    process = cost_process(*metered(25, k=k))
    at = np.random.default_rng(4).random((6, k)) * 1.3
    np.testing.assert_allclose(process.gradient(at), slopes(process.mean, at), rtol=1e-4, atol=1e-7)


def test_a_few_trials_or_equal_costs_are_no_process():
    """A constant says as much, and says it exactly; a hundred times the dearest is the most."""
    x, costs = metered(fewest(2), k=2)
    assert cost_process(x[:-1], costs[:-1]) is None
    assert cost_process(x, np.full(len(x), 0.3)) is None
    assert cost_process(x, costs) is not None
    x, costs = np.array([[0.4], [0.41], [0.42], [0.43]]), np.array([0.1, 0.3, 1.0, 3.0])
    far = np.array([[0.8]])
    assert cost_process(x, costs).upper(far)[0] <= 100.0 * 3.0 * (1 + 1e-12)


@pytest.mark.parametrize("free", [1, 10, 19])
def test_free_trials_break_nothing(free):
    """Zero has no logarithm: everything stays finite and positive, and the dear trials stay dear."""
    x, costs = np.linspace(0, 1, 20)[:, None], np.zeros(20)
    costs[free:] = 0.5
    process = cost_process(x, costs)
    at = np.linspace(-0.2, 1.2, 8)[:, None]
    for values in (process.mean(at), process.upper(at)):
        assert np.all(np.isfinite(values) & (values >= 1e-6 * (1 - 1e-12)))
    assert np.isfinite(process.gradient(at)).all()
    assert 0.25 < process.mean(np.array([[1.0]]))[0] < 1.0
    assert process.mean(np.array([[0.0]]))[0] < 0.05


@share(0.15)
@given(st.floats(1e-2, 1e6), st.integers(0, 99))
def test_the_currency_does_not_matter(rate, seed):
    """The same costs in another currency: the same predictions in that currency."""
    x, costs = metered(12, seed=seed)
    at = np.array([[0.2], [0.8]])
    here, there = cost_process(x, costs), cost_process(x, rate * costs)
    np.testing.assert_allclose(there.mean(at), rate * here.mean(at), rtol=1e-3)
    np.testing.assert_allclose(there.upper(at), rate * here.upper(at), rtol=1e-3)


def test_what_is_carried_along_decides_nothing():
    """With the memo of a shorter or of a foreign history the process comes out the same, bit for bit."""
    x, costs = metered(40)
    memo, at = Memo(), np.linspace(0, 1, 5)[:, None]
    for count in (10, 20, 35):
        cost_process(x[:count], costs[:count], memo=memo)
    cost_process(x[::-1], costs[::-1], memo=memo)
    with_memo = [cost_process(x, costs, memo=memo) for _ in range(2)]
    for process in with_memo:
        np.testing.assert_array_equal(process.mean(at), cost_process(x, costs).mean(at))


def test_a_known_field_is_used_as_it_is(problem):
    """A known field whatever else is known; known costs per set, free ones nearly free, whatever the setpoints."""
    known = per_setting(problem, History())
    assert cost_field(replace(problem, known_cost_field=known, known_costs=(1.0, 2.0, 3.0)), History()) is known
    field = per_setting(problem, History.of(charged(0, np.full((9, 2), 0.5), [9] * 9)), known_costs=(0.1, 0.0, 1.0))
    at = np.array([[0.1], [0.9]])
    assert field.mean(0, at).tolist() == field.upper(0, at).tolist() == [0.1, 0.1]
    assert field.mean(1, at).tolist() == [1e-6, 1e-6]
    assert field.upper(1, at).tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(field.gradient(2, np.array([[0.1, 0.2]])), [[0.0, 0.0]])


def test_a_set_never_tried_may_be_as_cheap_as_the_cheapest(problem):
    """Its mean is the smallest seen; a set with trials enough has a process of its own variables, others a mean."""
    field = cost_field(problem, make_history([(0, X, 1.0, 0.7), (1, X, 1.0, 0.3)]))
    at = np.array([[0.5, 0.5]])
    assert field.mean(2, at)[0] == 0.3
    assert field.upper(2, at)[0] > 0.7 + 0.3
    for ceiling, expected in ((None, 1.0), (2.5, 2.5)):
        fresh = cost_field(replace(problem, cost_ceiling=ceiling), History())
        assert [fresh.mean(i, at)[0] for i in range(3)] == [expected] * 3
    x, costs = metered(30)
    inputs = np.stack([np.random.default_rng(9).random(30), x[:, 0]], axis=1)  # b is dosed, a is left alone
    rows = charged(1, inputs, costs) + charged(0, np.full((2, 2), 0.5), [0.4, 0.6], first=31)
    at = np.array([[0.1], [0.9]])
    field = per_setting(problem, History.of(rows))
    np.testing.assert_allclose(field.mean(1, at), cost_process(x, costs).mean(at), rtol=1e-3)
    assert field.upper(1, at)[1] > 1.5 * field.upper(1, at)[0]
    assert field.gradient(1, at)[1, 0] > 0
    assert field.mean(0, at).tolist() == [0.5, 0.5]
    flat = cost_field(problem, History.of(rows))
    assert flat.mean(1, at).tolist() == [pytest.approx(np.mean(costs), rel=1e-5)] * 2


def test_trials_without_a_setting_count_for_the_mean_only(problem):
    """A failed trial's cost is one of its set; estimates are not, nor are points known beforehand, or trials."""
    x, costs = metered(8)
    rows = charged(0, np.repeat(x, 2, axis=1), costs)
    lost = [Observation(50 + i, 0, None, None, to_micros(9)) for i in range(4)]
    estimated = [Observation(60, 0, (0.0, 0.0), 1.0, to_micros(90), cost_known=False)]
    beforehand = [Observation(70 + i, -1, X, 1.0, 0) for i in range(5)]
    at = np.array([[0.5]])
    plain = per_setting(problem, History.of(rows))
    field = per_setting(problem, History.of([*beforehand, *rows, *lost, *estimated]))
    np.testing.assert_array_equal(field.mean(0, at), plain.mean(0, at))
    known = [*[to_units(o.cost) for o in rows], 9, 9, 9, 9]
    assert cost_field(problem, History.of([*rows, *lost])).mean(0, at)[0] == pytest.approx(np.mean(known))
    rows = make_history([(0, X, 1.0, 0.5)] * 4).observations
    beforehand = [Observation(10 + i, -1, X, 1.0, 0) for i in range(5)]
    assert horizon(problem, History.of([*beforehand, *rows])) == horizon(problem, History.of(rows)) == 20.0


def test_a_trial_that_costs_exactly_what_is_left_runs(problem):
    """Where costs never vary the prediction is exact to the micro-unit, per set or per setting."""
    cents = to_micros("0.1")
    history = make_history([(0, (i / 10, 0.5), 1.0, 0.1) for i in range(10)])
    for model in ("per-set", "per-setting"):
        assert predicted_upper(replace(problem, cost_model=model), history, 0, (0.3,)) == cents
    assert predicted_upper(problem, history, 0, (0.3,)) == believe(problem, history, "hoeffding")[0].upper


def test_what_a_trial_may_cost_depends_on_where(problem):
    """A setting that needs no dose fits a budget that a dear one does not."""
    x, costs = metered(40, noise=0.05)
    history = History.of(charged(0, np.repeat(x, 2, axis=1), costs))
    problem = replace(problem, cost_model="per-setting")
    cheap, dear = (predicted_upper(problem, history, 0, (at,)) for at in (0.1, 0.95))
    assert to_micros(0.2) < cheap < to_micros(0.3)
    assert 1.0 < to_units(dear) / dosing(0.95) < 1.4
    field = cost_field(problem, history)
    assert predicted_upper(problem, history, 0, (0.95,), field) == dear
    assert believe(problem, history, "hoeffding")[0].upper > 5 * cheap  # which of all settings together says nothing
