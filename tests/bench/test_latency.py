"""The bench measures what a decision computes; how fast the machine is, is not a test's business."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from rigctl.bench.latency import fitted_state, history, measure, measure_latency, plant_problem, policy_to_measure
from rigctl.config.load import load_text
from rigctl.core.asking import trial_rng
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.errors import UsageError

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_a_row_says_what_was_measured():
    """One row per kind of bounds and number of trials, with spread and a baseline from the same run."""
    rows = measure_latency(n_values=(8, 12), repeats=2, seed=3, policy="explore-then-commit")
    assert [(r.policy, r.bounds, r.n) for r in rows] == [
        ("explore-then-commit", "integrated", 8),
        ("explore-then-commit", "integrated", 12),
        ("explore-then-commit", "pointwise", 8),
        ("explore-then-commit", "pointwise", 12),
    ]
    for row in rows:
        assert (row.d, row.sets, row.repeats, row.kernel) == (5, 7, 2, "matern-5/2")
        assert 0 < row.min_s <= row.median_s <= row.max_s
        assert row.ratio == pytest.approx(row.median_s / row.baseline_s)
        assert row.restart_s > 0
        assert row.refit_s > 0
        assert row.nodes == (128 if row.bounds == "pointwise" else None)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "phase"), [("likely-maximisers", "explore"), ("value-per-cost", "value")])
def test_other_policies_are_measured_in_the_phase_that_takes_longest(name, phase):
    """What is timed is a decision that weighs, not one that plays the best known."""
    policy = policy_to_measure(name)
    problem = plant_problem("integrated")
    proposal, _ = policy.propose(policy.initial_state(problem), problem, history(20, 1), trial_rng(0, 21))
    assert proposal.phase == phase
    assert [r.policy for r in measure_latency((8,), ("integrated",), 1, policy=name)] == [name]


def test_a_policy_that_needs_options_is_refused():
    """There is no order of variables to guess."""
    with pytest.raises(UsageError, match="order"):
        policy_to_measure("ca-mobo")


@pytest.mark.slow
def test_any_policy_can_be_measured_one_trial_after_the_other():
    """Every decision knows one trial more than the last, from a memory that names the model of the last fit."""
    asked = []

    @dataclass(frozen=True)
    class Recorder(ExploreThenCommit):
        name = "recorder"

        def propose(self, state, problem, history, rng):
            asked.append((len(history), state["fitted_at"], id(history.memo)))
            return super().propose(state, problem, history, rng)

    row = measure(Recorder(), 12, plant_problem("integrated"), repeats=3)
    assert (row.policy, row.n, row.repeats) == ("recorder", 12, 3)
    assert [n for n, _, _ in asked] == [9, 10, 11, 12, 12, 12]
    memos = [memo for _, _, memo in asked]
    assert len({*memos[:4], memos[5]}) == 1
    assert memos[4] != memos[0]
    assert asked[5][1] == 1


@pytest.mark.slow
def test_what_a_configuration_that_says_nothing_runs_is_measured():
    """Its policy, its kernel and all else of its model; the hyper-parameters known beforehand are of that kernel."""
    said = (ROOT / "config" / "greenhouse.yaml").read_text(encoding="utf-8").splitlines()
    loaded = load_text(
        "\n".join(line for line in said if not line.startswith(("policy:", "model:"))), Path("silent.yaml")
    )
    (row,) = measure_latency((6,), ("integrated",), 1)
    assert (row.policy, row.kernel) == (loaded.policy.name, loaded.problem.model.kernel_used)
    assert plant_problem("integrated").model == loaded.problem.model
    state = fitted_state(policy_to_measure(row.policy), plant_problem("integrated"), 1)
    assert state["hyperparameters"]["kernel"] == row.kernel


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"n_values": (0,)}])
def test_nothing_to_measure_is_refused(wrong, golden):
    """No repeats or no trials is an error, not an empty average."""
    with golden.raises(ValueError):
        measure_latency(**{"n_values": (5,), "repeats": 1, **wrong})
