"""Counters, and what is kept beside them to judge them by."""

import asyncio
import threading
from dataclasses import replace
from decimal import Decimal

import pytest

from rigctl.errors import DeviceTimeout
from rigctl.rig.calendar import Rate, Tariff, hours_of_week, instant
from rigctl.rig.clocks import Civil
from rigctl.rig.metering import CIVIL, Metering, PowerIntegral, by_power, is_own
from rigctl.rig.protocols import Reading, Sensor, Severity
from rigctl.rig.spec import MeterSpec
from tests.rig.fakes import FakeMeter, Heard


class PowerMeter(FakeMeter, Sensor):
    """A counter that can also say what power it sees."""

    unit = "W"

    def __init__(self, name, line):
        super().__init__(name, line)
        self.watts = 600.0
        self.times = 0
        self.asked_often = threading.Event()

    def read(self, deadline):
        self.times += 1
        if self.times == 5:
            self.asked_often.set()
        self.begin("read")
        return Reading(self.watts, "W", self.line.clock.now_s())


@pytest.fixture
def meter(bench):
    made = PowerMeter("mains_meter", bench.mains_line)
    bench.meter = bench.devices["mains_meter"] = made
    bench.registry = type(bench.registry)(bench.lines, bench.devices)
    return made


@pytest.fixture
def metered_rig(bench, meter, make_rig):
    """A rig whose one meter sees power."""
    power = MeterSpec("energy", Decimal("0.31"), "mains_meter", "power")
    return make_rig(replace(bench.spec(), meters=(power,)))


async def test_power_is_integrated_between_readings(bench, meter, metered_rig, golden):
    """Trapezoids over rig time: half an hour that goes from 600 W to 1000 W is 0.4 kWh."""
    first = (await metered_rig.meters())[by_power("power")]
    bench.clock.sleep(1800.0)
    meter.watts = 1000.0
    last = (await metered_rig.meters())[by_power("power")]
    assert (last.unit, last.value - first.value) == ("kWh", pytest.approx(0.4))
    golden(last.detail)
    assert last.severity == Severity.MINOR


def sampled(*watts, every_s):
    """An integral of samples at regular intervals."""
    made = PowerIntegral()
    for number, value in enumerate(watts):
        made.add(Reading(value, "W", number * every_s))
    return made


def test_an_integral_that_was_sampled_often_testifies():
    """No gap longer than a fifth of the time since it was last told; it begins anew with each telling."""
    dense = sampled(*[600.0] * 7, every_s=100.0)
    told = dense.tell()
    assert (told.value, told.severity) == (pytest.approx(0.1), Severity.NONE)
    dense.add(Reading(600.0, "W", 700.0))
    assert dense.tell().severity is Severity.MINOR
    assert sampled(*[600.0] * 4, every_s=100.0).tell().severity is Severity.MINOR
    assert PowerIntegral().tell() is None


def test_power_that_is_fed_back_is_no_energy_used():
    """The counter of a rig that feeds the mains for a while does not run back."""
    assert sampled(-600.0, -600.0, every_s=3600.0).kwh == 0.0


async def test_power_that_cannot_be_read_leaves_the_meters_as_they_are(bench, meter, metered_rig):
    """No alarm, nothing INVALID: there is only less to judge the counter by."""
    meter.fail("read", DeviceTimeout("silent"))
    assert list(await metered_rig.meters()) == ["power"]
    assert bench.alarms == []
    assert list(await metered_rig.meters()) == ["power", by_power("power")]


async def test_a_meter_out_of_service_is_asked_for_nothing(bench, meter, metered_rig):
    """Neither its counter nor its power: somebody may have taken it away, and others are on its line."""
    metered_rig.hands.set_aside(frozenset({"mains_meter"}))
    assert {name for name in await metered_rig.meters() if not is_own(name)} == set()
    assert meter.times == 0
    assert [entry for entry in bench.mains_line.log if entry.startswith("mains_meter")] == []


async def test_an_open_rig_samples_the_power_until_it_is_closed(bench, meter, metered_rig):
    """Between the readings, by itself; a sample that fails is followed by others."""
    metered_rig._metering._period_s = 0.001
    meter.fail("read", DeviceTimeout("silent"))
    await metered_rig.open()
    assert await asyncio.to_thread(meter.asked_often.wait, 20.0)
    await metered_rig.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "power"]


async def test_a_driver_that_breaks_ends_the_sampling_and_is_told(bench, meter, metered_rig, golden):
    """What a plug-in raises costs evidence, not the campaign."""
    metered_rig._metering._period_s = 0.001
    meter.fail("read", KeyError("watts"))
    await metered_rig.open()
    await asyncio.wait([metered_rig._metering._sampling], timeout=20.0)
    assert [alarm.kind for alarm in bench.alarms] == ["power not sampled"]
    golden(bench.messages(Severity.MINOR)[0])


async def test_a_clock_that_knows_of_suspend_is_asked_with_the_meters(bench, meter):
    """The machine's sleep is kept under a name that no meter has."""
    bench.clock.suspended_s = lambda: 42.0
    metering = Metering({}, bench.spec().timing, bench.clock, Heard(bench.alarms))
    assert await metering.read() == {"(asleep)": Reading(42.0, "s", bench.clock.now_s())}
    assert is_own("(asleep)")
    assert is_own(by_power("power"))
    assert not is_own("power")


async def test_a_driver_s_mistake_makes_a_reading_invalid_not_the_closing_of_a_trial_fail(bench, meter, metered_rig):
    """A plug-in that raises anything is a meter that cannot be read: the trial it fails can still be charged."""
    meter.fail("total", KeyError("gain"))
    meter.fail("read", KeyError("gain"))
    readings = await metered_rig.meters()
    assert not readings["power"].valid
    assert "KeyError" in readings["power"].detail


@pytest.mark.slow
async def test_the_counter_is_read_when_its_rate_changes(bench, meter, make_rig, monkeypatch):
    """At six o'clock by the clock's civil time, once; the reading is handed out with the next round, and only then."""
    six = instant("2026-06-10T06:00+02:00")
    night = Rate("night", Decimal("0.1"), (hours_of_week("22:00-06:00"),))
    tariff = Tariff("Europe/Berlin", (night, Rate("day", Decimal("0.3"))))
    power = MeterSpec("energy", tariff, "mains_meter", "power")
    bench.clock.civil = Civil()
    bench.clock.civil.set(bench.clock.now_s(), six - 7200.0)
    rig = make_rig(replace(bench.spec(), meters=(power,)))
    await rig.open()

    async def rest(clock, seconds):
        """Let time pass only as the test says: a clock that whoever rests moves on is at the next change by then."""
        until_s = clock.now_s() + seconds
        while clock.now_s() < until_s:  # noqa: ASYNC110 - there is no event: the test's own steps move it
            await asyncio.sleep(0)

    monkeypatch.setattr(type(bench.clock), "rest", rest)
    assert bench.clock.civil_s() < six
    while len(rig._metering._at) < 2:
        await asyncio.sleep(0)
        bench.clock.sleep(1.0)
    first, second = await rig.meters(), await rig.meters()
    assert first[f"power (at {six:.0f})"].valid
    assert f"{by_power('power')} (at {six:.0f})" in first
    assert bench.clock.civil.at(first[CIVIL].time_s) == first[CIVIL].value >= six
    assert not [name for name in second if "(at " in name]
    assert all(is_own(name) for name in first if name != "power")
