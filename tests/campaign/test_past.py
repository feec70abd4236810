from __future__ import annotations

import math

import pytest

from rigctl.campaign.journal.past import UNATTENDED
from rigctl.campaign.trial import Event
from rigctl.errors import DeviceTimeout
from rigctl.rig.protocols import Reading, Severity
from tests.campaign.fakes import charged, make_spec, metered
from tests.campaign.test_recovery import left_behind, lines_of


async def test_what_is_used_between_trials_is_charged_to_the_next(stage):
    """A trial's `before` is the last one's `after`: the ledger adds up to the meter's rise."""

    def fault():
        if stage.rig.calls.count("measure") == 2:
            raise DeviceTimeout("pump: no answer")

    await stage.run(make_spec(max_trials=4), idle_kwh=0.5, fail={"measure": fault})
    with stage.journal() as journal:
        assert [row.state.name for row in journal.trials()] == ["RECORDED", "FAILED", "RECORDED", "RECORDED"]
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
        assert not any(line.estimated for line in journal.ledger())
    assert stage.rig.calls.count("meters") == 5


async def test_a_meter_that_could_not_be_read_after_a_trial_is_read_afresh(stage):
    """Only what was read is taken over; an estimated trial's use is not charged again to the next."""

    def dead_once(reading):
        if stage.rig.calls.count("meters") == 2:
            return Reading(math.nan, reading.unit, reading.time_s, Severity.INVALID, "no answer")
        return reading

    await stage.run(make_spec(max_trials=2), idle_kwh=0.5, counters={"power": dead_once})
    with stage.journal() as journal:
        first, second = (line for line in journal.ledger() if line.meter == "power")
    assert (first.estimated, second.estimated, second.quantity) == (True, False, pytest.approx(0.5 + 0.125))


def power_lines(stage):
    with stage.journal() as journal:
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
        return [(line.quantity, line.estimated, line.note) for line in journal.ledger() if line.meter == "power"]


async def test_what_was_used_while_no_process_was_in_charge_is_charged_but_teaches_nothing(stage):
    """Killed between two trials: the next one pays for what was used since, marked as estimated."""
    left_behind(stage, Event.MEASURE)
    stage.world.do("energy", kwh=3.0)
    await stage.run(make_spec(max_trials=3))
    first, second, third = power_lines(stage)
    assert (first, second) == ((1.0, False, ""), (3.125, True, UNATTENDED))
    assert third == (0.125, False, "")
    with stage.journal() as journal:
        history = journal.history(make_spec().problem.space)
        assert [o.cost_known for o in history.observations] == [True, False, True]
        assert history.spent == journal.campaign().spent


async def test_a_start_that_fails_does_not_lose_what_was_used(stage):
    """Only the process that metered a trial can end its account cleanly, not one that never had the rig in hand."""
    left_behind(stage, Event.MEASURE)
    stage.world.do("energy", kwh=3.0)
    with pytest.raises(DeviceTimeout):
        await stage.run(fail={"open": DeviceTimeout("meter: silent")})
    await stage.run(make_spec(max_trials=2))
    assert power_lines(stage)[1] == (3.125, True, UNATTENDED)


async def test_after_a_clean_end_the_meters_are_read_afresh(stage):
    """What was used while the campaign rested with everything safe is nobody's."""
    await stage.run(make_spec(max_trials=1))
    stage.world.do("energy", kwh=3.0)
    await stage.run(make_spec(max_trials=2))
    with stage.journal() as journal:
        lines = [(line.quantity, line.estimated) for line in journal.ledger() if line.meter == "power"]
    assert lines == [(0.125, False), (0.125, False)]


async def test_a_pump_that_restarted_in_a_lost_trial_is_charged_by_its_doses(stage):
    """The counter starts from zero with the pump; eight millilitres were booked, and eight are charged."""
    left_behind(stage, Event.RUN)
    restarted = {"acid": lambda r: Reading(2.0, r.unit, r.time_s)}
    await stage.run(make_spec(max_trials=1), counters=restarted)
    line = lines_of(stage, 1)["acid"]
    assert (line.quantity, line.amount, line.estimated) == (8.0, 80_000, True)
