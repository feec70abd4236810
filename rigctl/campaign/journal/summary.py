"""What a report says of a campaign as a whole, in sums: cheap after 20,000 trials."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.campaign.journal.database import Questions, ask, fetch
from rigctl.core.money import Micros


@dataclass(frozen=True, slots=True)
class SetSum:
    """What one control set was given, and what came of it."""

    control_set: tuple[str, ...]
    trials: int
    recorded: int
    """Of them gave an outcome."""
    amount: Micros


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
    """Of the first start."""


class Summary(Questions):
    """Questions to one open journal."""

    def sets(self) -> tuple[SetSum, ...]:
        """Return what each control set was given, the dearest first."""
        return fetch(
            self._connection,
            SetSum,
            "SELECT control_set, count(*) AS trials, sum(state = 'RECORDED') AS recorded, "
            "coalesce(sum(l.amount), 0) AS amount_micros FROM trials t LEFT JOIN "
            "(SELECT trial, sum(amount_micros) AS amount FROM ledger GROUP BY trial) l ON l.trial = t.trial "
            "GROUP BY control_set ORDER BY amount_micros DESC, control_set",
        )

    def alarm_count(self) -> int:
        return int(ask(self._connection, "SELECT count(*) AS n FROM alarms")[0]["n"])

    def faults(self, most: int) -> tuple[Fault, ...]:
        """Return the last trials that were charged and gave no outcome, in order."""
        sql = (
            "SELECT * FROM (SELECT t.trial, t.state, e.utc, e.detail AS because FROM trials t JOIN events e ON e.id = "
            "(SELECT max(id) FROM events WHERE trial = t.trial) WHERE t.state IN ('FAILED', 'ABANDONED', 'LOST') "
            "ORDER BY t.trial DESC LIMIT ?) ORDER BY trial"
        )
        return fetch(self._connection, Fault, sql, most)

    def states(self) -> dict[str, int]:
        """Return how many trials are in each state."""
        rows = ask(self._connection, "SELECT state, count(*) AS n FROM trials GROUP BY state ORDER BY n DESC")
        return {row["state"]: row["n"] for row in rows}

    def versions(self) -> tuple[Version, ...]:
        sql = "SELECT version, count(*) AS starts, min(utc) AS utc FROM starts GROUP BY version ORDER BY min(id)"
        return fetch(self._connection, Version, sql)
