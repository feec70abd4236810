"""Reads what alarms are made of (`rigctl.campaign.alarms`): what was raised, what people did, which processes began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rigctl.campaign.alarms import AlarmEvent, AlarmKey, Begun, Minded, Raised
from rigctl.campaign.journal.database import Questions, ask, fetch
from rigctl.errors import UsageError

_RAISED: Final = "SELECT *, id AS alarm FROM alarms WHERE id > ? ORDER BY id"
_MINDED: Final = """
    SELECT a.verb, coalesce(a.seconds, 0.0) AS seconds, a.who, a.why, a.utc, a.at_s, r.kind, r.source, r.id AS alarm
    FROM acts a JOIN alarms r ON r.id = a.alarm WHERE a.id > ? ORDER BY a.id"""


@dataclass(frozen=True, slots=True)
class Mark:
    """Says up to where the journal has been read: the last rows of three tables."""

    alarm: int = 0
    act: int = 0
    start: int = 0


class AlarmRows(Questions):
    """Questions to one open journal."""

    def last(self) -> Mark:
        """Return the last rows that there are."""
        sql = "SELECT {} AS alarm, {} AS act, {} AS start"
        tables = (f"(SELECT coalesce(max(id), 0) FROM {table})" for table in ("alarms", "acts", "starts"))  # noqa: S608 - ours
        found = ask(self._connection, sql.format(*tables))[0]
        return Mark(found["alarm"], found["act"], found["start"])

    def events(self, after: Mark | None = None) -> tuple[AlarmEvent, ...]:
        """Return all that came after; None: everything."""
        after = after or Mark()
        starts = "SELECT utc, at_s FROM starts WHERE id > ? ORDER BY id"
        minded = fetch(self._connection, Minded, _MINDED, after.act)
        raised = fetch(self._connection, Raised, _RAISED, after.alarm)
        return (*fetch(self._connection, Begun, starts, after.start), *raised, *minded)

    def key(self, alarm: int) -> AlarmKey:
        """Return kind and source of what was raised under this number.

        Raises:
            UsageError: there is no such alarm.
        """
        for found in ask(self._connection, "SELECT kind, source FROM alarms WHERE id = ?", alarm):
            return found["kind"], found["source"]
        raise UsageError(f"alarm {alarm}: not in this journal; `rigctl alarms --all` lists them")

    def now_s(self) -> float:
        """Return the campaign time that the journal was last alive at."""
        return float(ask(self._connection, "SELECT coalesce(max(seen_s), 0.0) AS now FROM starts")[0]["now"])
