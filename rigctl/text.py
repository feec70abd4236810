"""How numbers, units, intervals, durations, instants and control sets are written for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from decimal import Decimal
from itertools import pairwise
from math import floor, isfinite, log10
from typing import Any, Final

IN_FULL: Final = (1e-6, 1e12)


def in_full(value: float, digits: int = 6) -> str:
    """Return a number with so many digits, or all before its point; from 1e-6 to 1e12 as people do, without powers."""
    text, (least, most) = f"{value:.{digits}g}", IN_FULL
    if "e" not in text or not least <= abs(value) < most:
        return text
    return f"{value:.0f}" if "e+" in text else f"{Decimal(text):f}"


def shown_unit(unit: str) -> str:
    """Return a unit as it is written behind a number: nothing for `1`."""
    return "" if unit == "1" else unit


@dataclass(frozen=True, slots=True, eq=False)
class Names(Mapping[str, str]):
    """Variables or outcomes as people read them: a mapping of name to unit as shown, that also knows labels.

    Names are for files and programs; wherever people read, a label stands for a name that has one.
    """

    units: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    """By name, of those that have one."""
    levels: Mapping[str, Mapping[float, str]] = field(default_factory=dict)
    """The words of categories by name, each by its number."""

    def __getitem__(self, name: str) -> str:
        return self.units[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.units)

    def __len__(self) -> int:
        return len(self.units)


def shown_name(name: str, names: Mapping[str, str] | None) -> str:
    """Return what people read for a name: its label among these `Names`, else itself."""
    return names.labels.get(name, name) if isinstance(names, Names) else name


def words_of(name: str, names: Mapping[str, str] | None) -> Mapping[float, str]:
    """Return the words of a category by their numbers; nothing of what is no category among these `Names`."""
    return names.levels.get(name, {}) if isinstance(names, Names) else {}


def shown_value(name: str, value: float | str | None, names: Mapping[str, str] | None, digits: int = 4) -> str:
    """Return a value with its unit, `-` if there is none; of a category the nearest level's word; a word as it is."""
    if isinstance(value, str):
        return value
    words, unit = words_of(name, names), (names or {}).get(name, "")
    if value is None or not isfinite(value):
        return f"- {unit}".rstrip()
    return words[min(words, key=lambda n: abs(n - value))] if words else f"{in_full(value, digits)} {unit}".rstrip()


def shown_set(members: Iterable[str], names: Mapping[str, str] | None, plus: str = "+") -> str:
    """Return what people read for a control set: `Calcium+pH`; empty for the one that controls nothing."""
    return set_label((shown_name(name, names) for name in members), plus)


def set_label(names: Iterable[str], plus: str = "+") -> str:
    """Return the name of a control set: `k+ph`; empty for the one that controls nothing."""
    return plus.join(names)


def set_members(label: str) -> tuple[str, ...]:
    """Return the variables of a control set by its name."""
    return tuple(label.split("+"))


def joined(names: Sequence[str]) -> str:
    """Write names as a sentence does: `a, b and c`."""
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), *names[-1:]])


def settings(at: Mapping[str, Any], units: Mapping[str, str] | None = None) -> str:
    """Return `k = 9.4 mM, ph = 5.6 pH`, with labels where `units` are `Names`."""
    return ", ".join(f"{shown_name(name, units)} = {shown_value(name, value, units)}" for name, value in at.items())


def shown_way(control_set: Iterable[str], setpoints: Mapping[str, Any], units: Mapping[str, str] | None = None) -> str:
    """Return what is controlled, and at what: `k+ph at k = 9.4 mM, ph = 5.6 pH`, `ph at 5.6 pH` or `nothing`."""
    at = settings(setpoints, units)
    if len(setpoints) == 1:
        at = shown_value(*next(iter(setpoints.items())), units)
    return f"{shown_set(control_set, units) or 'nothing'}{f' at {at}' if at else ''}"


def plus_minus(mean: float, sd: float) -> str:
    """Two digits of the spread, and as many decimals of the mean: `3380 ± 310`, `11.24 ± 0.15`."""
    if not (isfinite(mean) and 1e-4 < sd < 1e6):
        return f"{in_full(mean, 4)} ± {in_full(sd, 2)}"
    digit = 1 - floor(log10(sd))
    decimals = max(digit, 0)
    return f"{round(mean, digit):.{decimals}f} ± {round(sd, digit):.{decimals}f}"


def decimals_for(spreads: Sequence[float]) -> int:
    """Return how many decimals show one digit of the smallest of these, at most 6.

    All that is compared is shown with the same ones, so that rounding turns no order round.
    """
    seen = [s for s in spreads if isfinite(s) and s > 0]
    return min(max(-floor(log10(min(seen))), 0), 6) if seen else 2


def ends(low: float, high: float, decimals: int) -> str:
    """Write both ends of an interval, with as many more decimals as tell them apart; equal ones as one number."""
    for places in range(decimals, 7):
        first, last = (written(value, places) for value in (low, high))
        if first != last:
            return f"{first} to {last}"
    return written(high, decimals)


def written(value: float, decimals: int) -> str:
    """Write a number with so many decimals; nothing is never negative."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def percent(share: float) -> str:
    """Write a probability; none as certain."""
    whole = round(100 * share)
    return "under 1 %" if whole < 1 else f"{min(whole, 99)} %"


def lasting(seconds: float) -> str:
    """Write a duration: 75 s, 2 min 5 s, 11 min, 1 h 20 min, 3 days 4 h; seconds only below ten minutes."""
    sizes = (("day", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    for (large, size), (small, part) in pairwise(sizes):
        exact = 60 if part == 1 and seconds >= 600 else part
        whole = round(seconds / exact) * exact
        if seconds >= 90 and whole >= size:
            first, rest = divmod(whole, size)
            name = "days" if large == "day" and first > 1 else large
            return f"{first} {name} {rest // part} {small}" if rest else f"{first} {name}"
    return f"{seconds:.3g} s"


def told_utc(utc: str, zone: tzinfo | None = None) -> str:
    """Return an instant for people, in this zone (None: the machine's), and name it: others read it elsewhere."""
    return f"{datetime.fromisoformat(utc).astimezone(zone):%Y-%m-%d %H:%M %Z}"
