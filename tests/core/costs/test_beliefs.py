from dataclasses import replace
from math import log, sqrt

import pytest

from rigctl.core.costs.beliefs import CostBelief, believe, booked, booked_when_free, horizon, too_dear
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.money import to_micros
from tests.core.conftest import make_history

X = (0.5, 0.5)


def test_hoeffding_width_is_the_papers(problem):
    """U line 23 with T = trials so far + what the rest of the budget buys."""
    history = make_history([(0, X, 1.0, 0.2), (0, X, 1.0, 0.4), (1, X, 1.0, 1.0)])
    total = 3 + (10 - 1.6) / (1.6 / 3)
    assert horizon(problem, history) == pytest.approx(total)
    beliefs = believe(problem, history, "hoeffding")
    assert beliefs[0].mean == pytest.approx(0.3)
    assert beliefs[0].lcb == max(0.3 - sqrt(2 * log(total) / 2), 0.0)
    wide = believe(replace(problem, cost_ceiling=0.05), history, "hoeffding")
    assert wide[1].lcb == pytest.approx(1.0 - 0.05 * sqrt(2 * log(total)))


def test_bernstein_separates_what_hoeffding_cannot(problem):
    """Costs that hardly vary are told apart after a few trials; eq. 2 by hand, the range widened by 5 / 3."""
    rows = [(i, X, 1.0, c + 0.001 * (t % 2)) for t in range(8) for i, c in ((0, 0.1), (1, 0.2), (2, 0.4))]
    history = make_history(rows)
    hoeffding = believe(problem, history, "hoeffding")
    bernstein = believe(problem, history, "empirical-bernstein")
    assert [b.lcb for b in hoeffding[:2]] == [0.0, 0.0]
    assert 0.09 < bernstein[0].lcb < 0.1
    assert 0.19 < bernstein[1].lcb < 0.2
    history = make_history([(0, X, 1.0, c) for c in (0.9, 1.1, 1.0, 1.2)])
    log_horizon = log(4 + 5.8 / 1.05)
    width = sqrt(2 * 0.0125 * log_horizon / 4) + 3 * 0.5 * log_horizon / 4
    (belief, *_) = believe(problem, history, "empirical-bernstein")
    assert belief.mean == pytest.approx(1.05)
    assert belief.lcb == pytest.approx(1.05 - width)
    assert 0 < belief.lcb < 1.05 - sqrt(2 * 0.0125 * log_horizon / 4)


def test_two_trials_that_differ_forbid_no_third(problem):
    """The prediction leaves room for what trials have been seen to vary, at most up to four times the dearest."""
    history = make_history([(0, X, 1.0, 1.0), (0, X, 1.0, 3.0)])
    assert to_micros(2 + 2 * sqrt(2)) < believe(problem, history, "hoeffding")[0].upper <= to_micros(4 * 3.0)


def test_a_set_never_tried_is_assumed_to_cost_what_its_variables_do(problem):
    """Nobody knows its mean: a variable that another set has paid for counts at that, the other at as much."""
    history = make_history([(0, X, 1.0, 0.7)])
    untried = believe(problem, history, "hoeffding")
    assert [(b.mean, b.lcb) for b in untried[1:]] == [(None, 0.0)] * 2
    assert [b.assumed for b in untried] == [None, pytest.approx(0.7, rel=0.02), pytest.approx(1.4, rel=0.02)]
    assert untried[1].upper > to_micros(3 * 0.7)
    assert untried[2].upper > to_micros(2 * 1.4)


def test_unknown_costs_do_not_teach(problem):
    """An estimate is charged, but not learned from: one metered trial outweighs all, as it may be of half a trial."""
    history = make_history([(0, X, 1.0, 0.7), (0, X, 1.0, 5.0)])
    first, second = history.observations
    history = History((first, replace(second, cost_known=False)))
    assert believe(problem, history, "hoeffding")[0].mean == pytest.approx(0.7)
    assert history.spent == to_micros("5.7")
    history = charged((0, 1.0, False), (0, 2.0, True), (0, 9.0, False))
    assert believe(problem, history, "hoeffding")[0].mean == 2.0


def charged(*rows):
    """Rows of (control set, cost, whether it was metered)."""
    return History.of(Observation(t, i, X, 1.0, to_micros(c), known) for t, (i, c, known) in enumerate(rows, start=1))


def test_a_set_that_is_never_metered_is_not_free(problem):
    """What its trials were charged stands in; by spend a free set would have its turn for ever."""
    history = charged((0, 1.0, True), (2, 6.0, False), (2, 6.0, False), (1, 0.5, False))
    beliefs = believe(problem, history, "empirical-bernstein")
    assert beliefs[2].mean == 6.0
    assert beliefs[2].lcb > 0.0
    assert [b.upper for b in beliefs] == [to_micros(1), to_micros(6), to_micros(6)]
    history = charged((-1, 0.0, True), *[(0, 0.0, True)] * 4, (1, 2.0, True))
    beliefs = believe(problem, history, "hoeffding")
    assert booked(history, beliefs) == (4 * to_micros(2 * 0.02), to_micros(2), 0)


def test_a_set_with_few_trials_is_taken_to_vary_as_the_others_do(problem):
    """Taken for exact it would overspend; one alone says nothing, nor do free ones; two count elsewhere."""
    varying = [(0, c, True) for c in (0.8, 1.0, 1.2, 0.9, 1.1)]
    few = believe(problem, charged(*varying, (1, 2.0, True)), "hoeffding")[1]
    assert to_micros(2.0 * (1 + 2 * 0.158)) < few.upper < to_micros(2.0 * (1 + 6 * 0.158))
    several = believe(problem, charged(*varying, *[(1, 2.0, True)] * 4), "hoeffding")[1]
    assert several.upper == to_micros(2)
    assert believe(problem, charged((0, 0.7, True)), "hoeffding")[0].upper == 700_000
    pair = charged((0, 0.8, True), (0, 1.2, True), (1, 2.0, True))
    beside = believe(problem, pair, "hoeffding")[1].upper
    assert to_micros(2 * (1 + 2 * sqrt(0.08))) < beside <= to_micros(4 * 2.0)
    beside_free = History((*pair.observations, *charged(*[(2, 0.0, True)] * 5).observations))
    assert believe(problem, beside_free, "hoeffding")[1].upper == believe(problem, pair, "hoeffding")[1].upper
    varying = [(0, c, True) for c in (0.8, 1.0, 1.2, 0.9, 1.1)]
    steady = believe(problem, charged(*varying, (1, 2.0, True), (1, 2.0, True)), "hoeffding")[1]
    assert to_micros(2.0) < steady.upper < beside


def test_the_narrower_width_counts(problem):
    """A ceiling says more of a range than two trials do; the logarithm of a horizon of one would leave no width."""
    history = make_history([(0, X, 1.0, 1.0), (0, X, 1.0, 2.0)])
    problem = replace(problem, cost_ceiling=0.5, budget=to_micros(4))
    log_horizon = log(2 + 1.0 / 1.5)
    for bound in ("hoeffding", "empirical-bernstein"):
        assert believe(problem, history, bound)[0].lcb == pytest.approx(1.5 - 0.5 * sqrt(2 * log_horizon / 2))
    history = make_history([(0, X, 1.0, 1.0)])
    problem = replace(problem, cost_ceiling=0.5, budget=to_micros(1))
    assert horizon(problem, history) == 1.0
    for bound in ("hoeffding", "empirical-bernstein"):
        assert believe(problem, history, bound)[0].lcb == pytest.approx(1.0 - 0.5 * sqrt(2 * log(2)))


def test_the_horizon_of_nothing_of_free_trials_and_of_an_overspent_budget_is_what_was_played(problem):
    """No mean cost says how many more there will be, nor does money that is not there."""
    assert horizon(problem, History()) == 0.0
    assert horizon(problem, charged((0, 0.0, True))) == 1.0
    assert horizon(problem, charged((0, 6.0, True), (1, 6.0, True))) == 2.0
    assert horizon(problem, charged((0, 5.5, True), (1, 4.0, True))) == 2.0 + 0.5 / 4.75


def test_known_costs_are_believed_whole(problem, golden):
    """Mean, bound and the most that the next one costs, one for each set; unknown ones may all be free."""
    known = replace(problem, known_costs=(0.1, 0.2, 1.0))
    assert believe(known, charged((1, 7.0, True)), "hoeffding") == (
        CostBelief(0.1, 0.1, 100_000),
        CostBelief(0.2, 0.2, 200_000),
        CostBelief(1.0, 1.0, 1_000_000),
    )
    with golden.raises(ValueError):
        believe(replace(problem, known_costs=(0.1, 0.2)), History(), "hoeffding")
    for bound in ("hoeffding", "empirical-bernstein"):
        assert believe(problem, History(), bound) == (CostBelief(None, 0.0, 0),) * 3


def test_what_a_free_trial_counts_as_comes_from_the_sets_whose_cost_is_known(problem):
    """A set never tried makes nothing dearer; where nothing costs anything, trials are counted."""
    assert booked_when_free(()) == 1
    assert booked_when_free(believe(problem, charged((0, 0.0, True), (1, 0.5, True)), "hoeffding")) == 10_000


@pytest.mark.parametrize(("cost", "trials"), [(0.000023, (2, 7)), (0.000962, (3, 3)), (9.193853, (2, 6))])
def test_few_equal_costs_predict_exactly_themselves_too(problem, cost, trials):
    """The mean of equal numbers may be off by its last bit: that is no scatter, and the last trial is not lost."""
    played = [(i, cost, True) for i, n in enumerate(trials) for _ in range(n)]
    beliefs = believe(problem, charged(*played), "hoeffding")
    assert [b.upper for b in beliefs[:2]] == [to_micros(cost)] * 2


@pytest.mark.parametrize("ceiling", [None, 0.5])
def test_what_keeps_the_next_trial_from_beginning_is_named(problem, golden, ceiling):
    """What is left of the budget, or `max_per_trial`, and then what to do about it."""
    history = charged((0, 0.9, True), (1, 0.8, True))
    capped = replace(problem, cost_ceiling=ceiling, budget=history.spent + to_micros(0.6 if ceiling is None else 9.0))
    golden(too_dear(capped, history, to_micros(0.8), "the cheapest useful trial"))
