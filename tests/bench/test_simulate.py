"""A simulated campaign: the loop, the money, the streams of chance, the table of regrets."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from rigctl import Learned, ModelOptions, PolicyError, TruncatedNormal, Uniform, UsageError
from rigctl.bench.cell import Cell, PolicySpec
from rigctl.bench.problems.full_control import full_control
from rigctl.bench.problems.problem import CHECKPOINTS, control_set_problem, zdt3
from rigctl.bench.running.simulate import (
    checkpoint_rows,
    columns,
    good_cost,
    initial,
    known_beforehand,
    recommended_after,
    regrets,
    run_cell,
    simulate,
    true_values,
)
from rigctl.core.multi_objective.trade_off import hypervolume
from tests.bench.players import QUICK, InTurn, quick_cell


@pytest.fixture(scope="module")
def hartmann():
    return control_set_problem("hartmann3", "moderate", 0.04, 0)


def play(bench, policy, budget=1.0, seed=3):
    return simulate(bench, policy, bench.problem(budget), seed)


@pytest.mark.slow
def test_a_cell_gives_the_promised_table():
    """A row per charged trial, every column, the cell's key; inference regret where the budget's steps are."""
    rows = run_cell(quick_cell(budget=1.0))
    assert list(rows[0]) == [
        *("cell", "problem", "costs", "variance", "policy", "seed", "budget", "code"),
        *("trial", "control_set", "phase", "cost", "spent", "y"),
        *("value", "simple", "quality", "cost_regret", "cost_varying", "inference", "recommended", "held", "cost_held"),
        *("dear_input", "hypervolume", "decision_s"),
    ]
    assert [row["trial"] for row in rows] == list(range(1, len(rows) + 1))
    assert {(r["cell"], r["problem"], r["policy"], r["seed"]) for r in rows} == {
        (quick_cell(budget=1.0).id, "hartmann3", "quick", 0)
    }
    assert np.cumsum([r["cost"] for r in rows]) == pytest.approx(np.array([r["spent"] for r in rows]))
    assert all(r["decision_s"] > 0 for r in rows)
    assert isnan(rows[0]["hypervolume"])
    asked = [r for r in rows if not isnan(r["inference"])]
    assert 1 <= len(asked) <= CHECKPOINTS
    assert all(r["inference"] >= -1e-9 and r["recommended"].startswith("x") for r in asked)
    assert all(r["recommended"] == "" for r in rows if isnan(r["inference"]))
    within = [r for r in rows if r["spent"] <= 1.0]
    assert not isnan(within[-1]["inference"])


@pytest.mark.slow
def test_the_same_cell_gives_the_same_table():
    """Everything but the seconds, bit for bit."""
    first, second = ([{**r, "decision_s": 0} for r in run_cell(quick_cell())] for _ in range(2))
    # NaN is not equal to itself, its text is
    assert repr(first) == repr(second)


@pytest.mark.slow
def test_policies_on_one_seed_meet_the_same_chance(hartmann):
    """Initial points, uncontrolled values, noise and cost deviates do not depend on what a policy does."""
    one, other = play(hartmann, InTurn(only=0)), play(hartmann, InTurn(at=0.1, only=1))
    n = min(len(one.decisions), len(other.decisions))
    initial = one.history.observations[:5]
    assert initial == other.history.observations[:5]
    assert len({o.x for o in initial}) == 5
    assert {(o.trial, o.control_set, o.cost) for o in initial} == {(0, -1, 0)}  # free, and of no control set
    for a, b in zip(one.history.observations[5 : 5 + n], other.history.observations[5 : 5 + n], strict=True):
        assert a.x[2] == b.x[2]  # controlled by neither
        assert (a.x[0], b.x[1]) == (0.5, 0.1)
        assert a.cost == b.cost
    noise = [
        [o.y - hartmann.objective(np.array([o.x]))[0] for o in c.history.observations[5 : 5 + n]] for c in (one, other)
    ]
    assert noise[0] == pytest.approx(noise[1], abs=1e-12)


@pytest.mark.slow
def test_marginals_may_be_learned_here_too(hartmann):
    """Policies are told concrete ones, from readings of variables left alone, as a rig's are; nature keeps its own.

    Until there are enough readings, and of a variable that was never left alone, the prior is believed.
    """
    prior, real = Uniform(), TruncatedNormal.from_moments(0.7, 0.1)
    variables = [replace(v, marginal=Learned(prior)) for v in hartmann.space.variables]
    bench = replace(hartmann, space=replace(hartmann.space, variables=tuple(variables)), natural=(real,) * 3)
    told = []

    class Curious(InTurn):
        def propose(self, state, problem, history, rng):
            told.append([v.marginal for v in problem.space.variables])
            return super().propose(state, problem, history, rng)

    campaign = simulate(bench, Curious(only=0), bench.problem(2.0), 3)
    assert told[0] == [prior] * 3
    first, *left_alone = told[-1]
    assert first == prior
    assert [m.mean for m in left_alone] == pytest.approx([0.7, 0.7], abs=0.1)
    readings = campaign.history.x[initial(campaign) :, 1:]
    assert readings.mean() == pytest.approx(0.7, abs=0.1)
    assert recommended_after(campaign, len(campaign.decisions) - 1)[0] in range(7)


def test_a_policy_that_has_finished_ends_the_campaign(hartmann, golden):
    """Its reason is kept, its state went through JSON; what a rig would refuse, and wrong options, are errors."""
    campaign = play(hartmann, InTurn(stop_after=3), budget=50.0)
    assert (len(campaign.decisions), campaign.finished) == (3, "enough")
    assert campaign.decisions[-1].state == {"played": [0, 1, 2], "third": 1 / 3}
    with golden.raises(PolicyError):
        play(hartmann, InTurn(at=1.5))
    wrong = PolicySpec("odd", "explore-then-commit", {"tolerance": 2.0})
    with golden.raises(UsageError):
        run_cell(quick_cell(policy=wrong))


def test_regrets_by_hand(hartmann):
    """Simple is the least gap so far; quality, cost and cost-varying add up what section 1 says.

    Simple regret begins with what is known: a trial only counts once it surpasses that; others are of trials alone.
    """
    truth = hartmann.truth
    best = max(b.value for b in truth.best)
    value, costs = np.array([best - 2.0, best - 0.5, best - 1.0]), np.array([0.1, 1.0, 0.2])
    found = regrets(truth, value, costs, cheapest=0.2)
    assert found["simple"] == pytest.approx(np.array([2.0, 0.5, 0.5]))
    share = 0.1 * best  # the floor is 0
    assert found["quality"] == pytest.approx(np.cumsum([2.0 - share, 0.5 - share, 1.0 - share]))
    assert found["cost_regret"] == pytest.approx(np.array([0.0, 0.8, 0.8]))
    assert found["cost_varying"] == pytest.approx(np.cumsum([0.2, 0.5, 0.2]))
    later = regrets(truth, value, costs, 0.2, known=best - 0.8)
    assert later["simple"] == pytest.approx(np.array([0.8, 0.5, 0.5]))
    assert [later[n].tolist() == found[n].tolist() for n in ("quality", "cost_regret", "cost_varying")] == [True] * 3


def test_values_are_those_of_the_played_settings(hartmann):
    """F of every play; {2,3} at 0.2 is within 10 % of full control at 1, at 1 % only full control is."""
    campaign = play(hartmann, InTurn(at=0.3))
    values = true_values(hartmann.truth, campaign.decisions, 7)
    for value, p in zip(values, campaign.decisions, strict=True):
        assert value == hartmann.truth.value(p.proposal.control_set, np.array([p.proposal.setting]))[0]
    assert good_cost(hartmann, hartmann.truth) == 0.2
    assert good_cost(hartmann, hartmann.truth, tolerance=0.01) == 1.0


@pytest.mark.parametrize(
    ("spent", "rows"),
    [([100_000, 250_000, 251_000, 499_000, 500_000, 1_000_000], [0, 1, 2, 4, 5]), ([600_000], [0]), ([1_100_000], [])],
)
def test_checkpoints_are_the_last_rows_within_each_step(spent, rows):
    """Exact at the edge: 499 is no step's last row, as 500 still fits the same; an overspent row is none."""
    assert checkpoint_rows(np.array(spent, dtype=np.int64), 1_000_000) == rows


def test_several_outcomes_go_through_the_same_table():
    """Dear input and hypervolume instead of regrets; both never fall."""
    bench = zdt3()
    campaign = simulate(bench, InTurn(at=0.25), bench.problem(4.0), 0)
    table = columns(bench, campaign)
    assert table["dear_input"] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert [table[f"used_{i}"] for i in range(1, 6)] == [pytest.approx([0.25, 0.5, 0.75, 1.0])] * 5
    assert "used_6" not in table
    assert np.isnan(table["value"]).all()
    seen = campaign.history.outcomes
    assert table["hypervolume"][-1] == pytest.approx(hypervolume(seen, np.zeros(2)))
    assert (np.diff(table["hypervolume"]) >= 0).all()


@pytest.mark.slow
def test_full_control_goes_through_the_same_loop():
    """Costs follow the setting, initial points are the Sobol points of the paper."""
    rows = run_cell(Cell("levy4", "varying", 0.0, QUICK, 0, 12.0))
    assert rows
    assert rows[0]["control_set"] == "x1+x2+x3+x4"
    assert len({row["cost"] for row in rows}) == len(rows)


@pytest.mark.slow
def test_what_is_known_beforehand_counts_under_full_control_only(hartmann):
    """The initial points are settings of the one control set there; of seven sets they are none's."""
    known = ModelOptions("fixed", lengthscales=(0.3,) * 4, signal_sd=1.0, noise_sd=0.1, mean=0.0)
    bench = replace(full_control("levy", 4, "uniform"), model=known)
    campaign = play(bench, InTurn(at=0.0), budget=2.0)
    known = max(o.y for o in campaign.history.observations if o.control_set < 0)
    assert known_beforehand(bench.truth, campaign) == known
    assert known_beforehand(hartmann.truth, play(hartmann, InTurn())) == -np.inf
    corner = bench.objective(np.zeros((1, 4)))[0]
    assert corner < known
    table = columns(bench, campaign)
    assert table["simple"] == pytest.approx([-known, -known])
    assert table["value"] == [corner, corner]
    assert table["cost_varying"] == pytest.approx([-corner, -2 * corner])
