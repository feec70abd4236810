"""A journal's rows as its tables hold them, and how a row that cannot be right is reported."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import groupby
from math import inf
from types import MappingProxyType
from typing import Any, Final, cast

from rigctl.campaign.journal.beside import OPERATE
from rigctl.campaign.journal.database import ask
from rigctl.campaign.journal.rows import TABLES
from rigctl.campaign.trial import TRANSITIONS, Event, State
from rigctl.codec import parsed
from rigctl.errors import RigctlError
from rigctl.rig.guard import Booked
from rigctl.rig.limits import DAY_S, CapSpec
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import RigSpec

Caps = Mapping[int, RigSpec]
"""By the process's number (`starts.id`): the rig as configured then, with what each pump was allowed."""

RESTORE: Final = "restore a backup, or run `rigctl journal recover`"
AMEND: Final = "`rigctl trial amend` puts a cost right, and keeps who did it"
SEEK: Final = "find out what was dosed before you run again; then restore a backup, or run `rigctl journal recover`"


@dataclass(frozen=True, slots=True)
class Violation:
    """One row that cannot be as it stands."""

    table: str
    row: str
    """Its key, e.g. `trial 12`; empty for a table as a whole."""
    what: str
    remedy: str = RESTORE
    key: tuple[Any, ...] = ()
    """The row's key; nothing for a table as a whole."""

    def __str__(self) -> str:
        where = f"{self.table}, {self.row}" if self.row else self.table
        return f"{where}: {self.what}; {self.remedy}"


Row = dict[str, Any]
"""By column; of a file it is a `sqlite3.Row`, which can be read in the same way and takes half the room."""


@dataclass(frozen=True)
class Rows:
    """The rows of one journal by table: of a file, or as they are mended."""

    tables: Mapping[str, Sequence[Row]]
    caps: Caps = field(default_factory=dict)

    @classmethod
    def of(cls, connection: sqlite3.Connection, caps: Caps = MappingProxyType({})) -> Rows:
        return cls(_Read(connection), caps)

    def __getitem__(self, table: str) -> Sequence[Row]:
        return self.tables[table]

    @cached_property
    def acts(self) -> frozenset[tuple[str, str]]:
        """Verb and argument of every act in the audit."""
        return frozenset((row["verb"], row["argument"]) for row in self["acts"])

    def keys(self, table: str) -> set[Any]:
        """Return the first column of the key of every row."""
        return {row[TABLES[table].key[0]] for row in self[table]}

    def by_trial(self, table: str) -> Mapping[int, Sequence[Row]]:
        rows = sorted((r for r in self[table] if r["trial"] is not None), key=lambda r: r["trial"])
        return {trial: list(group) for trial, group in groupby(rows, lambda r: int(r["trial"]))}

    @cached_property
    def events(self) -> Mapping[int, Sequence[Row]]:
        return self.by_trial("events")

    @cached_property
    def operated(self) -> frozenset[int]:
        """The trials that were batches for production."""
        told = {row["start"] for row in self["acts"] if row["verb"] == OPERATE}
        begun = (row for row in self["events"] if row["event"] in TRANSITIONS[None])
        return frozenset(row["trial"] for row in begun if row["start"] in told)

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """What must not change of the campaign, by dotted key; nothing where its row cannot be read."""
        try:
            texts = parsed(self["campaign"][0]["identity"])
            return {key: parsed(text) for key, text in texts.items()}
        except (IndexError, ValueError, TypeError, AttributeError, RigctlError):
            return {}

    @cached_property
    def needed(self) -> frozenset[str]:
        """The variables, and the outcome, that a trial has values of once it is RECORDED."""
        outcome = self.identity.get("outcome.name")
        return frozenset([*self.identity.get("variables.names", ()), *([outcome] if outcome else ())])

    @cached_property
    def prices(self) -> Mapping[str, Decimal]:
        """The one price of each meter that has but one."""
        parts: dict[str, dict[str, Any]] = {}
        for key, value in self.identity.items():
            kind, _, rest = key.partition(".")
            meter, _, part = rest.partition(".")
            if kind == "meters" and part:
                parts.setdefault(meter, {})[part] = value
        return {m: Decimal(str(of["price"])) for m, of in parts.items() if set(of) == {"kind", "device", "price"}}

    @cached_property
    def imported(self) -> frozenset[int]:
        return frozenset(row["trial"] for row in self["by_hand"] if row["imported"] is not None)

    @cached_property
    def late(self) -> frozenset[int]:
        """The trials that awaited their outcome, or await it."""
        steps = {row["trial"] for row in self["events"] if row["event"] == Event.AWAIT}
        return frozenset(steps | self.keys("awaited"))

    @cached_property
    def came(self) -> Mapping[int, tuple[int, Mapping[str, float | None]]]:
        """By trial that awaited its outcome, or awaits it: the correction that says what came, and that by name."""
        found: dict[int, tuple[int, Mapping[str, float | None]]] = {}
        for row in self["corrections"]:
            outcomes = amendment(row, "becomes").get("outcomes") if row["trial"] in self.late else None
            if row["kind"] == "amend" and outcomes:
                found.setdefault(row["trial"], (row["id"], outcomes))
        return found

    def came_of(self, trial: int) -> set[str]:
        """Return the outcomes that came later."""
        return {name for name, value in self.came.get(trial, (0, {}))[1].items() if value is not None}

    def said(self, trial: int) -> Mapping[str, Row]:
        """Return the last event of each kind of one trial."""
        return {row["event"]: row for row in self.events.get(trial, ())}


class _Read(dict[str, Sequence[Row]]):
    """The tables of a file, each read once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, table: str) -> Sequence[Row]:
        found = ask(self._connection, f"SELECT * FROM {table} ORDER BY 1, 2")  # noqa: S608 - our own names
        self[table] = cast("list[Row]", found)
        return self[table]


@dataclass(slots=True)
class GivenSum:
    """Sums up what the pumps of one cap have given, dose after dose; mutable."""

    day: deque[tuple[float, float]] = field(default_factory=deque)
    """Campaign seconds and mL of each dose of the last 24 h."""
    campaign_ml: float = 0.0
    trial: int | None = None
    trial_ml: float = 0.0

    def before(self, dose: Row, cap: CapSpec) -> Booked:
        """Return what had been given when this dose was admitted."""
        return Booked(cap, {span: self._since_ml(span.since_s(dose["at_s"]), dose["trial"]) for span in cap.most_ml})

    def _since_ml(self, since_s: float | None, trial: int | None) -> float:
        """Return what was given since a campaign time; None: in this trial."""
        if since_s is None:
            return self.trial_ml if trial is not None and trial == self.trial else 0.0
        return self.campaign_ml if since_s == -inf else sum(ml for at_s, ml in self.day if at_s >= since_s)

    def add(self, dose: Row) -> None:
        """Book a dose, in full while it is open."""
        ml = float(dose["volume_ml"] if dose["dispensed_ml"] is None else dose["dispensed_ml"])
        self.day.append((dose["at_s"], ml))
        while self.day[0][0] < dose["at_s"] - DAY_S:
            self.day.popleft()
        self.campaign_ml += ml
        if dose["trial"] is not None:
            self.trial_ml = ml + (self.trial_ml if dose["trial"] == self.trial else 0.0)
            self.trial = dose["trial"]


def violation(row: Row, table: str, what: str, remedy: str = RESTORE) -> Violation:
    declared = TABLES[table]
    names = " ".join(str(row[column]) for column in declared.key)
    trial = f", trial {row['trial']}" if "trial" in {*declared.columns} - {*declared.key} and row["trial"] else ""
    key = tuple(row[column] for column in declared.key)
    return Violation(table, f"{declared.key[0]} {names}{trial}", what, remedy, key)


def known_state(name: str) -> State | None:
    return State(name) if name in State.__members__ else None


def is_usable(row: Row) -> bool:
    return row["value"] is not None and row["severity"] < Severity.INVALID


def amendment(row: Row, column: str) -> Mapping[str, Any]:
    """Return what is amended, or was before; nothing where it does not read, which is told as a document."""
    found = document(row, column)
    return found if isinstance(found, dict) else {}


def document(row: Row, column: str) -> Any:
    try:
        return parsed(row[column])
    except (ValueError, TypeError, KeyError, AttributeError, RigctlError):
        return None
