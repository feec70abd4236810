"""Variables that take some values only: what is chosen is on the grid, and as good as looking at every setting."""

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigctl import History, ModelOptions, Observation, Proposal, Space, TruncatedNormal, Uniform, Variable, variable
from rigctl.core.acquisition.improvement import log_expected_improvement
from rigctl.core.acquisition.maximisers import View
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.bounds.ascent import climb, climb_on_grid, neighbours, settled, snapped
from rigctl.core.bounds.best import best_bounds
from rigctl.core.bounds.expectations import Expectations, ValueSpread
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.fallback import fallback
from tests.core.setpoints import SETPOINTS, SETS, USUAL_FIRST, WATER, campaign, controlled, left_alone, problem_of
from tests.profiles import nightly_beyond

# written as decimals, none of them a binary fraction
A, B, C = ("0.1", "0.7", "0.1"), ("60", "85", "1"), ("5.5", "6.5", "0.05")


def stepped(name, ends, natural=None):
    low, high, step = (float(v) for v in ends)
    return Variable(name, "", low, high, natural or TruncatedNormal(0.5, 0.3), step)


GRID = (stepped("a", A), stepped("b", B), stepped("c", C))
MIXED = (stepped("a", A), Variable("b", "pH", *SETPOINTS, WATER), stepped("c", C))


def written(ends):
    low, high, step = map(Decimal, ends)
    return {float(low + k * step) for k in range(int((high - low) / step) + 1)}


@given(st.integers(-500, 500), st.integers(1, 60), st.sampled_from(["0.1", "0.25", "0.05", "1", "7"]), st.data())
def test_a_setpoint_is_the_decimal_as_written(low, count, step, data):
    """No level is 0.30000000000000004: each is the float nearest to the decimal, and printed as it would be written."""
    first, each = Decimal(low) / 10, Decimal(step)
    v = Variable("a", "", float(first), float(first + count * each), Uniform(), float(each))
    assert v.steps == count
    level = data.draw(st.integers(0, count))
    setpoint = v.setpoint(level / count)
    assert setpoint == float(first + level * each)
    assert Decimal(repr(setpoint)) == first + level * each
    assert v.low <= setpoint <= v.high


@pytest.mark.parametrize("step", [0.4, 0.0, -1.0, float("nan"), 3.0])
def test_steps_must_lead_to_the_highest_setpoint(step):
    """A range that is no whole number of steps is refused, as its end would never be set."""
    with pytest.raises(ValueError, match="step"):
        Variable("a", "", 5.0, 6.0, Uniform(), step)


def test_uniform_numbers_give_every_level_alike():
    """First points and fallback are no rarer at the ends; the nearest level would be half as likely there."""
    space = Space.of(GRID, SETS)
    u = (np.arange(7000) + 0.5) / 7000
    counts = np.bincount([round(space.evenly(0, (v,))[0] * 6) for v in u])
    assert counts.tolist() == [1000] * 7
    assert np.bincount(np.rint(u * 6).astype(int))[[0, 6]].tolist() == [583, 583]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_snapping_moves_stepped_variables_only(u):
    """To the nearest level, by at most half a step; a snapped point stays where it is."""
    steps, point = np.array([6, 0, 20]), np.array([u])
    there = snapped(point, steps)
    assert there[0, 1] == u[1]
    assert abs(there[0, 0] - u[0]) <= 0.5 / 6 + 1e-12
    assert (snapped(there, steps) == there).all()
    assert snapped(point, np.zeros(3, dtype=int)) is point


def test_neighbours_are_one_step_away_and_inside():
    """A corner has one per stepped variable, the middle two."""
    steps = np.array([6, 0, 20])
    near, of = neighbours(np.array([[0.0, 0.3, 1.0], [0.5, 0.3, 0.5]]), steps)
    assert of.tolist().count(0) == 2
    assert of.tolist().count(1) == 4
    assert ((near >= 0) & (near <= 1)).all()
    assert (near[:, 1] == 0.3).all()


@dataclass(frozen=True)
class Waves:
    """A function with many hills."""

    frequencies: np.ndarray
    phases: np.ndarray

    def __call__(self, x, index=None):
        angles = x @ self.frequencies.T + self.phases
        return np.cos(angles).sum(axis=1), -np.sin(angles) @ self.frequencies

    @classmethod
    def drawn(cls, seed, d, steep=5.0):
        rng = np.random.default_rng(seed)
        return cls(steep * rng.standard_normal((6, d)), 6.3 * rng.random(6))


def every_setting(steps):
    return np.stack(np.meshgrid(*(np.arange(n + 1) / n for n in steps), indexing="ij"), axis=-1).reshape(-1, len(steps))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_few_settings_are_all_looked_at(seed, steps):
    """From one start in a function of many hills: the best setting there is, exactly."""
    steps, f = np.array(steps), Waves.drawn(seed, len(steps))
    start = np.random.default_rng(seed).random((1, len(steps)))
    ones, group = np.ones_like(start), np.zeros(1, dtype=int)
    found = climb_on_grid(f, start, ones, group, np.full(len(steps), 0.3), steps=steps, tolerance=1e-6, few=1000)
    best = f(every_setting(steps))[0].max()
    assert found.values[0] == pytest.approx(best, abs=1e-12)
    assert f(found.points)[0][0] == pytest.approx(best, abs=1e-12)
    assert (snapped(found.points, steps) == found.points).all()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_many_settings_are_climbed_to_the_best_of_a_hill(seed):
    """One smooth hill, 41 x 41 x 41 settings: the top of the grid, though only few are looked at."""
    steps, rng = np.array([40, 40, 40]), np.random.default_rng(seed)
    top, sharp = rng.random(3), np.diag(rng.uniform(1, 30, 3))
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    curve, looked = turn @ sharp @ turn.T, []

    def hill(x, index):
        looked.append(len(x))
        return -np.einsum("bi,ij,bj->b", x - top, curve, x - top), -2 * (x - top) @ curve

    start = rng.random((4, 3))
    found = climb_on_grid(
        hill, start, np.ones_like(start), np.zeros(4, dtype=int), np.full(3, 0.5), steps=steps, tolerance=1e-9
    )
    assert sum(looked) < 4000
    best = hill(every_setting(steps), None)[0].max()
    # a ridge across the grid may hide its top from single steps; by at most what one step is worth there
    assert found.values.max() >= best - 0.02 * np.diag(curve).max() * (3 / 40) ** 2
    assert (snapped(found.points, steps) == found.points).all()


def test_no_neighbour_is_better():
    """Where a search ends, one step further gains nothing; what a set leaves alone is not moved for its value."""
    for seed in range(30):
        steps, f = np.array([30, 17, 0]), Waves.drawn(seed, 3, steep=8.0)
        points = np.random.default_rng(seed).random((5, 3))
        at, best = settled(lambda x, i, f=f: f(x)[0], points, np.ones((5, 3)), np.arange(5), steps=steps, few=0)
        near, of = neighbours(at, steps)
        assert (f(near)[0] <= best[of]).all()
        assert (at[:, 2] == points[:, 2]).all()
    free = np.array([[1.0, 0.0]])
    at, _ = settled(
        lambda x, i: x.sum(axis=1), np.array([[0.2, 0.5]]), free, np.zeros(1, dtype=int), steps=np.array([5, 4])
    )
    assert at.tolist() == [[1.0, 0.5]]


def test_without_steps_it_is_the_climb_itself():
    """The same points to the last bit."""
    f, start = Waves.drawn(3, 2), np.random.default_rng(0).random((6, 2))
    asked = (f, start, np.ones_like(start), np.zeros(6, dtype=int), np.full(2, 0.4))
    plain, grid = climb(*asked, tolerance=1e-6), climb_on_grid(*asked, steps=np.zeros(2, dtype=int), tolerance=1e-6)
    assert (plain.points == grid.points).all()


def history_of(problem, count=25, seed=4):
    rng, rows = np.random.default_rng(seed), []
    for trial in range(1, count + 1):
        x = snapped(rng.random((1, 3)), problem.space.steps)[0]
        y = float(np.sin(5 * x[0]) + np.cos(4 * x[1]) * x[2] + 0.02 * rng.standard_normal())
        rows.append(Observation(trial, trial % 3, tuple(map(float, x)), y, to_micros(1 + trial % 3)))
    return History.of(rows)


MODEL = ModelOptions("fixed", "squared-exponential", (0.25, 0.3, 0.2), 1.0, 0.05, 0.0)


@pytest.mark.parametrize("kind", ["integrated", "pointwise"])
@pytest.mark.parametrize("variables", [GRID, MIXED], ids=["all stepped", "one not"])
def test_bounds_are_those_of_every_setting(variables, kind):
    """Upper, lower and mean maximisers are on the grid, and no setting of any control set has better ones."""
    problem = replace(problem_of(variables, "ucb-cvs"), model=replace(MODEL, bounds=kind))
    space, fitted = problem.space, fit_history(problem, history_of(problem))
    bounds = best_bounds(fitted.posterior, space, problem.model, np.random.default_rng(1))
    e = Expectations.of(fitted.posterior, space)
    for b in bounds:
        columns = list(space.control_sets[b.control_set].indices)
        counts = [n or 100 for n in space.steps[columns]]
        rows = space.rows(b.control_set, every_setting(counts))
        sets = np.full(len(rows), b.control_set)
        inner = e.inner(rows, sets)
        mean, sd = e.mean(inner, sets), ValueSpread(e).sd(inner, sets)
        assert b.best_mean >= mean.max() - 1e-6
        if kind == "integrated":
            assert b.upper >= (mean + 2 * sd).max() - 1e-6
            assert b.lower >= (mean - 2 * sd).max() - 1e-6
        for at in (b.upper_at, b.lower_at, b.best_mean_at):
            assert on_grid(at, space.steps[columns])


def on_grid(setting, steps):
    return all(n == 0 or u == round(u * n) / n for u, n in zip(setting, steps, strict=True))


def test_the_best_improvement_is_that_of_every_setting():
    """The other search (expected improvement, Gittins) finds the best of all 3276 settings too."""
    problem = replace(problem_of(GRID, "ei"), model=MODEL)
    space, history = problem.space, history_of(problem)
    fitted = fit_history(problem, history)
    view = View(
        problem, history, fitted, cost_field(problem, history), spread=1.0, weight=1.0, unit=1.0, selective=False
    )

    def score(mean, sd, cost):
        return log_expected_improvement(mean, sd, 1.2)

    found = view.best(score, np.random.default_rng(1), {}, fits=lambda _: True)
    e = Expectations.of(fitted.posterior, space)
    for f in found:
        columns = list(space.control_sets[f.control_set].indices)
        rows = space.rows(f.control_set, every_setting(space.steps[columns]))
        mean, sd = e.values(rows, np.full(len(rows), f.control_set))
        assert f.score == pytest.approx(score(mean, sd, None).value.max(), abs=1e-6)
        assert on_grid(f.setting, space.steps[columns])


@pytest.mark.slow
@pytest.mark.parametrize("variables", [MIXED, GRID], ids=["one not", "all stepped"])
@pytest.mark.parametrize("name", nightly_beyond(2, USUAL_FIRST))
def test_every_policy_chooses_on_the_grid_and_within_the_setpoints(name, variables):
    """Every proposal, with its reports and the recommendation, is a decimal as written; nobody had to be corrected."""
    problem = left_alone(problem_of(variables, name))
    allowed = {"a": written(A), "b": written(B), "c": written(C)}
    if variables is MIXED:
        del allowed["b"]
    proposals, history = campaign(name, problem, 8)
    assert len(proposals) == 8
    said = [controlled(problem, p) for p in proposals]
    said += [at for p in proposals for s in p.sets for at in (s.at, s.best_lower_at) if at]
    advice = recommend(problem, history, np.random.default_rng(0), 0.05)
    said += [o.setpoints for o in (advice.choice, *advice.alternatives)]
    said += [p.setpoints for p in (advice.front.points if advice.front else ())]
    for at in said:
        assert all(value in allowed[n] for n, value in at.items() if n in allowed)
    assert not [n for p in proposals for n in p.notes if "between two steps" in n]
    if variables is MIXED:
        assert all(5.5 <= at["b"] <= 6.5 for at in said if "b" in at)
        assert any("b" in controlled(problem, p) for p in proposals)
        alone = [o.x[1] for o in history.observations if "b" not in problem.space.control_sets[o.control_set].names]
        assert all(1.7 <= u <= 2.9 for u in alone)


@dataclass(frozen=True)
class Stepless:
    """A policy that has never heard of steps."""

    name = "stepless"

    def initial_state(self, problem):
        return {}

    def propose(self, state, problem, history, rng):
        return Proposal(1, self.name, "explore", 2, (0.34, 0.5, 0.512), "because"), {}


def test_a_policy_that_knows_no_steps_is_moved_and_told(golden):
    """A plug-in's setting between two steps goes to the nearest, and the trial's notes say so."""
    problem = problem_of(GRID, "ucb-cvs")
    proposal, _ = next_proposal(Stepless(), None, problem, History(), trial_rng(1, 1))
    assert controlled(problem, proposal) == {"a": 0.3, "b": 72.0, "c": 6.0}
    golden(proposal.notes)


def test_the_fallback_is_on_the_grid():
    """What is played in place of a decision; what was measured beside a setpoint is recommended as the setpoint."""
    problem = problem_of(GRID, "ucb-cvs")
    for seed in range(20):
        proposal = fallback(problem, History(), np.random.default_rng(seed), "no decision")
        assert on_grid(proposal.setting, problem.space.steps[[0]])
    problem = replace(problem_of(GRID, "ucb-cvs"), model=MODEL)
    beside = np.array([0.02, 0.01, -0.006])
    rows = [replace(o, x=tuple(np.array(o.x) + beside)) for o in history_of(problem).observations]
    advice = recommend(problem, History.of(rows), np.random.default_rng(0), 0.05)
    allowed = {"a": written(A), "b": written(B), "c": written(C)}
    for option in (advice.choice, *advice.alternatives):
        assert all(value in allowed[n] for n, value in option.setpoints.items())


def test_variables_of_the_face_take_a_step():
    """`rigctl.variable` says it in engineering units."""
    assert variable("stirrer", 60, 85, "rpm", step=1).steps == 25
