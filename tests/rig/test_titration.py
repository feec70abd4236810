import math
import sys
from dataclasses import replace

import pytest

from rigctl.errors import GarbledReply, ReadBackMismatch, Tripped
from rigctl.rig.protocols import DoseStatus, Severity
from rigctl.rig.spec import DosingSpec
from rigctl.rig.titration import Side
from tests.rig.fakes import FakeSensor
from tests.rig.pumps import Pumps

ENOUGH = 6


class World(Pumps):
    """A tank at 0.2 mM into which the pump doses 0.05 mM per mL."""

    def __init__(self, *, effect=0.05, really=1.0, start=0.2, max_doses=6):
        super().__init__()
        self.start, self.effect = start, effect * really
        self.probe = FakeSensor("ca_probe", self.line, self.reading)
        self.spec = DosingSpec("ca_probe", effect, 0.08, 45.0, max_doses)
        self.change()

    def change(self, per_dose_ml=50.0, **spec):
        side = Side(replace(self.spec, **spec), self.handles["pump"], per_dose_ml)
        self.made = self.titration(side, probe=self.probe, name="ca", plausible=(0.0, 20.0))

    def reading(self):
        return self.start + self.effect * (self.pump.total_ml - 100.0)

    async def bring_to(self, setpoint):
        try:
            return await self.made.bring_to(setpoint)
        finally:
            assert self.trips == [] or sys.exc_info()[0] is Tripped
            await self.close()


async def test_the_missing_amount_is_dosed():
    """One dose of what is missing, then a look after mixing."""
    world = World()
    before_s = world.clock.now_s()
    assert await world.bring_to(1.2) == pytest.approx(1.2)
    assert world.pump.started == [pytest.approx(20.0)]
    assert world.clock.now_s() - before_s == pytest.approx(20.0 + 45.0)


async def test_large_amounts_come_in_allowed_doses():
    """No dose is larger than the cap per dose."""
    world = World()
    await world.bring_to(5.2)
    assert world.pump.started == [50.0, pytest.approx(50.0)]


async def test_an_acid_lowers_the_reading():
    """A negative effect doses downwards."""
    world = World(effect=-0.04, start=6.8)
    assert await world.bring_to(5.6) == pytest.approx(5.6)
    assert world.pump.started == [pytest.approx(30.0)]


async def test_a_weak_stock_takes_more_doses():
    """When each dose does less than it should, what still is missing is dosed again."""
    world = World(really=0.7)
    assert await world.bring_to(2.2) == pytest.approx(2.2, abs=0.08)
    assert len(world.pump.started) == 3


async def test_nothing_is_dosed_at_the_setpoint():
    """A reading within tolerance needs no dose."""
    world = World()
    assert await world.bring_to(0.25) == pytest.approx(0.2)
    assert world.doses.records == []


async def test_no_response_stops_the_dosing(golden):
    """Fault 39: two doses without response are the last, with an alarm that says so."""
    world = World(really=0.0)
    with golden.raises(ReadBackMismatch):
        await world.bring_to(5.0)
    assert len(world.pump.started) == 2
    assert world.alarms[-1].severity is Severity.MAJOR


def denying(world):
    """Let the pump give what it is asked for and know nothing of it."""
    pump = world.pump
    status, poured = pump.dose_status, pump.total_volume_ml

    def dose_status(deadline):
        status(deadline)
        return DoseStatus(running=False, dispensed_ml=0.0)

    def total_volume_ml(deadline):
        return replace(poured(deadline), value=100.0)

    def reading():
        pump._advance()
        return world.reading()

    pump.dose_status, pump.total_volume_ml, world.probe.source = dose_status, total_volume_ml, reading


async def test_81_a_dose_that_the_pump_denies_and_the_probe_sees_is_booked_in_full():
    """It counts against the caps, a person is told to look at the pump, and nothing more is dosed in this trial."""
    world = World()
    denying(world)
    with pytest.raises(ReadBackMismatch) as failed:
        await world.bring_to(1.2)
    assert failed.value.device == "pump"
    assert world.pump.started == [pytest.approx(20.0)]
    assert world.doses.records[-1] == ("unknown", 2, pytest.approx(20.0))
    assert world.doses.answers == [("pump", "ca_probe", True)]
    assert [(a.severity, a.source) for a in world.alarms if a.kind == "dose denied"] == [(Severity.MAJOR, "pump")]


@pytest.mark.parametrize("really", [0.0, 0.4, -0.1])
async def test_a_probe_that_does_not_move_as_by_a_dose_proves_none(really, golden):
    """A drift of less than half of what the dose should do, or away from the setpoint, books nothing."""
    world = World(start=5.0, really=really)
    denying(world)
    with golden.raises(ReadBackMismatch):
        await world.bring_to(6.0)
    assert "unknown" not in world.doses.steps


async def test_a_move_within_the_tolerance_of_the_probe_proves_no_dose(golden):
    """A small dose does not show above what the probe's readings differ by anyway."""
    world = World(start=0.2)
    world.change(per_dose_ml=1.0)
    denying(world)
    with golden.raises(ReadBackMismatch):
        await world.bring_to(1.2)
    assert "unknown" not in world.doses.steps


async def test_a_wrong_sign_counts_as_no_response(golden):
    """A reading that moves away from the setpoint is no response either."""
    world = World(really=-0.01)
    with golden.raises(ReadBackMismatch):
        await world.bring_to(5.0)
    assert len(world.pump.started) == 2


async def test_a_little_too_far_is_accepted():
    """What was dosed cannot be taken back: slightly past the setpoint counts as there."""
    world = World(really=1.1)
    assert await world.bring_to(1.2) == pytest.approx(1.3)
    assert len(world.pump.started) == 1


async def test_far_too_far_is_a_mismatch(golden):
    """Well past the setpoint the variable is not where it was sent, and no dose brings it back."""
    world = World(really=1.5)
    with golden.raises(ReadBackMismatch):
        await world.bring_to(1.2)
    assert len(world.pump.started) == 1


@pytest.mark.parametrize("treatment", [None, "softener"])
async def test_what_is_past_the_setpoint_before_any_dose_names_the_treatment(treatment):
    """It was to bring it to the other side, and had too little time; without one there is nothing to name."""
    world = World(start=2.0)
    world.change(treatment=treatment)
    with pytest.raises(ReadBackMismatch) as refused:
        await world.bring_to(1.2)
    assert ("softener" in str(refused.value)) is (treatment is not None)
    assert world.pump.started == []


async def test_the_number_of_doses_is_bounded(golden):
    """After the allowed number of doses a setpoint not reached is a mismatch."""
    world = World(really=0.3, max_doses=3)
    with golden.raises(ReadBackMismatch):
        await world.bring_to(2.2)
    assert len(world.pump.started) == 3


@pytest.mark.parametrize("value", [math.nan, -1.0, 25.0])
async def test_without_a_valid_reading_nothing_is_dosed(value, golden):
    """Fault 37: a probe that reads NaN or something implausible is never dosed by."""
    world = World()
    world.probe.source = lambda: value
    with golden.raises(GarbledReply):
        await world.bring_to(1.2)
    assert world.pump.started == []


async def test_a_single_invalid_reading_is_asked_again():
    """One bad reading is followed by a fresh one before anything is decided."""
    world = World()
    readings = iter([math.nan])
    world.probe.source = lambda: next(readings, None) or world.reading()
    assert await world.bring_to(1.2) == pytest.approx(1.2)
    assert len(world.pump.started) == 1


async def test_fault_63_doses_that_move_nothing_latch_the_pump_whatever_trial_they_belong_to(golden):
    """Two a trial, as ever; with the last of those allowed the next trial trips before it doses, and says why."""
    world = World(really=0.0)
    for _ in range(ENOUGH // 2):
        with golden.raises(ReadBackMismatch):
            await world.made.bring_to(5.0)
    with golden.raises(Tripped):
        await world.bring_to(5.0)
    assert len(world.pump.started) == ENOUGH
    assert len(world.trips) == 1


async def test_a_dose_that_moves_the_reading_clears_what_was_held_against_the_pump():
    """The doses before it are no evidence any more."""
    world = World()
    world.doses.silent = ENOUGH - 1
    assert await world.bring_to(1.2) == pytest.approx(1.2)
    assert world.doses.silent == 0


async def test_an_invalid_reading_is_no_evidence_against_the_pump():
    """A probe that fails after a dose says nothing of what the dose did."""
    world = World()
    readings = iter([0.2])
    world.probe.source = lambda: next(readings, math.nan)
    with pytest.raises(GarbledReply):
        await world.bring_to(1.2)
    assert world.doses.steps == ["intend", "sent", "done"]
    assert world.doses.answers == []
