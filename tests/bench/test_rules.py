"""Readings on the bench: what nature does with them, and what rules are truly worth."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl import Proposal, TruncatedNormal, UsageError
from rigctl.bench.asking.grid import block_of
from rigctl.bench.asking.options import policy_spec
from rigctl.bench.problems.functions import hartmann3
from rigctl.bench.problems.problem import control_set_problem
from rigctl.bench.problems.rules import Nature, RuleTruth
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.bench.running.simulate import rule_after, run_cell, simulate
from rigctl.core.asking import Decided, Played
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.space import Settings
from tests.bench.players import InTurn, quick_cell

NATURAL = TruncatedNormal.from_moments(0.5, 0.2)


@pytest.fixture(scope="module")
def hartmann():
    return control_set_problem("hartmann3", "moderate", 0.04, 0)


def rules(sets, rho, count=1024):
    """The truth about rules of Hartmann's function, every variable truncated normal."""
    objective, marginals = hartmann3(), [NATURAL] * 3
    truth = ProblemTruth.of(objective, marginals, sets, 0.0)
    return truth, RuleTruth.of(objective, marginals, sets, truth, Nature(rho), count=count)


def always_controlling(found, control_set):
    """The best rule that controls always the same."""
    return Settings(found.settings[:, control_set], np.full(len(found.most), control_set))


@pytest.mark.slow
def test_the_best_rule_of_one_variable_against_brute_force():
    """Two variables are read: on a grid of 41^3 the mean over readings of the best setting's value is the same."""
    truth, found = rules([(1,)], 1.0, count=2048)
    levels = NATURAL.quantile((np.arange(41) + 0.5) / 41)
    a, x, c = np.meshgrid(levels, np.linspace(0, 1, 41), levels, indexing="ij")
    values = hartmann3()(np.stack([a, x, c], axis=-1).reshape(-1, 3)).reshape(41, 41, 41)
    finer = np.linspace(0, 1, 4001)
    brute = np.mean([np.interp(finer, x[i, :, k], values[i, :, k]).max() for i in range(41) for k in range(41)])
    assert found.value(found.best) == pytest.approx(brute, abs=4e-3)
    assert found.most.max(axis=1).mean() == pytest.approx(found.value(found.best), abs=1e-3)
    fixed = found.value(found.always(0, truth.best[0].setting))
    assert (fixed, brute) == (pytest.approx(1.29, abs=0.01), pytest.approx(1.65, abs=0.01))


@pytest.mark.slow
def test_a_rule_that_chooses_the_set_is_worth_more_than_any_that_does_not():
    """Known values of hartmann3; of readings that do not persist nothing can be had."""
    sets = [(1,), (0, 1), (1, 2)]
    truth, found = rules(sets, 1.0, count=256)
    of_sets = [found.value(always_controlling(found, i)) for i in range(3)]
    assert of_sets == [pytest.approx(v, rel=0.03) for v in (1.65, 2.20, 3.77)]
    assert found.value(found.best) >= max(of_sets)
    either = rules([(0,), (1,)], 1.0, count=128)[1]
    assert either.value(either.best) > 1.05 * max(either.value(always_controlling(either, i)) for i in range(2))
    none = rules(sets, 0.0, count=64)[1]
    assert none.most.max() == max(b.value for b in truth.best)


@pytest.mark.slow
def test_a_trial_keeps_what_was_read_as_far_as_it_persists(hartmann):
    """Rho 1: the value itself; rho 0: that of a campaign without readings; between: correlated so, in the parent."""

    def measured(rho, *, told=True):
        nature = None if rho is None else Nature(rho)
        played = simulate(hartmann, InTurn(only=0), hartmann.problem(6.0), 3, nature, told=told)
        return [o for o in played.history.observations if o.control_set == 0]

    alike, apart, never = measured(1.0), measured(0.0), measured(None)
    assert [o.look.x[1:] for o in alike] == [o.x[1:] for o in alike]
    assert [o.x for o in apart] == [o.x for o in never]
    assert all(o.look is None for o in never)
    untold = measured(0.5, told=False)
    half = measured(0.5)
    assert [replace(o, look=None) for o in half] == untold
    pairs = np.array([(r, x) for o in half for r, x in zip(o.look.x[1:], o.x[1:], strict=True)])
    assert np.corrcoef(pairs.T)[0, 1] == pytest.approx(0.5, abs=0.15)
    assert Nature(0.5, 0.1).look(np.array([0.2]), np.array([1.0])).x == (pytest.approx(0.3),)


@pytest.mark.slow
def test_a_learned_rule_is_nearly_the_best_where_all_is_known(hartmann):
    """From 150 outcomes without noise, all over the cube, with readings that persist."""
    _, found = rules([s.indices for s in hartmann.space.control_sets][:4], 1.0, count=32)
    x = np.random.default_rng(1).random((150, 3))
    history = History.of(
        Observation(
            n + 1, n % 4, tuple(row), float(hartmann.objective(row[None])[0]), 100, look=Look(tuple(row), (0.0,) * 3)
        )
        for n, row in enumerate(x)
    )
    space = replace(hartmann.space, control_sets=hartmann.space.control_sets[:4])
    last = Decided(Proposal(1, "", "explore", 0, (0.5,), ""), {})
    ways = rule_after(Played(replace(hartmann.problem(1.0), space=space), history, (last,), "", 0), 0, found.readings)
    best = found.value(found.best)
    fixed = max(found.value(found.always(i, found.settings[0, i, found.masks[i] == 1])) for i in range(4))
    assert best - found.value(ways) < 0.2 * (best - fixed)


@pytest.mark.slow
def test_a_cell_with_readings_measures_the_rule():
    """Inference regret where it is asked for; a policy that is not told is measured by its one setting."""
    cell = replace(quick_cell(budget=0.3), rho=1.0)
    assert quick_cell(budget=0.3).id != cell.id != replace(cell, rho=0.9).id
    for spec in (cell.policy, replace(cell.policy, reading=False)):
        rows = run_cell(replace(cell, policy=spec))
        assert {row["problem"] for row in rows} == {"hartmann3, rho 1"}
        known = [row["inference"] for row in rows if np.isfinite(row["inference"])]
        assert known
        assert min(known) >= 0.0
    blind = policy_spec("blind")
    assert not blind.reading
    assert policy_spec({"label": "mine", "policy": "ucb-cvs", "reading": False}).reading is False


def test_a_grid_names_how_far_readings_persist(golden):
    """A number, a list or nothing; out of range is refused, and problems without anything to read have none."""
    asked = {"problem": ["hartmann3", "levy4"], "policy": "default", "budget": 1, "seeds": 1}
    cells = block_of({**asked, "rho": [None, 0.5], "reading_sd": 0.1}, "grid").cells()
    assert [(c.problem, c.rho, c.reading_sd) for c in cells if c.problem == "hartmann3"] == [
        ("hartmann3", None, 0.0),
        ("hartmann3", 0.5, 0.1),
    ]
    assert all(c.rho is None for c in cells if c.problem == "levy4")
    with pytest.raises(UsageError) as refused:
        block_of({**asked, "rho": 1.5}, "grid")
    golden(refused.value)
