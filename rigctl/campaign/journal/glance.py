"""What a page shows of a campaign, however long it has run: trials that changed since the last look, the rest in sums.

Only this module's own words go into its SQL besides parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rigctl.campaign.journal.rows import PhaseRow, StartRow, TripRow
from rigctl.campaign.journal.store import Book
from rigctl.core.experiment.money import Micros, to_units

_SUMS = """
    SELECT meter, min(kind) AS kind, min(unit) AS unit, sum(quantity) AS quantity, sum(amount_micros) AS amount_micros,
        max({about}) AS estimated, max(id) AS last FROM {table} WHERE id > ? GROUP BY meter"""


@dataclass(frozen=True, slots=True)
class MeterSum:
    """What one meter has cost."""

    meter: str
    kind: str
    unit: str
    quantity: float | None
    amount: Micros
    estimated: bool
    last: int = 0
    """Number of its last line."""

    @property
    def cost(self) -> float:
        return to_units(self.amount)


@dataclass(frozen=True, slots=True)
class CampaignCondition:
    """What a campaign as a whole was last noted to do."""

    phase: PhaseRow | None
    """None before the first."""
    trip: TripRow | None
    start: StartRow | None
    """The last that ran the campaign; None before the first."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A trial that gave no outcome, and why."""

    trial: int
    state: str
    utc: str
    because: str


@dataclass(frozen=True, slots=True)
class Version:
    """A version of rigctl that has run the campaign."""

    version: str
    starts: int
    utc: str
    """The first start."""


BY_HAND: Final = ("suggest", "ingest", "import")
"""Verbs that write to the journal for a moment, each a start of its own that ends with its name, and run nothing."""


class Glance(Book):
    """Questions to one open journal whose answers stay cheap after 20,000 trials."""

    def last_event(self) -> int:
        """Return the number of the last event; a trial never changes without one."""
        return self._number("SELECT max(id) FROM events")

    def last_decided(self) -> int | None:
        """Return the last trial with a decision: not one done by hand, nor one that ended while it looked, or looks."""
        rows = self._ask("SELECT trial FROM trials WHERE proposal IS NOT NULL ORDER BY trial DESC LIMIT 1")
        return int(rows[0]["trial"]) if rows else None

    def meters(self, since: int = 0) -> tuple[MeterSum, ...]:
        """Return what each meter has cost in trials since this line of the ledger; no line is ever changed."""
        return self._fetch(MeterSum, _SUMS.format(table="ledger", about="estimated"), since)

    def idle_meters(self) -> tuple[MeterSum, ...]:
        """Return what each meter has cost beside the trials."""
        return self._fetch(MeterSum, _SUMS.format(table="idle", about="0"), 0)

    def least_cost(self) -> Micros | None:
        """Return what a trial with an outcome has cost at least whatever it controlled: time, and what is fixed."""
        sql = (
            "SELECT min(least) AS least FROM "
            "(SELECT sum(iif(l.kind IN ('time', 'fixed'), l.amount_micros, 0)) AS least FROM ledger l "
            "JOIN trials t USING (trial) WHERE t.state = 'RECORDED' GROUP BY trial)"
        )
        least = self._ask(sql)[0]["least"]
        return least or None

    def condition(self) -> CampaignCondition:
        """Return what the campaign as a whole was last noted to do."""
        runs = "WHERE coalesce(ended, '') NOT IN (?, ?, ?) ORDER BY id DESC LIMIT 1"
        return CampaignCondition(
            self._row(PhaseRow, "ORDER BY id DESC LIMIT 1"),
            self._row(TripRow, "WHERE reset_utc IS NULL"),
            self._row(StartRow, runs, *BY_HAND),
        )

    # In sums ----------------------------------------------------------------------------------------------------

    def faults(self, most: int) -> tuple[Fault, ...]:
        """Return the last trials that were charged and gave no outcome, in order."""
        sql = (
            "SELECT * FROM (SELECT t.trial, t.state, e.utc, e.detail AS because FROM trials t JOIN events e ON e.id = "
            "(SELECT max(id) FROM events WHERE trial = t.trial) WHERE t.state IN ('FAILED', 'ABANDONED', 'LOST') "
            "ORDER BY t.trial DESC LIMIT ?) ORDER BY trial"
        )
        return self._fetch(Fault, sql, most)

    def states(self) -> dict[str, int]:
        rows = self._ask("SELECT state, count(*) AS n FROM trials GROUP BY state ORDER BY n DESC")
        return {row["state"]: row["n"] for row in rows}

    def versions(self) -> tuple[Version, ...]:
        sql = "SELECT version, count(*) AS starts, min(utc) AS utc FROM starts GROUP BY version ORDER BY min(id)"
        return self._fetch(Version, sql)
