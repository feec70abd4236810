"""A pump whose volume is the variable: given once in a trial, measured as the pump tells."""

from dataclasses import replace

import pytest

from rigctl.errors import DeviceFault, GuardRefused
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.protocols import ActuatorState, Severity
from rigctl.rig.spec import VariableWiring, VolumeSpec
from tests.rig.fakes import FakeLine, FakePump

CAP = ActuatorLimits(low=5.0, high=40.0, safe_state="off", per_dose_ml=45.0, per_day_ml=400.0)


@pytest.fixture
def volumes(bench, make_rig):
    """Makes the small rig with a variable `feed`: what a pump gives."""
    for name in ("feed_pump", "feed_b_pump"):
        line = FakeLine(f"fake://{name}", bench.clock)
        bench.lines[line.url] = line
        bench.devices[name] = FakePump(name, line)

    def make(*, otherwise_ml=0.0, partners=None):
        spec = bench.spec()
        return make_rig(
            replace(
                spec,
                variables=(*spec.variables, VariableWiring("feed", "", "feed_pump", 0.1)),
                volumes={"feed_pump": VolumeSpec("feed_pump", otherwise_ml, 60.0, partners or {})},
                limits={**spec.limits, **dict.fromkeys(["feed_pump", *(partners or {})], CAP)},
            )
        )

    return make


async def measured(rig):
    return (await rig.measure())["feed"]


async def test_a_volume_is_given_once_and_measured_as_the_pump_tells(bench, volumes):
    """One intent, one dose; what counts as measured is what came out."""
    rig = volumes()
    await rig.open()
    bench.devices["feed_pump"].short = 0.99
    states = await rig.control({"feed": 20.0})
    assert states["feed"] == ActuatorState(controlled=True, setpoint=20.0)
    assert bench.devices["feed_pump"].started == [20.0]
    assert bench.doses.steps == ["intend", "sent", "done"]
    found = await measured(rig)
    assert (found.value, found.spread, found.severity) == (pytest.approx(19.8), 0.0, Severity.NONE)


async def test_what_is_not_chosen_gives_nothing(bench, volumes):
    """The variable's natural value is then 0, trial after trial."""
    rig = volumes()
    await rig.open()
    await rig.control({"feed": 20.0})
    states = await rig.control({"b": 30.0})
    assert states["feed"] == ActuatorState(controlled=False, setpoint=None)
    assert (await measured(rig)).value == 0.0
    assert len(bench.devices["feed_pump"].started) == 1


async def test_a_fixed_volume_otherwise(bench, volumes):
    """Today's practice goes on while the variable is left alone; it is measured, and is no setpoint."""
    rig = volumes(otherwise_ml=10.0)
    await rig.open()
    states = await rig.control({"b": 30.0})
    assert bench.devices["feed_pump"].started == [10.0]
    assert (await measured(rig)).value == 10.0
    assert not states["feed"].controlled
    await rig.control({"feed": 25.0})
    assert bench.devices["feed_pump"].started == [10.0, 25.0]


async def test_partners_go_along(bench, volumes):
    """A and B: twice as much of B, as one act."""
    rig = volumes(partners={"feed_b_pump": 2.0})
    await rig.open()
    await rig.control({"feed": 15.0})
    assert bench.devices["feed_b_pump"].started == [30.0]
    assert bench.doses.steps == ["intend", "intend", "sent", "done", "sent", "done"]


async def test_a_volume_comes_before_titration_and_mixes_first(bench, volumes):
    """The probe that judges the calcium has to read what the feed has left."""
    rig = volumes()
    await rig.open()
    times = {}
    for name in ("feed_pump", "ca_doser"):
        pump, start = bench.devices[name], bench.devices[name].start_dose

        def starting(volume_ml, deadline, name=name, start=start):
            times.setdefault(name, bench.clock.now_s())
            start(volume_ml, deadline)

        pump.start_dose = starting
    await rig.control({"feed": 20.0, "ca": 3.0})
    assert times["ca_doser"] - times["feed_pump"] >= 20.0 + 60.0


async def test_a_volume_outside_its_range_moves_nothing(bench, volumes, golden):
    """The guard refuses before anything is imposed."""
    rig = volumes()
    await rig.open()
    before = len(bench.lines["fake://plc"].log)
    with golden.raises(GuardRefused):
        await rig.control({"feed": 50.0, "b": 30.0})
    assert bench.doses.records == []
    assert len(bench.lines["fake://plc"].log) == before


async def test_a_volume_that_fails_fails_the_trial(bench, volumes):
    """A pump that refuses gives nothing, and no titration follows."""
    rig = volumes()
    await rig.open()
    bench.devices["feed_pump"].fail("start_dose", DeviceFault("motor"))
    with pytest.raises(DeviceFault):
        await rig.control({"feed": 20.0, "ca": 3.0})
    assert bench.pump.started == []


async def test_nothing_was_given_before_anything_was_imposed(volumes):
    """INVALID, never an invented 0."""
    rig = volumes()
    await rig.open()
    assert (await measured(rig)).severity is Severity.INVALID
