"""Grids: from options and files to cells, with every mistake found before anything runs."""

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from typer.testing import CliRunner

from rigctl import ModelOptions, UsageError
from rigctl.bench.asking import grid as checking
from rigctl.bench.asking.grid import Block, Grid, from_options, read_grid
from rigctl.bench.asking.options import build_policy, model_overrides, policy_spec, predefined
from rigctl.bench.cell import Cell, PolicySpec
from rigctl.bench.problems.catalogue import bench_problem, catalogue, entry_of
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.bench.running.simulate import run_cell
from rigctl.console.cli import app
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit
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


REFUSED = (
    # policies that do not fit a problem
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
    # the mistake may stand in the last grid only, for the last policy, at one of its problems
    "grids: [{problem: zdt3, policy: [mo-ucb, ca-mobo], budget: 3}, "
    "{problem: [zdt3, levy4], policy: [default, mo-ucb], budget: 3}]",
    # values of the wrong kind
    base("model: {max_points: 0}"),
    base("model: {nodes: 5000}"),
    base("model: {beta: -2}"),
    base("model: {beta: .inf}"),
    base(f"model: {{beta: {'9' * 400}}}"),
    base("model: {noise_sd: 0}"),
    base("model: {lengthscales: 0.1}"),
    base("model: {lengthscales: [0.1, 0, 1]}"),
    base("model: {betta: 1}"),
    base("model: {bounds: wide}"),
    base("model: [beta]"),
    base("seeds: 0"),
    base("seeds: 2.5"),
    base("seeds: [true]"),
    base("seeds: []"),
    base("seeds: [-1]"),
    base("costs: 3"),
    base("costs: cheep"),
    base("variance: wide"),
    base("varaince: 0.04"),
    *(
        f"{{problem: hartmann3, policy: default, budget: {budget}}}"
        for budget in (".inf", "1e-9", "[20, 30]", "null", "0", "much")
    ),
    "{problem: hartmann3, policy: default}",
    "{problem: 3, policy: default, budget: 3}",
    "{problem: x, policy: defalt, budget: 1}",
    "{problem: x, policy: {label: a, polcy: b}, budget: 1}",
    "{problem: hartmann3, policy: [5], budget: 3}",
    "{problem: hartmann3, policy: {label: 5, policy: ei}, budget: 3}",
    "{problem: hartmann3, policy: {options: {}}, budget: 3}",
    "{problem: hartmann3, policy: [{label: a, policy: ei}, {label: a, policy: ei, options: {initial: 3}}], budget: 1}",
    "3",
    "{a: [}",
    "grids: []",
    # options of a policy, nested ones too
    on("hartmann3", "no-such-thing", "{}"),
    on("hartmann3", "ucb-cvs", "3"),
    on("hartmann3", "ucb-cvs", "{epsilon: 3}"),
    on("hartmann3", "ucb-cvs", "{epsilon: {values: [a]}}"),
    on("hartmann3", "pbgi", "{cost_weight: .nan}"),
    *(
        on("hartmann3", "explore-then-commit", options)
        for options in (
            "{tolernce: 0.1}",
            "{tolerance: much}",
            "{tolerance: true}",
            "{tolerance: 1.0}",
            "{cost_bound: loose}",
            "{explore: {play: 3}}",
            "{explore: {plays: 1.5}}",
            "{explore: {plays: null, share: null}}",
        )
    ),
)


@pytest.mark.slow
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path, golden):
    """Grid, problem, label and key are named, with what was got, what is allowed and the nearest name."""
    for text in REFUSED:
        with golden.raises(UsageError):
            cells_of(tmp_path, text)


def test_a_file_says_what_it_must(tmp_path, golden):
    """`ca-mobo` has its order from the problem; `1e3` is a number; a file that is not there is refused by name."""
    assert len(cells_of(tmp_path, "{problem: [zdt3, trays], policy: ca-mobo, budget: 3, seeds: 2}")) == 4
    (cell,) = cells_of(tmp_path, "{problem: hartmann3, policy: default, budget: 1e3, variance: 4e-2, seeds: 1}")
    assert (cell.budget, cell.variance) == (1000.0, 0.04)
    with golden.raises(UsageError):
        read_grid(tmp_path / "none.yaml")


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


def test_the_command_line_refuses_with_exit_2_and_writes_nothing(tmp_path):
    """No cell has run, and no directory was made."""
    arguments = ("--problem", "hartmann3", "--policy", "mo-ucb", "--budget", "1", "--out", str(tmp_path / "results"))
    found = CliRunner().invoke(app, ["bench", "run", *arguments])
    assert (found.exit_code, "grid: " in found.stderr) == (2, True)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("beta", v) for v in (0.0, float("nan"))),
        *(("nodes", 0), ("max_points", 0), ("lengthscales", (0.1, 0.0))),
        *(("signal_sd", 0.0), ("noise_sd", -0.1), ("mean", float("inf"))),
    ],
)
def test_model_options_refuse_what_can_never_be_right(name, wrong):
    """A number out of range is an error wherever it comes from; what the mathematics takes is taken."""
    with pytest.raises(ValueError, match=f"^{name}: "):
        ModelOptions(**{name: wrong})
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


def test_cells_are_the_product():
    """Each cell once and under a name of its own; that of the default says its kernel as before."""
    asked = {"costs": ["cheap", "moderate"], "variances": [0.02, 0.04], "seeds": 3}
    grid = from_options(["hartmann3", "levy6+6"], ["default", "u-alg1-tau5"], 20.0, **asked)
    cells = grid.cells()
    assert len(cells) == len({c.id for c in cells}) == 2 * 2 * 2 * 2 * 3
    assert Grid((*grid.blocks, *grid.blocks)).cells() == cells
    (cell,) = from_options(["hartmann3"], ["default"], 20.0, seeds=1).cells()
    assert cell.policy.model == {"kernel": "matern-5/2"}
    spec = PolicySpec("default", "likely-maximisers", {}, {"kernel": "matern-5/2"})
    assert cell.id == Cell("hartmann3", "moderate", 0.04, spec, 0, 20.0).id


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


def test_predefined_labels_are_what_the_papers_call_them():
    """A definition may build on a label; another option, model, budget or seed is another name, data are not."""
    assert all(policy_spec(label).label == label for label in predefined())
    assert {"etc-50", "etc-ada", "ucb-psq/cost", "u-alg1-tau2", "pbgi-d", "value-per-cost", "default"} <= set(
        predefined()
    )
    mine = policy_spec({"label": "mine", "policy": "u-alg1-tau2", "options": {"tolerance": 0.2}})
    assert (mine.policy, mine.options["tolerance"], mine.options["explore"]["plays"]) == ("explore-then-commit", 0.2, 2)
    spec = PolicySpec("ucb-psq/cost", "ucb-psq", {"per_cost": True})
    cell = Cell("hartmann6+6", "moderate", 0.04, spec, 3, 40.0, "/somewhere")
    assert cell.id.startswith("hartmann6+6-moderate-0.04-ucb-psq-cost-b40-s3-")
    others = [{"policy": replace(spec, options={})}, {"policy": replace(spec, model={"beta": 3})}]
    others += [{"seed": 4}, {"budget": 41.0}]
    assert len({cell.id, *(replace(cell, **changed).id for changed in others)}) == 5
    assert replace(cell, data=None).id == cell.id


GRIDS = Path(__file__).parents[2] / "docs" / "grids"


@pytest.mark.parametrize("path", slow_beyond(1, sorted(GRIDS.glob("*.yaml"), reverse=True)), ids=lambda p: p.stem)
def test_the_grids_of_the_documentation_can_be_run(path, tmp_path):
    """Every problem, cost set and policy they name exists."""
    cells = read_grid(path).cells(data=write_arrays(tmp_path))
    assert len(cells) >= 50
