"""Tables that people keep: what their columns mean, in which units, and what their rows say."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rigctl.config.findings import unknown
from rigctl.config.load import LoadedConfig
from rigctl.config.units import Units
from rigctl.console.options import Decimals
from rigctl.console.tables.numerals import is_empty, parsed, parted
from rigctl.console.tables.sheet import Sheet, letters
from rigctl.console.tables.workbook import Cells
from rigctl.errors import Mistake, UsageError
from rigctl.flaws import Flaw, flaw_of, got, require
from rigctl.plugins import nearest

SAID: Final = ("date", "operator", "batch", "note")
"""What may be known of a trial besides; columns of these names, or `hand.date` and so on as in an export."""
WORDED: Final = ("value", "setpoint", "look")
"""Kinds of columns in which a category has words."""
NUMBERS: Final = ("value", "setpoint", "look", "look_sd", "cost", "cost_then", "noise_sd", "noise_factor")
"""What is a number in a table: of a variable or an outcome, and of the trial."""
IGNORED: Final = "-"
DIGITS: Final = 12
"""Of a converted number: 4.94 cm are 49.4 mm, not 49.400000000000006."""
CURRENCIES: Final = {"€": "EUR", "$": "USD", "£": "GBP"}
_UNIT: Final = re.compile(r"(?P<name>.*?)\s*(?:\[(?P<a>[^]]*)\]|\((?P<b>[^)]*)\)|/\s*(?P<c>\S+)|,\s*(?P<d>\S+))")


_PERCENT: Final = re.compile(
    r"(?:(?:mol|wt|vol|at|gew|mass|[mvw])[.-]*)?(?:%|percent|prozent|pct|pourcent)(?:\(?[mvw]/[mvw]\)?|r\.?h\.?)?"
)
WORDS: Final = {
    "cost": ("cost", "costs", "price", "kosten", "preis", "coût", "coûts", "prix"),
    "control_set": ("control set", "controlled", "geregelt", "gesteuert", "réglé", "contrôlé"),
    "date": ("date", "hand.date", "datum"),
    "operator": ("operator", "hand.operator", "bediener", "opérateur"),
    "batch": ("batch", "hand.batch", "charge", "lot"),
    "note": ("note", "hand.note", "notes", "notiz", "bemerkung", "kommentar", "comment", "comments", "remarque"),
}
"""How a column of our own may be called; what a configuration calls so comes first."""


# its columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """One column, and what it is."""

    header: str
    target: str
    """`value:x`, `cost`, `control_set`, `setpoint:x`, `controlled:x`, `look:x`, `date`, ...; empty: not used."""
    unit: str = ""
    """As the header has it."""
    into: str = ""
    """The configuration's unit."""
    scale: float = 1.0
    offset: float = 0.0
    levels: Mapping[str, float] = field(default_factory=dict)
    """The numbers of a category's words, which are compared by `key`."""

    @property
    def numeric(self) -> bool:
        return self.target.partition(":")[0] in NUMBERS and not self.levels

    def scaled(self, value: float) -> float:
        """Return a number of this column in the configuration's unit."""
        if (self.scale, self.offset) == (1.0, 0.0):
            return value
        return float(f"{self.offset + self.scale * value:.{DIGITS}g}")


def key(text: str) -> str:
    """Return a name as it is compared: capitals, accents' ways of writing, underscores and spaces do not matter."""
    return " ".join(re.sub(r"[\s_-]+", " ", unicodedata.normalize("NFKC", text)).casefold().split())


def same_unit(one: str, other: str) -> bool:
    """Tell whether two units are one, however they are written; any percentage is percent."""
    return _unit(one) == _unit(other)


def _unit(text: str) -> str:
    unit = key(CURRENCIES.get(text, text)).replace("°", "deg").replace(" ", "")
    return "%" if _PERCENT.fullmatch(unit) else unit


def _named(header: str) -> tuple[str, str]:
    """Return a header's name, and the unit that stands in it."""
    found = _UNIT.fullmatch(header.strip())
    if found is None:
        return header.strip(), ""
    return found["name"], next((found[g] for g in "abcd" if found[g] is not None), "")


@dataclass(frozen=True, slots=True)
class Headers:
    """Knows what headers may mean."""

    loaded: LoadedConfig
    maps: Mapping[str, str] = field(default_factory=dict)
    """What the person says: header -> what it is."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Other headers that are read, each with what it is."""

    def target(self, header: str, number: int | None = None) -> tuple[str, str]:
        """Return what a header means, and the unit in it; empty: nothing that is known.

        `number` is that of its column, as far as it is known; 0 is the first.
        """
        name, unit = _named(header)
        for given, meant in self.maps.items():
            if key(given) in self.forms(header, number):
                return ("" if meant == IGNORED else self.meant(meant, "--map")), unit
        for whole, its_unit in ((header.strip(), ""), self._spaced(header), (name, unit)):
            target = self._by_name().get(key(whole))
            if target is not None:
                return target, its_unit
        return "", ""

    def _spaced(self, header: str) -> tuple[str, str]:
        """Return name and unit of `feed mm/rev`, where it is read so; else all of a header as its name."""
        name, _, unit = header.strip().rpartition(" ")
        target, units = self._by_name().get(key(name)), Units(self.loaded.currency)
        into = "" if target is None else self.unit_of(target)
        with suppress(ValueError):
            fits = same_unit(unit, into) or (unit[:1].isalpha() and units.to(f"1 {unit}", into, "a quantity") > 0)
            if into and fits:
                return name, unit
        return header.strip(), ""

    def known(self, header: str) -> bool:
        return bool(self.target(header)[0])

    def forms(self, header: str, number: int | None) -> Collection[str]:
        """Return how a person may call a column: by its header, without its unit, or by its letter, `column C`."""
        return {
            key(header),
            key(_named(header)[0]),
            key(self._spaced(header)[0]),
            "" if number is None else key(f"column {letters(number)}"),
        } - {""}

    def is_unit(self, text: str) -> bool:
        units = Units(self.loaded.currency)
        if same_unit(text, "%") or same_unit(text, self.loaded.currency):
            return True
        try:
            units.unit(text)
        except ValueError:
            return False
        return True

    def meant(self, meant: str, option: str) -> str:
        """Raise UsageError, which names the option, where it is no column that is read."""
        known = self._by_name()
        target = known.get(key(meant))
        if target is None:
            names = [*self._measured(), "cost", "control_set", *SAID, *(f"setpoint.{n}" for n in self._variables())]
            raise UsageError(unknown(meant, [*names, f"{IGNORED} (to ignore it)"], "something to import", where=option))
        return target

    def _variables(self) -> Sequence[str]:
        return self.loaded.problem.space.names

    def _measured(self) -> Sequence[str]:
        return (*self._variables(), *self.loaded.rig.outcome_names)

    def _by_name(self) -> Mapping[str, str]:
        """Return targets by the names they go by; what the configuration has comes before our own words."""
        names = {**self.beside, **{word: target for target, words in WORDS.items() for word in words}}
        for n in self._variables():
            names |= {key(form): f"setpoint:{n}" for form in (f"setpoint.{n}", f"{n} setpoint", f"{n} set", f"set {n}")}
            names |= {
                key(form): f"controlled:{n}" for form in (f"{n} controlled", f"controlled {n}", f"controlled.{n}")
            }
        return {key(name): target for name, target in names.items()} | {key(n): f"value:{n}" for n in self._measured()}

    def unit_of(self, target: str) -> str:
        """Return the configuration's unit of what a column is."""
        kind, _, name = target.partition(":")
        if not name:
            return self.loaded.currency if kind in ("cost", "cost_then") else ""
        variables = {v.name: v.unit for v in self.loaded.problem.space.variables}
        further = {f.name: f.unit for f in self.loaded.problem.further}
        return {self.loaded.rig.outcome_name: self.loaded.outcome_unit, **further, **variables}[name]

    def levels_of(self, target: str) -> Mapping[str, float]:
        """Return the numbers of the words that a column has; nothing of a column of numbers."""
        kind, _, name = target.partition(":")
        found = next((v for v in self.loaded.problem.space.variables if v.name == name and kind in WORDED), None)
        return {} if found is None else {word: number for number, word in found.words.items()}


def columns_of(names: Headers, sheet: Sheet) -> tuple[SheetColumn, ...]:
    """Return what each column is.

    Raises:
        UsageError: what was mapped is not there, two columns are the same thing, or a unit does not convert.
    """
    where = sheet.place(sheet.header_line)
    for given in names.maps:
        if not any(key(given) in names.forms(h, n) for n, h in enumerate(sheet.header)):
            columns = ", ".join(filter(None, sheet.header))
            raise UsageError(f"{where}: --map: no column {given!r}; columns: {columns}")
    found = [_column(names, h, n, where) for n, h in enumerate(sheet.header)]
    for number, column in enumerate(found):
        twin = next((n for n, c in enumerate(found[:number]) if c.target and c.target == column.target), None)
        if twin is not None and column.target in SAID:
            found[number] = SheetColumn(column.header, "")  # a second column of remarks
        elif twin is not None:
            both = f"columns {letters(twin)} ({found[twin].header}) and {letters(number)} ({column.header})"
            raise UsageError(
                f"{where}: {both} are both {column.target.split(':')[-1]}; "
                f'remove one, or ignore it with --map "column {letters(number)}={IGNORED}"'
            )
    return tuple(found)


def _column(names: Headers, header: str, number: int, where: str) -> SheetColumn:
    target, unit = names.target(header, number)
    into = names.unit_of(target) if target else ""
    column = SheetColumn(header, target, unit, into, levels=names.levels_of(target))
    if not unit or not column.numeric or same_unit(unit, into):
        return column
    if target == "cost":
        if CURRENCIES.get(unit, unit).upper() != into:
            raise UsageError(
                Flaw(f"is in {unit}", f"must be in the rig's currency {into}", where=f'{where}: column "{header}"')
            )
        return column
    units, sort = Units(names.loaded.currency), f"a quantity in {into or 'no unit'}"
    try:
        nothing, one = (units.to(f"{n} {unit}", into or "1", sort) for n in (0, 1))
    except ValueError as error:
        raise UsageError(
            f'{where}: column "{header}": {unit} does not convert to {into or "no unit"}, the unit in the configuration'
        ) from error
    return SheetColumn(header, target, unit, into, one - nothing, nothing)


# the table ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One row: numbers in the configuration's units and texts, by what their columns are."""

    line: int
    where: str
    """File and line, for people."""
    numbers: Mapping[str, float]
    texts: Mapping[str, str]
    """All cells that are not empty, as they are written."""
    sound: bool
    """Whether all its numbers hold; if not, what is missing in it is no other mistake."""
    crossed_out: frozenset[str] = frozenset()
    """Columns in which `n/a` or the like stands in place of a number."""


@dataclass(frozen=True, slots=True)
class PeopleTable:
    """Holds a table whose columns are known, and collects what is wrong with its cells."""

    sheet: Sheet
    columns: tuple[SheetColumn, ...]
    decimals: Decimals | None
    loaded: LoadedConfig
    mistakes: list[Mistake] = field(default_factory=list)
    out: dict[str, list[int]] = field(default_factory=dict)
    """Lines that are left out, by why."""

    @property
    def head(self) -> str:
        return self.sheet.place(self.sheet.header_line)

    @property
    def has(self) -> Collection[str]:
        """Return what its columns are."""
        return {column.target for column in self.columns} - {""}

    def require(self, targets: Sequence[str], remedy: str = "") -> None:
        """Raise UsageError where a column that is needed is missing; by default options say which it is."""
        missing = [target.removeprefix("value:") for target in targets if target not in self.has]
        if missing:
            free = [column.header for column in self.columns if column.header and not column.target]
            header = nearest(missing[0], free) or "HEADER"
            lead = f"looks like the header, and no column is {', '.join(missing)}"
            columns = f"columns: {', '.join(filter(None, self.sheet.header)) or 'none'}"
            remedy = remedy or (
                f'say which it is with --map "{header}={missing[0]}", or what it was in all rows with '
                f"--constant {missing[0]}=VALUE; if another line is the header, --header LINE"
            )
            raise UsageError(Flaw(f"{lead} ({columns})", remedy=remedy, where=self.head))

    def rows(self) -> Iterator[Row]:
        """Yield every row; what does not hold is among the mistakes, and left out of it."""
        for line, cells in self.sheet.rows:
            where, before = self.sheet.place(line), len(self.mistakes)
            numbers: dict[str, float] = {}
            texts = {c.target: cell for c, cell in zip(self.columns, cells, strict=True) if not is_empty(cell)}
            for column, cell in zip(self.columns, cells, strict=True):
                if not (column.numeric or column.levels) or is_empty(cell):
                    continue
                try:
                    first = column.target == f"value:{self.loaded.rig.outcome_name}"
                    numbers[column.target] = self.number(column, cell, texts.get("unit", "") if first else "")
                except ValueError as error:
                    self.add(line, column.header, flaw_of(error))
            crossed_out = {c.target for c, cell in zip(self.columns, cells, strict=True) if cell and is_empty(cell)}
            yield Row(line, where, numbers, texts, len(self.mistakes) == before, frozenset(crossed_out))

    def add(self, line: int, what: str, flaw: Flaw) -> None:
        """Note what is wrong with a column, or something else, in a line."""
        file = str(self.sheet.path) if line else ""
        named = (what, f"value:{what}")
        column = next((n for n, c in enumerate(self.columns) if c.header == what or c.target in named), None)
        number = 0 if column is None or not self.sheet.grid.name else column + 1
        where = f"{self.sheet.place(line, column)}: {what}"
        self.mistakes.append(Mistake(where, flaw, (what,), line, number, file))

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(f"{self.sheet.cells(*((n, None) for n in lines))}: {why}" for why, lines in self.out.items())

    def told(self) -> tuple[Mistake, ...]:
        """Return what is wrong; what is so in many cells of a column is said once, with the others."""
        kinds: dict[tuple[object, ...], list[Mistake]] = {}
        for mistake in self.mistakes:
            kinds.setdefault((mistake.path, mistake.flaw.lead, mistake.flaw.allowed), []).append(mistake)
        return tuple(self._together(*alike) for alike in kinds.values())

    def _together(self, first: Mistake, *more: Mistake) -> Mistake:
        if not more:
            return first
        cells = self.sheet.cells(*((m.line, m.column - 1 if m.column else None) for m in more))
        remedy = "; ".join(filter(None, (first.flaw.remedy, f"the same in {cells}")))
        return replace(first, flaw=replace(first.flaw, remedy=remedy))

    def number(self, column: SheetColumn, cell: str, unit: str = "") -> float:
        """Return a cell in the configuration's unit; `unit` is said beside it.

        Raises:
            ValueError: it is no number, or in a unit that does not convert.
        """
        if column.levels:
            word = next((word for word in column.levels if key(word) == key(cell)), None)
            if word is None:
                raise ValueError(got(cell, f"must be one of {', '.join(column.levels)}"))
            return column.levels[word]
        number, own = parted(cell)
        said = own or unit
        if said and same_unit(said, column.unit or column.into):
            said = ""
        must = f"must be a number in {column.unit or column.into or 'no unit'}"
        require(not said or column.target != "cost", cell, must)
        value = parsed(number, self.decimals) if number else math.nan
        require(math.isfinite(value), cell, "must be a number")
        if not said:
            return column.scaled(value)
        try:
            return float(f"{Units(self.loaded.currency).to(f'{value!r} {said}', column.into or '1', must):.{DIGITS}g}")
        except ValueError as error:
            raise ValueError(got(cell, must)) from error


def _told(names: Headers, target: str) -> SheetColumn:
    levels = names.levels_of(target)
    return SheetColumn(target.removeprefix("value:"), target, into=names.unit_of(target), levels=levels)


def record_of(
    loaded: LoadedConfig, where: str, cells: Mapping[str, object], mistakes: list[Mistake]
) -> tuple[PeopleTable, Row]:
    """Return what is said of one trial, elsewhere than in a table, as a table with one row.

    `cells` are by what they are, as `SheetColumn.target`; None: not said. `where` is for people, such as an option or a
    place in JSON. What does not hold is added to `mistakes`.
    """
    names, said = Headers(loaded), {target: str(cell).strip() for target, cell in cells.items() if cell is not None}
    columns = tuple(_told(names, target) for target in said)
    sheet = Sheet(Path(where), tuple(c.header for c in columns), 0, ((0, tuple(said.values())),), Cells([], ""))
    table = PeopleTable(sheet, columns, "point", loaded, mistakes)
    for column, cell in zip(columns, said.values(), strict=True):
        if column.numeric and cell and is_empty(cell):  # in a table it is left out
            table.add(0, column.header, got(cell, "must be a number"))
    (row,) = table.rows()
    return table, replace(row, texts={target: cell for target, cell in said.items() if cell})
