"""What the trials and processes before left behind: a rig in its safe state or not, and where the meters stood."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from rigctl.campaign.journal.reader import ask
from rigctl.campaign.journal.time import CampaignTime
from rigctl.rig.protocols import Reading, Severity

UNATTENDED = "includes what was used while no process was in charge"
"""Why a reading that was taken over from a process that died is doubtful."""


@dataclass(frozen=True, slots=True)
class Past:
    """Questions about everything before now, to the journal of the process that runs the campaign."""

    connection: sqlite3.Connection
    time: CampaignTime

    def was_left_safe(self) -> bool:
        """Whether nothing can be out of its safe state: the last process said so, or there was none.

        To be asked before this process has begun. Processes that ended without having had the rig (`ingest`) do not
        count.
        """
        if ask(self.connection, "SELECT 1 FROM trials WHERE state IN ('ARMED', 'RUNNING')"):
            return False
        rows = ask(
            self.connection,
            "SELECT safe FROM starts WHERE ended IS NULL OR safe IS NOT NULL ORDER BY id DESC LIMIT 1",
        )
        return not rows or bool(rows[0]["safe"])

    def meters(self) -> dict[str, Reading]:
        """Counters as the last metered trial left them, from which the next one goes on; rig time.

        Left out are those that could not be read then, and all of them if the process that read them ended with
        everything safe: what was used since belongs to no trial. If it died instead, they are doubtful (MINOR).
        """
        rows = ask(
            self.connection,
            "SELECT r.*, s.id = (SELECT max(id) FROM starts) AS ours, coalesce(s.safe, 0) AS safe "
            "FROM meter_readings r LEFT JOIN starts s ON s.id = (SELECT start FROM events WHERE trial = r.trial "
            "AND state NOT IN ('PROPOSED', 'ARMED', 'RUNNING') ORDER BY id LIMIT 1) "
            "WHERE r.phase = 'after' AND r.severity < ? AND r.value IS NOT NULL "
            "AND r.trial = (SELECT max(trial) FROM meter_readings WHERE phase = 'before')",
            int(Severity.INVALID),
        )
        return {r["meter"]: self._reading(r) for r in rows if r["ours"] or not r["safe"]}

    def _reading(self, r: sqlite3.Row) -> Reading:
        read_s = r["at_s"] - self.time.offset_s
        if r["ours"]:
            return Reading(r["value"], r["unit"], read_s, Severity(r["severity"]), r["detail"])
        return Reading(r["value"], r["unit"], read_s, Severity.MINOR, UNATTENDED)
