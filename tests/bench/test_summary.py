"""Summaries, curves, comparisons and standings, of tables whose figures are known by hand."""

import json
from math import exp, isnan, log, nan, sqrt

import numpy as np
import pandas as pd
import pytest

from rigctl.bench.tables.results import Stat, at_share, best_set, curve_of, left_behind, outcome_range, steps, trials_of
from rigctl.bench.tables.standings import EVERY, LEAST, coverage, coverage_text, standings, standings_text
from rigctl.bench.tables.summary import (
    REGRETS,
    compare,
    comparison_text,
    reached,
    reached_text,
    summarise,
    summary_text,
)
from rigctl.console.output import print_json
from rigctl.errors import UsageError
from tests.bench.tables import frame, rows

TWO = ("toy", "moderate", 0.04, 4.0)
"""Budget 4: trials of cost 1 end exactly on each quarter."""
TEN = {"setting": ("toy", "moderate", 0.04, 10.0), "costs": 0.5}
LAST_SIMPLE = 5
"""Of the ratios of one scenario: three of inference regret, then three of simple regret, the last at the end."""


def value(trials: pd.DataFrame, column: str, share: float) -> float:
    (found,) = at_share(trials, column, share)
    return found


def test_a_step_function_holds_its_last_value_and_is_unknown_before_the_first():
    """What is not finite is passed over; a mean over changing seeds would jump; cumulated quantities start at 0."""
    trials = trials_of(frame([rows("a", 0, [0.0] * 3, inference=[5.0, np.nan, 7.0])]))
    places = np.array([0.5, 1.0, 1.9, 2.5, 3.0, 9.0])
    (found,) = steps(trials, "inference", trials["spent"], places).to_numpy()
    assert isnan(found[0])
    assert found[1:].tolist() == [5.0, 5.0, 5.0, 7.0, 7.0]
    table = frame(
        [rows("a", 0, [0.8, 0.4], costs=[1.0, 1.0], setting=TWO), rows("a", 1, [0.6], costs=[2.0], setting=TWO)]
    )
    runs = trials_of(table)
    simple = curve_of(runs, "simple", points=4)
    assert simple.index.tolist() == [2.0, 3.0, 4.0]
    assert simple["mean"].tolist() == pytest.approx([0.5, 0.5, 0.5])
    assert simple["se"].tolist() == pytest.approx([0.1, 0.1, 0.1])
    trials = curve_of(runs, "trial", points=4)
    assert trials.index.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert trials["mean"].tolist() == pytest.approx([0.0, 0.5, 1.5, 1.5, 1.5])


ENDS = ("toy", "cheap", 0.04, 1.0)
NAN = float("nan")


@pytest.mark.parametrize(
    ("given", "column", "found"),
    [
        ({"simple": [0.5] * 9 + [0.1], "costs": 0.1, "setting": ENDS}, "simple", {1.0: 0.1}),
        ({"simple": [0.5] * 9 + [0.1], "costs": 0.1, "setting": ENDS}, "trial", {0.3: 3}),
        ({"simple": [0.8, 0.4, 0.1], "costs": [2.0, 1.5, 1.0]}, "simple", {1.0: 0.4}),
        ({"simple": [0.8, 0.4, 0.1], "costs": [2.0, 1.5, 1.0]}, "trial", {1.0: 2}),
        (
            {"simple": [0.8, 0.4, 0.2, 0.1], "inference": [0.9, NAN, NAN, 0.3]},
            "inference",
            {0.25: 0.9, 0.5: 0.9, 1.0: 0.3},
        ),
    ],
    ids=["sums in binary", "and their count", "overspent", "and its count", "what is known holds on"],
)
def test_the_value_at_a_share_of_the_budget_is_that_of_the_last_row_within_it(given, column, found) -> None:
    """Ten trials at 0.1 end on a budget of 1, whatever floats make of it; a trial that overspends is not counted.

    Rows in which nothing was recommended keep the regret of the last recommendation.
    """
    run = trials_of(frame([rows("a", 0, **{"setting": TWO, **given})]))
    assert {share: value(run, column, share) for share in found} == found


@pytest.mark.slow
def test_a_mean_has_the_standard_error_of_a_sample(capsys):
    """1, 2, 6: sample variance 7, standard error sqrt(7/3); JSON has no NaN, so an unknown one is null."""
    stat = Stat.of(pd.Series([1.0, 2.0, 6.0, float("nan")]))
    assert (stat.mean, stat.n) == (3.0, 3)
    assert stat.se == pytest.approx(sqrt(7 / 3))
    assert isnan(Stat.of(pd.Series([1.0])).se)
    assert Stat.of(pd.Series([], dtype=float)).n == 0
    (row,) = summarise(frame([rows("a", 0, [0.5], setting=TWO)]))
    print_json(row.by_name())
    told = json.loads(capsys.readouterr().out)
    assert told["trial"]["1"] == {"mean": 1.0, "se": None, "n": 1}
    assert [told[name] for name in ("problem", "costs", "variance", "budget")] == list(TWO)


@pytest.mark.slow
def test_the_summary_of_two_seeds_is_the_one_computed_by_hand() -> None:
    """Means and standard errors of both regrets at each share, of the cumulated ones, trials and decision time."""
    table = frame(
        [
            rows("a", 0, [0.8, 0.4, 0.2, 0.1], setting=TWO, decision_s=[0.1, 0.3, 0.1, 0.3]),
            rows("a", 1, [0.6, 0.6, 0.4, 0.3], setting=TWO, decision_s=[0.4] * 4),
        ]
    )
    (row,) = summarise(table)
    assert row.at_share["simple", 0.25].mean == pytest.approx(0.7)
    assert row.at_share["simple", 0.5].mean == pytest.approx(0.5)
    assert row.at_share["inference", 1.0].mean == pytest.approx(0.2)
    # 0.1 and 0.3: sample sd sqrt(0.02), over sqrt(2)
    assert row.at_share["simple", 1.0].se == pytest.approx(0.1)
    assert row.at_share["quality", 0.5].mean == pytest.approx((1.2 + 1.2) / 2)
    assert row.at_share["quality", 1.0].mean == pytest.approx((1.5 + 1.9) / 2)
    assert row.at_share["cost_regret", 1.0].mean == pytest.approx(4.0)
    assert row.at_share["trial", 1.0].mean == 4
    assert row.decision_s.mean == pytest.approx(0.3)
    assert ("dear_input", 1.0) not in row.at_share
    assert row.by_name()["simple"]["1"].n == 2
    assert "0.7 ± 0.1" in summary_text([row])


def test_a_curve_against_trials_ends_with_the_shortest_run(golden):
    """Beyond it seeds are not comparable; the budget's quarters are on it; a mean over two policies means nothing."""
    runs = trials_of(frame([rows("a", 0, [0.8, 0.4, 0.2]), rows("a", 1, [0.6, 0.5])]))
    curve = curve_of(runs, "simple", "trial")
    assert curve.index.tolist() == [1.0, 2.0]
    assert curve["mean"].tolist() == pytest.approx([0.7, 0.45])
    runs = trials_of(frame([rows("a", 0, [0.5], setting=("toy", "moderate", 0.04, 50.0))]))
    assert {12.5, 25.0, 50.0} <= set(curve_of(runs, "simple").index)
    with golden.raises(ValueError):
        curve_of(trials_of(frame([rows("a", 0, [0.5]), rows("b", 0, [0.5])])), "simple")


def test_a_policy_settles_after_its_last_trial_of_another_set():
    """At the mean cost spent by then, if ever; the best set has the best means: one lucky seed does not decide."""
    settled = trials_of(frame([rows("a", s, [0.5] * 4, sets=["x1", "x1", "x2", "x2"]) for s in (0, 1)]))
    assert left_behind(settled, settled["control_set"] != "x2") == 2.0
    assert isnan(left_behind(settled, settled["control_set"] != "x1"))
    table = frame([rows("a", seed, [worse, 0.3], sets=["x1", "x2"]) for seed, worse in enumerate((0.0, 0.9))])
    assert best_set(trials_of(table)) == "x2"


def test_the_outcome_range_reaches_from_the_best_there_is_to_the_worst_played():
    """Best 1 by construction, worst regrets 0.8 and 0.6; the same where regret begins with a known 0.5."""
    runs = trials_of(frame([rows("a", 0, [0.8, 0.1]), rows("a", 1, [0.6, 0.3])]))
    assert outcome_range(runs) == pytest.approx(0.7)
    table = frame([rows("a", 0, [0.8, 0.1]), rows("b", 0, [0.6, 0.3])])
    assert outcome_range(trials_of(table.assign(simple=table["simple"].clip(upper=0.5)))) == pytest.approx(0.8)


def compared(ours: float, theirs: tuple[float, float]) -> object:
    last = {"ours": ours, "p": theirs[0], "q": theirs[1]}
    runs = [rows(p, s, [0.8, v], setting=TWO, costs=[1.0, 3.0]) for p, v in last.items() for s in (0, 1)]
    return compare(frame(runs), "ours", ["p", "q"])


@pytest.mark.slow
def test_the_ratio_is_to_the_best_published_policy_and_averaged_geometrically():
    """Ratios 1, 1, 1/4 for each of two regrets: 4^(-1/3); a seed that one has not finished is not compared."""
    comparison = compared(0.1, (0.4, 0.6))
    end = [r for r in comparison.ratios if r.share == 1.0 and r.regret in REGRETS]
    assert [r.best_policy for r in end] == ["p", "p"]
    assert [r.ratio for r in end] == pytest.approx([0.25, 0.25])
    assert end[0].difference.mean == pytest.approx(-0.3)
    assert comparison.geometric_mean() == pytest.approx(4 ** (-1 / 3))
    assert comparison.geometric_mean("simple", 1.0) == pytest.approx(0.25)
    # .9 against 1.2 in all, of a range of .8 in both trials; the same trials cost the same
    assert comparison.geometric_mean("quality", 1.0) == pytest.approx(0.75)
    assert comparison.geometric_mean("cost_regret") == 1.0
    assert comparison.no_worse_everywhere
    assert comparison.by_name()["no_worse_everywhere"] is True
    ends = {("ours", 0): 0.1, ("p", 0): 0.1, ("p", 1): 0.7}
    table = frame([rows(p, s, [0.8, v], setting=TWO, costs=[1.0, 3.0]) for (p, s), v in ends.items()])
    last = compare(table, "ours", ["p"]).ratios[LAST_SIMPLE]
    assert last.ratio == pytest.approx(1.0)
    assert (last.ours.n, last.best.n) == (1, 1)


@pytest.mark.slow
def test_a_published_policy_that_was_not_run_is_told() -> None:
    """The best of those that are there may not be the best there is."""
    ends = {"ours": 0.1, "p": 0.4}
    table = frame([rows(p, 0, [0.8, v], setting=TWO, costs=[1.0, 3.0]) for p, v in ends.items()])
    comparison = compare(table, "ours", ["p", "q"])
    assert {r.missing for r in comparison.ratios} == {("q",)}
    assert "Without q: " in comparison_text(comparison)
    assert "Without" not in comparison_text(compare(table, "ours", ["p"]))


@pytest.mark.slow
def test_being_worse_in_one_place_is_told(golden):
    """One ratio above 1 lifts the flag, and the text names it; without runs the message names what there is."""
    comparison = compared(0.5, (0.4, 0.6))
    assert not comparison.no_worse_everywhere
    golden(comparison_text(comparison))
    with golden.raises(UsageError):
        compare(frame([rows("a", 0, [0.5])]), "ours", ["a"])


@pytest.mark.slow
def test_regrets_of_zero_count_as_the_floor() -> None:
    """Zero against zero is 1, zero against 0.08 is the floor's share of it: 1e-4 of the range 0.8."""
    assert compared(0.0, (0.0, 0.5)).ratios[LAST_SIMPLE].ratio == 1.0
    assert compared(0.0, (0.08, 0.5)).ratios[LAST_SIMPLE].ratio == pytest.approx(1e-4 * 0.8 / 0.08)
    assert compared(1e-9, (0.0, 0.5)).ratios[LAST_SIMPLE].no_worse


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (frame([rows("a", 0, [0.5])]).drop(columns="inference"), "inference"),
        (frame([rows("a", 0, [0.5, 0.4]), rows("a", 0, [0.5, 0.3])]), "twice"),
    ],
)
def test_a_foreign_table_is_refused(table, says) -> None:
    """By the column that is missing; two rows for one trial would be averaged silently otherwise."""
    with pytest.raises(UsageError, match=says):
        trials_of(table)


def test_the_money_until_one_is_as_good_as_another_at_its_end(golden):
    """A quarter and a half of what the other took, noise not counted; one that never gets there counts at the end."""
    slow = [2.0] * 15 + [0.5] * 5
    quick = [[2.0] * 3 + [0.4] * 17, [2.0] * 7 + [0.5] * 13]
    seeds = [rows("a", seed, [0.0] * 20, inference=regrets, **TEN) for seed, regrets in enumerate(quick)]
    (row,) = reached(frame([*seeds, *(rows("b", s, [0.0] * 20, inference=slow, **TEN) for s in (0, 1))]), "a", ["b"])
    assert (row.other, row.never, row.theirs.mean) == ("b", 0, 0.5)
    assert row.difference.mean == pytest.approx(-0.05)
    assert row.money == pytest.approx(sqrt(4 / 16 * 8 / 16))
    noisy = [rows(name, 0, [0.0] * 20, inference=[end] * 20, **TEN) for name, end in (("a", 0.009), ("b", 0.001))]
    assert reached(frame(noisy), "a", ["b"])[0].money == 1.0
    golden(reached_text([row]))
    runs = [rows(name, 0, [0.0] * 20, inference=[end] * 20, **TEN) for name, end in (("a", 2.0), ("b", 0.5))]
    (row,) = reached(frame(runs), "a", ["b"])
    assert (row.never, row.money) == (1, pytest.approx(20.0))
    golden(reached_text([row]))


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


@pytest.mark.slow
def test_the_figures_are_those_computed_by_hand():
    """Geometric means of shares of the range, which is 1; before its first trial a policy's regret is all of it."""
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
    late = [rows("late", 0, [0.1], costs=2.0, setting=(f"problem{i}", "cheap", 0.04, 4.0)) for i in (0, 1)]
    found = {row.policy: row for row in standings(frame([*_runs(), *late]))[ALL]}
    assert found["late"].means["simple", 0.25] == 1.0
    # the others leave ranges of .8 and .4
    assert found["late"].means["simple", 0.5] == pytest.approx(sqrt(0.1 / 0.8 * 0.1 / 0.4))
    assert found["late"].problems == 2


@pytest.mark.slow
def test_regrets_of_nothing_count_as_the_floor():
    """Neither zero nor negative regrets make a mean meaningless; what one has not played counts for nobody."""
    found = {row.policy: row for row in standings(table({**ENDS, "a": (0.0, 0.0)}))[ALL]}
    assert found["a"].means["simple", 1.0] == pytest.approx(LEAST["simple"])
    assert found["a"].means["quality", 0.25] == pytest.approx(LEAST["quality"])
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


@pytest.mark.slow
def test_costs_are_told_apart_where_there_are_problems_enough(golden) -> None:
    """Of each class of costs with two problems and more there is a table of its own."""
    both = frame([*_runs(), *(rows(p, 0, [e[0]] * 4, setting=("x", "expensive", 0.04, 4.0)) for p, e in ENDS.items())])
    golden(list(standings(both)))
    assert list(standings(table())) == [ALL]


@pytest.mark.slow
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


def test_intervals_are_counted_by_family_and_share_of_the_budget():
    """What was told last within each share counts, in percent and of how many; results of an older rigctl have none."""
    found = {row.family: row.held for row in coverage(told())}
    assert list(found) == [EVERY, "hartmann3", "steps"]
    assert [found["steps"]["value", share] for share in (0.25, 0.5, 1.0)] == [(1, 1), (0, 1), (1, 1)]
    assert [found["steps"]["cost", share] for share in (0.25, 0.5, 1.0)] == [(0, 0), (1, 1), (0, 1)]
    assert found["hartmann3"]["value", 0.25] == (0, 0)
    assert found[EVERY]["value", 1.0] == (2, 2)
    assert coverage(told().drop(columns="held")) == []
    every = coverage_text(coverage(told())).splitlines()[1].split()
    assert every[:2] == ["a", EVERY]
    assert every[2:] == ["100", "50", "100", "80", "-", "100", "0", "50", "5"]
