"""What the rig needs of whoever keeps the journal: the memory of its doses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Doses in a row that did not move the probe that judges them."""

    doses: int
    trials: int
    """How many trials they were spread over."""


class DoseLog(Protocol):
    """The dose protocol's memory. Each call returns only after the record is on disk."""

    async def intend(self, actuator: str, volume_ml: float, total_before_ml: float) -> int:
        """Record the intent, before anything is sent; returns the dose's id. Raises `JournalUnwritable`."""

    async def sent(self, dose: int) -> None:
        """Record that the command has left."""

    async def done(self, dose: int, volume_ml: float, note: str) -> None:
        """Settle it: this volume was dispensed."""

    async def unknown(self, dose: int, volume_ml: float, note: str) -> None:
        """Settle it pessimistically: the full volume is booked, and an alarm raised."""

    async def found(self, actuator: str, volume_ml: float, total_before_ml: float) -> None:
        """Book what a pump gave though nobody asked it to."""

    async def given_ml(self, pumps: Sequence[str], since_s: float | None) -> float:
        """Sum up all doses of these pumps since this rig time, open intents in full; None: of the trial under way."""

    async def answered(self, actuator: str, probe: str, *, moved: float, expected: float, answered: bool) -> None:
        """Record what the last dose of this pump did to the reading that judges it, the probe's units."""

    async def unanswered(self, actuator: str, probe: str) -> Unanswered:
        """Count the doses since the last that this probe answered, over all trials; a person may have forgiven them."""
