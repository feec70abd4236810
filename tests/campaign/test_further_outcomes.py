"""Outcomes besides the first: measured, journalled, given to the policy, replayed."""

from dataclasses import replace

import pytest

from rigctl.campaign.trial import State
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import FurtherOutcome, Problem
from rigctl.errors import UsageError
from rigctl.rig.spec import OutcomeSpec
from tests.campaign.fakes import INVALID, make_rig_spec, make_space, make_spec

FURTHER = {"yield": lambda a, b: 10.0 - a, "ash": lambda a, b: b}
"""Not in the order of the alphabet, so that an order lost on the way would show."""


def make_two(names=("yield", "ash"), **changes):
    """A campaign with two further outcomes; ash is to be small."""
    further = tuple(FurtherOutcome(n, "g", maximise=n != "ash") for n in names)
    wiring = tuple(OutcomeSpec(name=n, unit="1", sensor=f"{n}_sensor") for n in names)
    problem = Problem(make_space(), to_micros(100), further=further)
    return make_spec(rig=make_rig_spec(outcomes=(*make_rig_spec().outcomes, *wiring)), problem=problem, **changes)


async def test_every_outcome_reaches_the_policy(stage):
    """The journal gives them back in the order they are declared in, beside the variables, not among them."""
    await stage.run(make_two(), further=FURTHER)
    with stage.journal() as journal:
        rows = journal.trials()
        history = journal.history(make_space())
        assert [m.name for m in journal.measurements(1) if m.is_outcome] == ["ash", "y", "yield"]
    assert all(row.state is State.RECORDED for row in rows)
    for row, seen in zip(rows, history.observations, strict=True):
        a, b = row.measured["a"], row.measured["b"]
        assert set(row.measured) == {"a", "b"}
        assert dict(row.further) == {"yield": 10.0 - a, "ash": b}
        assert (seen.y, seen.further) == (a * (1 - b**2), (10.0 - a, b))


@pytest.mark.parametrize(
    ("unread", "how"), [("y", {"y": INVALID}), ("ash", {"ash": INVALID}), ("ash", None)], ids=["y", "ash", "not at all"]
)
async def test_a_trial_without_one_of_its_outcomes_fails(stage, unread, how):
    """A further outcome that could not be read fails the trial like the first; it is charged, and teaches nothing."""
    further = FURTHER if how else {"yield": FURTHER["yield"]}
    await stage.run(make_two(max_trials=1), further=further, measured=how or {})
    with stage.journal() as journal:
        row = journal.trial(1)
        seen = journal.history(make_space()).observations[0]
    assert row.state is State.FAILED
    assert unread in row.because
    assert row.cost > 0
    assert (seen.y, seen.further) == (None, ())


@pytest.mark.slow
async def test_other_outcomes_are_another_experiment(stage):
    """A campaign is not resumed with outcomes added, left out or turned around."""
    spec = make_two(max_trials=1)
    await stage.run(spec, further=FURTHER)
    turned = tuple(replace(f, maximise=not f.maximise) for f in spec.problem.further)
    for other in (make_spec(), make_two(("yield",)), replace(spec, problem=replace(spec.problem, further=turned))):
        with pytest.raises(UsageError, match="further_outcomes"):
            await stage.run(other, further=FURTHER)
