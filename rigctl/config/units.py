"""Quantities carry units in the file and are plain numbers inside; this is the only place that converts them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from rigctl.core.experiment.money import Micros, to_micros
from rigctl.flaws import got, require, write
from rigctl.kinds import PER_TRIAL, Kind
from rigctl.plugins import nearest
from rigctl.wording import bracketed, quantity_meant

if TYPE_CHECKING:
    import pint

_QUANTITY: Final = re.compile(r"\s*([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?)\s*(.*?)\s*")
_UNIT: Final = re.compile(r"[A-Za-zµμ°Ω%*/^·() 0-9.-]{0,60}")
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
"""As people and spreadsheets write cm² and m⁻³."""
_KNOWN: Final = 'must be a known unit such as "mM", "L/min" or "pH" ("1" for none)'
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_POWER: Final = re.compile(r"(?<=[A-Za-z])(-?[1-9])(?![0-9])")
_LONG_NUMBER: Final = re.compile(r"(?<!OD)\d{3}")
_FACTOR: Final = re.compile(r"(?<![A-Za-z0-9*^()/ -])(?!1(?![0-9]))[0-9]|[0-9][eE][0-9]")
"""A number that no unit is raised to."""
_WORD: Final = re.compile(r"[A-Za-zµμ°ºΩ]+")
MOST_DIGITS: Final = 20
"""Of a quantity: decimals compute with 28, and a price must stay exact."""
LARGEST: Final = 300
"""Power of ten of a quantity."""
LARGEST_SUM: Final = 12
"""Power of ten of an amount of money: the journal counts micro-units in 64 bits."""

SCALES: Final = (
    *("pH", "HB", "HV", "HRC", "NTU", "FNU", "PSU", "OD", "cfu", "cells", "eq", "IU", "RH", "barg", "rcf", "phr"),
    *(
        "dBA",
        "Brix",
        "Plato",
        "IBU",
        "EBC",
        "wt_percent",
        "vol_percent",
        "mol_percent",
        "at_percent",
        "german_hardness",
    ),
    *(f"OD{nm}" for nm in (540, 550, 560, 578, 595, 600, 620, 650, 660, 680, 730, 750)),
)
"""Units that convert to nothing else: a percentage of mass is none of moles, and an OD depends on its wavelength."""
_RARE: Final = re.compile(r"\b(?:quecto|ronto|yocto|zepto|atto|exa|peta|zetta|yotta|ronna|quetta)")
"""Prefixes that make a unit of almost any two letters: EC, the exacoulomb."""

_PREFIXES: Final = {"": 0, "k": 3, "c": -2, "m": -3, "u": -6}
_PREFIXED: Final = (
    {"s": "s", "m": "m", "g": "g", "A": "A", "mol": "n", "L": "1e-3 mmm", "l": "1e-3 mmm", "M": "1e3 n/mmm"}
    | {"N": "1e3 gm/ss", "Pa": "1e3 g/mss", "bar": "1e8 g/mss", "W": "1e3 gmm/sss", "Wh": "3600e3 gmm/ss"}
    | {"V": "1e3 gmm/sssA", "S": "1e-3 sssAA/gmm", "Hz": "/s"}
)
"""Unit -> its factor, and the letters of the base units that are multiplied and divided (n: mole)."""
_OTHERS: Final = {"min": "60 s", "h": "3600 s", "d": "86400 s", "day": "86400 s", "hPa": "1e5 g/mss"}
_UNCONVERTED: Final = (
    *("K", "degC", "degF", "percent", "%", "ppm", "rpm", "deg", "dB", "octave", "decade"),
    *filter(str.isalpha, SCALES),
)
_TERM: Final = re.compile(r"([A-Za-z%]+)([1-9]?)")
_PER_PRODUCT: Final = re.compile(r"/\(([A-Za-z0-9]+)\*([A-Za-z0-9]+)\)")


@cache
def _usual() -> Mapping[str, tuple[Fraction, Counter[str]]]:
    """Return the units that most rigs need no others than, each as a factor and powers of base units."""
    found = {name: (Fraction(1), Counter((name,))) for name in _UNCONVERTED}
    prefixed = [(p + name, meaning, power) for name, meaning in _PREFIXED.items() for p, power in _PREFIXES.items()]
    for name, meaning, power in (*prefixed, *((name, meaning, 0) for name, meaning in _OTHERS.items())):
        factor, _, bases = meaning.rpartition(" ")
        above, _, below = bases.partition("/")
        powers = Counter(above)
        powers.subtract(below)
        found[name] = Fraction(factor or 1) * Fraction(10) ** power, powers
    return found


def _in_base_units(text: str) -> tuple[Fraction, Counter[str]] | None:
    """Return a unit as a factor and powers of base units; None where only the registry can tell."""
    whole, powers = Fraction(1), Counter[str]()
    text = text.translate(_RAISED)
    bare = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    for place, term in enumerate(_PER_PRODUCT.sub(r"/\1/\2", bare).split("/")):
        if term == "1" and not place:
            continue
        found = _TERM.fullmatch(term)
        if found is None or found[1] not in _usual():
            return None
        factor, bases = _usual()[found[1]]
        times = int(found[2] or 1) * (-1 if place else 1)
        whole *= factor**times
        powers.update({base: n * times for base, n in bases.items()})
    return whole, powers


@dataclass(frozen=True, slots=True)
class _Trade:
    """What `trade.yaml` says of units."""

    defined: Sequence[str]
    spelt: Mapping[re.Pattern[str], str]
    meant: Mapping[re.Pattern[str], Sequence[str]]
    common: Sequence[str]


@cache
def _trade() -> _Trade:
    """Return how the trades write units; only read where a unit is none of the usual ones."""
    import yaml  # noqa: PLC0415  # as above

    told = yaml.safe_load(resources.files("rigctl.config").joinpath("trade.yaml").read_text(encoding="utf-8"))
    whole = {f"(?<![A-Za-z°])(?:{pattern})(?![A-Za-z])": ways for pattern, ways in told["meant"].items()}
    spelt, meant = ({re.compile(p): to for p, to in table.items()} for table in (told["spelt"], whole))
    return _Trade(told["defined"], spelt, meant, (*told["common"], *(s for s in SCALES if "_" not in s)))


@cache  # a constant that takes 0.6 s to load and build; nothing changes it afterwards
def _registry() -> pint.UnitRegistry[Decimal]:
    import pint  # noqa: PLC0415  # only where a unit is none of the usual ones

    registry: pint.UnitRegistry[Decimal] = pint.UnitRegistry(non_int_type=Decimal)
    for definition in (*(f"{scale} = [{scale}]" for scale in SCALES), *_trade().defined):
        registry.define(definition)
    return registry


class Units:
    """Knows money, pH and instrument scales beside all other units, and computes in decimals.

    Decimals because prices must stay exact: 4.2 EUR/L is 0.0042 EUR/mL, not the nearest binary fraction to it.

    Raises:
        ValueError: from every method, where a text is none of what it must be (unknown unit, other dimension, other
            currency, a minus, no unit at all); says what was got and what is allowed.
    """

    def __init__(self, currency: str | None) -> None:
        self.currency = currency
        """None: the configuration names none (which is reported elsewhere), so any will do."""

    def unit(self, text: str) -> str:
        """Return a unit as it is written."""
        read, remedy = _asked(text)
        if remedy:
            raise ValueError(got(text, "", remedy, lead=f": {read}") if read else got(text, _KNOWN, remedy))
        if _in_base_units(text) is None:
            self._registered(text)
        return text

    def _registered(self, text: str) -> Any:
        plain = text.translate(_RAISED)
        if not _UNIT.fullmatch(plain) or _LONG_NUMBER.search(plain) or _FACTOR.search(plain):
            remedy = "take the number out of the unit" if _FACTOR.search(plain) else ""
            raise ValueError(got(text, 'must be a unit such as "mM", "L/min" or "pH" ("1" for none)', remedy))
        found = _parsed(plain)
        if found is None:
            raise ValueError(got(text, _KNOWN, _unit_meant(plain)))
        return found

    def factor(self, unit: str, other: str) -> float:
        """Return how many `other` one `unit` is."""
        return float(self._convert(Decimal(1), unit, other))

    def same(self, unit: str, other: str) -> bool:
        """Tell whether two names are of one unit, such as uM and umol/L."""
        try:
            return self.factor(unit, other) == 1
        except ValueError:
            return False

    def to(self, value: str | float, unit: str, what: str) -> float:
        """Convert a quantity to `unit`; a bare number is in it already."""
        return self._to(value, unit, what, from_nothing=False)

    def span(self, value: str | float, unit: str, what: str) -> float:
        """Convert a difference, such as a tolerance or a spread: 1 degC is 1 K then, wherever their zeros are."""
        return self._to(value, unit, what, from_nothing=True)

    def _to(self, value: str | float, unit: str, what: str, *, from_nothing: bool) -> float:
        if not isinstance(value, str):
            return float(value)
        amount, given = _split(value, what)
        if given:
            nothing = self._part(value, Decimal(0), given, unit, what) if from_nothing else 0
            amount = self._part(value, amount, given, unit, what) - nothing
        return _finite(amount, value)

    def quantity(self, value: str, kind: Kind) -> float:
        """Convert a quantity to the kind's unit; it is never negative."""
        amount, given = _split(value, str(kind))
        if not given:
            raise ValueError(got(value, f"must be {kind}", "add the unit", lead=" without a unit"))
        converted = _finite(self._part(value, amount, given, kind.unit, str(kind)), value)
        require(converted >= 0, value, "must not be negative")
        return converted

    def money(self, value: str, kind: Kind = PER_TRIAL) -> Micros:
        return to_micros(self.price(value, kind))

    def price(self, value: str, kind: Kind) -> Decimal:
        """Return currency units per `kind.unit`, exact."""
        amount, given = _split(value, str(kind))
        code, _, per = (part.strip() for part in given.partition("/"))
        if not _CURRENCY.fullmatch(code) or bool(per) != bool(kind.unit):
            raise ValueError(got(value, f"must be {self._in_currency(kind)}", quantity_meant(value)))
        if self.currency is not None and code != self.currency:
            must = f"must be in the rig's currency {self.currency}"
            raise ValueError(got(value, must, write(bracketed(value.replace(code, self.currency)))))
        require(amount >= 0, value, "must not be negative")
        require(amount.adjusted() < LARGEST_SUM, value, f"must be less than 1e{LARGEST_SUM} {code}")
        if per:
            try:
                none, one = (self._convert(Decimal(n), kind.unit, per) for n in (0, 1))
            except ValueError as error:
                why = self._why(per, kind.unit, value)
                raise ValueError(got(value, f"must be {self._in_currency(kind)}", why)) from error
            if none:  # as degrees Celsius and Fahrenheit: one is no fixed number of the other
                raise ValueError(got(value, f"must be {self._in_currency(kind)}", f"{per} has another zero"))
            if bracketed(value) != value:
                must = "must have brackets around what it is per"
                raise ValueError(got(value, must, write(bracketed(value))))
            amount *= one
        return _short(amount)

    def _in_currency(self, kind: Kind) -> str:
        return str(replace(kind, example=kind.example.replace("EUR", self.currency or "EUR")))

    def _part(self, value: str, amount: Decimal, unit: str, other: str, what: str) -> Decimal:
        """Convert a part of `value`, which must be `what`."""
        try:
            return self._convert(amount, unit, other)
        except ValueError as error:
            why = quantity_meant(value) or self._why(unit, other, value)
            raise ValueError(got(value, f"must be {what}", why)) from error

    def _why(self, unit: str, other: str, value: str) -> str:
        """Say why one unit of `value` is not another: it is none, or of something else."""
        try:
            self.unit(unit)
        except ValueError:
            read, remedy = _asked(unit, value)
            return "; ".join(filter(None, (read or f'"{unit}" is no known unit', remedy or _unit_meant(unit))))
        return f"{unit} cannot be converted to {other}"

    def _convert(self, amount: Decimal, unit: str, other: str) -> Decimal:
        this, that = _in_base_units(unit), _in_base_units(other)
        if this is not None and that is not None and this[1] == that[1]:
            ratio = this[0] / that[0]
            factor = Decimal(ratio.numerator) / ratio.denominator
            if len(factor.as_tuple().digits) < MOST_DIGITS:  # it has an end; how others are rounded, the registry says
                return amount * factor
        source, target = self._registered(self.unit(unit)), self._registered(self.unit(other))
        if source == target:
            return amount
        try:
            converted = Decimal(_registry().Quantity(amount, source).to(target).magnitude)
        except Exception as error:  # pint: DimensionalityError, OffsetUnitCalculusError, decimal's own, ...
            raise ValueError(f"{unit} cannot be converted to {other}") from error
        if not converted.is_finite():
            raise ValueError(f"{amount} {unit} is no finite number of {other}")
        return converted


def _parsed(text: str) -> Any:
    """Return what Pint makes of a unit; None where it is none, or one that nobody means."""
    for spelt, name in _trade().spelt.items():
        text = spelt.sub(name, text)
    try:
        found = _registry().parse_units(_POWER.sub(r"**\1", text))
    except Exception:  # noqa: BLE001  # pint raises whatever its tokenizer meets: TokenError, TypeError, KeyError...
        return None
    return None if _RARE.search(str(found)) else found


def _asked(unit: str, value: str | None = None) -> tuple[str, str]:
    """Return what a unit is read as that people mean otherwise, and the remedy: another unit, also in `value`."""
    usual = _in_base_units(unit) is not None and "S" not in unit  # of those only siemens are taken for another
    if usual or any(spelt.search(unit) for spelt in _trade().spelt):
        return "", ""
    for pattern, meant in _trade().meant.items():
        found = pattern.search(unit)
        if found is None:
            continue
        ways = [pattern.sub(way, unit) for way in meant]
        remedy = " or ".join(write(way if value is None else value.replace(unit, way)) for way in ways)
        remedy, read = remedy.replace("or write", "or"), _parsed(found[0])
        if read is None:
            return "", remedy
        in_full = f', or "{read}" if you mean that' if str(read).isalpha() else ""
        return f"{found[0]} is read as {read}", f"{remedy}{in_full}"
    return "", ""


def _unit_meant(text: str) -> str:
    """Return the remedy for a unit that is none: word by word if that makes one, else the nearest as a whole."""
    common = _trade().common
    words = _WORD.sub(lambda word: word[0] if _parsed(word[0]) else nearest(word[0], common) or word[0], text)
    near = words if words != text and _parsed(words) is not None else nearest(text, common)
    return f'did you mean "{near}"?' if near is not None and near != text else ""


def _split(value: str, what: str) -> tuple[Decimal, str]:
    found = _QUANTITY.fullmatch(value)
    if found is None:
        raise ValueError(got(value, f"must be {what}", quantity_meant(value)))
    amount = Decimal(found[1])
    require(len(amount.as_tuple().digits) <= MOST_DIGITS, value, f"must have at most {MOST_DIGITS} digits")
    require(amount.adjusted() < LARGEST, value, f"must be finite, less than 1e{LARGEST}")
    return amount, found[2]


def _finite(amount: Decimal, value: str) -> float:
    converted = float(amount)
    require(not math.isinf(converted), value, "must be finite")
    return converted


def _short(price: Decimal) -> Decimal:
    """Write each number in one way, so that `9.0 EUR/L` and `9 EUR/L` are the same configuration."""
    short = price.normalize()
    return short if short.as_tuple().exponent in range(-99, 1) else short.quantize(Decimal(1))
