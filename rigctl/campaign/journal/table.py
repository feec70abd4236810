"""One declaration per kind of row: a frozen dataclass, from whose fields everything else follows.

`@table` on a dataclass makes it a table of the journal. From its fields come the table's definition in SQL with its
remarks, keys and checks, how a row is written and read, which checksums are kept, which row may name which other one,
which JSON must read as what, how rows of a damaged file are told from rubbish, and its section of the manual.

A field's type says how it is stored: whole numbers, truth values and numbered enumerations as INTEGER, floats as REAL,
words as TEXT, anything with parts as JSON. `X | None` may be NULL, the words of a `Literal` are all that is allowed,
amounts of money are whole micro-units. Whoever changes a declaration raises `rows.VERSION`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from rigctl.campaign.trial import Event
from rigctl.codec import COLUMN, MONEY, column_name, row

T = TypeVar("T")
Stored = Literal["INTEGER", "REAL", "TEXT"]

_ABOUT: Final = "about"
_NAMES: Final = "names"
_CHECK: Final = "check"
_DECLARED: Final = "__journal_table__"
_CELLS: Final[Mapping[str, tuple[type, ...]]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,)}


def column(
    about: str = "",
    *,
    name: str = "",
    names: type | None = None,
    check: str = "",
    default: Any = dataclasses.MISSING,
    compare: bool = True,
) -> Any:
    """Say more of a field than its type does.

    Args:
        about: a remark for people who look into the file.
        name: the column's name, where it is not the field's.
        names: the class of row that the value is the key of.
        check: what SQLite refuses besides, in SQL.
        default: the field's, and the column's.
        compare: whether two rows that differ in it are different.
    """
    said = {_ABOUT: about, _NAMES: names, _CHECK: check} | ({COLUMN: name} if name else {})
    return dataclasses.field(default=default, metadata=said, compare=compare)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    kind: Stored
    hint: Any
    """The type of its values; for JSON, of what the text says."""
    about: str = ""
    names: type | None = None
    nullable: bool = False
    json: bool = False
    check: str = ""
    default: str = ""
    """In SQL; empty: it has none."""

    def fits(self, cell: Any) -> bool:
        return self.nullable if cell is None else isinstance(cell, _CELLS[self.kind])


@dataclass(frozen=True)
class Table:
    """What is declared of one kind of row."""

    kind: type
    name: str
    about: str
    key: tuple[str, ...]
    without: tuple[str, ...]
    beside: tuple[Column, ...]
    remarks: Mapping[str, str]
    kept: bool
    unique: tuple[str, ...]
    indexes: tuple[str, ...]
    written_by: tuple[Event, ...]
    act: tuple[str, str] | None

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """The columns by name, those of the key first, and which trial a row is of."""
        hints = get_type_hints(self.kind)
        fields = [field for field in dataclasses.fields(self.kind) if field.name not in self.without]
        found = {one.name: one for field in fields for one in [_column(field, hints[field.name])]}
        found |= {one.name: one for one in self.beside}
        found = {name: found.get(name, Column(name, "INTEGER", int)) for name in self.key} | found
        found = {name: found[name] for name in (*self.key, "trial") if name in found} | found
        return {n: dataclasses.replace(one, about=self.remarks.get(n, one.about)) for n, one in found.items()}

    @cached_property
    def references(self) -> Mapping[str, Table]:
        """The tables that its rows name, by column."""
        return {one.name: table_of(one.names) for one in self.columns.values() if one.names is not None}

    def audited_as(self, cells: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return verb and argument of the act that this row must come with; None: none."""
        return None if self.act is None else (self.act[0].format_map(cells), self.act[1].format_map(cells).strip())

    def cells(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by field as cells by column; what the table leaves out is left out."""
        named = {field.name: column_name(field) for field in dataclasses.fields(self.kind)}
        return row({named.get(name, name): value for name, value in values.items() if name not in self.without})

    def definition(self) -> tuple[str, ...]:
        """Return the statements that make it, its indexes, and the triggers that guard its rows."""
        lines = [(self._column_sql(one), one.about) for one in self.columns.values()]
        lines += [(f"UNIQUE ({', '.join(self.unique)})", "")] if self.unique else []
        lines += [(f"PRIMARY KEY ({', '.join(self.key)})", "")] if len(self.key) > 1 else []
        ends = [","] * (len(lines) - 1) + [""]
        body = [f"    {sql}{end}{_remark(about)}" for (sql, about), end in zip(lines, ends, strict=True)]
        head = f"CREATE TABLE {self.name} ({_remark(self.about)}"
        made = "\n".join([head, *body, ") WITHOUT ROWID" if len(self.key) > 1 else ")"])
        return (made, *self.indexes, *self._triggers())

    def _column_sql(self, one: Column) -> str:
        alone = self.key == (one.name,)
        parts = [one.name, one.kind, "PRIMARY KEY" if alone else "" if one.nullable else "NOT NULL"]
        parts.append(f"DEFAULT {one.default}" if one.default and not alone else "")
        if one.name in self.references:
            there = self.references[one.name]
            parts.append(f"REFERENCES {there.name} ({there.key[0]})")
        return " ".join(filter(None, [*parts, f"CHECK ({one.check})" if one.check else ""]))

    def _triggers(self) -> list[str]:
        refused = f"SELECT RAISE(ABORT, '{self.name}: rows are kept as they were written')"
        kept = [
            f"CREATE TRIGGER keep_{self.name}_{event} BEFORE {event} ON {self.name} BEGIN {refused}; END"
            for event in (("update", "delete") if self.kept else ())
        ]
        # whatever another program changes is no longer vouched for, see integrity.py
        voided = f"UPDATE seals SET digest = NULL WHERE name = '{self.name}'"  # noqa: S608 - our own names
        return kept + [
            f"CREATE TRIGGER unseal_{self.name}_{event} AFTER {event} ON {self.name} BEGIN {voided}; END"
            for event in ("insert", "update", "delete")
        ]


@dataclass_transform(frozen_default=True, field_specifiers=(column, dataclasses.field))
def table(
    name: str,
    about: str = "",
    *,
    key: tuple[str, ...] = ("id",),
    without: tuple[str, ...] = (),
    beside: tuple[Column, ...] = (),
    remarks: Mapping[str, str] | None = None,
    kept: bool = False,
    unique: tuple[str, ...] = (),
    indexes: tuple[str, ...] = (),
    written_by: tuple[Event, ...] = (),
    act: tuple[str, str] | None = None,
    kw_only: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Make a class a frozen dataclass, and the declaration of a table.

    Args:
        name: the table's.
        about: what one row is, for people who look into the file.
        key: columns that a row is known by; a number that is no field, e.g. `id`, is a column all the same.
        without: fields that are no columns; what they hold is asked for elsewhere.
        beside: columns that are no fields: nobody who reads rows asks for them.
        remarks: on columns whose fields are another class's, by column.
        kept: rows never change and never go.
        unique: columns in which no two rows are the same.
        indexes: in SQL.
        written_by: steps of a row's trial, one of which must have been taken for there to be such a row; none: any.
        act: verb (empty: any) and argument of the act in the audit that each row comes with, e.g. `alarm {alarm}`.
        kw_only: fields are given by name.
    """

    def declare(kind: type[T]) -> type[T]:
        made = dataclass(frozen=True, slots=True, kw_only=kw_only)(kind)
        found = Table(made, name, about, key, without, beside, remarks or {}, kept, unique, indexes, written_by, act)
        setattr(made, _DECLARED, found)
        return made

    return declare


def table_of(kind: type) -> Table:
    found: Table = getattr(kind, _DECLARED)
    return found


def _column(field: dataclasses.Field[Any], hint: Any) -> Column:
    optional = get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
    members = [member for member in get_args(hint) if member is not NoneType]
    bare = members[0] if optional and len(members) == 1 else hint
    kind, name, said = _stored(bare), column_name(field), field.metadata
    checks = [said.get(_CHECK, "")]
    if get_origin(bare) is Literal:
        words = ", ".join(f"'{word}'" for word in get_args(bare))
        checks.append(f"{name} IN ({words})")
    if field.name in MONEY:
        whole = "IN ('integer', 'null')" if optional else "= 'integer'"
        checks.append(f"typeof({name}) {whole} AND {name} >= 0")
    return Column(
        name,
        kind or "TEXT",
        bare,
        said.get(_ABOUT, ""),
        said.get(_NAMES),
        nullable=optional,
        json=kind is None,
        check=" AND ".join(filter(None, checks)),
        default=_default(field),
    )


def _stored(kind: Any) -> Stored | None:
    """Return as what values of a type are stored; None: as JSON."""
    if isinstance(kind, type) and issubclass(kind, int | float):
        return "INTEGER" if issubclass(kind, int) else "REAL"
    if isinstance(kind, type) and issubclass(kind, str | Enum):
        return "TEXT"
    words = get_origin(kind) is Literal or {get_origin(member) for member in get_args(kind)} == {Literal}
    return "TEXT" if words else None


def _default(field: dataclasses.Field[Any]) -> str:
    """Return the field's default in SQL; empty: it has none."""
    value = None if field.default is dataclasses.MISSING else field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is None:
        return ""
    (cell,) = row({field.name: value}).values()
    return f"'{cell}'" if isinstance(cell, str) else str(int(cell) if isinstance(cell, bool) else cell)


def _remark(about: str) -> str:
    return f"  -- {about}" if about else ""
