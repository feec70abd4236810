"""Hours and tariffs in a configuration."""

from __future__ import annotations

from decimal import Decimal

from rigctl.rig.calendar import instant
from tests.config.conftest import loaded
from tests.config.texts import SMALL

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
