"""Sections of a device about what runs out, wears out and has to be calibrated."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from rigctl.config.fields import Duration, Volume
from rigctl.config.sections import Section


def _doses(value: Any) -> int:
    found = re.fullmatch(r"\s*(\d{1,9})\s*(doses?)?\s*", value) if isinstance(value, str) else None
    if found is not None:
        return int(found[1])
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError('must be a number of doses such as "20 doses"')
    return value


Doses = Annotated[
    int,
    PlainValidator(_doses),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^\s*\d+\s*(doses?)?\s*$"}]}
    ),
]


class InventorySection(Section):
    """A pump's bottle. Doses are counted since `rigctl refilled`; a pump with too little for a trial is not used."""

    volume: Volume
    """What a full bottle holds."""
    warn_at: Doses = 20
    """An alarm is raised when so many usual doses are left."""


class TubingSection(Section):
    """A pump's tubing, whose mL are counted since `rigctl replaced PUMP tubing`."""

    replace_after: Volume
    """An alarm is raised when it has seen so much."""


class CalibrationSection(Section):
    """How often a device is calibrated: since `rigctl calibrated`, or since it said so itself."""

    every: Duration | None = None
    """A probe by which doses are judged is not used when it is overdue; others only raise an alarm."""
    slope: Annotated[list[float], Field(min_length=2, max_length=2)] = Field(default_factory=lambda: [85.0, 105.0])
    """What a probe's slopes must be, percent of an ideal probe's; outside doses are not judged by it."""
