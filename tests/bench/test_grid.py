"""Grids: from options and files to cells, with every mistake found before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.bench.asking.grid import Block, Grid, from_options, read_grid
from rigctl.bench.asking.options import build_policy, policy_spec, predefined
from rigctl.bench.cell import Cell, PolicySpec
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit
from rigctl.errors import UsageError
from tests.bench.arrays import write_arrays
from tests.golden import Golden
from tests.profiles import slow_beyond


def written(folder: Path, text: str) -> Path:
    path = folder / "grid.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_cells_are_the_product():
    """Problems x costs x variances x policies x seeds, each cell once and under a name of its own."""
    grid = from_options(
        ["hartmann3", "levy6+6"],
        ["default", "u-alg1-tau5"],
        20.0,
        costs=["cheap", "moderate"],
        variances=[0.02, 0.04],
        seeds=3,
    )
    cells = grid.cells()
    assert len(cells) == len({c.id for c in cells}) == 2 * 2 * 2 * 2 * 3
    assert Grid((*grid.blocks, *grid.blocks)).cells() == cells


def test_a_cells_name_is_a_file_name_and_tells_everything_apart():
    """No odd characters; another option, model, budget or seed is another name; the data directory is not."""
    spec = PolicySpec("ucb-psq/cost", "ucb-psq", {"per_cost": True})
    cell = Cell("hartmann6+6", "moderate", 0.04, spec, 3, 40.0, "/somewhere")
    assert cell.id.startswith("hartmann6+6-moderate-0.04-ucb-psq-cost-b40-s3-")
    others = [
        Cell("hartmann6+6", "moderate", 0.04, PolicySpec("ucb-psq/cost", "ucb-psq"), 3, 40.0),
        Cell("hartmann6+6", "moderate", 0.04, PolicySpec(spec.label, spec.policy, spec.options, {"beta": 3}), 3, 40.0),
        Cell("hartmann6+6", "moderate", 0.04, spec, 4, 40.0),
        Cell("hartmann6+6", "moderate", 0.04, spec, 3, 41.0),
    ]
    assert len({cell.id, *(o.id for o in others)}) == 5
    assert Cell("hartmann6+6", "moderate", 0.04, spec, 3, 40.0).id == cell.id


def test_a_file_may_hold_several_grids(tmp_path):
    """Keys in singular or plural, one value or a list, policies by label or defined in place."""
    path = written(
        tmp_path,
        """
        grids:
          - problem: hartmann3
            policies:
              - default
              - label: mine
                policy: explore-then-commit
                options: {explore: {plays: 3, share: null}}
                model: {beta: 1}
            seeds: 2
            budget: 20
            model: {beta: 3, hyperparameters: fixed}
          - {problems: [levy4], costs: [varying], policy: [default], seeds: [7], budget: 100}
        """,
    )
    cells = read_grid(path).cells()
    assert [(c.problem, c.costs, c.variance, c.policy.label, c.seed, c.budget) for c in cells] == [
        ("hartmann3", "moderate", 0.04, "default", 0, 20.0),
        ("hartmann3", "moderate", 0.04, "mine", 0, 20.0),
        ("hartmann3", "moderate", 0.04, "default", 1, 20.0),
        ("hartmann3", "moderate", 0.04, "mine", 1, 20.0),
        ("levy4", "varying", 0.0, "default", 7, 100.0),
    ]
    assert cells[0].policy.model == {"beta": 3, "hyperparameters": "fixed", "kernel": "squared-exponential"}
    assert cells[1].policy.model["beta"] == 1
    assert build_policy(cells[1].policy) == ExploreThenCommit(explore=Exploration(plays=3, share=None))


BASE = "{problem: hartmann3, policy: default, budget: 3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{BASE}, varaince: 0.04}}", "key: got 'varaince'.*did you mean \"variance\""),
        ("{problem: hartmann3, policy: default}", "budget is missing"),
        (f"{BASE}, costs: cheep}}", "costs of hartmann3: got 'cheep'.*did you mean \"cheap\""),
        (f"{BASE}, seeds: []}}", "no seeds"),
        (f"{BASE}, seeds: [-1]}}", "must be 0 or more"),
        ("{problem: hartmann3, policy: default, budget: 0}", "must be more than nothing"),
        ("{problem: hartmann3, policy: default, budget: much}", "grid 1: budget: got 'much', must be one number"),
        (f"{BASE}, model: {{betta: 1}}}}", "model: option: got 'betta'.*did you mean \"beta\""),
        (f"{BASE}, model: {{bounds: wide}}}}", "bounds: got 'wide', must be 'integrated' or 'pointwise'"),
        ("{problem: x, policy: defalt, budget: 1}", "policy: got 'defalt'.*did you mean \"default\""),
        ("{problem: x, policy: {label: a, polcy: b}, budget: 1}", "key: got 'polcy'.*did you mean \"policy\""),
        ("3", "must be a mapping"),
        ("{a: [}", "is not YAML"),
    ],
)
def test_mistakes_in_a_file_are_told_with_the_remedy(text, message, tmp_path):
    """Each with what was got and what is allowed."""
    with pytest.raises(UsageError, match=message):
        read_grid(written(tmp_path, text)).cells()


def test_a_file_that_is_not_there_is_refused(tmp_path, golden: Golden):
    """By name."""
    with pytest.raises(UsageError) as refused:
        read_grid(tmp_path / "none.yaml")
    golden(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolernce": 0.1}, "option: got 'tolernce'.*did you mean \"tolerance\""),
        ({"tolerance": "much"}, "tolerance: got 'much', must be a finite number"),
        ({"tolerance": True}, "tolerance: got True, must be a finite number"),
        ({"cost_bound": "loose"}, "cost_bound: got 'loose', must be 'hoeffding' or 'empirical-bernstein'"),
        ({"explore": {"play": 3}}, "explore: option: got 'play'.*did you mean \"plays\""),
        ({"explore": {"plays": 1.5}}, "plays: got 1.5, must be a whole number or null"),
        ({"explore": {"plays": None, "share": None}}, "give plays, share or both"),
        ({"tolerance": 1.0}, "tolerance: got 1.0"),
    ],
)
def test_mistakes_in_options_are_found_before_anything_runs(options, message):
    """Names, kinds and ranges, nested ones too."""
    block = Block(("hartmann3",), (PolicySpec("mine", "explore-then-commit", options),), 1.0)
    with pytest.raises(UsageError, match=message):
        Grid((block,)).cells()


def test_a_policy_that_is_not_installed_is_found_before_anything_runs(golden: Golden):
    """By its name, with those that are."""
    with pytest.raises(UsageError) as refused:
        Grid((Block(("hartmann3",), (PolicySpec("x", "no-such-thing"),), 1.0),)).cells()
    golden(refused.value)


def test_one_label_is_one_policy(golden: Golden):
    """Two definitions under one label would be averaged; that is refused."""
    specs = (PolicySpec("a", "explore-then-commit"), PolicySpec("a", "explore-then-commit", {"tolerance": 0.2}))
    with pytest.raises(UsageError) as refused:
        Grid((Block(("hartmann3",), specs, 1.0),)).cells()
    golden(refused.value)


def test_predefined_labels_are_what_the_papers_call_them():
    """Each keeps its label; a definition may build on one."""
    assert all(policy_spec(label).label == label for label in predefined())
    assert {"etc-50", "etc-ada", "ucb-psq/cost", "u-alg1-tau2", "pbgi-d", "value-per-cost", "default"} <= set(
        predefined()
    )
    mine = policy_spec({"label": "mine", "policy": "u-alg1-tau2", "options": {"tolerance": 0.2}})
    assert (mine.policy, mine.options["tolerance"], mine.options["explore"]["plays"]) == ("explore-then-commit", 0.2, 2)


GRIDS = Path(__file__).parents[2] / "docs" / "grids"


@pytest.mark.parametrize("path", slow_beyond(1, sorted(GRIDS.glob("*.yaml"), reverse=True)), ids=lambda p: p.stem)
def test_the_grids_of_the_documentation_can_be_run(path, tmp_path):
    """Every problem, cost set and policy they name exists."""
    cells = read_grid(path).cells(data=write_arrays(tmp_path))
    assert len(cells) >= 50
