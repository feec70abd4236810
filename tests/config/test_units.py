"""Units: the usual ones, those of the trades that own rigs, and what is asked about those that are read as others."""

import itertools
from decimal import Decimal

import pytest

from rigctl.config import units
from rigctl.config.units import Units
from rigctl.flaws import flaw_of
from rigctl.wording import number_meant, quantity_meant
from tests.golden import Golden
from tests.profiles import slow_beyond

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


@pytest.mark.parametrize("amount", slow_beyond(1, [Decimal("0.12"), Decimal("-273.15")]))
def test_usual_units_are_converted_exactly_as_the_registry_does(amount, monkeypatch):
    """Every pair of usual units of one dimension gives the number that pint gives, digit for digit."""
    names = sorted({*units._usual(), *units._trade().common, *COMPOUND})
    kinds = {name: units._in_base_units(name) for name in names}
    usual = [name for name in names if kinds[name] is not None and not any(units._asked(name))]
    assert set(names) - set(usual) <= {*units._trade().common, "uS", "mS"}
    told = Units("EUR")
    pairs = [(a, b) for a, b in itertools.product(usual, usual) if kinds[a][1] == kinds[b][1]]
    quick = [told._convert(amount, a, b) for a, b in pairs]
    monkeypatch.setattr(units, "_in_base_units", lambda text: None)
    assert [(p, q) for p, q in zip(pairs, quick, strict=True) if told._convert(amount, *p) != q] == []


@pytest.mark.parametrize("text", ["", "12", "hbar", "foo", "m//s", "/s", "m2 day^-1", "2 m", "m*s", "5 foo", "(m)/(s)"])
def test_what_is_not_plainly_usual_is_asked_of_the_registry(text):
    """Only whole names, powers and quotients of usual units are read without it."""
    assert units._in_base_units(text) is None


TRADE = [
    ("0.1 mm/rev", "mm/rev", 0.1),
    ("1 inch/rev", "mm/rev", 25.4),
    ("60 rev/min", "rpm", 60),
    ("5 wt.%", "wt%", 5),
    ("5 % w/w", "wt%", 5),
    ("5 %vol", "vol%", 5),
    ("2mol%", "mol%", 2),
    ("1.2 equiv", "eq", 1.2),
    ("3 mEq/L", "eq/L", 0.003),
    ("2e6 CFU/mL", "cfu/mL", 2e6),
    ("0.3 OD600/h", "OD600/h", 0.3),
    ("55 %RH", "RH", 55),
    ("500 sccm", "slpm", 0.5),
    ("0.5 Nm", "N*m", 0.5),
    ("12 °C", "degC", 12),
    ("3 µg/l", "ug/L", 3),
    ("7 ppb", "ug/kg", 7),
]


@pytest.mark.parametrize(("text", "unit", "value"), TRADE)
def test_units_of_the_trade_are_known(text: str, unit: str, value: float):
    """A percent of moles is no mole, and an OD of 600 nm no number of 600."""
    assert Units("EUR").to(text, unit, "it") == pytest.approx(value)


@pytest.mark.parametrize(("text", "unit"), [("5 %", "wt%"), ("5 mol%", "wt%"), ("1 OD600", "OD595"), ("1 bar", "barg")])
def test_what_only_looks_alike_is_not_converted(text: str, unit: str, golden: Golden):
    """Percentages of different things, wavelengths, and pressures above nothing and above the atmosphere's."""
    with pytest.raises(ValueError, match=unit) as refused:
        Units("EUR").to(text, unit, "it")
    golden(refused.value)


ASKED = """C degC, F degF, Celsius degC, ºC degC, C/min degC/min, ph pH, PH pH, mS mS/cm, RPM rpm, kwh kWh, mv/s mV/s,
mL/H mL/h, Mg/L mg/L, ML mL, lpm L/min, pct percent, ppt g/kg, cts count, pcs 1, - 1, Nm3/h m3/h, brix Brix"""


@pytest.mark.parametrize(("typed", "meant"), [pair.split() for pair in ASKED.split(",")])
def test_a_near_miss_is_asked_about(typed: str, meant: str):
    """Also where another unit has that name: C is the coulomb, ph a picohour; beside a number as well as alone."""
    units = Units("EUR")
    for asked in (lambda: units.unit(typed), lambda: units.to(f"2 {typed}", meant, "it")):
        with pytest.raises(ValueError) as refused:
            asked()
        assert f'{meant}"' in flaw_of(refused.value).remedy
    units.unit(meant)


def test_what_is_asked_about_can_be_said_in_full():
    """And where nothing else can be meant, nothing is asked: farads per gram, coulombs per area."""
    units = Units("EUR")
    for unit in ("coulomb", "farad", "picohour", "megaliter", "F/g", "C/cm2", "mS/cm", "mC", "uF"):
        assert units.same(unit, unit), unit


@pytest.mark.parametrize("unit", ["1e6/mL", "10^6 cfu/mL", "EC", "EUR"])
def test_a_number_and_an_exacoulomb_are_no_units(unit: str):
    """A number within a unit was taken for the charge of an electron, and any two letters for one with a prefix."""
    with pytest.raises(ValueError):
        Units("EUR").unit(unit)


@pytest.mark.parametrize(
    ("value", "remedy"),
    [("1_000", "write 1000"), ("0o17", "write 15"), ("6", "remove the quotes"), ("5,2", "write 5.2"), ("x", "")],
)
def test_what_looks_like_a_number_is_recognised(value, remedy):
    """And what it would be in YAML 1.2; anything else has no remedy."""
    assert number_meant(value) == remedy
    assert number_meant("six") == ""


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("1:30", 'write "90 min", or "90 s"'),
        ("7:00", 'write "420 min", or "7 min"'),
        ("0:20:00", 'write "20 min"'),
        ("40 EUR,", 'write "40 EUR"'),
        ("9 EUR per L", 'write "9 EUR/L"'),
        ("0:00:20", 'write "20 s"'),
        ("$5", 'write "5 USD"'),
        ("20 min", ""),
        ("60,5 EUR", 'write "60.5 EUR"'),
        ("1.000,50 EUR", 'write "1000.50 EUR"'),
        ("1,234,567.5 EUR", 'write "1234567.5 EUR"'),
        ("1,000,000 EUR", 'write "1000000 EUR"'),
    ],
)
def test_foreign_forms_of_quantities_are_recognised(text, remedy):
    """Times with colons, signs of currencies; what is as it should be has no remedy."""
    assert quantity_meant(text) == remedy
