"""Units: the usual ones are converted without the registry, and exactly as it does."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest

from rigctl.config import units
from rigctl.config.units import COMMON, Units

COMPOUND = (
    *("1", "1/h", "1/min", "cm2/day", "(cm2/day)", "(mm2/h)", "m2/day", "cm2/h", "cm²/day", "W/(m2*K)", "kW/(cm2*K)"),
    *(
        "m/min",
        "mm/s",
        "mL/h",
        "L/min",
        "uL/s",
        "mM/mL",
        "mol/L/mL",
        "degC/mL",
        "degF/L",
        "pH/mL",
        "K/mL",
        "mg/L",
        "g/L",
    ),
    *("kg/m3", "uS/cm", "mS/m", "umol/(m2*s)", "kW/h", "kWh/day", "N/mm2", "percent/h", "%/day", "ppm/min", "1/s2"),
)


@pytest.mark.parametrize("amount", [Decimal(1), Decimal("0.12"), Decimal("-273.15")])
def test_usual_units_are_converted_exactly_as_the_registry_does(amount, monkeypatch):
    """Every pair of usual units of one dimension gives the number that pint gives, digit for digit."""
    names = sorted({*units._usual(), *COMMON, *COMPOUND})
    kinds = {name: units._in_base_units(name) for name in names}
    usual = [name for name in names if kinds[name] is not None]
    assert set(names) - set(usual) == {"Nm"}
    told = Units("EUR")
    pairs = [(a, b) for a, b in itertools.product(usual, usual) if kinds[a][1] == kinds[b][1]]
    quick = [told._convert(amount, a, b) for a, b in pairs]
    monkeypatch.setattr(units, "_in_base_units", lambda text: None)
    assert [(p, q) for p, q in zip(pairs, quick, strict=True) if told._convert(amount, *p) != q] == []


@pytest.mark.parametrize("text", ["", "12", "hbar", "foo", "m//s", "/s", "m2 day^-1", "2 m", "m*s", "5 foo", "(m)/(s)"])
def test_what_is_not_plainly_usual_is_asked_of_the_registry(text):
    """Only whole names, powers and quotients of usual units are read without it."""
    assert units._in_base_units(text) is None
