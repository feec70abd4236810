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


@pytest.mark.parametrize(
    ("how", "setpoint", "reached", "doses_ml"),
    [
        ({}, 1.2, 1.2, [20.0]),
        ({}, 5.2, 5.2, [50.0, 50.0]),  # no dose is larger than the cap per dose
        ({"effect": -0.04, "start": 6.8}, 5.6, 5.6, [30.0]),  # an acid lowers the reading
        ({}, 0.25, 0.2, []),  # within tolerance
        ({"really": 1.1}, 1.2, 1.3, [20.0]),  # a little too far counts as there: no dose can be taken back
    ],
)
async def test_the_missing_amount_is_dosed(how, setpoint, reached, doses_ml):
    """In doses that are allowed, each followed by a look after mixing."""
    world = World(**how)
    before_s = world.clock.now_s()
    assert await world.bring_to(setpoint) == pytest.approx(reached)
    assert world.pump.started == pytest.approx(doses_ml)
    assert world.doses.steps.count("intend") == len(doses_ml)
    assert world.clock.now_s() - before_s == pytest.approx(sum(doses_ml) + 45.0 * len(doses_ml))


async def test_a_weak_stock_takes_more_doses():
    """When each dose does less than it should, what still is missing is dosed again."""
    world = World(really=0.7)
    assert await world.bring_to(2.2) == pytest.approx(2.2, abs=0.08)
    assert len(world.pump.started) == 3


@pytest.mark.parametrize(
    ("how", "setpoint", "doses"),
    [
        ({"really": 0.0}, 5.0, 2),
        ({"really": 0.19}, 5.0, 2),
        ({"really": -0.01}, 5.0, 2),
        ({"really": 1.5}, 1.2, 1),
        ({"really": 0.21, "max_doses": 3}, 2.2, 3),
    ],
    ids=["no response", "hardly any", "wrong sign", "far too far", "too many doses"],
)
async def test_no_response_stops_the_dosing(how, setpoint, doses, golden):
    """Fault 39: after two doses without, with an alarm; no dose brings back what went too far, and they are counted."""
    world = World(**how)
    with golden.raises(ReadBackMismatch):
        await world.bring_to(setpoint)
    assert len(world.pump.started) == doses
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
    assert [(pump, probe, moved) for pump, probe, _, moved in world.doses.answers] == [("pump", "ca_probe", True)]
    assert [(a.severity, a.source) for a in world.alarms if a.kind == "dose denied"] == [(Severity.MAJOR, "pump")]


@pytest.mark.parametrize(
    ("start", "really", "per_dose_ml"), [(5.0, 0.0, 50.0), (5.0, 0.4, 50.0), (5.0, -0.1, 50.0), (0.2, 1.0, 1.0)]
)
async def test_a_probe_that_does_not_move_as_by_a_dose_proves_none(start, really, per_dose_ml, golden):
    """Less than half of what the dose should do, away from the setpoint, or a dose too small to show, books nothing."""
    world = World(start=start, really=really)
    world.change(per_dose_ml)
    denying(world)
    with golden.raises(ReadBackMismatch):
        await world.bring_to(start + 1.0)
    assert "unknown" not in world.doses.steps


@pytest.mark.parametrize("treatment", [None, "softener"])
async def test_what_is_past_the_setpoint_before_any_dose_names_the_treatment(treatment):
    """It was to bring it to the other side, and had too little time; without one there is nothing to name."""
    world = World(start=2.0)
    world.change(treatment=treatment)
    with pytest.raises(ReadBackMismatch) as refused:
        await world.bring_to(1.2)
    assert ("softener" in str(refused.value)) is (treatment is not None)
    assert world.pump.started == []


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
    world.doses.unmoved["pump"] = ENOUGH - 1
    assert await world.bring_to(1.2) == pytest.approx(1.2)
    assert world.doses.unmoved["pump"] == 0


async def test_an_invalid_reading_is_no_evidence_against_the_pump():
    """A probe that fails after a dose says nothing of what the dose did."""
    world = World()
    readings = iter([0.2])
    world.probe.source = lambda: next(readings, math.nan)
    with pytest.raises(GarbledReply):
        await world.bring_to(1.2)
    assert world.doses.steps == ["intend", "sent", "done"]
    assert world.doses.answers == []
