"""Civil time: hours of the week, and tariffs, by what the clock on the wall shows in the rig's zone. Pure.

An instant is a number of seconds since 1970, UTC. It belongs to an hour of the day if a clock on the wall shows it
then, on a day when it holds: an hour that is shown twice in autumn counts twice, one that is left out in spring not at
all. So a day of a change has 23 or 25 hours, and nothing that is reckoned here assumes 24.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, pairwise
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from rigctl.flaws import got, require
from rigctl.kinds import PRICE, Late

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NAMES: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MINUTES: Final = 1440
"""Of a day as clocks show it."""
AHEAD_S: Final = 15 * 86_400.0
"""How far ahead an opening is looked for: every hour of the week comes within, whatever the zone does."""
_TEXT: Final = re.compile(r"(?:([A-Za-z][A-Za-z,\s-]*?)\s*)?(?:(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d))?")
_MEANT: Final = 'must be hours of the day such as "08:00-18:00" or "Mon-Fri 08:00-18:00"'


@dataclass(frozen=True, slots=True)
class Daily:
    """Says which hours of which days of the week; hours past midnight belong to the day on which they begin."""

    days: frozenset[int]
    """0: Monday."""
    begin_min: int
    """Minutes after midnight, as the clock shows them."""
    end_min: int
    """Beyond 1440: past midnight."""

    def holds(self, weekday: int, minute: float) -> bool:
        today = weekday in self.days and self.begin_min <= minute < self.end_min
        return today or ((weekday - 1) % 7 in self.days and minute < self.end_min - MINUTES)

    @property
    def edges(self) -> tuple[int, int]:
        """Return the minutes of the day at which it may begin or end."""
        return self.begin_min % MINUTES, self.end_min % MINUTES


def hours_of_week(text: str) -> Daily:
    """Return what `Mon-Fri 08:00-18:00`, `22:00-06:00` or `Sat,Sun` means; raise `ValueError` if it means nothing."""
    found = _TEXT.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise ValueError(got(text, _MEANT))
    days = frozenset(range(7)) if found[1] is None else _days(found[1], text)
    if found[2] is None:
        return Daily(days, 0, MINUTES)
    begin, end = (_minute(found[i], found[i + 1], text) for i in (2, 4))
    require(begin not in (end, MINUTES), text, "must begin and end at different times", 'a whole day is "00:00-24:00"')
    return Daily(days, begin, end if end > begin else end + MINUTES)


def _minute(hour: str, minute: str, text: str) -> int:
    total = 60 * int(hour) + int(minute)
    require(int(minute) <= 59 and total <= MINUTES, text, "must be times from 00:00 to 24:00")
    return total


def _days(words: str, text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in words.split(","):
        first, dash, last = part.partition("-")
        begin, end = _day(first, text), _day(last if dash else first, text)
        days.update(day % 7 for day in range(begin, end + 1 if end >= begin else end + 8))
    return frozenset(days)


def _day(word: str, text: str) -> int:
    meant = word.strip().casefold()
    if len(meant) < 3 or not any(name.startswith(meant) for name in _NAMES):
        raise ValueError(got(text, f"must name days as {', '.join(DAYS)}", _MEANT))
    return next(day for day, name in enumerate(_NAMES) if name.startswith(meant))


# what the clock shows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Some time in which the clock on the wall goes evenly and passes no edge."""

    begin_s: float
    end_s: float
    weekday: int
    minute: float


def _stretches(zone: str, edges: Sequence[int], begin_s: float, end_s: float) -> Iterator[_Stretch]:
    """Divide a time at every edge (minutes of the day), every midnight and every change of the zone's offset."""
    info, marks = ZoneInfo(zone), sorted({*(60.0 * edge for edge in edges), 60.0 * MINUTES} - {0.0})
    at_s = begin_s
    while at_s < end_s:
        local = datetime.fromtimestamp(at_s, info)
        passed_s = 3600.0 * local.hour + 60.0 * local.minute + local.second + local.microsecond / 1e6
        ahead_s = next(mark for mark in marks if mark > passed_s)
        next_s = float(round(at_s - passed_s + ahead_s))
        if _offset_s(info, next_s) != _offset_s(info, at_s):
            next_s = _changed_s(info, at_s, next_s)
        yield _Stretch(at_s, min(next_s, end_s), local.weekday(), passed_s / 60.0)
        at_s = next_s


def _offset_s(info: ZoneInfo, at_s: float) -> float:
    offset = datetime.fromtimestamp(at_s, info).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def _changed_s(info: ZoneInfo, before_s: float, after_s: float) -> float:
    """Return the whole second at which the offset becomes another."""
    old, low, high = _offset_s(info, before_s), math.floor(before_s), math.ceil(after_s)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset_s(info, middle) == old else (low, middle)
    return float(high)


def _shown(zone: str, at_s: float) -> tuple[int, float]:
    local = datetime.fromtimestamp(at_s, ZoneInfo(zone))
    return local.weekday(), 60.0 * local.hour + local.minute + local.second / 60.0


def told(zone: str, at_s: float) -> str:
    """Return an instant for people, e.g. `Mon 2026-10-26 08:00 CET`."""
    local = datetime.fromtimestamp(at_s, ZoneInfo(zone))
    return f"{DAYS[local.weekday()]} {local:%Y-%m-%d %H:%M %Z}"


def instant(text: str) -> float:
    """Return the seconds since 1970 of `2026-10-10T00:00+02:00`; raise `ValueError` if it is none, or has no offset."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise ValueError(got(text, 'must be a date and time with an offset such as "2026-10-10T00:00+02:00"'))
    return when.astimezone(UTC).timestamp()


# hours ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hours:
    """Says when something is allowed."""

    zone: str
    daily: tuple[Daily, ...]
    text: str
    """As the configuration has it."""

    def is_open(self, at_s: float) -> bool:
        weekday, minute = _shown(self.zone, at_s)
        return any(daily.holds(weekday, minute) for daily in self.daily)

    def opens_s(self, at_s: float, for_s: float = 0.0) -> float:
        """Return from when it is open for so long without a break; infinity if it never is."""
        begin_s: float | None = None
        edges = [e for d in self.daily for e in d.edges]
        for stretch in _stretches(self.zone, edges, at_s, at_s + AHEAD_S):
            if not self._holds(stretch):
                begin_s = None
                continue
            begin_s = stretch.begin_s if begin_s is None else begin_s
            if stretch.end_s - begin_s >= for_s:
                return begin_s
        return math.inf

    def _holds(self, stretch: _Stretch) -> bool:
        return any(daily.holds(stretch.weekday, stretch.minute) for daily in self.daily)

    def __str__(self) -> str:
        return f"{self.text} ({self.zone})"


# tariffs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rate:
    """One price of a tariff."""

    name: str
    price: Decimal
    """As `MeterSpec.mean_price`."""
    during: tuple[Daily, ...] = ()
    """None: at all other times."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """Prices by time of use."""

    zone: str
    rates: tuple[Rate, ...]

    def divided(self, begin_s: float, end_s: float) -> tuple[tuple[float, float, Rate], ...]:
        """Divide a time by its rates: (begin, end, rate), each rate another than the one before."""
        out: list[tuple[float, float, Rate]] = []
        for s in _stretches(self.zone, self._edges(), begin_s, end_s):
            rate = self._of(s.weekday, s.minute)
            first_s = out.pop()[0] if out and out[-1][2] == rate else s.begin_s
            out.append((first_s, s.end_s, rate))
        return tuple(out)

    def at(self, at_s: float) -> Rate:
        return self._of(*_shown(self.zone, at_s))

    def changes_s(self, at_s: float) -> float:
        """Return when the rate is another for the first time after this instant; infinity if it never is."""
        divided = self.divided(at_s, at_s + AHEAD_S)
        return divided[1][0] if len(divided) > 1 else math.inf

    def mean(self) -> Decimal:
        """Return the mean price over a week without a change of the clock."""
        edges = sorted({0, *self._edges(), MINUTES})
        spans = list(pairwise(edges))
        prices = ((end - begin, self._of(day, begin).price) for day in range(7) for begin, end in spans)
        return sum((minutes * price for minutes, price in prices), Decimal(0)) / (7 * MINUTES)

    def _of(self, weekday: int, minute: float) -> Rate:
        during = (r for r in self.rates if any(daily.holds(weekday, minute) for daily in r.during))
        return next(chain(during, (r for r in self.rates if not r.during)))

    def _edges(self) -> list[int]:
        return [edge for rate in self.rates for daily in rate.during for edge in daily.edges]


def gaps(rates: Sequence[Rate]) -> tuple[str, str]:
    """Say when no rate holds, and when two do: an instant of the week each, as `Mon 06:00`; empty where there is none.

    `rates` are those of one tariff; one without hours of its own fills every gap.
    """
    edges = sorted({0, *(edge for rate in rates for daily in rate.during for edge in daily.edges)})
    none, two = "", ""
    for day in range(7):
        for minute in edges:
            holding = sum(any(daily.holds(day, minute) for daily in rate.during) for rate in rates)
            when = f"{DAYS[day]} {minute // 60:02}:{minute % 60:02}"
            none = none or (when if holding == 0 and all(rate.during for rate in rates) else "")
            two = two or (when if holding > 1 else "")
    return none, two


# as keys of the file ----------------------------------------------------------------------------------------------

_HOURS: Final = {"type": "string", "examples": ["08:00-18:00", "Mon-Fri 08:00-18:00"]}
_HOURS_FORM: Final = {"anyOf": [_HOURS, {"type": "array", "items": _HOURS, "minItems": 1}]}
HoursOfWeek = Annotated[Hours, Late("hours", _HOURS_FORM, in_unit=False)]
_RATE: Final = {
    "type": "object",
    "properties": {
        "price": {**PRICE, "description": "As a single price."},
        "during": {**_HOURS_FORM, "description": "The hours of its zone when it holds; without it, all others."},
        "name": {"type": "string", "description": "Its name in the ledger; default: its hours."},
    },
    "description": "One price of several, by time of use.",
    "required": ["price"],
    "additionalProperties": False,
}
_PRICES: Final = {"anyOf": [PRICE, {"type": "array", "items": _RATE, "minItems": 1}]}
Price = Annotated[Decimal | Tariff, Late("price", _PRICES, Decimal(0), in_unit=False)]
