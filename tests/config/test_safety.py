"""Interlocks, rules for sensors, hours and tariffs, from the file to the rig."""

from decimal import Decimal
from pathlib import Path

import pytest

from rigctl.config.load import load
from rigctl.rig.calendar import instant
from rigctl.rig.conditions import Compare
from rigctl.rig.spec import InterlockSpec, MeterSpec, SensorRules, WatchedSensor
from tests.config.conftest import loaded, problems
from tests.config.texts import BY_HAND, SMALL

LEVEL = "  level: {driver: modbus, bus: plc, unit: L, read: {at: 20, type: float32}}\n"
WITH_LEVEL = SMALL.replace("dosing:\n", f"{LEVEL}dosing:\n")


def interlocked(*entries: str) -> str:
    lines = "".join(f"    - {{{e}}}\n" for e in entries)
    return f"{WITH_LEVEL}  interlocks:\n{lines}"


def one(entry: str) -> str:
    return interlocked(f"name: a, {entry}")


def test_two_bad_interlocks_are_told_at_once():
    """One of a wrong shape does not hide another of a wrong meaning."""
    text = interlocked("name: a, when: 7, then: warn", 'name: b, when: "phh < 5", then: warn')
    assert [p.split(": ")[1] for p in problems(text)] == ["safety.interlocks[0].when", "safety.interlocks[1].when"]


def test_interlocks_reach_the_watch_with_what_they_look_at():
    """Conditions in the readings' units; a sensor that serves no variable is watched for them."""
    acid, empty = (
        'name: acid, when: "ph < 4.5 pH", for: 10 s, then: trip',
        ('name: empty, when: "level < 5 L", until: "level > 8000 mL", then: hold'),
    )
    watch = loaded(interlocked(acid, empty)).rig.watch
    assert watch.interlocks == (
        InterlockSpec("acid", Compare("ph", "<", 4.5, "pH"), "trip", 10.0),
        InterlockSpec("empty", Compare("level", "<", 5.0, "L"), "hold", 0.0, Compare("level", ">", 8.0, "L")),
    )
    assert watch.sensors == (WatchedSensor("level", SensorRules(watch_every_s=2.0)),)
    assert watch.rules == {
        "ph": SensorRules(watch_every_s=2.0),
        "ca": SensorRules(frozen_after=(None, None)),
        "growth": SensorRules(),
    }


def test_the_unit_of_a_sensor_is_its_drivers_own_word():
    """A meter that measures W without saying so in the file takes limits in kW."""
    watch = loaded(interlocked('name: load, when: "mains > 3 kW", then: warn')).rig.watch
    assert watch.interlocks[0].when == Compare("mains", ">", 3000.0, "W")


def test_sensors_have_rules_of_their_own():
    """Rates per second, frozen by time or by trials or never, periods and ages of readings."""
    rules = "max_rate: 0.6 pH/min, frozen_after: 30 min, stale_after: 20 s, watch_every: 5 s, "
    text = SMALL.replace("ph: {unit: pH, ", f"ph: {{unit: pH, {rules}").replace("floor: 0", "frozen_after: off")
    found = loaded(text.replace("ca: {unit: mM, ", "ca: {unit: mM, frozen_after: 5 trials, ")).rig.watch.rules
    assert found["ph"] == SensorRules(pytest.approx(0.01), (1800.0, None), 20.0, 5.0)
    assert found["ca"] == SensorRules(frozen_after=(None, 5))
    assert found["growth"] == SensorRules(frozen_after=(None, None))


def test_a_rate_has_no_zero_point():
    """5 degF/min is neither 5 degC/min nor -15."""
    text = BY_HAND.replace("ca: {unit: mM", "ca: {unit: degC, max_rate: 5 degF/min")
    assert loaded(text).rig.watch.rules["ca"].max_rate_per_s == pytest.approx(5 / 1.8 / 60)


def test_the_watch_itself_can_be_set():
    """Its period, when a held campaign goes on, how fast everything is safe, how many doses may go unanswered."""
    text = f"{SMALL}  watch: {{every: 500 ms, clear_for: 5 min}}\n  safe_within: 3 s\n  unanswered_doses: 4\n"
    rig = loaded(text).rig
    assert (rig.watch.every_s, rig.watch.clear_for_s, rig.safe_within_s, rig.unanswered_doses) == (0.5, 300.0, 3.0, 4)
    plain = loaded(SMALL).rig
    assert (plain.watch.every_s, plain.watch.clear_for_s, plain.safe_within_s, plain.unanswered_doses) == (
        1,
        60,
        None,
        6,
    )
    for given in ("watch: {every: 0 s}", "watch: {clear_for: 0 s}", "safe_within: 0 s", "unanswered_doses: 0"):
        assert len(problems(f"{SMALL}  {given}\n")) == 1


def test_a_meter_may_say_what_can_be_used_in_an_hour():
    """Power becomes kWh per hour, flow mL per hour."""
    text = SMALL.replace("0.31 EUR/kWh", "0.31 EUR/kWh, rated: 230 W").replace(
        "4.2 EUR/L", "4.2 EUR/L, rated: 58.5 mL/min"
    )
    mains, pump, labour, _ = loaded(text).rig.meters
    assert (mains.rated_per_h, pump.rated_per_h, labour.rated_per_h) == (0.23, pytest.approx(3510), None)
    assert isinstance(mains, MeterSpec)


def test_a_pump_needs_no_safe_state():
    """It has no other than off."""
    assert loaded(SMALL.replace("doser: off, ", "")).rig.limits["doser"].safe_state == "off"


def test_only_what_cannot_stand_still_counts_as_frozen_unless_told(tmp_path):
    """Outcomes and dosed variables after three trials; a valve's or a room's reading may well be the same for ever."""
    text = (Path(__file__).parents[2] / "config/greenhouse.yaml").read_text(encoding="utf-8")
    (tmp_path / "rig.yaml").write_text(text, encoding="utf-8")
    rules = load(tmp_path / "rig.yaml").rig.watch.rules
    assert {name: rule.frozen_after_trials for name, rule in rules.items()} == {
        "ca": 3,
        "b": None,
        "nh4": None,
        "k": None,
        "ph": 3,
        "growth": 3,
    }


TOP = "zone: Europe/Berlin\n"


def test_hours_are_those_of_the_zone(golden):
    """Campaign and actuators have hours of their own, and know how long a trial is expected to take."""
    text = TOP + "allowed: [Mon-Fri 08:00-18:00, Sat 09:00-12:00]\n" + SMALL
    text = text.replace("limits: {", 'limits: {ca_valve: {allowed: "22:00-06:00"}, ')
    rig = loaded(text).rig
    golden(str(rig.allowed))
    assert rig.limits["ca_valve"].allowed.is_open(instant("2026-06-10T02:00+02:00"))
    assert rig.expected_s > 1500.0
    assert loaded(SMALL).rig.calendar is False


RATES = """[{price: 0.19 EUR/kWh, during: "22:00-06:00", name: night}, {price: 0.34 EUR/kWh}]"""


def priced(rates):
    return TOP + SMALL.replace("price: 0.31 EUR/kWh", f"price: {rates}")


def test_prices_by_time_of_use_are_one_tariff():
    """Each price has its hours and a name; what is forecast goes by the mean of a week."""
    meter = loaded(priced(RATES)).rig.meters[0]
    assert [rate.name for rate in meter.tariff.rates] == ["night", "otherwise"]
    assert meter.mean_price == (8 * Decimal("0.19") + 16 * Decimal("0.34")) / 24
    assert loaded(SMALL).rig.meters[0].tariff is None
