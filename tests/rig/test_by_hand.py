"""Single instruments driven by a person through the guard, and instruments that are out of service."""

import pytest

from rigctl.errors import (
    DeviceFault,
    DeviceTimeout,
    GuardRefused,
    IdentityMismatch,
    PortUnavailable,
    Tripped,
    UsageError,
)
from rigctl.rig.protocols import Calibration

AWAY = frozenset({"ca_doser"})


def unplugged(bench):
    """The pump's port is gone, and the pump with it."""
    bench.pump_line.open_errors.extend([PortUnavailable("/dev/ttyUSB3: gone")] * 99)
    for operation in ("identify", "dose_status", "stop", "total_volume_ml", "total"):
        bench.pump.fail(operation, *[DeviceTimeout("silent")] * 99)


async def test_what_is_out_of_service_is_neither_asked_nor_told_anything(bench, rig, golden):
    """A rig whose pump is unplugged opens, is driven without it, is metered, verified and made safe."""
    unplugged(bench)
    rig.hands.set_aside(AWAY)
    assert "ca_doser" not in await rig.open()
    await rig.control({"b": 20.0})
    assert await rig.verify() == {}
    assert await rig.roll_call() == {}
    assert (await rig.safe()).ok
    rig.glance()
    assert all("ca_doser" not in entry for entry in bench.pump_line.log)
    assert [alarm for alarm in bench.alarms if alarm.source == "ca_doser"] == []
    with golden.raises(GuardRefused):
        await rig.control({"ca": 3.0})
    with pytest.raises(UsageError, match="in-service"):
        await rig.hands.dose("ca_doser", 1.0)


async def test_what_comes_back_is_recognised_first(bench, rig):
    """While it is away it can be asked who it is; then it is part of the rig again."""
    rig.hands.set_aside(AWAY)
    await rig.open()
    bench.pump.fail("identify", IdentityMismatch("another pump"))
    with pytest.raises(IdentityMismatch):
        await rig.hands.recognise("ca_doser")
    assert (await rig.hands.recognise("ca_doser")).serial == "ca_doser"
    rig.hands.set_aside(frozenset())
    await rig.safe()
    assert any(entry.endswith("stop") for entry in bench.pump_line.log)


async def test_an_actuator_is_set_and_released_by_hand(bench, rig, golden):
    """Confirmed by reading back, and looked after by the watch; the guard's limits hold, a trip lets nothing pass."""
    await rig.open()
    await rig.hands.apply("b_valve", 20.0)
    assert rig.driven == {"b_valve": 20.0}
    await rig.hands.apply("b_valve", None)
    assert rig.driven == {}
    with pytest.raises(GuardRefused, match="allowed"):
        await rig.hands.apply("b_valve", 1e6)
    with golden.raises(UsageError):
        await rig.hands.apply("b_probe", 1.0)
    rig.guard.trip("a test")
    with pytest.raises(Tripped):
        await rig.hands.apply("b_valve", 20.0)
    assert [entry for entry in bench.plc.log if entry == "b_valve apply"] == ["b_valve apply"]


async def test_a_dose_by_hand_goes_by_the_dose_protocol(bench, rig, golden):
    """Caps are checked, the intent is on disk before the pump is told, and once only."""
    await rig.open()
    assert await rig.hands.dose("ca_doser", 5.0) == pytest.approx(5.0)
    assert bench.doses.steps == ["intend", "sent", "done"]
    with golden.raises(GuardRefused):
        await rig.hands.dose("ca_doser", 1e4)
    with golden.raises(UsageError):
        await rig.hands.dose("b_valve", 1.0)
    golden([e for e in bench.pump_line.log if e.endswith("start_dose")])


async def test_readings_by_hand(bench, rig, golden):
    """Of a sensor; of a pump as a meter its count; a valve reads nothing."""
    await rig.open()
    assert (await rig.hands.read("b_probe")).unit == "uM"
    assert (await rig.hands.read("ca_doser")).unit == "mL"
    with golden.raises(UsageError):
        await rig.hands.read("softener")
    with golden.raises(UsageError):
        await rig.hands.read("moon")


async def test_a_pump_is_calibrated_by_hand_if_it_can_be(bench, rig, golden):
    """It is told once what was measured, and asked afterwards; one that cannot be told says so."""
    await rig.open()
    with golden.raises(UsageError):
        await rig.hands.calibrate("ca_doser", 9.6)
    told = []
    bench.pump.tells_calibration = bench.pump.calibratable = True
    bench.pump.calibrate = lambda volume_ml, deadline: told.append(volume_ml)
    bench.pump.calibration = lambda deadline: Calibration(len(told), (), "?CAL")
    assert await rig.hands.calibrations() == {"ca_doser": Calibration(0, (), "?CAL")}
    assert await rig.hands.calibrate("ca_doser", 9.6) == Calibration(1, (), "?CAL")
    assert told == [9.6]
    bench.pump.calibration = lambda deadline: Calibration(0)
    with golden.raises(DeviceFault):
        await rig.hands.calibrate("ca_doser", 9.6)


async def test_an_instrument_that_does_not_say_how_it_is_calibrated_ends_nothing(bench, rig):
    """Its calibration is not known, and an alarm says why; a driver's mistake counts as such."""
    await rig.open()

    def silent(deadline):
        raise ZeroDivisionError("bug")

    bench.pump.calibration, bench.pump.tells_calibration = silent, True
    assert await rig.hands.calibrations() == {}
    assert bench.alarms[-1].kind == "calibration unread"
    assert "ZeroDivisionError" in bench.alarms[-1].message
