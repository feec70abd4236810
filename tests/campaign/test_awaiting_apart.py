"""Outcomes that come later, after a time in which nobody was there: what a wrong clock, and one sensor for all, say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rigctl.campaign import awaiting
from rigctl.campaign.journal import Journal
from rigctl.campaign.trial import State
from tests.campaign.fakes import INVALID
from tests.campaign.test_awaiting import BY_HAND, BY_SENSOR, sound, spec_with
from tests.profiles import slow_beyond

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Boots:
    """A machine whose wall clock anybody may set between two boots, and the journal it keeps."""

    def __init__(self, stage):
        self.stage, self.number, self.ahead = stage, 1, timedelta()

    def journal(self, directory, clock):
        """Its clock goes on with the world's time."""
        wall = lambda: NOW + timedelta(seconds=self.stage.world.now_s) + self.ahead  # noqa: E731
        return Journal(directory, clock, f"boot-{self.number}", wall)

    def again(self, ahead):
        """Boot, with a clock that goes so much ahead from now on."""
        self.number, self.ahead = self.number + 1, self.ahead + ahead


@pytest.fixture
def boots(patient):
    return Boots(patient)


@pytest.mark.slow
@pytest.mark.parametrize("late", slow_beyond(1, [BY_HAND, BY_SENSOR]), ids=["hand", "sensor"])
async def test_nothing_is_given_up_by_a_wall_clock_that_nobody_keeps_right(stage, boots, monkeypatch, late):
    """A board that boots a month ahead waits as long as it would have; and no longer, once its clock is kept right."""
    kept_right = False
    monkeypatch.setattr(awaiting, "synchronised", lambda: kept_right, raising=False)
    spec = spec_with(replace(late, at_end="end"), max_trials=1)
    await stage.run(spec, boots.journal)
    boots.again(ahead=timedelta(days=30))
    for _ in range(2):
        await stage.run(spec, boots.journal)
        rows, _, _ = sound(stage, spec)
        assert rows[0].state is State.AWAITING
        assert "measure late" not in stage.rig.calls
    kept_right = True
    await stage.run(spec, boots.journal)
    assert sound(stage, spec)[0][0].state is State.FAILED


@pytest.mark.slow
async def test_who_waits_for_an_outcome_learns_that_the_clock_is_right_now(stage, boots, monkeypatch):
    """The wait that began beside a wrong clock ends by the right one, not by campaign time alone."""
    began_s = stage.world.now_s + 300.0
    monkeypatch.setattr(awaiting, "synchronised", lambda: stage.world.now_s > began_s + 600.0, raising=False)
    spec = spec_with(replace(BY_HAND, within_s=36_000.0, at_end="end"), max_trials=1)
    await stage.run(spec, boots.journal)
    boots.again(ahead=timedelta(days=30))
    late = replace(spec.rig.late, at_end="wait")
    await stage.run(replace(spec, rig=replace(spec.rig, outcomes=(late,))), boots.journal)
    assert sound(stage, spec)[0][0].state is State.FAILED
    assert 600.0 < stage.world.now_s - began_s < 3600.0


@pytest.mark.slow
async def test_what_one_sensor_reads_is_one_trials_outcome_at_most(patient, golden):
    """After a night in which three were due the sensor shows the last one's: the others are given up, not made up."""
    spec = spec_with(replace(BY_SENSOR, at_end="end"), max_trials=3)
    await patient.run(spec)
    patient.world.do("time", s=5400.0)
    await patient.run(spec)
    rows, _, _ = sound(patient, spec)
    assert [row.state for row in rows] == [State.FAILED, State.FAILED, State.RECORDED]
    golden(rows[0].because)
    golden(rows[2].came.why)


@pytest.mark.slow
async def test_an_outcome_is_nobodys_any_more_when_a_later_one_was_read(patient, golden):
    """Also if it was its sensor that gave nothing when it was due, and it is read again only after the later one."""
    spec = spec_with(replace(BY_SENSOR, after_s=1000.0, within_s=12_000.0), max_trials=2)
    bad = {"y": INVALID}

    def mended():
        if patient.rig.calls.count("measure late") == 2:  # of the later one
            bad.clear()

    await patient.run(spec, measured=bad, fail={"measure late": mended})
    rows, _, _ = sound(patient, spec)
    assert [row.state for row in rows] == [State.FAILED, State.RECORDED]
    golden(rows[0].because)


@pytest.mark.slow
async def test_a_night_without_a_process_does_not_count_as_sensors_that_say_nothing(patient):
    """Nobody was there to read seven outcomes; the campaign goes on, for the next ones can come."""
    spec = spec_with(replace(BY_SENSOR, at_end="end"), max_trials=7)
    await patient.run(spec)
    patient.world.do("time", s=86400.0)
    await patient.run(replace(spec, max_trials=8))
    rows, _, _ = sound(patient, spec)
    assert [row.state for row in rows] == [*[State.FAILED] * 7, State.AWAITING]
