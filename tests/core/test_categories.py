"""Categories: levels without an order, in the model, in what nature does, in the search, and from Python."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigctl import Experiment, FurtherOutcome, History, ModelOptions, Space, UsageError, category, recommend, variable
from rigctl.core.advice.rules.short import Pool
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.bounds.ascent import neighbours
from rigctl.core.bounds.best import best_bounds
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.kernels import ProductKernel
from rigctl.core.experiment.marginals.families import Discrete, Uniform
from rigctl.core.experiment.natural import persistences, present
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.priors import LogLikelihood
from rigctl.core.gp.surrogate import fit
from tests.core.plain import slopes
from tests.core.setpoints import POLICIES, campaign, policy_of, problem_of
from tests.profiles import nightly_beyond, slow_beyond

KERNELS = ("squared-exponential", "matern-5/2")
LEVELS = (0, 4, 3)
KINDS = ("explore-then-commit", "ca-mobo", "pbgi", "ts-psq", "ucb-cvs")
"""One policy of each way to search."""
OTHERS = sorted(set(POLICIES) - {"likely-maximisers", *KINDS})
WORDS = ("A", "B", "C", "D")
NOZZLES = {"A": 0.1, "B": 0.6, "C": 0.3, "D": 0.9}
"""What each is worth: no order of the levels is an order of these."""
MIXED = (
    variable("a", 0.0, 1.0, natural=(0.5, 0.2)),
    category("b", WORDS, natural={"A": 0.5, "B": 0.25, "C": 0.25}),
    category("c", ("x", "y", "z")),
)


def points(count, rng):
    return np.stack([rng.random(count), rng.integers(4, size=count) / 3, rng.integers(3, size=count) / 2], axis=1)


def test_no_line_of_a_rule_reckons_with_levels():
    """Numbers follow numbers that are read and not set; a category follows nothing, and nothing follows it."""
    space = Space.of((variable("d", 0.0, 1.0, natural=(0.5, 0.2)), *MIXED), [["a"], ["b"], ["a", "b"]])
    pool = Pool(None, SimpleNamespace(space=space), None, (0, 1, 2, 3))
    number, nothing = [True, False, False, False], [False] * 4
    assert [pool.followed(s).tolist() for s in range(3)] == [[number], [nothing], [number, nothing]]
    assert [pool.follows(s) for s in range(3)] == [True, False, True]


@pytest.mark.parametrize("name", KERNELS)
def test_levels_correlate_alike_whatever_their_order(name):
    """By the kernel of one variable, multiplied by hand; masked factors count as 1."""
    rng = np.random.default_rng(0)
    kernel, a, c = ProductKernel(name, np.array([0.4, 0.8, 1.5]), LEVELS), points(9, rng), points(7, rng)
    apart = ProductKernel(name, kernel.lengthscales)
    for mask in (None, rng.integers(2, size=a.shape).astype(float)):
        by_hand = np.ones((9, 7))
        for column in range(3):
            delta = a[:, None, column] - c[:, column]
            factor = apart.one(column).value(delta if column == 0 else (delta != 0).astype(float))
            by_hand *= factor if mask is None else np.where(mask[:, column, None] == 0, 1.0, factor)
        np.testing.assert_allclose(kernel.matrix(a, c, mask), by_hand, rtol=1e-12)
    slopes = kernel.to(c).contract_slopes(a, np.ones((9, 7)))
    assert (slopes[:, 1:] == 0).all()
    assert (slopes[:, 0] != 0).all()


@pytest.mark.parametrize("name", KERNELS)
def test_the_likelihood_is_that_of_the_same_kernel(name):
    """By scipy's density, and its gradient by differences."""
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(1)
    x, y, theta = points(12, rng), rng.standard_normal(12), np.log([1.1, 0.3, 0.5, 0.7, 1.2])
    likelihood = LogLikelihood(x, y, name, levels=LEVELS)
    value, gradient = likelihood.value_and_gradient(theta)
    K = 1.1**2 * ProductKernel(name, np.exp(theta[2:]), LEVELS).matrix(x, x) + 0.09 * np.eye(12)
    assert value == pytest.approx(multivariate_normal(cov=K).logpdf(y), rel=1e-10)
    found = slopes(lambda rows: np.array([likelihood.value_and_gradient(t)[0] for t in rows]), theta[None], 1e-5)[0]
    assert gradient == pytest.approx(found, abs=1e-5)


def test_hyperparameters_go_through_json():
    """With the levels, under a version that an older rigctl refuses; without them as before."""
    plain = Hyperparameters((0.2, 0.3), 1.0, 0.1)
    told = Hyperparameters((0.2, 0.3), 1.0, 0.1, levels=(0, 4))
    assert (plain.to_json()["version"], told.to_json()["version"]) == (1, 3)
    assert "levels" not in plain.to_json()
    assert [Hyperparameters.from_json(h.to_json()) for h in (plain, told)] == [plain, told]


@pytest.mark.slow
@given(st.permutations(range(4)))
@settings(max_examples=8, deadline=None)
def test_renaming_levels_changes_nothing(order):
    """What is learned and believed is the same whichever level comes first."""
    rng = np.random.default_rng(2)
    x, there = points(20, rng), points(5, rng)
    y = x[:, 0] + np.array([0.1, 0.6, 0.3, 0.9])[np.rint(3 * x[:, 1]).astype(int)] + 0.05 * rng.standard_normal(20)
    options = ModelOptions().over(LEVELS)

    def renamed(points):
        points = points.copy()
        points[:, 1] = np.array(order)[np.rint(3 * points[:, 1]).astype(int)] / 3
        return points

    before, after = fit(x, y, options), fit(renamed(x), y, options)
    np.testing.assert_allclose(after.mean(renamed(there)), before.mean(there), rtol=1e-6)


def test_every_other_level_is_a_neighbour():
    """Of a category; of a number only those beside."""
    near, _ = neighbours(np.array([[0.0, 0.0]]), np.array([-3, 3]))
    assert sorted(map(tuple, near.round(6).tolist())) == [(0.0, 0.333333), (0.333333, 0.0), (0.666667, 0.0), (1.0, 0.0)]


def test_a_discrete_marginal_is_what_its_draws_are():
    """Quantiles have its shares, and the three integrals are means over them."""
    marginal, kernel = Discrete.levels((2, 1, 0, 1)), ProductKernel("matern-5/2", np.array([0.7]), (4,)).one(0)
    drawn = marginal.quantile((np.arange(4000) + 0.5) / 4000)
    b = np.array([0.0, 1 / 3, 2 / 3, 1.0])
    values = kernel.value(drawn[:, None] - b)
    np.testing.assert_allclose(marginal.z(b, kernel), values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(marginal.Z(b, b, kernel), values.T @ values / 4000, rtol=1e-12)
    assert marginal.zz(kernel) == pytest.approx(kernel.value(drawn[:, None] - drawn[None, ::7]).mean(), abs=2e-3)
    assert marginal.mean == pytest.approx(drawn.mean())
    assert marginal.given(1 / 3, 0.8).weights == pytest.approx((0.1, 0.85, 0.0, 0.05))
    with pytest.raises(ValueError, match="level"):
        Discrete.levels((0.0, 0.0))


def test_levels_left_alone_are_learned_and_so_is_how_long_they_stay():
    """Shares from the trials that left the category alone; a reading before counts as far as levels have stayed."""
    experiment = Experiment.of(MIXED, [["a"]], budget=100.0)
    rng, stays = np.random.default_rng(3), 0.9
    for _ in range(80):
        before = rng.choice(["x", "y", "z"], p=[0.6, 0.3, 0.1])
        during = before if rng.random() < stays else rng.choice(["x", "y", "z"], p=[0.6, 0.3, 0.1])
        experiment.tell("a", [rng.random(), "A", during], 1.0, 1.0, look={"c": before})
    believed, _ = present(experiment.problem, experiment.history)
    assert believed.space.variables[2].marginal.weights == pytest.approx((0.6, 0.3, 0.1), abs=0.12)
    assert persistences(experiment.problem, experiment.history)[2].rho == pytest.approx(stays, abs=0.08)
    read = experiment.suggest(look={"c": "z"}).proposal.read[2]
    assert read.rho == pytest.approx(stays, abs=0.08)
    assert believed.space.variables[2].marginal.given(1.0, read.rho).weights[2] > 0.8


def test_bounds_are_those_of_every_level():
    """Of a control set of categories alone every setting is looked at; beside a number the best level is found too."""
    problem = problem_of((*MIXED[:2], category("c", ("x", "y", "z"), natural=["x", "y", "z"])), "random")
    rng = np.random.default_rng(4)
    x = points(25, rng)
    y = -((x[:, 0] - 0.4) ** 2) + np.array([0.1, 0.6, 0.3, 0.9])[np.rint(3 * x[:, 1]).astype(int)]
    posterior = fit(x, y, problem.model.over(problem.space.levels))
    found = best_bounds(posterior, problem.space, problem.model, rng)
    e, h = Expectations.of(posterior, problem.space), posterior.hyperparameters

    def highest(points, control_set):
        return h.y_shift + h.y_scale * e.means(points, np.full(len(points), control_set)).max()

    every = np.array([(0.5, b / 3, c / 2) for b in range(4) for c in range(3)])
    assert found[1].best_mean == pytest.approx(highest(every, 1), rel=1e-9)
    grid = np.array([(a, b / 3, c / 2) for a in np.linspace(0, 1, 101) for b in range(4) for c in range(3)])
    assert found[2].best_mean >= highest(grid, 2) - 1e-9
    assert found[2].best_mean_at[1] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["likely-maximisers", *slow_beyond(0, KINDS), *nightly_beyond(0, OTHERS)])
def test_every_policy_chooses_levels(name):
    """What is proposed is a level, in every trial; the campaign can be learned from."""
    problem = problem_of(MIXED, name)
    proposals, history = campaign(name, problem, 6)
    for proposal in proposals:
        for i, u in zip(problem.space.control_sets[proposal.control_set].indices, proposal.setting, strict=True):
            count = len(problem.space.variables[i].levels) - 1
            assert count < 0 or u * count == pytest.approx(round(u * count), abs=1e-12)
    again, _ = next_proposal(policy_of(name), None, problem, history, trial_rng(0, 7))
    assert again.setting


def rough(values):
    """Growth, best with nozzle D; and the nitrate that comes with it, which is too high there."""
    growth = NOZZLES[values["nozzle"]] - (values["ph"] - 6.0) ** 2
    return growth, {"A": 5.0, "B": 9.0, "C": 7.0, "D": 14.0}[values["nozzle"]] + values["ph"] - 6.0


def nozzles(**more):
    variables = [variable("ph", 5.5, 6.5, "pH", natural=(6.0, 0.2)), category("nozzle", list(WORDS))]
    return Experiment.of(variables, [["ph"], ["nozzle"], ["ph", "nozzle"]], budget=25.0, **more)


@pytest.mark.slow
def test_the_best_level_is_found_and_told_by_its_word(tmp_path):
    """Through suggest, tell, save and load; every number of a category is a word outside."""
    experiment, rng = nozzles(), np.random.default_rng(5)
    for _ in range(14):
        suggestion = experiment.suggest()
        values = {"ph": rng.normal(6.0, 0.2), "nozzle": WORDS[rng.integers(4)]} | dict(suggestion.setpoints)
        assert values["nozzle"] in WORDS
        said = f"nozzle = {suggestion.setpoints['nozzle']}" if "nozzle" in suggestion.setpoints else ""
        assert said in "\n".join(experiment.explain(suggestion))
        y = rough(values)[0] + 0.02 * rng.standard_normal()
        experiment.tell(suggestion.control_set, [values["ph"], values["nozzle"]], y, 1.0, suggestion=suggestion)
    experiment.save(tmp_path / "nozzles.json")
    again = Experiment.load(tmp_path / "nozzles.json")
    assert again.suggest().setpoints == experiment.suggest().setpoints
    assert set(again.table()["nozzle"]) <= set(WORDS)
    assert again.recommend().choice.setpoints["nozzle"] == "D"


@pytest.mark.slow
def test_a_rule_says_a_category_by_its_word():
    """In its conditions and in its settings; it takes readings as people give them, and answers likewise."""
    experiment, rng, best = nozzles(), np.random.default_rng(1), {"A": 5.8, "B": 6.0, "C": 6.3, "D": 6.1}
    read = [{"ph": rng.uniform(5.5, 6.5), "nozzle": WORDS[rng.integers(4)]} for _ in range(36)]
    sets, given = ["ph", "nozzle", "ph+nozzle"] * 12, []
    for label, reading in zip(sets, read, strict=True):
        drawn = {"ph": rng.uniform(5.5, 6.5), "nozzle": WORDS[rng.integers(4)]}
        given.append({name: drawn[name] if name in label.split("+") else reading[name] for name in reading})
    y = [10 - 30 * (x["ph"] - best[x["nozzle"]]) ** 2 for x in given]
    experiment.tell(sets, [list(x.values()) for x in given], y, [0.1, 0.1, 0.2] * 12, look=read)
    asked = recommend(replace(experiment.problem, looks=True), experiment.history, rng, 0.05)
    for rule in (asked.rule, experiment.recommend().rule):
        words = [c.words for line in rule.lines for c in line.when if c.reading == "nozzle"]
        assert words
        assert all(set() < set(found) < set(WORDS) for found in words)
        for line in rule.lines:
            assert line.setpoints(read[0]).get("nozzle", "A") in WORDS
        assert all(rule.line_for(reading) is not None for reading in read)


@pytest.mark.slow
def test_what_is_recommended_keeps_the_limit_of_another_outcome():
    """Nozzle D is the best, but has too much nitrate; of the others B is."""
    further = [FurtherOutcome("nitrate", "mg/L", maximise=False, at_most=11.0)]
    experiment, rng = nozzles(further=further), np.random.default_rng(6)
    x = [(rng.uniform(5.5, 6.5), word) for word in WORDS * 6]
    growth, nitrate = np.array([rough(dict(zip(("ph", "nozzle"), row, strict=True))) for row in x]).T
    experiment.tell(["ph+nozzle"] * 24, x, growth, [1.0] * 24, also={"nitrate": nitrate})
    found = experiment.recommend().choice
    assert found.setpoints["nozzle"] == "B"
    assert [(kept.outcome, kept.enough) for kept in found.kept] == [("nitrate", True)]
    assert experiment.table()["nitrate"] == pytest.approx(nitrate)
    played = nozzles(further=further).play(rough, {"ph": 1.0, "nozzle": 1.0, "ph+nozzle": 1.5}, noise_sd=0.05, most=4)
    assert [len(o.further) for o in played.history.observations] == [1] * 4


@pytest.mark.parametrize(
    ("row", "also"),
    [
        ([6.0, "E"], {"nitrate": 9.0}),
        ([6.0, 2], {"nitrate": 9.0}),
        ([6.0], {"nitrate": 9.0}),
        ([6.0, "A"], {}),
        ([6.0, "A"], {"nitrate": 9.0, "iron": 1.0}),
        ([6.0, "A"], {"nitrate": np.nan}),
    ],
    ids=["no such level", "a number", "too short", "no further outcome", "an unknown one", "one that is none"],
)
def test_what_cannot_be_is_refused(row, also):
    """Before anything is kept; nor is a level read that there is not."""
    experiment = nozzles(further=[FurtherOutcome("nitrate", at_most=11.0)])
    for wrong in (lambda: experiment.tell("ph", row, 1.0, 1.0, also=also), lambda: experiment.suggest({"nozzle": "E"})):
        with pytest.raises(UsageError):
            wrong()
    assert experiment.history == History()
    assert experiment.space.variables[1].marginal.quantile(np.array([0.9])) == 1.0


def test_what_is_no_category_is_refused():
    """Fewer than two different levels leave nothing to choose; shares are of its words, and are probabilities."""
    for levels in (["A"], ["A", "A"], []):
        with pytest.raises(ValueError, match="levels"):
            category("nozzle", levels)
    for shares, says in (({"E": 1.0}, "nozzle"), ({"A": -1.0, "B": 2.0}, "probability")):
        with pytest.raises(ValueError, match=says):
            category("nozzle", WORDS, natural=shares)
    assert category("nozzle", WORDS, natural=["A", "A", "B"]).marginal.weights == pytest.approx((2 / 3, 1 / 3, 0, 0))
    assert not isinstance(MIXED[2].marginal, Uniform)
