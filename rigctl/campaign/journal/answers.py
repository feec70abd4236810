"""Whether doses did anything: evidence that counts over the whole campaign, until a person has looked (fault 63)."""

from __future__ import annotations

import sqlite3

from rigctl.campaign.journal.database import ask, transaction
from rigctl.errors import JournalError
from rigctl.rig.protocols import Unanswered


class AnswerBook:
    """The answers of one open journal. Each call returns only after the record is on disk."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def keep(self, actuator: str, probe: str, moved: float, expected: float, *, answered: bool) -> None:
        """Record what this pump's last dose did.

        Raises:
            JournalError: it has no settled dose, or the last one has its answer already.
        """
        with transaction(self._connection):
            changed = self._connection.execute(
                "INSERT INTO answers (dose, probe, moved, expected, answered) "
                "SELECT id, ?, ?, ?, ? FROM doses WHERE id = (SELECT max(id) FROM doses WHERE actuator = ?) "
                "AND state IN ('DONE', 'UNKNOWN') AND id NOT IN (SELECT dose FROM answers)",
                (probe, moved, expected, answered, actuator),
            ).rowcount
            if changed != 1:
                raise JournalError(f"{actuator}: no settled dose waits for an answer of {probe}")

    def unanswered(self, actuator: str, probe: str) -> Unanswered:
        """The doses since the last one that was answered; those forgiven do not count."""
        (row,) = ask(
            self._connection,
            "SELECT count(*) AS doses, count(DISTINCT trial) AS trials FROM answers JOIN doses ON doses.id = dose "
            "WHERE actuator = ?1 AND probe = ?2 AND NOT forgiven AND dose > coalesce((SELECT max(dose) FROM answers "
            "JOIN doses ON doses.id = dose WHERE actuator = ?1 AND probe = ?2 AND answered), 0)",
            actuator,
            probe,
        )
        return Unanswered(row["doses"], row["trials"])
