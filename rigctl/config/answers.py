"""Reads what a person says of a new rig: flags and answers to questions, in the same words.

Every reader raises ValueError saying what was got and what is allowed.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from rigctl.config.draft import Draft, DraftPoint, FoundDevice, Natural, OutcomeDraft, VariableDraft
from rigctl.config.problem import COLUMNS
from rigctl.config.units import Units
from rigctl.flaws import Flaw, flaw_of, got, require
from rigctl.kinds import DURATION, NAME, PER_HOUR, PER_KWH, PER_ML, PER_TRIAL, VOLUME
from rigctl.text import in_full
from rigctl.wording import no_name

_PLUS_MINUS: Final = re.compile(r"\s*(\S+?)\s*(?:\+-|\+/-|±)\s*(\S+)\s*")
_SPAN: Final = re.compile(r"\s*(\S+?)\s*(?:\.\.|\bto\b)\s*(\S+)\s*")
_BARE: Final = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)")
TABLES: Final = ("input", "holding", "coil", "discrete")
TYPES: Final = ("int16", "uint16", "int32", "uint32", "float32", "int64", "uint64", "float64")
ORDERS: Final = ("ABCD", "BADC", "CDAB", "DCBA")
POINT_EXAMPLE: Final = "plc/input/0/float32/CDAB"
SLACK: Final = 1e-9
"""Of a step: as decimals are held."""
_WAYS: Final[tuple[Literal["maximise", "minimise"], ...]] = ("maximise", "minimise")
UNKNOWN: Final = ("unknown", "learned", "")


# single answers ---------------------------------------------------------------------------------------------------


def name_of(text: str) -> str:
    """Return a name for a rig, variable, outcome or device."""
    text = text.strip()
    if not re.fullmatch(NAME, text):
        raise ValueError(no_name(text))
    return text


def column_of(text: str, taken: Collection[str] = ()) -> str:
    """Return a name for a variable or outcome, which no other column has."""
    name = name_of(text)
    if name in COLUMNS or name in taken:
        whose = "a column of every history" if name in COLUMNS else "in use already"
        raise ValueError(f'got "{name}", which is {whose}; choose another name')
    return name


def unit_of(text: str) -> str:
    text = text.strip()
    require(text, None, "must be a unit such as mM, L/min, pH or degC", '"1" for none')
    Units(None).unit(text)
    return text


def number_of(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        point = ", with a point and no comma" if "," in text else ""
        raise ValueError(got(text.strip(), f"must be a number such as 5 or 0.25, without its unit{point}"))
    return value


def range_of(low: float, high: float) -> tuple[float, float]:
    if low >= high:
        swapped = f"; did you mean {in_full(high)} to {in_full(low)}?" if low > high else ""
        raise ValueError(f"got {in_full(low)} to {in_full(high)}, the lower end must be below the upper end{swapped}")
    return low, high


def span_of(text: str) -> tuple[float, float]:
    """Read `5 .. 7` or `5 to 7`: both ends of a range."""
    span = _SPAN.fullmatch(text)
    if span is None:
        raise ValueError(got(text.strip(), "must be the lowest and the highest value, such as 5 .. 7"))
    return range_of(number_of(span[1]), number_of(span[2]))


def currency_of(text: str) -> str:
    code = text.strip().upper()
    require(re.fullmatch(r"[A-Z]{3}", code), text.strip(), "must be a three-letter code such as EUR")
    return code


def amount_of(text: str, currency: str | None, *, per: str = "", or_nothing: bool = True) -> str:
    """Return an amount of the rig's currency without it, as it was written: `4.2` of `4.2 EUR/L`."""
    text = text.strip()
    told = f"{text} {currency or 'EUR'}{per}" if _BARE.fullmatch(text) else text
    kind = {"/L": PER_ML, "/kWh": PER_KWH, "/h": PER_HOUR}.get(per, PER_TRIAL)
    price = Units(currency).price(told, kind)
    require(or_nothing or price != 0, text, "must be more than nothing")
    if per == "/L":
        price *= 1000
    return f"{price.normalize():f}" if price else "0"


def duration_of(text: str) -> str:
    replace(DURATION, positive=True).of(text.strip(), Units(None))
    return text.strip()


def volume_of(text: str) -> str:
    replace(VOLUME, positive=True).of(text.strip(), Units(None))
    return re.sub(r"^([-+.\d]+(?:[eE][-+]?\d+)?)(?=[A-Za-zµμ])", r"\1 ", text.strip())


def direction_of(text: str) -> Literal["maximise", "minimise"]:
    word = text.strip().lower().replace("z", "s")
    meant = [way for way in _WAYS if way.startswith(word)]
    if word and len(meant) == 1:
        return meant[0]
    raise ValueError(got(text.strip(), "must be maximise or minimise"))


def natural_of(text: str, low: float, high: float) -> Natural:
    """Read `6.3 +- 0.3`, `2 .. 4`, `uniform` or `unknown`."""
    if text.strip().lower() in UNKNOWN:
        return Natural()
    if text.strip().lower() == "uniform":
        return Natural("uniform")
    spread, span = _PLUS_MINUS.fullmatch(text), _SPAN.fullmatch(text)
    if spread is not None:
        mean, sd = number_of(spread[1]), number_of(spread[2])
        if sd <= 0:
            raise ValueError(Flaw("", "must be more than nothing", got=f"a spread of {in_full(sd)}"))
        return Natural("normal", mean, sd)
    if span is not None:
        return Natural("uniform", *span_of(text))
    example = f"{in_full((low + high) / 2)} +- {in_full((high - low) / 10)}"
    raise ValueError(got(text.strip(), f'must be such as "{example}", "{low:g} .. {high:g}", uniform or unknown'))


def step_of(text: str, low: float, high: float) -> float:
    """Return the distance between two setpoints, of which the range must hold a whole number."""
    step = number_of(text)
    if step <= 0 or step > high - low or abs((high - low) / step - round((high - low) / step)) > SLACK:
        raise ValueError(got(step, f"must go a whole number of times into {in_full(low)} to {in_full(high)}"))
    return step


def safe_of(text: str, low: float, high: float) -> str:
    if text.strip().lower() == "off":
        return "off"
    value = number_of(text)
    require(low <= value <= high, value, f"must be off, or lie within {in_full(low)} to {in_full(high)}")
    return f"{in_full(value)}"


def effect_of(text: str) -> float:
    value = number_of(text)
    if value == 0:
        raise ValueError(Flaw("", "must say how much one mL changes the reading", "negative if it lowers it", got="0"))
    return value


def point_of(text: str, devices: Collection[FoundDevice], use: Literal["sensor", "actuator"]) -> DraftPoint:
    """Read `ph_probe`, `camera/MEAS:GROW?` or `plc/holding/2/float32/CDAB/coil=2`."""
    name, *place = text.strip().split("/")
    device = next((d for d in devices if d.name == name), None)
    if device is None:
        found = ", ".join(d.name for d in devices) or "none"
        raise ValueError(got(name, f"must be one of the devices that were found: {found}"))
    if device.can == "modbus":
        return DraftPoint(name, tuple(place), _register(text.strip(), tuple(place), use))
    if device.can == "scpi" and use == "sensor":
        if not place or not place[0].endswith("?"):
            raise ValueError(got(text.strip(), f"must name the question it answers, such as {name}/MEAS:VOLT?"))
        return DraftPoint(name, ("/".join(place),), {"query": "/".join(place)})
    require(not place, text.strip(), f"must be {name} alone: it has nothing to choose from")
    if use == "actuator" and device.can != "pump":
        raise ValueError(got(name, "must be a pump, or a place in a Modbus unit", lead=", which imposes nothing"))
    if use == "sensor" and device.can == "pump":
        raise ValueError(f'got "{name}", a pump, which measures nothing')
    return DraftPoint(name)


def _register(text: str, place: tuple[str, ...], use: str) -> dict[str, Any]:
    """Return the options of a device that reads or imposes what stands at a place in a Modbus unit."""
    table, at, *more = (*place, "", "")[: max(2, len(place))]
    example = POINT_EXAMPLE if use == "sensor" else "plc/holding/2/float32/CDAB/coil=2"
    if table not in TABLES or not at.isdigit() or int(at) > 0xFFFF:
        raise ValueError(got(text, f"must be device, table, address, and what stands there, such as {example}"))
    if use == "actuator" and table not in ("holding", "coil"):
        raise ValueError(got(text, "must be holding or coil", lead=f", but nothing can be written to {table}"))
    encoding, given = _encoding(text, more)
    number: dict[str, Any] = {"at": int(at), **encoding}
    if use == "actuator" and table == "holding" and not given.keys() & {"coil", "release"}:
        raise ValueError(got(text, "must say how it is let go: the coil that enables it, coil=2, or release=VALUE"))
    number |= {"scale": given["scale"]} if "scale" in given else {}
    if use == "sensor":
        return {"read": {"register": table, **number}}
    if table == "coil":
        return {"enable": {"coil": int(at)}}
    way = {"enable": {"coil": int(given["coil"])}} if "coil" in given else {"release_value": given["release"]}
    return {"write": number, **way}


def _encoding(text: str, parts: Sequence[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """Return type and byte order of what stands there, and the numbers that are given with a name."""
    number: dict[str, Any] = {}
    given: dict[str, float] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals and part not in (*TYPES, *ORDERS):
            allowed = f"must be one of {', '.join((*TYPES, *ORDERS))}, or scale=0.01"
            raise ValueError(got(part, allowed, lead=f' in "{text}"'))
        if equals and key not in ("scale", "coil", "release"):
            raise ValueError(got(part, "must be scale=..., coil=... or release=...", lead=f' in "{text}"'))
        if equals:
            given[key] = number_of(value)
        else:
            number["order" if part in ORDERS else "type"] = part
    return number, given


# whole flags ------------------------------------------------------------------------------------------------------

VARIABLE_FORM: Final = "NAME UNIT LOW HIGH [KEY=VALUE ...]"
OUTCOME_FORM: Final = "NAME UNIT [maximise|minimise] [KEY=VALUE ...]"


def variable_of(text: str, draft: Draft, devices: Collection[FoundDevice], *, places: bool = True) -> VariableDraft:
    """Read `ph pH 5 7 natural=6.3+-0.3 cost=0.4`; `places`: devices are known, so that sensors can be looked up."""
    words, given = _words(text)
    require(len(words) == 4, text, f'must be "{VARIABLE_FORM}", such as "ph pH 5 7 natural=6.3+-0.3"')
    taken = [v.name for v in draft.variables] + ([draft.outcome.name] if draft.outcome else [])
    low, high = range_of(number_of(words[2]), number_of(words[3]))
    currency = draft.currency
    readers: dict[str, Any] = {
        "natural": lambda t: natural_of(t, low, high),
        "step": lambda t: step_of(t, low, high),
        "cost": lambda t: amount_of(t, currency),
        "sensor": lambda t: point_of(t, devices, "sensor") if places else None,
        "actuator": lambda t: point_of(t, devices, "actuator") if places else None,
        "safe": lambda t: safe_of(t, low, high),
        "effect": effect_of,
        "price": lambda t: amount_of(t, currency, per="/L"),
        "per_dose": volume_of,
        "per_day": volume_of,
        "mix": duration_of,
        "treatment": lambda t: point_of(t, devices, "actuator") if places else None,
    }
    return VariableDraft(column_of(words[0], taken), unit_of(words[1]), low, high, **_read(given, readers))


def outcome_of(text: str, devices: Collection[FoundDevice], *, places: bool = True) -> OutcomeDraft:
    """Read `growth cm2/day maximise target=300`."""
    words, given = _words(text)
    require(len(words) in (2, 3), text, f'must be "{OUTCOME_FORM}", such as "growth cm2/day maximise"')
    readers: dict[str, Any] = {
        "target": number_of,
        "sensor": lambda t: point_of(t, devices, "sensor") if places else None,
    }
    direction = direction_of(words[2]) if len(words) == 3 else "maximise"
    return OutcomeDraft(column_of(words[0]), unit_of(words[1]), direction, **_read(given, readers))


def _words(text: str) -> tuple[list[str], dict[str, str]]:
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise ValueError(f'got "{text}", which has an open quotation mark') from error
    pairs = [part.partition("=") for part in parts if "=" in part]
    return [p for p in parts if "=" not in p], {key: value for key, _, value in pairs}


def _read(given: Mapping[str, str], readers: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for key, text in given.items():
        if key not in readers:
            raise ValueError(Flaw("", f"must be one of {', '.join(readers)}", got=f'the key "{key}"'))
        try:
            found[key] = readers[key](text)
        except ValueError as error:
            raise ValueError(flaw_of(error).within(key)) from error
    return found
