"""Reads what depends on names and units elsewhere in the file, once its sections have their shape.

A field says which reader it needs: `tolerance: Span` is `Annotated[float, Late("span")]`. Quantities are in the unit of
the variable or outcome that their section is, or that it serves.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from rigctl.config.conditions import ToldElsewhere, parse
from rigctl.config.devices import check_device, unit_of
from rigctl.config.findings import CheckContext, Measure, unknown
from rigctl.core.experiment.money import Micros
from rigctl.errors import KeyPath, UsageError
from rigctl.flaws import Flaw, got, require, shown, write
from rigctl.kinds import (
    DURATION,
    ENERGY,
    FLOW,
    PER_HOUR,
    PER_KWH,
    PER_ML,
    PER_TRIAL,
    POWER,
    VOLUME,
    Kind,
    Late,
    Section,
    key_of,
)
from rigctl.plugins import did_you_mean
from rigctl.rig.calendar import Hours, HoursOfWeek, Rate, Tariff, gaps, hours_of_week
from rigctl.rig.conditions import Condition
from rigctl.telling import Secret
from rigctl.text import shown_unit

_RATE: Final = re.compile(r"(.*[^/\s])\s*/\s*([A-Za-z]+)\s*")
_TRIALS: Final = re.compile(r"\s*(\d{1,4})\s*trials?\s*")
_PRICED: Final[Mapping[str, Kind]] = {"energy": PER_KWH, "volume": PER_ML, "time": PER_HOUR, "fixed": PER_TRIAL}
_COUNTED: Final[Mapping[str, Kind]] = {"energy": ENERGY, "volume": VOLUME}
_RATED: Final[Mapping[str, Kind]] = {"energy": POWER, "volume": FLOW}
_DURING: Final = HoursOfWeek | None
FEWEST: Final = 5
"""Trials between two that are repeated: more often they would take the place of what a campaign is for."""
MOST_SAMPLE: Final = 10_000_000
"""Characters of a file with a sample of what varies naturally."""


def measures_of(context: CheckContext) -> Mapping[KeyPath, Measure]:
    """Return the variables and outcomes by the places of their sections; find units that are none."""
    named: list[tuple[KeyPath, str, str]] = [
        (("variables", name), name, v.unit) for name, v in context.config.variables.items()
    ]
    named += [(path, outcome.name, outcome.unit) for path, outcome in context.outcomes]
    holds = {p: context.findings.attempt((*p, "unit"), None, context.units.unit, unit) for p, _, unit in named}
    return {p: Measure(p, name, None if holds[p] is None else unit) for p, name, unit in named}


# every section ----------------------------------------------------------------------------------------------------


def read_late(context: CheckContext, value: Any, path: KeyPath = (), hint: Any = None) -> Any:
    """Return a part of the configuration with its late values read; find keys that clash within a section."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        others = [arm for arm in args if arm is not NoneType]
        return value if value is None or len(others) > 1 else _optional(context, value, path, others[0])
    if origin is Annotated:
        late = next((mark for mark in args[1:] if isinstance(mark, Late)), None)
        return read_late(context, value, path, args[0]) if late is None else _read(context, value, path, late)
    if isinstance(value, BaseModel | Section):
        return _section(context, value, path)
    if isinstance(value, Mapping) and args:
        for key in value:
            read_late(context, key, (*path, key), args[0])
        return {key: read_late(context, part, (*path, key), args[1]) for key, part in value.items()}
    if isinstance(value, list | tuple) and args:
        return type(value)(read_late(context, part, (*path, i), args[0]) for i, part in enumerate(value))
    return value


def _optional(context: CheckContext, value: Any, path: KeyPath, hint: Any) -> Any:
    """Return a value that may be left out: where it does not hold, it is as if it was."""
    late = next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Late)), None)
    found = read_late(context, value, path, hint)
    return None if late is not None and found is late.instead and context.findings.told(path) else found


def _read(context: CheckContext, value: Any, path: KeyPath, late: Late) -> Any:
    if late.typed:
        counted = late.reader != "meter" or context.config.meters[int(path[1])].kind in ("energy", "volume")
        check_device(context, path, value, late.reader if counted else "device")
        return value
    if late.kind is not None:
        return context.findings.attempt(path, late.instead, _quantity, context, value, late.kind)
    of = context.measure_at(path)
    if late.in_unit if of is None else of.unit is None:
        return late.instead  # what it is in does not hold, which is told there
    try:
        return context.findings.attempt(path, late.instead, getattr(Readers(context, path, of), late.reader), value)
    except ToldElsewhere:
        return late.instead


def _quantity(context: CheckContext, value: Any, kind: Kind) -> float:
    return kind.of(_text(value, str(kind)), context.units)


def _section(context: CheckContext, section: Any, path: KeyPath) -> Any:
    hints: Mapping[str, Any] = _hints_of(type(section))  # type: ignore[arg-type]
    if isinstance(section, BaseModel):
        given = section.model_fields_set
    else:
        given = {f.name for f in fields(section) if getattr(section, f.name) is not f.default}
    values = {n: read_late(context, getattr(section, n), (*path, key_of(n)), hints[n]) for n in hints if n in given}
    if isinstance(section, BaseModel):
        return section.model_copy(update=values)
    made: Section = replace(section, **values)
    for clash in made.clashes():
        if not any(context.findings.told((*path, key)) for key in (clash.key, *clash.beside)):
            where = (*path, clash.key) if clash.key else path
            context.add(where, context.findings.worded(path, clash))
    return made


@cache
def _hints_of(section: type) -> Mapping[str, Any]:
    names = section.model_fields if issubclass(section, BaseModel) else [f.name for f in fields(section)]  # type: ignore[arg-type]
    hints = get_type_hints(section, include_extras=True)
    return {name: hints[name] for name in names}


# the readers ------------------------------------------------------------------------------------------------------


class Quantities:
    """Reads quantities of variables and outcomes."""

    def __init__(self, context: CheckContext, path: KeyPath, of: Measure | None) -> None:
        self._context, self._path, self._units = context, path, context.units
        self._name, self._unit = ("", "1") if of is None else (of.name, of.unit or "1")
        own = of is not None and path[: len(of.path)] == of.path
        like = (
            ""
            if of is None
            else f", like the {'variable' if path[0] == 'variables' else 'outcome'}"
            if own
            else f", like {of.name}"
        )
        self._like = f"in {self._unit}{like}"
        variable = context.config.variables.get(self._name)
        self._levels: Mapping[str, float] = (variable and variable.levels) or {}

    # quantities

    def amount(self, value: Any) -> float:
        if not self._levels or self._path[2:3] == ("plausible",):  # which a reading may be beside a level
            return self._units.to(_number_or_text(value), self._unit, self._like)
        found = self._levels.get(value, value) if isinstance(value, str) else value
        if isinstance(found, bool) or found not in self._levels.values():
            raise ValueError(got(value, f"must be one of {', '.join(self._levels)}"))
        return float(found)

    def span(self, value: Any) -> float:
        return self._units.span(_number_or_text(value), self._unit, self._like)

    def positive_span(self, value: Any) -> float:
        span = self.span(value)
        require(span > 0, span, "must be > 0")
        return span

    def rising(self, value: Any) -> tuple[float, float]:
        """Read [low, high]."""
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError(got(value, "must be two values, [low, high]", _pair_meant(value)))
        low, high = self._all(self.amount, value)
        if not low < high:
            remedy = f"write [{shown(value[1])}, {shown(value[0])}]".replace('"', "") if low > high else ""
            raise ValueError(got([low, high], "must rise from low to high", remedy))
        return low, high

    def rate_per_s(self, value: Any) -> float:
        what = f'a change of {self._unit} per time such as "0.5 {self._unit}/min"'
        text = _text(value, what)
        found = _RATE.fullmatch(text)
        if found is None:
            raise ValueError(got(text, f"must be {what}"))
        try:
            rate = self._units.span(found[1], self._unit, what) / self._units.factor(found[2], "s")
        except ValueError as error:
            raise ValueError(got(text, f"must be {what}")) from error
        require(rate > 0, text, "must be more than nothing")
        return rate

    def effect_per_ml(self, value: Any) -> float:
        what = f"a change of {self._name} per volume such as 0.05 {self._unit}/mL"
        effect = self._units.to(_text(value, what), f"{self._unit}/mL", what)
        require(effect != 0, value, "must be more or less than nothing")
        return effect

    def safe_state(self, value: Any) -> float | Literal["off"]:
        """Read `off`, or what is held; a pump is off."""
        word = str(value).casefold()
        if isinstance(value, bool) or (word in ("off", "no") and value != "off"):
            raise ValueError(got(value, "must be off, or a value to hold", "" if value is True else "write off"))
        if value == "off":
            return "off"
        require(self._path[-1] not in self._context.pumps, value, "must be off: a pump has no other safe state")
        if self._levels:
            return self.amount(value)
        return self._units.to(_number_or_text(value), self._unit, f"off, or a value in {self._unit}")

    def sample(self, value: Any) -> tuple[float, ...]:
        """Read measured values, as a list or as a column of a CSV file."""
        if isinstance(value, list) and value:
            return tuple(self._all(self.amount, value))
        column = isinstance(value, dict) and set(value) == {"file", "column"}
        if not column or not all(isinstance(v, str) for v in value.values()):
            raise ValueError(got(value, "must be a list of measured values, or {file: water.csv, column: ph}"))
        return tuple(self._column(value["file"], value["column"]))

    def _column(self, name: str, column: str) -> Iterator[float]:
        """Give the values in a column of a CSV file."""
        findings, file = self._context.findings, self._context.folder / name
        try:
            rows = list(csv.DictReader(io.StringIO(_sample(file), newline="")))
        except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
            why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
            remedy = "its path is from the configuration's folder"
            findings.add((*self._path, "file"), got(name, f"must be a CSV file that can be read: {why}", remedy))
            raise ToldElsewhere from error
        headers = list(rows[0]) if rows else []
        if column not in headers:
            findings.add((*self._path, "column"), unknown(column, [h for h in headers if h], "a column"))
            raise ToldElsewhere
        for i, row in enumerate(rows, start=2):
            try:
                yield self.amount(row[column]) if self._levels else float(row[column] or "")
            except ValueError:
                must = f"must be {'one of ' + ', '.join(self._levels) if self._levels else 'a number'}"
                findings.add(self._path, got(row[column], must, where=f"{file}:{i}"))

    def _all(self, read: Callable[[Any], Any], values: Sequence[Any]) -> Sequence[Any]:
        """Return all parts of a list, each told of by itself."""
        found = [self._context.findings.attempt((*self._path, i), None, read, v) for i, v in enumerate(values)]
        if None in found:
            raise ToldElsewhere
        return found


class Amounts(Quantities):
    """Reads amounts of money."""

    def money(self, value: Any) -> Micros:
        return self._units.money(_text(value, str(PER_TRIAL)))

    def known_cost(self, value: Any) -> Micros | dict[str, Micros]:
        """Read a control set's cost, or what each variable adds to one."""
        if not (isinstance(value, dict) and self._path[-1] == "each"):
            return self.money(value)
        return {n: self._context.findings.attempt((*self._path, n), 0, self.money, v) for n, v in value.items()}

    def budget(self, value: Any) -> tuple[Micros, Micros | None]:
        """Read an amount, or {total, max_per_trial}."""
        parts = value if isinstance(value, dict) else {"total": value}
        if "total" not in parts or not parts.keys() <= {"total", "max_per_trial"}:
            raise ValueError(got(value, "must be an amount such as 40 EUR, or {total: 40 EUR, max_per_trial: 2 EUR}"))
        most, where = parts.get("max_per_trial"), (*self._path, "max_per_trial")
        ceiling = None if most is None else self._context.findings.attempt(where, None, self._spent, most)
        return self._spent(parts["total"]), ceiling

    def _spent(self, value: Any) -> Micros:
        amount = self.money(value)
        require(amount != 0, value, "must be more than nothing")
        return amount


class Readers(Amounts):
    """Reads the value at one place of the file; raises ValueError, which says what was got and what is allowed."""

    def price(self, value: Any) -> Decimal | Tariff:
        """Read a meter's price, or prices by time of use, of which every hour has one."""
        if not isinstance(value, list):
            return self._priced(value)
        known = {"price", "during", "name"}
        if not value or not all(isinstance(v, dict) and "price" in v and v.keys() <= known for v in value):
            raise ValueError(
                got(value, 'must be a price, or a list of {price: 0.31 EUR/kWh, during: "06:00-22:00", name: day}')
            )
        before = self._context.findings.count
        rates = tuple(self._rate((*self._path, i), given) for i, given in enumerate(value))
        zone = zone_of(self._context, needed=True)
        if zone is None or self._context.findings.count > before:
            raise ToldElsewhere
        if [rate for rate in rates if not rate.during][1:]:
            raise ValueError(Flaw("", "must have one price without `during` at most: it holds at all other hours"))
        none, two = gaps(rates)
        if none or two:
            remedy = f"{'add one without `during`; ' if none else ''}every hour must have one"
            raise ValueError(Flaw(f"has no price on {none}" if none else f"has two prices on {two}", remedy=remedy))
        return Tariff(zone, rates)

    def _priced(self, value: Any) -> Decimal:
        kind = _PRICED[self._meter]
        return self._units.price(_text(value, str(kind)), kind)

    def _rate(self, path: KeyPath, given: Mapping[str, Any]) -> Rate:
        price = self._context.findings.attempt((*path, "price"), Decimal(0), self._priced, given["price"])
        hours = read_late(self._context, given.get("during"), (*path, "during"), _DURING)
        name = given.get("name") or ("otherwise" if hours is None else hours.text)
        return Rate(str(name), price, () if hours is None else hours.daily)

    def used(self, value: Any) -> float:
        return self._counted(value, _COUNTED)

    def rated_per_h(self, value: Any) -> float:
        return self._counted(value, _RATED)

    def _counted(self, value: Any, kinds: Mapping[str, Kind]) -> float:
        if self._meter not in kinds:
            raise ValueError(Flaw(f"is only for energy and volume, not for {self._meter}", remedy="remove it"))
        kind = replace(kinds[self._meter], positive=True)
        return kind.of(_text(value, str(kind)), self._units)

    @property
    def _meter(self) -> str:
        """What the meter here counts."""
        return self._context.config.meters[int(self._path[1])].kind

    def worth(self, value: Any) -> float:
        """Read what one unit of the outcome is worth."""
        per = f"/({self._unit})" if "/" in self._unit else f"/{self._unit}" if shown_unit(self._unit) else ""
        kind = Kind("a price of one unit of outcome", f"0.3 EUR{per}", shown_unit(self._unit))
        text = _text(value, str(kind))
        if self._path[0] == "further_outcomes":
            raise ValueError(got(text, "", "remove it", lead=", but only what the first outcome is worth is counted"))
        price = self._units.price(text, kind)
        require(price != 0, text, "must be more than nothing", "leave it out where nobody knows")
        return float(price)

    # who is told

    def secret(self, value: Any) -> Secret:
        """Read where a secret is kept; nothing of it is shown, for it may be the secret itself."""
        if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"file", "env"}:
            raise ValueError(Flaw("", "must be exactly one of {file: PATH}, {env: NAME}", got="something else"))
        name, file = value.get("env", "NAME"), value.get("file", "")
        if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
            raise ValueError(Flaw("", "must be that of an environment variable such as RIGCTL_NOTIFY", got="no name"))
        if not isinstance(file, str):
            raise ValueError(Flaw("", "must be that of a file", got="no path"))  # noqa: TRY004  # of the file
        found = (
            Secret(str((self._context.folder / file).expanduser().absolute())) if "file" in value else Secret(env=name)
        )
        if self._context.to_run:
            try:
                found.lines()
            except UsageError as error:  # no reason not to run the rig
                self._context.findings.warn(self._path, f"nobody can be told: {error}")
        return found

    def time_of_day(self, value: Any) -> str:
        if not isinstance(value, str) or re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", value) is None:
            raise ValueError(got(value, 'must be a time of day such as "08:00"'))
        return value.zfill(5)

    def zone(self, value: Any) -> str:
        return _zone(value)

    # counts, times and conditions

    def doses(self, value: Any) -> int:
        found = re.fullmatch(r"\s*(\d{1,9})\s*(doses?)?\s*", value) if isinstance(value, str) else None
        if found is not None:
            return int(found[1])
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(got(value, 'must be a number of doses such as "20 doses"'))
        return value

    def frozen_after(self, value: Any) -> tuple[float | None, int | None]:
        """Read (rig seconds, trials); None: not by this."""
        what = 'a duration such as "30 min", a number of trials, or off'
        text = _text(value, what)
        if text == "off":
            return None, None
        trials = _TRIALS.fullmatch(text)
        if trials is not None:
            require(int(trials[1]) >= 2, text, 'must be at least "2 trials": one reading is like no other')
            return None, int(trials[1])
        try:
            seconds = self._units.quantity(text, DURATION)
        except ValueError as error:
            raise ValueError(got(text, f"must be {what}")) from error
        require(seconds != 0, text, "must be more than nothing, or off")
        return seconds, None

    def hours(self, value: Any) -> Hours:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
            raise ValueError(got(value, 'must be hours of the day such as "08:00-18:00", or a list of them'))
        zone = zone_of(self._context, needed=True)
        daily = self._all(hours_of_week, texts) if len(texts) > 1 else [hours_of_week(texts[0])]
        if zone is None:
            raise ToldElsewhere
        return Hours(zone, tuple(daily), ", ".join(texts))

    def condition(self, value: Any) -> Condition:
        if not isinstance(value, str):
            raise ValueError(got(value, "must be text", write(shown(value))))  # noqa: TRY004 - of the file
        return parse(value, partial(unit_of, self._context), self._units, self._words)

    def _words(self, name: str) -> Mapping[float, str]:
        section = self._context.config.variables.get(name)
        return {} if section is None else {number: word for word, number in (section.levels or {}).items()}

    def lengthscales(self, value: Any) -> tuple[float, ...] | None:
        names, given = list(self._context.config.variables), value if isinstance(value, dict) else {"": value}
        numbers = [v for v in given.values() if isinstance(v, int | float) and not isinstance(v, bool)]
        if not numbers or len(numbers) < len(given) or not all(math.isfinite(v) and v > 0 for v in numbers):
            raise ValueError(got(value, "must be a positive number, or one per variable such as {ph: 0.2}"))
        if not isinstance(value, dict):
            return (float(value),) * len(names)
        for name in value:
            self._context.known((*self._path, name), name, ["variables"], "variable")
        missing = [n for n in names if n not in value]
        if missing:
            raise ValueError(Flaw(f"has none for {', '.join(missing)}", remedy="give one per variable"))
        return tuple(float(value[n]) for n in names)

    def trials(self, value: Any) -> int:
        """Read how many trials lie between two that are repeated."""
        found = re.fullmatch(r"\s*(\d{1,6})\s*trials?\s*", value) if isinstance(value, str) else None
        if found is None or int(found[1]) < FEWEST:
            raise ValueError(got(value, f'must be a whole number of trials, at least "{FEWEST} trials"'))
        return int(found[1])


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        remedy = "add the unit" if isinstance(value, int | float) and not isinstance(value, bool) else ""
        raise ValueError(got(value, f"must be {what}", remedy))  # noqa: TRY004  # of the file
    return value


def _number_or_text(value: Any) -> float | str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(got(value, 'must be a number, or a quantity such as "2.6 mM"'))  # noqa: TRY004
    require(math.isfinite(value), value, "must be finite")
    return float(value)


def _pair_meant(value: Any) -> str:
    """Return the remedy for `5.2 - 6.8` and for [5,2, 6,8]."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(-?[\d.]+)\s*(?:-|to|\.\.\.?)\s*(-?[\d.]+)\s*", value)
        return f"write [{found[1]}, {found[2]}]" if found is not None else ""
    if isinstance(value, list) and len(value) == 4 and all(isinstance(v, int) for v in value):
        return f"with points for commas: [{value[0]}.{value[1]}, {value[2]}.{value[3]}]"
    return ""


def _sample(file: Path) -> str:
    if file.exists() and not file.is_file():  # a pipe or a device may have no end, or never begin
        raise ValueError("it is no file")
    with file.open(newline="", encoding="utf-8-sig") as stream:
        text = stream.read(MOST_SAMPLE + 1)
    if len(text) > MOST_SAMPLE:
        raise ValueError(f"it is larger than {MOST_SAMPLE // 1_000_000} MB")
    return text


def zone_of(context: CheckContext, *, needed: bool = False) -> str | None:
    """Return the zone if it is one; None (and a finding, where it is given or needed) if not."""
    given, findings = context.config.zone, context.findings
    if findings.told(("zone",)):
        return None
    if given is None:
        if needed:
            must = "must say where the rig stands, such as Europe/Berlin: hours of the day are those of its clocks"
            findings.add(("zone",), Flaw("is missing", must))
        return None
    return findings.attempt(("zone",), None, _zone, given)


def _zone(given: Any) -> str:
    """Return the name of a time zone if it is one."""
    try:
        ZoneInfo(given)
    except (ValueError, OSError, KeyError, TypeError) as error:
        from zoneinfo import available_timezones  # noqa: PLC0415  # reads hundreds of files

        near = did_you_mean(str(given), sorted(available_timezones()))
        raise ValueError(got(given, "must be a time zone such as Europe/Berlin", near)) from error
    return str(given)
