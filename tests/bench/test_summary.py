"""Summaries, curves and comparisons of tables whose figures are known by hand."""

import json
from math import isnan, sqrt

import numpy as np
import pandas as pd
import pytest

from rigctl.bench.tables.results import (
    Stat,
    at_share,
    best_set,
    curve_of,
    left_behind,
    outcome_range,
    steps,
    trials_of,
)
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
LAST_SIMPLE = 5
"""Of the ratios of one scenario: three of inference regret, then three of simple regret, the last at the end."""


def value(trials: pd.DataFrame, column: str, share: float) -> float:
    (found,) = at_share(trials, column, share)
    return found


def test_a_step_function_holds_its_last_value_and_is_unknown_before_the_first() -> None:
    """The value at a cost is the last one at or before it, and what is not finite is passed over."""
    trials = trials_of(frame([rows("a", 0, [0.0] * 3, inference=[5.0, np.nan, 7.0])]))
    places = np.array([0.5, 1.0, 1.9, 2.5, 3.0, 9.0])
    (found,) = steps(trials, "inference", trials["spent"], places).to_numpy()
    assert isnan(found[0])
    assert found[1:].tolist() == [5.0, 5.0, 5.0, 7.0, 7.0]


def test_costs_that_add_up_to_a_share_of_the_budget_in_binary_count_as_reaching_it() -> None:
    """Ten trials at 0.1 end on a budget of 1, though their binary sum may miss it by a rounding error."""
    run = trials_of(frame([rows("a", 0, [0.5] * 9 + [0.1], costs=0.1, setting=("toy", "cheap", 0.04, 1.0))]))
    assert run["spent"].iloc[-1] != 1.0 or run["spent"].iloc[2] != 0.3  # the premise: floats do miss
    assert value(run, "simple", 1.0) == 0.1
    assert value(run, "trial", 0.3) == 3


def test_a_trial_that_overspends_is_not_counted_at_the_end_of_the_budget() -> None:
    """100 % of the budget is the last row whose spent is within it."""
    run = trials_of(frame([rows("a", 0, [0.8, 0.4, 0.1], costs=[2.0, 1.5, 1.0], setting=TWO)]))
    assert value(run, "simple", 1.0) == 0.4
    assert value(run, "trial", 1.0) == 2


def test_inference_regret_is_taken_from_the_last_row_that_has_it() -> None:
    """Rows in which nothing was recommended keep the regret of the last recommendation."""
    nan = float("nan")
    run = trials_of(frame([rows("a", 0, [0.8, 0.4, 0.2, 0.1], setting=TWO, inference=[0.9, nan, nan, 0.3])]))
    assert [value(run, "inference", s) for s in (0.25, 0.5, 1.0)] == [0.9, 0.9, 0.3]


def test_a_mean_has_the_standard_error_of_a_sample() -> None:
    """1, 2, 6: mean 3, sample variance 7, standard error sqrt(7/3); NaN is no value."""
    stat = Stat.of(pd.Series([1.0, 2.0, 6.0, float("nan")]))
    assert (stat.mean, stat.n) == (3.0, 3)
    assert stat.se == pytest.approx(sqrt(7 / 3))
    assert isnan(Stat.of(pd.Series([1.0])).se)
    assert Stat.of(pd.Series([], dtype=float)).n == 0


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


def test_a_single_seed_has_no_standard_error_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has no NaN, so an unknown standard error is null."""
    (row,) = summarise(frame([rows("a", 0, [0.5], setting=TWO)]))
    print_json(row.by_name())
    told = json.loads(capsys.readouterr().out)
    assert told["trial"]["1"] == {"mean": 1.0, "se": None, "n": 1}
    assert [told[name] for name in ("problem", "costs", "variance", "budget")] == list(TWO)


def test_a_curve_against_cost_starts_where_every_seed_has_a_value() -> None:
    """A mean over changing seeds would jump; cumulated quantities are 0 from the start."""
    table = frame(
        [
            rows("a", 0, [0.8, 0.4], costs=[1.0, 1.0], setting=TWO),
            rows("a", 1, [0.6], costs=[2.0], setting=TWO),
        ]
    )
    runs = trials_of(table)
    simple = curve_of(runs, "simple", points=4)
    assert simple.index.tolist() == [2.0, 3.0, 4.0]
    assert simple["mean"].tolist() == pytest.approx([0.5, 0.5, 0.5])
    assert simple["se"].tolist() == pytest.approx([0.1, 0.1, 0.1])
    trials = curve_of(runs, "trial", points=4)
    assert trials.index.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert trials["mean"].tolist() == pytest.approx([0.0, 0.5, 1.5, 1.5, 1.5])


def test_a_curve_against_trials_ends_with_the_shortest_run() -> None:
    """Beyond it the seeds that are left would not be comparable."""
    runs = trials_of(frame([rows("a", 0, [0.8, 0.4, 0.2]), rows("a", 1, [0.6, 0.5])]))
    curve = curve_of(runs, "simple", "trial")
    assert curve.index.tolist() == [1.0, 2.0]
    assert curve["mean"].tolist() == pytest.approx([0.7, 0.45])


def test_the_common_grid_has_the_quarters_of_the_budget() -> None:
    """25, 50 and 100 % of the budget are read off curves and summaries alike."""
    runs = trials_of(frame([rows("a", 0, [0.5], setting=("toy", "moderate", 0.04, 50.0))]))
    assert {12.5, 25.0, 50.0} <= set(curve_of(runs, "simple").index)


def test_a_curve_of_two_policies_is_refused(golden) -> None:
    """A mean over different policies means nothing."""
    with golden.raises(ValueError):
        curve_of(trials_of(frame([rows("a", 0, [0.5]), rows("b", 0, [0.5])])), "simple")


def test_a_policy_settles_after_its_last_trial_of_another_set() -> None:
    """The diamond stands at the mean cost spent by then, and there is none if a run never settles."""
    settled = trials_of(frame([rows("a", s, [0.5] * 4, sets=["x1", "x1", "x2", "x2"]) for s in (0, 1)]))
    assert left_behind(settled, settled["control_set"] != "x2") == 2.0
    assert isnan(left_behind(settled, settled["control_set"] != "x1"))


def test_the_best_set_is_the_one_whose_trials_reached_most() -> None:
    """Seed by seed the best value each set reached, then the mean: one lucky seed does not decide."""
    table = frame(
        [
            rows("a", 0, [0.0, 0.3], sets=["x1", "x2"]),
            rows("a", 1, [0.9, 0.3], sets=["x1", "x2"]),
        ]
    )
    assert best_set(trials_of(table)) == "x2"


def test_the_outcome_range_reaches_from_the_best_there_is_to_the_worst_played() -> None:
    """Best value 1 by construction; the worst regret is 0.8 in one seed and 0.6 in the other."""
    runs = trials_of(frame([rows("a", 0, [0.8, 0.1]), rows("a", 1, [0.6, 0.3])]))
    assert outcome_range(runs) == pytest.approx(0.7)


def test_the_outcome_range_is_the_same_where_regret_begins_with_points_known_beforehand() -> None:
    """Regrets 0.8, 0.1 after a known 0.5, and 0.6, 0.3 of another policy: still from 1 to 0.2."""
    runs = [rows("a", 0, [0.8, 0.1]), rows("b", 0, [0.6, 0.3])]
    for run in runs:
        for row in run:
            row["simple"] = min(row["simple"], 0.5)
    assert outcome_range(trials_of(frame(runs))) == pytest.approx(0.8)


def compared(ours: float, theirs: tuple[float, float]) -> object:
    last = {"ours": ours, "p": theirs[0], "q": theirs[1]}
    runs = [rows(p, s, [0.8, v], setting=TWO, costs=[1.0, 3.0]) for p, v in last.items() for s in (0, 1)]
    table = frame(runs)
    return compare(table, "ours", ["p", "q"])


def test_the_ratio_is_to_the_best_published_policy_and_averaged_geometrically() -> None:
    """Ratios 1, 1, 1/4 for each of two regrets: geometric mean 4^(-1/3)."""
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


def test_only_seeds_that_both_have_are_compared() -> None:
    """Ours has finished the easy seed only: it is not compared with the mean over easy and hard ones."""
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


def test_being_worse_in_one_place_is_told(golden) -> None:
    """One ratio above 1 lifts the flag, and the text names it."""
    comparison = compared(0.5, (0.4, 0.6))
    assert not comparison.no_worse_everywhere
    golden(comparison_text(comparison))


@pytest.mark.slow
def test_regrets_of_zero_count_as_the_floor() -> None:
    """Zero against zero is 1, zero against 0.08 is the floor's share of it: 1e-4 of the range 0.8."""
    assert compared(0.0, (0.0, 0.5)).ratios[LAST_SIMPLE].ratio == 1.0
    assert compared(0.0, (0.08, 0.5)).ratios[LAST_SIMPLE].ratio == pytest.approx(1e-4 * 0.8 / 0.08)
    assert compared(1e-9, (0.0, 0.5)).ratios[LAST_SIMPLE].no_worse


def test_a_comparison_without_runs_is_an_error(golden) -> None:
    """The message names what the results have."""
    with golden.raises(UsageError):
        compare(frame([rows("a", 0, [0.5])]), "ours", ["a"])


def test_a_foreign_table_is_refused_by_name_of_the_missing_column() -> None:
    """A table without a column of the contract says which."""
    with pytest.raises(UsageError, match="inference"):
        trials_of(frame([rows("a", 0, [0.5])]).drop(columns="inference"))


def test_two_rows_for_one_trial_are_refused() -> None:
    """Results of two different cells under one key would be averaged silently otherwise."""
    table = frame([rows("a", 0, [0.5, 0.4]), rows("a", 0, [0.5, 0.3])])
    with pytest.raises(UsageError, match="twice"):
        trials_of(table)


def test_the_money_until_one_is_as_good_as_another_at_its_end(golden) -> None:
    """A quarter and a half of what the other took, so their geometric mean; a regret below the noise counts as it."""
    ten = {"setting": ("toy", "moderate", 0.04, 10.0), "costs": 0.5}
    slow = [2.0] * 15 + [0.5] * 5
    quick = [[2.0] * 3 + [0.4] * 17, [2.0] * 7 + [0.5] * 13]
    seeds = [rows("a", seed, [0.0] * 20, inference=regrets, **ten) for seed, regrets in enumerate(quick)]
    (row,) = reached(frame([*seeds, *(rows("b", s, [0.0] * 20, inference=slow, **ten) for s in (0, 1))]), "a", ["b"])
    assert (row.other, row.never, row.theirs.mean) == ("b", 0, 0.5)
    assert row.difference.mean == pytest.approx(-0.05)
    assert row.money == pytest.approx(sqrt(4 / 16 * 8 / 16))
    noisy = [rows(name, 0, [0.0] * 20, inference=[end] * 20, **ten) for name, end in (("a", 0.009), ("b", 0.001))]
    assert reached(frame(noisy), "a", ["b"])[0].money == 1.0
    golden(reached_text([row]))


def test_one_that_never_gets_there_is_counted_and_said(golden) -> None:
    """It counts as if it had been at the end of the budget: twenty times what the other took."""
    ten = {"setting": ("toy", "moderate", 0.04, 10.0), "costs": 0.5}
    runs = [
        rows("a", 0, [0.0] * 20, inference=[2.0] * 20, **ten),
        rows("b", 0, [0.0] * 20, inference=[0.5] * 20, **ten),
    ]
    (row,) = reached(frame(runs), "a", ["b"])
    assert (row.never, row.money) == (1, pytest.approx(20.0))
    golden(reached_text([row]))
