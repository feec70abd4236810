"""What to control at which readings, against brute force and against days drawn anew."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from rigctl import History, ModelOptions, Observation, Problem, Space, TruncatedNormal, Uniform, Variable, answer_of
from rigctl.core.advice.recommend import Recommendation, planner_of, recommend
from rigctl.core.advice.rule import RuleLine, Setting, Slope
from rigctl.core.advice.rules import full
from rigctl.core.advice.rules.full import Days, Readings
from rigctl.core.advice.rules.saying import how_to_read, rows, settings, worth
from rigctl.core.advice.rules.short import CONDITIONS, LINES, Arranging, Leaf
from rigctl.core.advice.worth import Gain
from rigctl.core.asking import trial_rng
from rigctl.core.experiment.marginals.conditional import conditional
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.model import fit_history
from rigctl.text import ends
from tests.core.claims import unreadable
from tests.core.plain import slopes
from tests.core.test_answer import contradictions
from tests.profiles import nightly_beyond

LEVELS = 12
BOXES = ((0, (3, 8), 1, (2, 9)), (2, (0, 5), 1, (4, 12)), (0, (5, 12), 2, (6, 12)))
"""Of three lines, the first that holds counts: reading, limits, another reading, its limits."""


@pytest.fixture(scope="module")
def arranging():
    """Each of four formulas is worth 1 where a planted line of it counts; else less, by chance."""
    rng = np.random.default_rng(1)
    levels = rng.integers(0, LEVELS, (800, 3))
    levels[:LEVELS] = np.arange(LEVELS)[:, None]
    planted = np.full(len(levels), 3)
    for formula, (one, (a, b), other, (c, d)) in reversed(list(enumerate(BOXES))):
        inside = (levels[:, one] >= a) & (levels[:, one] < b) & (levels[:, other] >= c) & (levels[:, other] < d)
        planted[inside] = formula
    worth = rng.uniform(0.0, 0.6, (len(levels), 4))
    worth[np.arange(len(levels)), planted] = 1.0
    return Arranging(worth, levels, (0, 1, 2))


def test_planted_lines_are_found(arranging):
    """Three boxes that cover each other take three lines and one for all else; lines and limits of little worth go."""
    lines = arranging.pruned(arranging.arranged(), 8.0, 2.0)
    assert arranging.total(lines) == pytest.approx(len(arranging.levels))
    assert len(lines) == len(BOXES) + 1
    lines = arranging.arranged()
    assert len(arranging.pruned(lines, np.inf, 0.0)) == 1
    loose = Leaf(np.array([3, 2, 1]), np.array([8, 9, 12]), 0)  # a third reading that hardly matters
    (kept, _) = arranging.pruned([loose, lines[-1]], 0.0, 30.0)
    assert (kept.low[2], kept.high[2]) == (0, LEVELS)


@pytest.mark.slow
def test_a_person_can_follow_them(arranging):
    """Few lines of few conditions, the last of which always holds; where no reading tells something there is one."""
    noise = np.random.default_rng(2).uniform(size=(len(arranging.levels), 20))
    found = Arranging(noise, arranging.levels, (0, 1, 2))
    lines = found.arranged()
    assert len(lines) == LINES
    assert lines[-1].holds(found.levels).all()
    for line in lines:
        assert ((line.low > 0) | (line.high < found.sizes)).sum() <= CONDITIONS
    assert found.total(lines) > found.total([found.whole(int(noise.sum(axis=0).argmax()))])
    assert len(np.unique(found.routed(lines))) == LINES
    alone = Arranging(arranging.worth, arranging.levels, (1,))
    assert 1 < len(alone.arranged()) <= LINES
    assert all((line.low[[0, 2]] == 0).all() for line in alone.arranged())
    assert len(Arranging(arranging.worth, arranging.levels, ()).arranged()) == 1


pytestmark = pytest.mark.usefixtures("few_days")

MODEL = ModelOptions("fixed", lengthscales=(0.25, 0.3, 0.5), signal_sd=2.0, noise_sd=0.05, mean=4.0)
SETS = (("a",), ("b",))
COSTS = (0.4, 0.2)


def problem_of(rho=1.0, sets=SETS, *, maximise=True):
    marginals = {"a": Uniform(), "b": TruncatedNormal(0.4, 0.25), "c": TruncatedNormal(0.5, 0.2)}
    space = Space.of([Variable(n, "mM", 2.0, 12.0, m) for n, m in marginals.items()], sets)
    model = MODEL if maximise else replace(MODEL, mean=-4.0)
    return Problem(
        space, to_micros(60), model=model, maximise=maximise, looks=True, persistence=(rho, rho, rho), known_costs=None
    )


def truth(x):
    """The best `a` goes with `c`; `b` matters where `c` is high."""
    a, b, c = np.moveaxis(np.asarray(x), -1, 0)
    return 4 + 2 * np.exp(-((a - 0.2 - 0.6 * c) ** 2) / 0.08) + 1.5 * c * np.exp(-((b - 0.8) ** 2) / 0.1)


def history_of(problem, n=45, seed=0):
    rng = np.random.default_rng(seed)
    x, sign, m = rng.random((n, 3)), 1 if problem.maximise else -1, len(problem.space.control_sets)
    y = sign * (truth(x) + 0.05 * rng.standard_normal(n))
    rows = zip(x.tolist(), y.tolist(), strict=True)
    return History.of(
        Observation(t + 1, t % m, tuple(at), value, to_micros(COSTS[t % m % 2])) for t, (at, value) in enumerate(rows)
    )


@lru_cache(maxsize=8)
def found(rho=1.0, tolerance=0.0, maximise=True) -> Recommendation:
    problem = problem_of(rho, maximise=maximise)
    return recommend(problem, history_of(problem), trial_rng(0, 1), tolerance)


def days_of(problem, rho, count=1000, seed=3):
    rng = np.random.default_rng(seed)
    read = np.stack([v.marginal.quantile(rng.random(count)) for v in problem.space.variables], axis=1)
    occurs = read.copy()
    for column, variable in enumerate(problem.space.variables):
        for row in range(count if rho < 1 else 0):
            given = conditional(variable.marginal, rho, 0.0, float(read[row, column]))
            occurs[row, column] = given.quantile(rng.random(1))[0]
    return read, occurs


def obeyed(rule, read, occurs):
    """The points that somebody who follows the lines arrives at, and the line of every day."""
    points, lines = occurs.copy(), []
    for row, own in enumerate((2.0 + 10.0 * read).tolist()):
        readings = dict(zip("abc", own, strict=True))
        line = rule.line_for(readings)
        lines.append(rule.lines.index(line))
        for name, value in line.setpoints(readings).items():
            points[row, "abc".index(name)] = (value - 2.0) / 10.0
    return points, np.array(lines)


@pytest.mark.slow
def test_the_full_rule_is_as_good_as_brute_force():
    """Of one set of one variable, on a grid of 41^3: setting by setting and reading by reading."""
    problem = problem_of(sets=(("a",),))
    history = history_of(problem, 120)
    rule = recommend(problem, history, trial_rng(0, 1), 0.0).rule
    posterior = fit_history(problem, history).posterior
    marks = (np.arange(41) + 0.5) / 41
    b, c = (problem.space.variables[i].marginal.quantile(marks) for i in (1, 2))
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 41), b, c, indexing="ij"), axis=-1)
    best = truth(grid).max(axis=0).mean()
    fixed = truth(grid).mean(axis=(1, 2)).max()
    believed = posterior.mean(grid.reshape(-1, 3)).reshape(41, 41, 41).max(axis=0).mean()
    assert rule.full_expected == pytest.approx(believed, abs=0.02)
    assert rule.full_expected == pytest.approx(best, abs=0.08)
    assert rule.looking.full_gain.expected == pytest.approx(best - fixed, abs=0.05)
    assert rule.looking.full_gain.low <= best - fixed <= rule.looking.full_gain.high + 0.03
    assert best - fixed > 0.25


@pytest.mark.slow
def test_what_is_best_at_what_was_read_is_as_good_as_all_that_was_tried():
    """By plain arithmetic on the posterior: what stays uncontrolled is as it was read, so every setting is a point."""
    problem = problem_of()
    history = history_of(problem)
    posterior, tried = fit_history(problem, history).posterior, np.array([o.x for o in history.observations])
    for read in np.random.default_rng(2).random((1, 3)):
        now = recommend(problem, history, trial_rng(0, 1), 0.0, now=tuple(read)).now
        point = np.array([now.setpoints.get(n, 2.0 + 10.0 * r) for n, r in zip("abc", read, strict=True)]) / 10 - 0.2
        assert now.expected == pytest.approx(believed(posterior, point)[0], abs=1e-3)
        others = np.repeat(read[None], 2 * len(tried), axis=0)
        others[: len(tried), 0], others[len(tried) :, 1] = tried[:, 0], tried[:, 1]
        best = max(mean - sd for mean, sd in (believed(posterior, other) for other in others))
        assert np.subtract(*believed(posterior, point)) >= best - 1e-3


def believed(posterior, point):
    """Mean and standard deviation at a point (d,), outcome units."""
    h = posterior.hyperparameters
    white = posterior.whiten(posterior.covariance(point[None]))
    variance = h.signal_variance - float(np.vecdot(white, white)[0])
    return float(posterior.mean(point[None])[0]), h.y_scale * np.sqrt(max(variance, 0.0))


@pytest.mark.slow
def test_of_what_was_not_read_the_usual_is_expected():
    """As if that variable's readings were worth nothing; the others still count."""
    problem, read = problem_of(), (0.1, 0.5, 0.9)
    history = history_of(problem)
    missing, worthless, all_read = (
        recommend(replace(problem, persistence=kept), history, trial_rng(0, 1), 0.0, now=now).now
        for kept, now in (((1.0,) * 3, (0.1, None, 0.9)), ((1.0, 0.0, 1.0), read), ((1.0,) * 3, read))
    )
    assert missing == worthless != all_read


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "read"), [(1.0, (None, None, None)), (0.0, (0.1, 0.5, 0.5))])
def test_where_what_was_read_tells_nothing_the_recommended_setting_stands(rho, read):
    """Nothing was read, or nothing persists."""
    problem = problem_of(rho)
    answer = recommend(problem, history_of(problem), trial_rng(0, 1), 0.0, now=read)
    assert answer.now == answer.choice


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "seed"), [(0.3, 0), (1.0, 1)])
def test_knowing_more_is_never_worse(rho, seed):
    """Jensen: whatever the data and however little persists, a rule is no worse than the best fixed setting."""
    problem = problem_of(rho)
    rule = recommend(problem, history_of(problem, 24, seed), trial_rng(0, 1), 0.0).rule
    assert rule.looking.value.expected >= 0.0
    assert rule.looking.full_gain.expected >= -0.01
    assert rule.looking.gain.expected >= -0.02
    assert seed or recommend(problem, history_of(problem, 24, seed), trial_rng(0, 1), 0.0).rule == rule


def test_readings_that_tell_nothing_leave_the_recommendation_as_it_is():
    """With nothing that persists the rule is the fixed setting, to the last bit, and looking is worth nothing."""
    told = found(0.0)
    problem = replace(problem_of(0.0), looks=False)
    plain = recommend(problem, history_of(problem), trial_rng(0, 1), 0.0)
    assert plain.rule is None
    assert replace(told, rule=None) == plain
    (line,) = told.rule.lines
    assert (line.control_set, line.when) == (plain.choice.control_set, ())
    assert line.setpoints({}) == plain.choice.setpoints
    assert (told.rule.expected, told.rule.loss) == (plain.choice.expected, 0.0)
    assert told.rule.looking.gain.expected == 0.0
    assert told.rule.looking.value == Gain(0.0, 0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.6, 1.0])
def test_what_a_rule_says_is_what_comes_of_following_it(rho):
    """Value, loss, gain and cost of the lines as they are written, on days drawn by other means."""
    problem, told = problem_of(rho), found(rho)
    rule, history = told.rule, history_of(problem)
    read, occurs = days_of(problem, rho, 400 if rho < 1 else 700)
    posterior = fit_history(problem, history).posterior
    points = obeyed(rule, read, occurs)[0]
    value = posterior.mean(points).mean()
    assert 2 <= len(rule.lines) <= 7
    assert rule.expected == pytest.approx(value, abs=0.06)
    sets, at = planner_of(problem, history, posterior, trial_rng(0, 1), 0.0).best_at(read)
    best = occurs.copy()
    for row, chosen in enumerate(sets.tolist()):
        columns = list(problem.space.control_sets[chosen].indices)
        best[row, columns] = at[row, columns]
    assert rule.loss == pytest.approx(posterior.mean(best).mean() - value, abs=0.02)
    fixed = occurs.copy()
    for name, setpoint in rule.looking.best.setpoints.items():
        fixed[:, "abc".index(name)] = (setpoint - 2.0) / 10.0
    assert rule.looking.gain.expected == pytest.approx(value - posterior.mean(fixed).mean(), abs=0.05)
    assert rule.loss_share == pytest.approx(rule.loss / rule.looking.full_gain.expected)
    assert 0 < rule.loss_share < 0.4
    lines = obeyed(rule, *days_of(problem, 1.0, 4000))[1]  # shares need more days, of readings only
    shares = np.bincount(lines, minlength=len(rule.lines)) / len(lines)
    assert [line.share for line in rule.lines] == pytest.approx(shares, abs=0.03)
    costs = [COSTS[SETS.index(line.control_set)] for line in rule.lines]
    assert rule.cost_per_trial == pytest.approx(shares @ costs, abs=0.03)


@pytest.mark.slow
def test_the_first_line_that_holds_counts_and_one_always_does():
    """Far outside what was ever read, too; and none without a reading that it needs: then the fixed setting stands."""
    rule = found().rule
    for values in np.random.default_rng(0).uniform(-40, 60, (200, 3)).tolist():
        readings = dict(zip("abc", values, strict=True))
        line = rule.line_for(readings)
        assert line is next(one for one in rule.lines if one.holds(readings))
        assert all(2.0 <= v <= 12.0 for v in line.setpoints(readings).values())
    assert rule.line_for({}) is None
    asked = rule.lines[0].when[0].reading  # a later line that holds does not count where an earlier one may, too
    assert rule.line_for({name: 7.0 for name in "abc" if name != asked}) is None
    assert [bool(line.when) for line in rule.lines] == [True] * (len(rule.lines) - 1) + [False]


@pytest.mark.slow
def test_where_less_is_better_the_rule_is_the_same():
    """With outcomes turned around, the same lines, in their own units; with a tolerance the rule costs no more."""
    turned = found(maximise=False).rule
    assert [(o.when, o.control_set) for o in turned.lines] == [(o.when, o.control_set) for o in found().rule.lines]
    assert turned.expected == pytest.approx(-found().rule.expected)
    assert turned.looking.gain.expected == pytest.approx(found().rule.looking.gain.expected)
    dear, cheap = found().rule, found(1.0, 0.3).rule
    assert cheap.cost_per_trial <= dear.cost_per_trial
    assert cheap.full_cost < dear.full_cost
    assert cheap.full_expected <= dear.full_expected


@pytest.mark.slow
def test_what_a_dearer_set_gains_is_not_gained_by_looking(golden):
    """With a tolerance a cheaper and worse set is recommended; looking is held against the best fixed setting."""
    told, problem = found(1.0, 0.5), problem_of()
    rule, looking, best = told.rule, told.rule.looking, told.rule.looking.best
    posterior = fit_history(problem, history_of(problem)).posterior
    read, occurs = days_of(problem, 1.0, 700)
    alike = np.tile(occurs, (41, 1, 1))
    values = []
    for column in (0, 1):
        every = alike.copy()
        every[:, :, column] = np.linspace(0, 1, 41)[:, None]
        values.append(posterior.mean(every.reshape(-1, 3)).reshape(41, -1).mean(axis=1).max())
    value = posterior.mean(obeyed(rule, read, occurs)[0]).mean()
    assert (told.choice.control_set, best.control_set) == (("b",), ("a",))
    assert values[0] > told.choice.expected + 0.1
    assert best.expected == pytest.approx(values[0], abs=0.03)
    assert best.low < best.expected < best.high
    assert looking.gain.expected == pytest.approx(value - values[0], abs=0.05)
    assert looking.value.expected == pytest.approx(found().rule.looking.value.expected)  # whatever the tolerance
    assert looking.value.expected > max(looking.gain.expected, looking.full_gain.expected) + 0.1
    assert looking.gain.low < 0 < rule.expected - told.choice.expected - 0.1
    assert (best.cost_per_trial, told.choice.cost_per_trial) == (pytest.approx(0.4), pytest.approx(0.2))
    said = everything_said(rule)
    assert best.control_set
    golden(said)
    no_more = replace(rule, looking=replace(looking, value=Gain(0.0, 0.0, 0.0)))
    golden(everything_said(no_more))


def everything_said(rule):
    return [*worth(rule, {}, unit="cm2", currency="EUR"), *how_to_read(rule, {})]


@pytest.mark.slow
def test_a_rule_sets_what_trials_support():
    """On every day at least as well as any values that a trial had, and hardly where less is known than there."""
    problem = problem_of(sets=(("a",), ("b",), ("a", "b", "c")))
    history = history_of(problem, 30)
    posterior = fit_history(problem, history).posterior
    planner = planner_of(problem, history, posterior, trial_rng(0, 1), 0.0)
    read = Readings.drawn(problem.space, (None,) * 3, 1).occurs + np.linspace(-0.4, 0.4, 20)[:, None]
    sets, at = planner.best_at(read)
    days, every = Days.of(posterior, problem.space, Readings.given(problem.space, planner.trusted, read)), np.arange(20)

    def supported(chosen, points):
        mean, sd = (
            np.array(v)
            for v in zip(
                *(days.believed(s, p[None], [d]) for d, (s, p) in enumerate(zip(chosen, points, strict=True))),
                strict=True,
            )
        )
        return (mean - sd)[:, 0], sd[:, 0]

    support, sd = supported(sets, at)
    occurred = np.stack([supported([s] * 20, [x] * 20) for s in range(3) for x in history.x], axis=1)
    best = occurred[0].argmax(axis=0)
    assert (support >= occurred[0][best, every] - 1e-9).all()
    assert (support > occurred[0][best, every] + 0.01).any()
    assert sd.max() < 1.1 * occurred[1][best, every].max()


def test_slopes_of_support_are_those_of_differences():
    """Analytic gradients, with and without a spread beyond which doubt grows."""
    problem = problem_of()
    posterior = fit_history(problem, history_of(problem, 20)).posterior
    read = np.random.default_rng(0).random((6, 3))
    trusted = planner_of(problem, history_of(problem, 20), posterior, trial_rng(0, 1), 0.0).trusted
    days = Days.of(posterior, problem.space, Readings.given(problem.space, trusted, read))
    points, rows = np.random.default_rng(1).random((6, 3)), np.arange(6)
    middle = np.median(days.believed(0, points, rows)[1])
    for beyond in (None, np.full(6, middle)):
        slope = days.support(0, points, rows, beyond)[1]
        found = slopes(lambda p, beyond=beyond: days.support(0, p, rows, beyond)[0], points)
        assert slope[:, 0] == pytest.approx(found[:, 0], rel=1e-4, abs=1e-5)
        assert not slope[:, 1:].any()


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "tolerance"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.3)])
def test_everybody_can_read_a_rule(rho, tolerance):
    """Sentences of at most 20 words, without a term of the trade; and a table whose every line says when it holds."""
    rule = found(rho, tolerance).rule
    for line in everything_said(rule):
        assert not unreadable(line), line
    table = rows(rule, {"a": "mM", "b": "mM", "c": "pH"})
    assert len({row.when for row in table}) == len(table) <= 7
    assert all(
        s.variable in " ".join(row.at) for row, line in zip(table, rule.lines, strict=True) for s in line.settings
    )


def test_a_setting_that_follows_a_reading_is_written_as_a_sum(golden):
    """So that it can be worked out by hand."""
    follows = (
        Setting("ph", 6.12, (Slope("ca", 3.2, 0.4), Slope("t", -5.0, -1.5)), 4.0, 8.0),
        Setting("n", 80.0, (), 0.0, 100.0, 20.0),
    )
    line = RuleLine((), ("n", "ph"), follows, 1.0, 0.0, 0.0, 0.0, None, 0)
    golden(settings(line, {"n": "mL"}))
    assert line.setpoints({"ca": 4.2, "t": -5.0}) == {"ph": pytest.approx(6.52), "n": 80.0}
    assert follows[0].setpoint({"ca": 90.0, "t": -5.0}) == 8.0
    assert replace(follows[1], at=71.0).setpoint({}) == 80.0


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.06, 0.14, "0.06 to 0.14"), (0.1, 0.1, "0.1"), (-0.01, 0.01, "-0.01 to 0.01"), (0, 1, "0.0 to 1.0")],
)
def test_the_ends_of_an_interval_are_told_apart(low, high, said):
    """With more decimals where they would look the same, and as one number where they are the same."""
    assert ends(low, high, 1) == said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("maximise", "tolerance"), nightly_beyond(1, [(False, 0.3), (True, 0.0), (True, 0.3), (False, 0.0)], several=True)
)
def test_the_answer_is_the_rule_or_a_setting_as_the_table_has_it(maximise, tolerance):
    """What earns more at each price, else the cheaper one that is good enough; no reason contradicts its table."""
    problem = problem_of(maximise=maximise)
    kinds = {}
    for price in (None, 0.05, 0.5):
        found = recommend(problem, history_of(problem), trial_rng(0, 1), tolerance, price=price)
        answer = answer_of(found)
        assert contradictions(answer, found.allowed) == []
        kinds[price] = answer.run.kind
    assert (kinds[0.05], kinds[0.5]) == ("setting", "rule")
    assert kinds[None] == ("setting" if tolerance else "rule")


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_climbing_few_days_of_a_set_that_cannot_win_changes_no_choice(monkeypatch, tolerance):
    """The full rule plays the same, to the last bit, as if every set had been climbed on every day."""
    problem = problem_of()
    history = history_of(problem)
    planner = planner_of(problem, history, fit_history(problem, history).posterior, trial_rng(0, 1), tolerance)
    readings = Readings.drawn(problem.space, planner.trusted, 256)
    days = planner.days(readings)
    some = planner.full(days)
    monkeypatch.setattr(full, "PROBES", 256)
    every = planner.full(days)
    assert (some.best.points != every.best.points).any()
    assert np.array_equal(some.chosen, every.chosen)
    assert np.allclose(some.points, every.points, rtol=0.0, atol=1e-12)
    assert np.allclose(some.best.mean.max(axis=1), every.best.mean.max(axis=1), rtol=0.0, atol=1e-12)
