"""How policies stand on many problems, from tables whose figures are known by hand."""

from math import exp, log, nan, sqrt

import pytest

from rigctl.bench.tables.coverage import EVERY, coverage, coverage_text
from rigctl.bench.tables.standings import LEAST, standings, standings_text
from tests.bench.tables import frame, rows

ALL = "All problems"
ENDS = {"a": (0.1, 0.4), "b": (0.2, 0.2), "c": (0.8, 0.1)}
"""What each policy's regret is on two problems, at every share of the budget."""


def table(ends=ENDS, costs=("cheap", "cheap")):
    """Worst regret 1 in the first trial of each, so the outcome's range is 1; one cost of a quarter of the budget."""
    return frame(
        rows(policy, 0, [end] * 4, setting=(f"problem{i}", costs[i], 0.04, 4.0), quality=[0.0, end, end, 4 * end])
        for policy, regrets in {**ends, "worst": (1.0, 1.0)}.items()
        for i, end in enumerate(regrets)
    )


def test_the_figures_are_those_computed_by_hand() -> None:
    """Geometric means sqrt(.1 .4) = sqrt(.2 .2) = .2 and sqrt(.8 .1) = .28; shares of the range, which is 1."""
    found = {row.policy: row for row in standings(table())[ALL]}
    assert list(found) == ["a", "b", "c", "worst"]
    assert found["a"].means["simple", 1.0] == pytest.approx(0.2)
    assert found["b"].means["inference", 0.25] == pytest.approx(0.2)
    # four trials at a cost of 1, each a quarter of the budget
    assert found["a"].means["cost_regret", 0.5] == pytest.approx(0.5)
    assert found["a"].means["quality", 1.0] == pytest.approx(0.2)
    assert (found["c"].best_single, found["c"].problems) == ("a", 2)
    assert found["c"].to_best_single == pytest.approx(sqrt(0.08) / 0.2)
    # against .1 and .2
    assert found["c"].to_best_per_problem == pytest.approx(sqrt(0.8 / 0.1 * 0.1 / 0.2))
    apart = [log(0.8 / 0.1), log(0.1 / 0.4)]
    error = abs(apart[0] - apart[1]) / 2
    assert found["c"].between[1] == pytest.approx(exp(sum(apart) / 2 + 2 * error))


@pytest.mark.slow
def test_regrets_of_nothing_count_as_the_floor() -> None:
    """Neither a zero nor a negative quality regret makes a mean meaningless."""
    found = {row.policy: row for row in standings(table({**ENDS, "a": (0.0, 0.0)}))[ALL]}
    assert found["a"].means["simple", 1.0] == pytest.approx(LEAST["simple"])
    assert found["a"].means["quality", 0.25] == pytest.approx(LEAST["quality"])


@pytest.mark.slow
def test_only_what_all_have_played_is_compared() -> None:
    """A third problem that one policy has not played counts for nobody; one problem is no comparison."""
    more = rows("a", 0, [0.9] * 4, setting=("problem2", "cheap", 0.04, 4.0))
    whole = frame([more, *(run for run in _runs())])
    assert {row.problems for row in standings(whole)[ALL]} == {2}
    assert standings(table().query("problem == 'problem0'")) == {}
    assert standings(table().query("policy == 'a'")) == {}


def _runs():
    return [
        rows(policy, 0, [end] * 4, setting=(f"problem{i}", "cheap", 0.04, 4.0))
        for policy, regrets in ENDS.items()
        for i, end in enumerate(regrets)
    ]


def test_a_policy_without_a_trial_has_achieved_nothing_yet() -> None:
    """Its first trial takes half of the budget: at a quarter its regret is the whole range, and then what it was."""
    late = [rows("late", 0, [0.1], costs=2.0, setting=(f"problem{i}", "cheap", 0.04, 4.0)) for i in (0, 1)]
    found = {row.policy: row for row in standings(frame([*_runs(), *late]))[ALL]}
    assert found["late"].means["simple", 0.25] == 1.0
    # the others leave ranges of .8 and .4
    assert found["late"].means["simple", 0.5] == pytest.approx(sqrt(0.1 / 0.8 * 0.1 / 0.4))
    assert found["late"].problems == 2


@pytest.mark.slow
def test_costs_are_told_apart_where_there_are_problems_enough(golden) -> None:
    """Of each class of costs with two problems and more there is a table of its own."""
    both = frame([*_runs(), *(rows(p, 0, [e[0]] * 4, setting=("x", "expensive", 0.04, 4.0)) for p, e in ENDS.items())])
    golden(list(standings(both)))
    assert list(standings(table())) == [ALL]


def test_the_table_says_what_it_shows(golden) -> None:
    """Units, floors and what the ratios are of; a line for each policy."""
    told = standings_text(standings(table())[ALL])
    first = [line.split()[0] for line in told.splitlines() if line]
    assert set(table()["policy"]) <= set(first)
    golden(told)


DRAWN = ("drawn-40", "cheap", 0.04, 4.0)
NAMED = ("hartmann3", "cheap", 0.04, 4.0)


def told():
    """Four trials of a quarter of the budget each; something is told after the first, the second and the last."""
    here = {"held": [1.0, 0.0, nan, 1.0], "cost_held": [nan, 1.0, nan, 0.0]}
    other = {"held": [nan, 1.0, nan, 1.0], "cost_held": [nan] * 4}
    return frame([rows("a", 0, [0.1] * 4, setting=DRAWN, **here), rows("a", 0, [0.1] * 4, setting=NAMED, **other)])


def test_intervals_are_counted_by_family_and_share_of_the_budget() -> None:
    """What was told last within each share counts."""
    found = {row.family: row.held for row in coverage(told())}
    assert list(found) == [EVERY, "hartmann3", "steps"]
    assert [found["steps"]["value", share] for share in (0.25, 0.5, 1.0)] == [(1, 1), (0, 1), (1, 1)]
    assert [found["steps"]["cost", share] for share in (0.25, 0.5, 1.0)] == [(0, 0), (1, 1), (0, 1)]
    assert found["hartmann3"]["value", 0.25] == (0, 0)
    assert found[EVERY]["value", 1.0] == (2, 2)


def test_results_that_do_not_say_what_held_have_no_such_table() -> None:
    """Such as those of an older rigctl."""
    assert coverage(told().drop(columns="held")) == []


def test_a_line_says_percent_and_of_how_many() -> None:
    """At each share, and of all that were told."""
    every = coverage_text(coverage(told())).splitlines()[1].split()
    assert every[:2] == ["a", EVERY]
    assert every[2:] == ["100", "50", "100", "80", "-", "100", "0", "50", "5"]
