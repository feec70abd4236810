"""What a campaign does with meters that cannot be believed."""

from dataclasses import replace

import pytest

from rigctl.campaign.trial import State
from rigctl.errors import DeviceError
from rigctl.rig.protocols import Severity
from tests.campaign.fakes import METERS, make_rig_spec, make_spec

UNLIMITED = tuple(replace(m, max_per_trial=None) for m in METERS)


def after(reads, change):
    """A meter whose readings are changed from the so-manyth on."""
    times = iter(range(1000))
    return {"power": lambda r: change(r) if next(times) >= reads else r}


@pytest.mark.slow
async def test_fault_41_a_counter_switched_to_mwh_ends_the_campaign_safe(stage, golden):
    """The trial in which it happens is estimated; a MAJOR alarm names the meter, and everything is safe."""
    stage.world.do("energy", kwh=412.75)
    switched = after(3, lambda r: replace(r, value=r.value / 1000.0))
    with golden.raises(DeviceError):
        await stage.run(make_spec(max_trials=9), counters=switched)
    with stage.journal() as journal:
        lines = [line for line in journal.ledger() if line.meter == "power"]
        assert [row.state for row in journal.trials()] == [State.RECORDED] * 3
    assert [(line.amount, line.estimated) for line in lines] == [(37_500, False), (37_500, False), (37_500, True)]
    assert [a.source for a in stage.alarms() if a.severity is Severity.MAJOR] == ["meter power"]
    assert stage.rig.calls[-2:] == ["safe", "close"]


@pytest.mark.slow
async def test_fault_69_a_jump_in_the_first_trial_is_caught_without_any_rating(stage, golden):
    """No connection carries a million kilowatt-hours in a minute; with nothing to estimate from a person is told."""
    spec = make_spec(rig=make_rig_spec(meters=UNLIMITED), max_trials=3)
    result = await stage.run(spec, counters=after(1, lambda r: replace(r, value=r.value + 1e6)))
    with stage.journal() as journal:
        first, *others = (line for line in journal.ledger() if line.meter == "power")
    assert (first.amount, first.estimated) == (0, True)
    assert [line.amount for line in others] == [37_500, 37_500]
    (told,) = (a for a in stage.alarms() if a.source == "meter power")
    assert told.severity is Severity.MINOR
    golden(told.message)
    assert result.spent < 1_000_000


async def test_a_rating_bounds_a_jump_and_gives_the_first_estimate(stage, golden):
    """A rig rated for 10 kW: a first trial that jumps is charged what that can have used in its time."""
    rated = tuple(replace(m, rated_per_h=10.0) if m.name == "power" else m for m in UNLIMITED)
    spec = make_spec(rig=make_rig_spec(meters=rated), max_trials=1)
    await stage.run(spec, counters=after(1, lambda r: replace(r, value=r.value + 40.0)))
    with stage.journal() as journal:
        (line,) = (line for line in journal.ledger() if line.meter == "power")
    assert (line.amount, line.estimated) == (75_000, True)  # 10 kW for 90 s
    golden(line.note)


@pytest.mark.parametrize("good", [0, 1])
async def test_fault_69_a_meter_beyond_its_rating_in_two_trials_in_a_row_ends_the_campaign_safe(stage, golden, good):
    """Once may be a jump; a meter that goes on so charges no third trial before a person has looked at it."""
    rated = tuple(replace(m, rated_per_h=10.0) if m.name == "power" else m for m in UNLIMITED)
    times = iter(range(1000))
    runs_away = {"power": lambda r: replace(r, value=r.value + 40.0 * max(0, next(times) - good))}
    with golden.raises(DeviceError):
        await stage.run(make_spec(rig=make_rig_spec(meters=rated), max_trials=9), counters=runs_away)
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.RECORDED] * (good + 2)
    assert [a.source for a in stage.alarms() if a.severity is Severity.MAJOR] == ["meter power"]
    assert stage.rig.calls[-2:] == ["safe", "close"]
