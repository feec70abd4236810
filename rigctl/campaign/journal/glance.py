"""What a page shows of a campaign, however long it has run: trials that changed since the last look, the rest in sums.

Only this module's own words go into its SQL besides parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rigctl.campaign.journal.database import Questions, ask, fetch
from rigctl.campaign.journal.rows import ActRow, AlarmRow, DoseRow, EventRow, TripRow
from rigctl.campaign.trial import State
from rigctl.codec import parsed
from rigctl.core.money import Micros

_TOUCHED = "trial IN (SELECT trial FROM events WHERE id > ?)"
_MEASURED = "SELECT trial, outcome, name, value FROM measurements"
_ALARMS = """
    SELECT alarms.*, id AS alarm, coalesce(a.who, '') AS acknowledged, coalesce(a.utc, '') AS acknowledged_utc,
        coalesce(a.note, '') AS acknowledgement
    FROM alarms LEFT JOIN (SELECT alarm, who, utc, note FROM acknowledgements) a ON a.alarm = id"""
_SUMS = """
    SELECT meter, min(kind) AS kind, min(unit) AS unit, sum(quantity) AS quantity, sum(amount_micros) AS amount_micros,
        max({about}) AS estimated, max(id) AS last FROM {table} WHERE id > ? GROUP BY meter"""


@dataclass(frozen=True, slots=True)
class CourseRow:
    """A trial in short: what was done, what came of it, what it cost."""

    trial: int
    state: State
    control_set: tuple[str, ...]
    origin: str
    outcome: float | None
    further: Mapping[str, float]
    measured: Mapping[str, float]
    """Engineering units."""
    cost: Micros
    estimated: bool
    started_utc: str
    changed_utc: str
    """Of its last event: its end, once it is over."""
    changed_s: float
    imported: bool = False
    """From before the campaign, and not charged to it."""
    voided: bool = False
    """Not to be learned from."""

    @property
    def recorded(self) -> bool:
        return self.state is State.RECORDED and self.outcome is not None and not self.voided


@dataclass(frozen=True, slots=True)
class MeterSum:
    """What one meter has cost."""

    meter: str
    kind: str
    unit: str
    quantity: float | None
    amount: Micros
    estimated: bool
    """Whether any of it was."""
    last: int = 0
    """Number of its last line."""


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A change of the campaign's own state."""

    phase: str
    why: str
    utc: str


@dataclass(frozen=True, slots=True)
class LastStart:
    """The last process that ran the campaign."""

    utc: str
    seen_utc: str
    ended: str | None
    version: str
    safe: bool | None
    """As `StartRow.safe`."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a campaign as a whole was last noted to do."""

    phase: PhaseRow | None
    """None before the first."""
    trip: TripRow | None
    """That is latched."""
    start: LastStart | None
    """The last that ran the campaign; None before the first."""


BY_HAND: Final = ("suggest", "ingest", "import")
"""Verbs that write to the journal for a moment, each a start of its own that ends with its name, and run nothing."""
_RUNS: Final = "SELECT * FROM starts WHERE coalesce(ended, '') NOT IN (?, ?, ?) ORDER BY id DESC LIMIT 1"


class Glance(Questions):
    """Questions to one open journal whose answers stay cheap after 20,000 trials."""

    def last_event(self) -> int:
        """Return the number of the last event; a trial never changes without one."""
        return int(ask(self._connection, "SELECT coalesce(max(id), 0) AS last FROM events")[0]["last"])

    def last_decided(self) -> int | None:
        """Return the last trial that the policy chose."""
        sql = "SELECT max(trial) AS last FROM trials WHERE origin = 'policy'"
        last = ask(self._connection, sql)[0]["last"]
        return None if last is None else int(last)

    def trials(self, since: int = 0) -> tuple[CourseRow, ...]:
        """Return all trials with an event after this one, in order, as they were recorded: nothing is corrected."""
        values: dict[int, dict[int, dict[str, float]]] = defaultdict(lambda: {0: {}, 1: {}, 2: {}})
        sql = f"{_MEASURED} WHERE {_TOUCHED} AND severity < 3 ORDER BY outcome"
        for trial, outcome, name, value in self._connection.execute(sql, (since,)):
            values[trial][min(outcome, 2)][name] = value
        sql = f"SELECT trial, sum(amount_micros), max(estimated) FROM ledger WHERE {_TOUCHED} GROUP BY trial"  # noqa: S608 - ours
        costs = {trial: (cost, bool(about)) for trial, cost, about in self._connection.execute(sql, (since,))}
        sql = f"SELECT trial, min(utc), max(utc), max(at_s) FROM events WHERE {_TOUCHED} GROUP BY trial"  # noqa: S608 - ours
        times = {trial: (begun, ended, at_s) for trial, begun, ended, at_s in self._connection.execute(sql, (since,))}
        imported = {t for (t,) in self._connection.execute("SELECT trial FROM by_hand WHERE import IS NOT NULL")}
        sql = f"SELECT trial, state, control_set, origin FROM trials WHERE {_TOUCHED} ORDER BY trial"  # noqa: S608 - ours
        return tuple(
            CourseRow(
                trial,
                State(state),
                tuple(parsed(names)),
                origin,
                next(iter(values[trial][1].values()), None),
                values[trial][2],
                values[trial][0],
                *costs.get(trial, (0, False)),
                *times[trial],
                trial in imported,
            )
            for trial, state, names, origin in self._connection.execute(sql, (since,))
        )

    def meters(self, since: int = 0) -> tuple[MeterSum, ...]:
        """Return what each meter has cost in trials since this line of the ledger; no line is ever changed."""
        return fetch(self._connection, MeterSum, _SUMS.format(table="ledger", about="estimated"), since)

    def idle_meters(self) -> tuple[MeterSum, ...]:
        """Return what each meter has cost beside the trials."""
        return self._rows(MeterSum, _SUMS.format(table="idle", about="0"), 0)

    def least_cost(self) -> Micros | None:
        """Return what a trial with an outcome has cost at least whatever it controlled: time, and what is fixed."""
        sql = (
            "SELECT min(least) AS least FROM "
            "(SELECT sum(iif(l.kind IN ('time', 'fixed'), l.amount_micros, 0)) AS least FROM ledger l "
            "JOIN trials t USING (trial) WHERE t.state = 'RECORDED' GROUP BY trial)"
        )
        least = ask(self._connection, sql)[0]["least"]
        return least or None

    def events(self, last: int, trial: int | None = None) -> tuple[EventRow, ...]:
        """Return the last so many steps, of one trial or of all, the newest first."""
        sql = "SELECT * FROM events WHERE trial = coalesce(?, trial) ORDER BY id DESC LIMIT ?"
        return fetch(self._connection, EventRow, sql, trial, last)

    def alarms(self, last: int | None, trial: int | None = None) -> tuple[AlarmRow, ...]:
        """Return the last so many alarms (None: all), of one trial or of all, the newest first."""
        which = "WHERE ?1 IS NULL OR trial = ?1 ORDER BY id DESC LIMIT coalesce(?2, -1)"
        return fetch(self._connection, AlarmRow, f"{_ALARMS} {which}", trial, last)

    def acts(self, last: int) -> tuple[ActRow, ...]:
        """Return the last so many acts of people, the newest first."""
        return self._rows(ActRow, "SELECT *, id AS act FROM acts ORDER BY id DESC LIMIT ?", last)

    def doses(self, last: int, trial: int | None = None) -> tuple[DoseRow, ...]:
        """Return the last so many doses, of one trial or of all, the newest first."""
        sql = "SELECT *, id AS dose FROM doses WHERE ?1 IS NULL OR trial = ?1 ORDER BY id DESC LIMIT ?2"
        return fetch(self._connection, DoseRow, sql, trial, last)

    def dosed_ml(self, since_s: float) -> Mapping[str, float]:
        """Return what each pump has given since then (campaign seconds), mL; an open dose counts in full."""
        sql = (
            "SELECT actuator, sum(coalesce(dispensed_ml, volume_ml)) AS ml FROM doses "
            "WHERE at_s >= ? GROUP BY actuator ORDER BY actuator"
        )
        return {row["actuator"]: row["ml"] for row in ask(self._connection, sql, since_s)}

    def condition(self) -> Condition:
        """Return what the campaign as a whole was last noted to do."""
        newest, trips = "SELECT * FROM phases ORDER BY id DESC LIMIT 1", "SELECT * FROM trips WHERE reset_utc IS NULL"
        return Condition(
            next(iter(self._rows(PhaseRow, newest)), None),
            next(iter(fetch(self._connection, TripRow, trips)), None),
            next(iter(fetch(self._connection, LastStart, _RUNS, *BY_HAND)), None),
        )
