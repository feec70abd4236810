import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.errors import DeviceFault, DeviceTimeout
from rigctl.rig.bus import Bus
from rigctl.rig.handle import Handle
from rigctl.rig.measuring import Probe, Record, judged, reduced, sample_window
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import LookSpec, MeasureSpec
from rigctl.rig.values import News
from tests.rig.fakes import FakeClock, FakeLine, FakeSensor

WINDOW = MeasureSpec(for_s=120.0, every_s=15.0, statistic="median", min_count=3)


def readings(*values):
    return [judged(Reading(v, "mM", 0.0), (0.0, 20.0)) for v in values]


class World:
    """Sensors of one bus, one per source."""

    def __init__(self, *sources):
        self.clock = FakeClock()
        self.line = FakeLine("fake://plc", self.clock)
        self.bus = Bus(self.line, News())
        self.sensors = [FakeSensor(f"s{i}", self.line, source) for i, source in enumerate(sources)]
        self.probes = [Probe(s.name, Handle(s.name, s, self.bus, 0.5), (0.0, 20.0), self.clock) for s in self.sensors]

    async def window(self, spec=WINDOW):
        return await sample_window(self.probes, spec, self.clock)


@pytest.fixture
async def worlds():
    made = []

    def make(*sources):
        made.append(World(*sources))
        return made[-1]

    yield make
    for world in made:
        await world.bus.close()


async def test_a_window_holds_a_sample_per_interval(worlds):
    """Every sensor is sampled every 15 s for 2 min, at its time."""
    world = worlds(lambda: 1.0, lambda: 2.0)
    window = await world.window()
    assert [r.time_s - 1000.0 for r in window["s0"]] == [15.0 * i for i in range(8)]
    assert [r.value for r in window["s1"]] == [2.0] * 8


@pytest.mark.parametrize(("each_s", "expected"), [(20.0, 6), (50.0, 3), (400.0, 3)])
async def test_a_slow_bus_takes_what_fits_but_enough(worlds, each_s, expected):
    """When a sweep takes longer than the interval, as many samples as fit are taken, at least the minimum."""
    world = worlds(lambda: world.clock.sleep(each_s) or 1.0)
    window = await world.window()
    assert len(window["s0"]) == expected


async def test_a_sensor_that_times_out_counts_invalid_samples(worlds):
    """A missing answer is an invalid sample, not an error, and does not touch the other sensors of the bus."""
    world = worlds(lambda: 1.0, lambda: 2.0)
    world.sensors[0].fail("read", DeviceTimeout("silent"), DeviceFault("02"))
    window = await world.window()
    assert [r.valid for r in window["s0"]] == [False, False, *[True] * 6]
    assert all(r.valid for r in window["s1"])
    assert "silent" in window["s0"][0].detail


async def test_a_dead_sensor_is_not_asked_for_ever(worlds):
    """A sensor that never answers is given up for the window after three requests, its samples invalid."""
    world = worlds(lambda: 1.0, lambda: 2.0)
    world.sensors[0].fail("read", *[DeviceTimeout("silent")] * 100)
    window = await world.window()
    assert world.line.log.count("s0 read") == 3
    assert len(window["s0"]) == 8
    assert not any(r.valid for r in window["s0"])
    assert all(r.valid for r in window["s1"])


async def test_a_reading_that_cannot_be_had_is_invalid_with_the_reason(worlds):
    """A single reading that fails is INVALID and NaN, and says why."""
    world = worlds(lambda: 1.0)
    world.sensors[0].fail("read", DeviceFault("exception 02"))
    reading = await world.probes[0].read()
    assert (reading.severity, reading.unit) == (Severity.INVALID, "mM")
    assert math.isnan(reading.value)
    assert "exception 02" in reading.detail


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, 20.1])
def test_what_cannot_be_true_is_invalid(value):
    """Fault 37: NaN, infinity and values outside the plausible range are INVALID and carry no number."""
    (reading,) = readings(value)
    assert not reading.valid
    assert math.isnan(reading.value)
    assert reading.detail


def test_without_a_plausible_range_any_number_is_valid():
    """Only what is declared is judged."""
    assert judged(Reading(1e6, "mM", 0.0), None).valid


@given(st.lists(st.floats(0.0, 20.0), min_size=1, max_size=12), st.integers(0, 5))
def test_invalid_samples_never_touch_the_statistic(values, bad):
    """Whatever the number of invalid samples, statistic and spread are those of the valid ones, and both counted."""
    m = reduced([*readings(*values), *readings(*[math.nan] * bad)], "median", 1)
    assert m.value == statistics.median(values)
    assert m.spread == (statistics.stdev(values) if len(values) > 1 else 0.0)
    assert (m.count, m.invalid) == (len(values), bad)


def test_the_mean_is_available_too():
    """The statistic is the one asked for."""
    assert reduced(readings(1.0, 2.0, 6.0), "mean", 1).value == 3.0
    assert reduced(readings(1.0, 2.0, 6.0), "median", 1).value == 2.0


@pytest.mark.parametrize(
    ("values", "severity"),
    [
        ([1.0, 1.0, 1.0], Severity.NONE),
        ([1.0, 1.0, 1.0, math.nan], Severity.MINOR),
        ([1.0, 1.0, math.nan], Severity.MAJOR),
        ([math.nan, math.nan], Severity.INVALID),
        ([], Severity.INVALID),
    ],
)
def test_how_bad_a_measurement_is(values, severity):
    """Excluded samples show in the severity; a window without a valid sample is INVALID and NaN."""
    m = reduced(readings(*values), "median", 3)
    assert m.severity is severity
    assert math.isnan(m.value) == (severity is Severity.INVALID)
    assert bool(m.detail) == (severity is not Severity.NONE)


@given(st.integers(1, 60), st.floats(0.1, 100.0))
def test_rounding_does_not_lose_a_sample(count, every_s):
    """A window of n intervals holds n samples, however the division rounds."""
    assert MeasureSpec(count * every_s, every_s, "median", 1).samples == count


def taken(*steps, rate=0.1):
    """Which of these readings, (rig time, value) each, are believed where 0.1 mM per second is plausible."""
    record = Record()
    return [record.take(Reading(value, "mM", time_s), rate, 0.0).valid for time_s, value in steps]


@pytest.mark.parametrize(
    ("steps", "believed"),
    [
        ([(0, 1.0), (10, 2.0)], [True, True]),
        ([(0, 1.0), (10, 2.0001)], [True, False]),
        ([(0, 1.0), (1, 2.0)], [True, True]),
        ([(0, 1.0), (20, 3.0)], [True, True]),
        ([(0, 1.0), (20, 3.0001)], [True, False]),
        ([(0, 9.0), (20, 6.9999)], [True, False]),
    ],
)
def test_what_the_plausible_rate_just_allows_is_believed(steps, believed):
    """Rate times elapsed time, but ten seconds at least, up and down; the limit itself is plausible."""
    assert taken(*steps) == believed


def test_three_readings_that_agree_confirm_a_step():
    """Not two; and a reading that agrees with neither starts the count again."""
    assert taken((0, 1.0), (1, 8.0), (2, 8.0), (3, 8.0)) == [True, False, False, True]
    assert taken((0, 1.0), (1, 8.0), (2, 8.0), (3, 5.0), (4, 5.0), (5, 5.0)) == [True, *[False] * 4, True]


def test_a_step_that_was_refuted_or_confirmed_confirms_no_later_one():
    """What was held is forgotten: after a return to normal, and after the step was believed and has faded."""
    assert taken((0, 1.0), (1, 8.0), (2, 8.0), (3, 1.0), (4, 8.0), (5, 8.0)) == [True, False, False, True, False, False]
    faded = [(10 * n, 8.0 - n) for n in range(1, 7)]
    seen = taken((0, 1.0), (1, 8.0), (2, 8.0), (3, 8.0), *faded, (61, 8.0), (62, 2.0))
    assert seen == [True, False, False, True, *[True] * 6, False, True]


def test_without_a_plausible_rate_any_step_is_believed():
    """And so is the first reading of all."""
    assert taken((0, 1.0), (1, 8.0), rate=None) == [True, True]


async def test_a_look_reads_the_variables_alone_in_a_window_of_its_own(bench, make_rig):
    """Before a trial is decided: two samples of each here, and no outcome."""
    spec = bench.spec()
    rig = make_rig(replace(spec, timing=replace(spec.timing, look=LookSpec(for_s=20.0, every_s=10.0))))
    found = await rig.measure(look=True)
    assert {name: one.count for name, one in found.items()} == {variable.name: 2 for variable in spec.variables}
