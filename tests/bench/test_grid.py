"""Grids: from options and files to cells, with every mistake found before anything runs."""

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from typer.testing import CliRunner

from rigctl.bench.asking import grid as checking
from rigctl.bench.asking.grid import Block, Grid, from_options, read_grid
from rigctl.bench.asking.options import build_policy, model_overrides, policy_spec, predefined
from rigctl.bench.cell import Cell, PolicySpec
from rigctl.bench.problems.catalogue import bench_problem, catalogue, entry_of
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.bench.running.simulate import run_cell
from rigctl.console.cli import app
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit
from rigctl.errors import UsageError
from tests.bench.arrays import write_arrays
from tests.bench.players import install_plugin
from tests.profiles import slow_beyond

PARTICULAR = """
    from dataclasses import dataclass
    from typing import Any

    @dataclass(frozen=True)
    class Particular:
        name = "particular"
        most: int = 3
        told: Any = None

        def mistakes(self, problem):
            d = problem.space.dimension
            return [("variables", f"got {d}, must be at most {self.most}")] if d > self.most else []

        def initial_state(self, problem):
            return {}

        def propose(self, state, problem, history, rng):
            raise ZeroDivisionError("not to be reached")
"""


def cells_of(folder: Path, text: str, data: Path | None = None) -> tuple[Cell, ...]:
    path = folder / "grid.yaml"
    path.write_text(dedent(text), encoding="utf-8")
    return read_grid(path).cells(data)


def base(more: str) -> str:
    return f"{{problem: hartmann3, policy: default, budget: 3, {more}}}"


def on(problem: str, policy: str, options: str, more: str = "") -> str:
    return f"{{problem: {problem}, policy: {{policy: {policy}, options: {options}}}, budget: 3{more}}}"


MISFITS = (
    on("hartmann3", "ca-mobo", "{}"),
    on("hartmann3", "mo-ucb", "{}"),
    on("hartmann3", "ca-mobo", "{order: [x1]}"),
    on("zdt3", "ca-mobo", "{order: [nickel]}"),
    on("zdt3", "ca-mobo", "{order: [1, 2]}"),
    on("[zdt3, trays]", "ca-mobo", "{order: [x3]}"),
    on("ackley4", "ei", "{}", ", model: {lengthscales: [0.1]}"),
    base("model: {hyperparameters: fixed, mean: null}"),
    base("variance: 0.09"),
    base("variance: -1"),
    on("hartmann3", "ucb-cvs-etc", "{plays: -1}"),
)


def test_a_policy_that_does_not_fit_a_problem_is_refused(tmp_path, golden):
    """Grid, problem, label and key are named, with what was got and what is allowed."""
    for text in MISFITS:
        with golden.raises(UsageError):
            cells_of(tmp_path, text)


def test_every_block_and_every_policy_is_looked_at(tmp_path, golden):
    """The mistake may stand in the last grid only, for the last policy, at one of its problems."""
    good = "{problem: zdt3, policy: [mo-ucb, ca-mobo], budget: 3}"
    bad = "{problem: [zdt3, levy4], policy: [default, mo-ucb], budget: 3}"
    with golden.raises(UsageError):
        cells_of(tmp_path, f"grids: [{good}, {bad}]")


def test_what_the_problem_brings_need_not_be_given(tmp_path):
    """`ca-mobo` has its order from a problem of several outcomes."""
    assert len(cells_of(tmp_path, "{problem: [zdt3, trays], policy: ca-mobo, budget: 3, seeds: 2}")) == 4


def test_a_third_partys_policy_is_asked_too(tmp_path, monkeypatch, golden):
    """Whatever it says does not fit is told, before its first proposal; an option may be anything."""
    install_plugin(tmp_path, "particular_policy", PARTICULAR, "particular", "Particular")
    monkeypatch.syspath_prepend(str(tmp_path))
    with golden.raises(UsageError):
        cells_of(tmp_path, "{problem: levy4, policy: particular, budget: 3}")
    assert cells_of(tmp_path, on("levy4", "particular", "{most: 4}"))
    assert cells_of(tmp_path, on("levy4", "particular", "{most: 4, told: [1, a]}"))


def test_checking_needs_no_truth(tmp_path, monkeypatch):
    """Finding the best settings of a problem can take seconds; that is left to the cells."""

    def found(*_args, **_more):
        raise AssertionError("a truth was looked for")

    monkeypatch.setattr(ProblemTruth, "of", found)
    problems = "[hartmann3, gp-sample3, plant, airfoil, hartmann6+6, ackley6+6, levy6+6]"
    text = f"{{problem: {problems}, policy: [default, etc-ada], budget: 3, seeds: 1}}"
    assert len(cells_of(tmp_path, text, write_arrays(tmp_path))) == 14


@pytest.mark.parametrize("content", [b"", b"rubbish", None], ids=["empty", "rubbish", "other arrays"])
def test_arrays_that_cannot_be_read_are_refused(content, tmp_path, golden):
    """The file is named, and how to name another."""
    file = tmp_path / "airfoil.npz"
    if content is None:
        np.savez(file, other=np.ones(3))
    else:
        file.write_bytes(content)
    with golden.raises(UsageError):
        cells_of(tmp_path, "{problem: airfoil, policy: default, budget: 3}", tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--problem", "hartmann3", "--policy", "mo-ucb", "--budget", "1"),
        ("--problem", "hartmann3", "--policy", "default", "--budget", "inf"),
        ("--problem", "hartmann3", "--policy", "default", "--budget", "1", "--variance", "0.2"),
    ],
)
def test_the_command_line_refuses_with_exit_2_and_writes_nothing(arguments, tmp_path):
    """No cell has run, and no directory was made."""
    found = CliRunner().invoke(app, ["bench", "run", *arguments, "--out", str(tmp_path / "results")])
    assert found.exit_code == 2
    assert "grid: " in found.stderr
    assert not (tmp_path / "results").exists()


WRONG = (
    base("model: {max_points: 0}"),
    base("model: {nodes: 5000}"),
    base("model: {beta: -2}"),
    base("model: {beta: .inf}"),
    base(f"model: {{beta: {'9' * 400}}}"),
    base("model: {noise_sd: 0}"),
    base("model: {lengthscales: 0.1}"),
    base("model: {lengthscales: [0.1, 0, 1]}"),
    base("model: [beta]"),
    base("seeds: 0"),
    base("seeds: 2.5"),
    base("seeds: [true]"),
    base("costs: 3"),
    base("variance: wide"),
    "{problem: hartmann3, policy: default, budget: .inf}",
    "{problem: hartmann3, policy: default, budget: 1e-9}",
    "{problem: hartmann3, policy: default, budget: [20, 30]}",
    "{problem: hartmann3, policy: default, budget: null}",
    "{problem: 3, policy: default, budget: 3}",
    "{problem: hartmann3, policy: [5], budget: 3}",
    "{problem: hartmann3, policy: {label: 5, policy: ei}, budget: 3}",
    "{problem: hartmann3, policy: {options: {}}, budget: 3}",
    on("hartmann3", "ucb-cvs", "3"),
    on("hartmann3", "ucb-cvs", "{epsilon: 3}"),
    on("hartmann3", "ucb-cvs", "{epsilon: {values: [a]}}"),
    on("hartmann3", "pbgi", "{cost_weight: .nan}"),
)


def test_values_of_the_wrong_kind_are_refused(tmp_path, golden):
    """What, where, got and allowed, whatever kind of value stands in a file."""
    for text in WRONG:
        with golden.raises(UsageError):
            cells_of(tmp_path, text)


def test_numbers_that_yaml_takes_for_text_are_numbers(tmp_path):
    """`1e3` and `4e-2`, which the YAML of this reader has as text."""
    (cell,) = cells_of(tmp_path, "{problem: hartmann3, policy: default, budget: 1e3, variance: 4e-2, seeds: 1}")
    assert (cell.budget, cell.variance) == (1000.0, 0.04)


def test_a_grid_without_grids_is_refused(tmp_path, golden):
    """An empty list would run nothing, in silence."""
    with golden.raises(UsageError):
        cells_of(tmp_path, "grids: []")


def test_model_options_refuse_what_can_never_be_right():
    """A number out of range is an error wherever it comes from; what the mathematics takes is taken."""
    for wrong in (
        {"beta": 0.0},
        {"beta": float("nan")},
        {"nodes": 0},
        {"max_points": 0},
        {"lengthscales": (0.1, 0.0)},
        {"signal_sd": 0.0},
        {"noise_sd": -0.1},
        {"mean": float("inf")},
    ):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"^{name}: "):
            ModelOptions(**wrong)
    assert ModelOptions("fixed", lengthscales=(0.1,), signal_sd=1.0, noise_sd=0.0, mean=-3.0).noise_sd == 0.0


def test_every_problem_has_fixed_hyperparameters(tmp_path):
    """As documented: lengthscale 0.1 for the Gaussian-process sample and Hartmann's, 0.2 else; signal 1, noise 0.01."""
    data = str(write_arrays(tmp_path))
    for name in catalogue():
        cell = Cell(name, entry_of(name).usual, 0.04, PolicySpec("ei", "ei"), 0, 1.0, data)
        told = checking._outline(cell).problem(1.0, {"hyperparameters": "fixed"})
        scale = 0.1 if name.startswith(("gp-", "hartmann")) else 0.2
        assert told.model.lengthscales == (scale,) * told.space.dimension, name
        assert (told.model.signal_sd, told.model.noise_sd, told.model.mean) == (1.0, 0.01, 0.0)


@pytest.mark.parametrize(("problem", "policy"), [("ackley4", "ei"), ("zdt3", "mo-ucb"), ("zdt3", "default")])
def test_fixed_hyperparameters_run_where_no_paper_has_them(problem, policy):
    """Full-control problems and those of two outcomes."""
    (cell,) = from_options([problem], [policy], 3.0, seeds=1, hyperparameters="fixed").cells()
    assert len(run_cell(cell)) == 3


@pytest.mark.parametrize(
    ("policy", "model", "kernel"),
    [
        ("default", {}, "matern-5/2"),
        ("default", {"hyperparameters": "fixed"}, "squared-exponential"),
        ("default", {"hyperparameters": "fixed", "kernel": "matern-5/2"}, "matern-5/2"),
        ("default", {"kernel": "squared-exponential"}, "squared-exponential"),
        ({"policy": "default", "model": {"hyperparameters": "fixed"}}, {}, "squared-exponential"),
        ({"policy": "default", "model": {"kernel": "matern-5/2"}}, {"hyperparameters": "fixed"}, "matern-5/2"),
        ({"policy": "default", "model": {"hyperparameters": "learned"}}, {"hyperparameters": "fixed"}, "matern-5/2"),
        ("likely-maximisers", {}, "squared-exponential"),
    ],
)
def test_the_default_has_the_kernel_of_a_configuration_that_says_nothing(policy, model, kernel):
    """Matern where hyper-parameters are learned, squared-exponential where they are fixed, or what the grid names."""
    grid = Grid((Block(("hartmann3",), (policy_spec(policy),), 1.0, seeds=(0,), model=model),))
    (cell,) = grid.cells()
    told = bench_problem(cell).problem(1.0, model_overrides(cell.policy))
    assert told.model.kernel_used == kernel


def test_a_cell_of_the_default_keeps_its_name():
    """With learned hyper-parameters the kernel stands in it as before, so results that are there go on being used."""
    (cell,) = from_options(["hartmann3"], ["default"], 20.0, seeds=1).cells()
    assert cell.policy.model == {"kernel": "matern-5/2"}
    spec = PolicySpec("default", "likely-maximisers", {}, {"kernel": "matern-5/2"})
    assert cell.id == Cell("hartmann3", "moderate", 0.04, spec, 0, 20.0).id


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
    cells = cells_of(
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
        (f"{BASE}, varaince: 0.04}}", 'key: got "varaince".*did you mean "variances"'),
        ("{problem: hartmann3, policy: default}", "budget is missing"),
        (f"{BASE}, costs: cheep}}", 'costs of hartmann3: got "cheep".*did you mean "cheap"'),
        (f"{BASE}, seeds: []}}", "no seeds"),
        (f"{BASE}, seeds: [-1]}}", "must be 0 or more"),
        ("{problem: hartmann3, policy: default, budget: 0}", "must be more than nothing"),
        ("{problem: hartmann3, policy: default, budget: much}", 'grid 1: budget: got "much", must be a number'),
        (f"{BASE}, model: {{betta: 1}}}}", 'model.betta: unknown key.*did you mean "beta"'),
        (f"{BASE}, model: {{bounds: wide}}}}", 'bounds: got "wide", must be integrated or pointwise'),
        ("{problem: x, policy: defalt, budget: 1}", 'policy: got "defalt".*did you mean "default"'),
        ("{problem: x, policy: {label: a, polcy: b}, budget: 1}", 'polcy: unknown key.*did you mean "policy"'),
        ("3", "must be a mapping"),
        ("{a: [}", "is not YAML"),
    ],
)
def test_mistakes_in_a_file_are_told_with_the_remedy(text, message, tmp_path):
    """Each with what was got and what is allowed."""
    with pytest.raises(UsageError, match=message):
        cells_of(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path, golden):
    """By name."""
    with golden.raises(UsageError):
        read_grid(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolernce": 0.1}, 'options.tolernce: unknown key.*did you mean "tolerance"'),
        ({"tolerance": "much"}, 'tolerance: got "much", must be a number'),
        ({"tolerance": True}, "tolerance: got true, must be a number"),
        ({"cost_bound": "loose"}, 'cost_bound: got "loose", must be hoeffding or empirical-bernstein'),
        ({"explore": {"play": 3}}, 'explore.play: unknown key.*did you mean "plays"'),
        ({"explore": {"plays": 1.5}}, "plays: got 1.5, must be a whole number"),
        ({"explore": {"plays": None, "share": None}}, "give plays, share or both"),
        ({"tolerance": 1.0}, "tolerance: got 1,"),
    ],
)
def test_mistakes_in_options_are_found_before_anything_runs(options, message):
    """Names, kinds and ranges, nested ones too."""
    block = Block(("hartmann3",), (PolicySpec("mine", "explore-then-commit", options),), 1.0)
    with pytest.raises(UsageError, match=message):
        Grid((block,)).cells()


def test_a_policy_that_is_not_installed_is_found_before_anything_runs(golden):
    """By its name, with those that are."""
    with golden.raises(UsageError):
        Grid((Block(("hartmann3",), (PolicySpec("x", "no-such-thing"),), 1.0),)).cells()


def test_one_label_is_one_policy(golden):
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
