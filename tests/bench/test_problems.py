"""What policies are told of a problem, what they are not, and which names there are."""

import numpy as np
import pytest
from scipy.stats import qmc

from rigctl.bench.cell import Cell, PolicySpec
from rigctl.bench.problems.catalogue import bench_problem, catalogue, check, entry_of
from rigctl.bench.problems.problem import COST_SETS, TrialCosts, control_set_problem, recipes
from rigctl.errors import UsageError
from tests.bench.arrays import write_arrays
from tests.profiles import nightly_beyond, slow_beyond

NODES = 1 << 11
PUBLISHED = {"hartmann3": 3.86278, "hartmann6+6": 3.32237, "ackley6+6": 0.0}


class Problems(dict):
    """Every problem with control sets, moderate costs, variance 0.04; solved when it is first asked for."""

    def __init__(self, data):
        super().__init__()
        self.data = data

    def __missing__(self, name):
        self[name] = control_set_problem(name, "moderate", 0.04, 0, self.data)
        return self[name]


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    return Problems(write_arrays(tmp_path_factory.mktemp("arrays")))


def by_brute_force(problem, control_set, setting):
    nodes = qmc.Sobol(problem.space.dimension, rng=np.random.default_rng(5)).random(NODES)
    x = np.stack([v.marginal.quantile(nodes[:, i]) for i, v in enumerate(problem.space.variables)], axis=1)
    x[:, list(problem.space.control_sets[control_set].indices)] = setting
    values = problem.objective(x)
    return values.mean(), values.std() / np.sqrt(NODES)


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_beyond(2, sorted(recipes(), key="gp-sample3".__eq__)))
def test_values_of_settings(name, problems):
    """F of random settings of every control set is the mean of the function over what is not controlled."""
    problem, rng = problems[name], np.random.default_rng(7)
    for i, chosen in enumerate(problem.space.control_sets):
        setting = rng.random(len(chosen.indices))
        expected, error = by_brute_force(problem, i, setting)
        assert problem.truth.value(i, setting[None])[0] == pytest.approx(expected, abs=0.5 * error + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_beyond(len(recipes()) - 1, sorted(recipes(), key="gp-sample3".__eq__)))
def test_maxima_are_reached_and_never_exceeded(name, problems):
    """The best setting has the best value, and no random or slightly moved setting is better (1e-4 of the range)."""
    problem, rng = problems[name], np.random.default_rng(8)
    values = problem.objective(rng.random((2000, problem.space.dimension)))
    slack = 1e-4 * (max(b.value for b in problem.truth.best) - values.min())
    for i, best in enumerate(problem.truth.best):
        at = np.array(best.setting)
        assert problem.truth.value(i, at[None])[0] == pytest.approx(best.value, abs=1e-9)
        near = np.clip(at + rng.standard_normal((300, len(at))) * rng.choice([1e-3, 1e-2, 0.1], (300, 1)), 0, 1)
        tried = np.concatenate([rng.random((1000, len(at))), near])
        assert problem.truth.value(i, tried).max() <= best.value + slack


@pytest.mark.parametrize("name", slow_beyond(1, PUBLISHED))
def test_full_control_reaches_the_published_optimum(name, problems):
    """The set of all variables (last) is as good as the function itself."""
    assert problems[name].truth.best[-1].value == pytest.approx(PUBLISHED[name], abs=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hartmann6+6", "ackley6+6", "levy6+6"])
def test_useless_variables_change_nothing(name, problems):
    """Controlling them is as good as controlling nothing, and adding them to the useful ones gains nothing."""
    best = [b.value for b in problems[name].truth.best]
    assert best[2] == best[3] == best[5]
    assert best[4] == pytest.approx(best[6], abs=1e-12)
    assert best[4] > max(best[0], best[1]) > best[2]


@pytest.mark.slow
def test_more_variance_blurs(problems):
    """The value of controlling little falls as what is left alone varies more; full control does not care."""
    best = {v: control_set_problem("hartmann3", "cheap", v, 0).truth.best for v in (0.02, 0.08)}
    assert best[0.02][2].value > problems["hartmann3"].truth.best[2].value > best[0.08][2].value
    assert best[0.02][6].value == pytest.approx(best[0.08][6].value, abs=1e-9)


def cell(problem: str, costs: str | None = None, data: str | None = None) -> Cell:
    return Cell(problem, costs or entry_of(problem).usual, 0.04, PolicySpec("p", "p"), 0, 10.0, data)


def test_every_named_problem_can_be_built(tmp_path):
    """All names: the outcome has the promised shape, the initial points lie in the cube, the budget is told."""
    data = str(write_arrays(tmp_path))
    assert len(catalogue()) == len(set(catalogue())) >= 18
    for name in catalogue():
        bench = bench_problem(cell(name, data=data), solved=False)
        points = bench.initial_points(np.random.default_rng(0))
        outcomes = np.asarray(bench.objective(points)).reshape(len(points), -1)
        assert outcomes.shape == (len(points), 1 + len(bench.further))
        assert points.shape[1] == bench.space.dimension
        assert ((points >= 0) & (points <= 1)).all()
        assert bench.problem(10.0).budget == 10_000_000


@pytest.mark.parametrize("name", recipes())
def test_control_sets_are_seven_with_costs_by_position(name):
    """As in the papers' appendices: seven sets, three cheap, three dearer, one dearest."""
    recipe = recipes()[name]
    assert len(recipe.control_sets) == len(COST_SETS["moderate"]) == 7
    assert len(recipe.control_sets[0]) <= len(recipe.control_sets[4])


def test_uncontrolled_variables_have_the_named_variance():
    """The variance is the variable's own, the mean 0.5."""
    bench = control_set_problem("hartmann3", "cheap", 0.08, 0, solved=False)
    draws = bench.space.variables[0].marginal.quantile(np.random.default_rng(0).random(20_000))
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert draws.var() == pytest.approx(0.08, rel=0.03)


def test_costs_are_unknown_and_noisy_where_they_are_large():
    """N(mean, 0.02) from 0.1 on, exact below, never down to nothing; told to nobody."""
    costs = TrialCosts.named("cheap")
    deviates = np.random.default_rng(0).standard_normal(4000)
    drawn = np.array([costs.draw(3, (), float(z)) for z in deviates])
    assert drawn.mean() == pytest.approx(0.1, abs=0.002)
    assert drawn.std() == pytest.approx(0.02, rel=0.05)
    assert {costs.draw(0, (), float(z)) for z in deviates} == {0.01}
    assert costs.draw(3, (), -50.0) > 0
    assert costs.known is None


@pytest.mark.parametrize(("kind", "told"), [("-exact", None), ("-known", (0.6, 0.6, 0.6, 0.8, 0.8, 0.8, 1.0))])
def test_costs_can_be_exact_and_told(kind, told):
    """`-exact` never varies, `-known` is told to the policies too."""
    costs = TrialCosts.named(f"expensive{kind}")
    assert {costs.draw(5, (), z) for z in (-3.0, 0.0, 2.0)} == {0.8}
    assert costs.known == told


def test_the_papers_fixed_model_is_asked_for_by_name():
    """`hyperparameters: fixed` brings the papers' lengthscale and noise; single options can still be set."""
    bench = control_set_problem("hartmann3", "moderate", 0.04, 0, solved=False)
    assert bench.problem(1.0).model.hyperparameters == "learned"
    model = bench.problem(1.0, {"hyperparameters": "fixed", "beta": 3.0}).model
    assert (model.lengthscales, model.signal_sd, model.noise_sd, model.beta) == ((0.1,) * 3, 1.0, 0.01, 3.0)


def test_full_control_costs_depend_on_the_setting_and_are_told():
    """`varying` costs more towards the upper corner; policies know the field."""
    bench = bench_problem(cell("ackley4", "varying"))
    assert bench.costs.mean(0, (1.0,) * 4) > bench.costs.mean(0, (0.0,) * 4) > 0
    assert bench.costs.draw(0, (0.5,) * 4, 9.0) == bench.costs.mean(0, (0.5,) * 4)
    assert bench.problem(1.0).known_cost_field is not None
    assert bench.problem(1.0).cost_model == "per-setting"


@pytest.mark.parametrize(
    ("problem", "costs", "message"),
    [
        ("hartman3", "cheap", 'problem: got "hartman3".*did you mean "hartmann3"'),
        ("hartmann3", "moderat", 'costs of hartmann3: got "moderat".*did you mean "moderate"'),
        ("ackley8", "cheap", 'costs of ackley8: got "cheap", must be one of uniform'),
        ("airfoil", "cheap", r"airfoil\.npz.*--data DIR"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(problem, costs, message):
    """A problem, costs or data that are not there are refused before anything runs."""
    with pytest.raises(UsageError, match=message):
        check(cell(problem, costs))
