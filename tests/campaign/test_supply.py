"""A supply that changes in mid-campaign: noticed, written down, and recomputed alike from the journal."""

from dataclasses import dataclass, replace

import pytest

from rigctl.campaign.replay import replay
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Space
from rigctl.rig.values import Measurement
from tests.campaign.fakes import TenLines, make_space, make_spec


@dataclass(frozen=True)
class Watchful(TenLines):
    """Remembers what it is told of `b` when that is left alone."""

    def propose(self, state, problem, history, rng):
        proposal, after = super().propose(state, problem, history, rng)
        return proposal, {**after, "b": problem.space.variables[1].marginal.mean}


class Supply(dict):
    """Measurements of the fake rig, where `b` left alone is 0.25: first about 0.2, from the 21st on about 0.7."""

    drawn = 0

    def get(self, name, default):
        if name != "b" or default.value != 0.25:
            return default
        self.drawn += 1
        return Measurement((0.2 if self.drawn <= 20 else 0.7) + 0.05 * (0.618034 * self.drawn % 1), 0.01, 5)


@pytest.mark.slow
async def test_a_change_of_supply_is_journalled_and_replayed(stage, golden):
    """Every proposal says so from the trial on that gave it away, one alarm does, and replay agrees throughout."""
    a, b = make_space().variables
    space = Space.of([a, replace(b, marginal=Learned())], [["a"], ["b"]])
    spec = make_spec(problem=Problem(space, to_micros(10_000)), policy=Watchful(), max_trials=66)
    await stage.run(spec, measured=Supply())
    with stage.journal() as journal:
        trials = journal.trials()
        differences = {t.trial: t.differences for t in replay(journal, spec)}
    assert differences == dict.fromkeys(range(1, 67), ())
    told = [t.trial for t in trials if t.proposal.notes]
    assert 50 < told[0] < 66
    assert told == list(range(told[0], 67))
    news = [a for a in stage.alarms() if "the supply has changed" in a.message]
    assert len(news) == 1
    golden(trials[-1].proposal.notes[0])
    believed = [t.policy_state["b"] for t in trials]
    assert (believed[0], believed[told[0] - 2] < 0.5, believed[-1] > 0.65) == (0.5, True, True)
