"""Hours and tariffs in a configuration."""

from __future__ import annotations

from decimal import Decimal

import pytest

from rigctl.rig.calendar import instant
from tests.config.conftest import SMALL, loaded, problems

TOP = "zone: Europe/Berlin\n"


def test_hours_are_those_of_the_zone():
    """Campaign and actuators have hours of their own, and know how long a trial is expected to take."""
    text = TOP + "allowed: [Mon-Fri 08:00-18:00, Sat 09:00-12:00]\n" + SMALL
    text = text.replace("limits: {", 'limits: {ca_valve: {allowed: "22:00-06:00"}, ')
    rig = loaded(text).rig
    assert str(rig.allowed) == "Mon-Fri 08:00-18:00, Sat 09:00-12:00 (Europe/Berlin)"
    assert rig.limits["ca_valve"].allowed.is_open(instant("2026-06-10T02:00+02:00"))
    assert rig.expected_s > 1500.0
    assert loaded(SMALL).rig.calendar is False


RATES = """[{price: 0.19 EUR/kWh, during: "22:00-06:00", name: night}, {price: 0.34 EUR/kWh}]"""


def priced(rates):
    """The small rig with prices by time of use."""
    return TOP + SMALL.replace("price: 0.31 EUR/kWh", f"price: {rates}")


def test_prices_by_time_of_use_are_one_tariff():
    """Each price has its hours and a name; what is forecast goes by the mean of a week."""
    meter = loaded(priced(RATES)).rig.meters[0]
    assert [rate.name for rate in meter.tariff.rates] == ["night", "otherwise"]
    assert meter.price == (8 * Decimal("0.19") + 16 * Decimal("0.34")) / 24
    assert loaded(SMALL).rig.meters[0].tariff is None


@pytest.mark.parametrize(
    ("rates", "where", "what"),
    [
        ("[]", "meters[0].price", "a list of {price"),
        ("[{price: 0.2}]", "meters[0].price", "a list of {price"),
        ("[{price: 0.2 EUR/L}]", "meters[0].price[0].price", "a price per energy"),
        ('[{price: 0.2 EUR/kWh, during: "6-8"}]', "meters[0].price[0].during", "must be hours of the day"),
        ('[{price: 0.2 EUR/kWh, during: "06:00-08:00"}]', "meters[0].price", "has no price on Mon 00:00"),
        ("[{price: 0.2 EUR/kWh}, {price: 0.3 EUR/kWh}]", "meters[0].price", "one price without `during` at most"),
        (
            "[{price: 0.2 EUR/kWh, during: Mon-Tue}, {price: 0.3 EUR/kWh, during: Tue}, {price: 1 EUR/kWh}]",
            "meters[0].price",
            "has two prices on Tue 00:00",
        ),
    ],
)
def test_tariffs_that_do_not_hold_are_refused(rates, where, what):
    """An hour without a price or with two, another unit, no hours at all."""
    (said,) = [said for place, said in problems(priced(rates)).items() if place.endswith(f" {where}")]
    assert what in said


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("allowed: 08:00-18:00\n" + SMALL, "zone", "is missing, must say where the rig stands"),
        ("zone: Berlin\n" + SMALL, "zone", "must be a time zone such as Europe/Berlin"),
        (TOP + "allowed: 8 to 6\n" + SMALL, "allowed", 'must be hours of the day such as "08:00-18:00"'),
        (TOP + "allowed: [08:00-18:00, Mo]\n" + SMALL, "allowed[1]", "must name days as Mon, Tue"),
        (TOP + "allowed: 08:00-08:20\n" + SMALL, "allowed", "for as long as a trial is expected to take, 25 min"),
        ("clock: {begins: 2026-10-10T00:00+02:00}\n" + SMALL, "clock.begins", "is for simulated rigs"),
        ("clock: {speedup: 10, begins: 2026-10-10}\n" + SMALL, "clock.begins", "with an offset"),
        (
            SMALL.replace("limits: {", "limits: {camera: {allowed: Sat}, "),
            "safety.limits.camera",
            "must be an actuator",
        ),
    ],
)
def test_hours_that_cannot_be_kept_are_refused(text, where, what):
    """Each mistake is told where it stands."""
    found = problems(text)
    (said,) = [said for place, said in found.items() if place.endswith(f" {where}")]
    assert what in said
