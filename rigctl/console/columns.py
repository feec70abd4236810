"""Which column of a spreadsheet is what, and how a cell of it becomes a number in the configuration's units."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rigctl.config.findings import unknown
from rigctl.config.load import LoadedConfig
from rigctl.config.units import Units
from rigctl.console.by_hand import SAID
from rigctl.console.spreadsheet import Decimals, is_empty, parsed
from rigctl.errors import UsageError

IGNORED: Final = "-"
DIGITS: Final = 12
"""Of a converted number: 4.94 cm are 49.4 mm, not 49.400000000000006."""
CURRENCIES: Final = {"€": "EUR", "$": "USD", "£": "GBP"}
_UNIT: Final = re.compile(r"(?P<name>.*?)\s*(?:\[(?P<a>[^]]*)\]|\((?P<b>[^)]*)\)|/\s*(?P<c>\S+)|,\s*(?P<d>\S+))")
_SUFFIXED: Final = re.compile(r"(?P<number>[^A-Za-z%€$£°µμ]*?)\s*(?P<unit>[A-Za-z%€$£°µμ].*)")


@dataclass(frozen=True, slots=True)
class Column:
    """One column, and what it is."""

    header: str
    target: str
    """`value:x`, `cost`, `control_set`, `setpoint:x`, `controlled:x`, `date`, ...; empty: not used."""
    unit: str = ""
    """As the header has it."""
    into: str = ""
    """The configuration's unit."""
    scale: float = 1.0
    offset: float = 0.0

    @property
    def numeric(self) -> bool:
        return self.target == "cost" or self.target.startswith(("value:", "setpoint:"))

    def bare(self, cell: str) -> str:
        """Return a number without the unit that stands behind it.

        Raises:
            ValueError: it is another unit.
        """
        found = _SUFFIXED.fullmatch(cell)
        if found is None or re.fullmatch(r"[eE][+-]?\d+", found["unit"]):
            return cell
        if _unit(found["unit"]) != _unit(self.unit or self.into):
            raise ValueError(f'got "{cell}", must be a number in {self.unit or self.into or "no unit"}')
        return found["number"]

    def number(self, cell: str, decimals: Decimals | None) -> float | None:
        """Return a cell in the configuration's unit; None: there is nothing.

        Raises:
            ValueError: it is no number, or in another unit.
        """
        if is_empty(cell):
            return None
        value = parsed(self.bare(cell), decimals)
        if (self.scale, self.offset) == (1.0, 0.0):
            return value
        return float(f"{self.offset + self.scale * value:.{DIGITS}g}")


def key(text: str) -> str:
    """Return a name as it is compared: capitals, accents' ways of writing, underscores and spaces do not matter."""
    return " ".join(re.sub(r"[\s_-]+", " ", unicodedata.normalize("NFKC", text)).casefold().split())


def _unit(text: str) -> str:
    """Return a unit as it is compared."""
    return key(CURRENCIES.get(text, text)).replace("°", "deg").replace(" ", "")


@dataclass(frozen=True, slots=True)
class Names:
    """Knows what headers may mean."""

    loaded: LoadedConfig
    maps: Mapping[str, str]
    """What the person says: header -> what it is."""

    def target(self, header: str) -> tuple[str, str]:
        """Return what a header means, and the unit in it; empty: nothing that is known."""
        found = _UNIT.fullmatch(header.strip())
        name, unit = header.strip(), ""
        if found is not None:
            name, unit = found["name"], next((found[g] for g in "abcd" if found[g] is not None), "")
        for given, meant in self.maps.items():
            if key(given) in {key(header), key(name)}:
                return ("" if meant == IGNORED else self._meant(meant)), (
                    unit if key(given) != key(name) or unit else ""
                )
        for whole, its_unit in ((header.strip(), ""), (name, unit)):
            target = self._by_name().get(key(whole))
            if target is not None:
                return target, its_unit
        return "", ""

    def known(self, header: str) -> bool:
        return bool(self.target(header)[0])

    def _meant(self, meant: str) -> str:
        known = self._by_name()
        target = known.get(key(meant))
        if target is None:
            names = [*self._measured(), "cost", "control_set", *SAID, *(f"setpoint.{n}" for n in self._variables())]
            raise UsageError(f"--map: {unknown(meant, [*names, f'{IGNORED} (to ignore it)'], 'something to import: ')}")
        return target

    def _variables(self) -> Sequence[str]:
        return self.loaded.problem.space.names

    def _measured(self) -> Sequence[str]:
        return (*self._variables(), *self.loaded.rig.outcome_names)

    def _by_name(self) -> Mapping[str, str]:
        """Return targets by the names they go by; what the configuration has comes before our own words."""
        words = {"cost": "cost", "costs": "cost", "control set": "control_set", "controlled": "control_set"}
        names = {**words, **{word: word for word in SAID}, **{f"hand.{word}": word for word in SAID}}
        for n in self._variables():
            names |= {key(form): f"setpoint:{n}" for form in (f"setpoint.{n}", f"{n} setpoint", f"{n} set", f"set {n}")}
            names |= {
                key(form): f"controlled:{n}" for form in (f"{n} controlled", f"controlled {n}", f"controlled.{n}")
            }
        return {key(name): target for name, target in names.items()} | {key(n): f"value:{n}" for n in self._measured()}

    def unit_of(self, target: str) -> str:
        """Return the configuration's unit of what a column is."""
        kind, _, name = target.partition(":")
        if kind == "cost":
            return self.loaded.currency
        if kind not in ("value", "setpoint"):
            return ""
        variables = {v.name: v.unit for v in self.loaded.problem.space.variables}
        further = {f.name: f.unit for f in self.loaded.problem.further}
        return {self.loaded.rig.outcome_name: self.loaded.outcome_unit, **further, **variables}[name]


def columns(names: Names, header: Sequence[str], where: str) -> tuple[Column, ...]:
    """Return what each column is.

    Raises:
        UsageError: what was mapped is not there, two columns are the same thing, or a unit does not convert.
    """
    for given in names.maps:
        if key(given) not in {form for h in header for form in (key(h), key(_bare(h)))}:
            raise UsageError(f"{where}: --map: no column {given!r}; columns: {', '.join(filter(None, header))}")
    found = [_column(names, h, where) for h in header]
    for number, column in enumerate(found):
        twins = [c.header for c in found[:number] if c.target and c.target == column.target]
        if twins:
            raise UsageError(
                f"{where}: columns {twins[0]!r} and {column.header!r} are both {column.target.split(':')[-1]}; "
                f'ignore one with --map "{column.header}={IGNORED}"'
            )
    return tuple(found)


def _bare(header: str) -> str:
    found = _UNIT.fullmatch(header.strip())
    return header if found is None else found["name"]


def _column(names: Names, header: str, where: str) -> Column:
    target, unit = names.target(header)
    into = names.unit_of(target) if target else ""
    column = Column(header, target, unit, into)
    if not unit or not column.numeric or _unit(unit) == _unit(into):
        return column
    if target == "cost":
        if CURRENCIES.get(unit, unit).upper() != into:
            raise UsageError(f'{where}: column "{header}": is in {unit}, must be in the rig\'s currency {into}')
        return column
    units, sort = Units(names.loaded.currency), f"a quantity in {into or 'no unit'}"
    try:
        nothing, one = (units.to(f"{n} {unit}", into or "1", sort) for n in (0, 1))
    except ValueError as error:
        raise UsageError(
            f'{where}: column "{header}": {unit} does not convert to {into or "no unit"}, the unit in the configuration'
        ) from error
    return Column(header, target, unit, into, one - nothing, nothing)
