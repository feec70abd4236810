"""The pinned instruments on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from rigctl.campaign.journal.database import transaction
from rigctl.campaign.journal.time import CampaignTime


class PinBook:
    """Pins of one open journal: a row is never changed, the last one of a device counts."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime) -> None:
        self._connection = connection
        self._time = time

    def keep(self, pins: Iterable[tuple[str, str, str, str]], accepted_by: str = "") -> None:
        """Pin instruments: device, model, serial, place; `accepted_by` names the person who said so."""
        with transaction(self._connection):
            self._connection.executemany(
                "INSERT INTO pins (device, model, serial, place, utc, accepted, who) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(*pin, self._time.utc(), bool(accepted_by), accepted_by) for pin in pins],
            )
