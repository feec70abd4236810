"""A past decision, looked at again from the journal."""

from dataclasses import replace

import pytest

from rigctl.campaign import replay
from rigctl.campaign.replay import asked, came_of_row, flips_of, prices, situation_before
from rigctl.core.counterfactuals import NO_ANSWER
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit
from tests.campaign.fakes import make_spec
from tests.core.conftest import FIXED


async def done(stage):
    """A campaign of ten trials by a policy that decides by costs."""
    policy = ExploreThenCommit(tolerance=0.3, explore=Exploration(plays=2, share=None))
    spec = make_spec(policy=policy, max_trials=10)
    spec = replace(spec, problem=replace(spec.problem, model=FIXED))
    await stage.run(spec)
    return spec


@pytest.mark.slow
async def test_every_decision_can_be_made_again(stage):
    """From what stood in the journal before it: history, memory, budget and seed."""
    spec = await done(stage)
    with stage.journal() as reader:
        for row in reader.trials():
            assert asked(situation_before(reader, spec, row)) == "+".join(row.control_set)


@pytest.mark.slow
async def test_what_would_have_changed_it_is_found_in_the_past(stage):
    """With the prices of the rig's meters; of a trial done by hand, or that today's code decides otherwise, nothing."""
    spec = await done(stage)
    with stage.journal() as reader:
        row = reader.trials()[-1]
        before, priced = situation_before(reader, spec, row), prices(reader, spec)
        found = flips_of(before, row, priced, most=40)
        assert found.answer == "+".join(row.control_set)
        assert found.asked <= 40
        assert {p.meter for p in priced} == {m.name for m in spec.rig.meters}
        assert flips_of(before, replace(row, origin="manual"), priced) is None
        assert flips_of(before, replace(row, control_set=("z",)), priced, most=40) is None


@pytest.mark.slow
async def test_of_a_choice_that_cannot_be_made_any_more_nothing_is_said(stage, monkeypatch):
    """A policy that cannot decide today has no answer that could change; whoever asks is told the rest."""
    spec = await done(stage)
    monkeypatch.setattr(replay, "asked", lambda _: NO_ANSWER)
    with stage.journal() as reader:
        row = reader.trials()[-1]
        assert flips_of(situation_before(reader, spec, row), row, prices(reader, spec)) is None


@pytest.mark.slow
async def test_what_came_of_it_is_held_against_what_was_expected(stage):
    """Outcome and cost of a trial that is over; a trial without a proposal has no expectation."""
    spec = await done(stage)
    with stage.journal() as reader:
        row = reader.trials()[-1]
        before, state = situation_before(reader, spec, row), reader.policy_state(before=row.trial + 1)
        found = came_of_row(before, row, state)
        assert found.outcome == row.outcome
        assert found.expected.low < found.expected.mean < found.expected.high
        assert found.expected_cost is not None
        assert came_of_row(before, replace(row, proposal=None), state) is None
