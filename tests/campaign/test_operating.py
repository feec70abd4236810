"""Production: batches by the rule, after a campaign, on the fake rig."""

from __future__ import annotations

from dataclasses import replace

from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.replay import replay
from rigctl.core.experiment.problem import ModelOptions, Problem
from rigctl.core.money import to_micros
from rigctl.core.operating.memory import remembered
from rigctl.core.operating.policy import Operating
from tests.campaign.fakes import make_space, make_spec

MODEL = ModelOptions(
    hyperparameters="fixed", kernel="matern-5/2", lengthscales=(0.5, 0.5), signal_sd=4.0, noise_sd=0.3, mean=4.0
)


def campaign(**changes):
    """A campaign of six trials."""
    problem = Problem(make_space(), to_micros(100), model=MODEL)
    return make_spec(**{"problem": problem, "max_trials": 6, **changes})


def production(spec, batches, **wish):
    """The same, run for production."""
    return replace(spec, operating=Operating(spec.policy, 0.05, spec.seed, **wish), batches=batches)


def sound(stage, spec):
    """The journal holds, and every decision comes out again."""
    with stage.journal() as journal:
        assert violations(journal) == ()
        assert [t.differences for t in replay(journal, spec) if not t.agrees] == []


async def test_batches_play_what_was_recommended_and_cost_no_budget(stage):
    """The same setting batch after batch, as many as asked for; in the ledger, and no part of what was spent."""
    spec = campaign()
    await stage.run(spec)
    result = await stage.run(production(spec, 3))
    assert (result.ending, result.reason, result.trials) == ("trials", "3 of 3 batches done", 9)
    with stage.journal() as journal:
        rows = journal.trials()
        assert [row.operated for row in rows] == [False] * 6 + [True] * 3
        assert {row.proposal.phase for row in rows[6:]} == {"operate"}
        assert len({tuple(row.setpoints.items()) for row in rows[6:]}) == 1
        history = journal.history(spec.problem.space)
        assert result.spent == history.spent == sum(row.cost for row in rows[:6]) == journal.campaign().spent
        assert journal.campaign().operated == sum(row.cost for row in rows[6:]) == result.operated
        memory = remembered(rows[-1].policy_state)
        assert (memory.begun, memory.since, memory.outcomes) == (7, 6, 6)
    sound(stage, spec)
