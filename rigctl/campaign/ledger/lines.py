"""What the ledger holds: a line per meter of a trial, and of what no trial used."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.experiment.money import Micros

COUNTED = ("energy", "volume")
"""Kinds of meters that have a counter."""
UNITS = {"energy": "kWh", "volume": "mL", "time": "h", "fixed": "trial"}


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Says what one meter adds to a trial's cost."""

    meter: str
    kind: str
    """A `MeterSpec` kind, or `manual` for a cost a person stated."""
    quantity: float | None
    """What was consumed, in `unit`; None where the meter could not testify."""
    unit: str
    amount: Micros
    estimated: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class IdleLine:
    """Says what was used on one meter while nobody was in charge of a trial."""

    meter: str
    kind: str
    quantity: float | None
    """In `unit`; None where it is not known."""
    unit: str
    amount: Micros
    note: str
