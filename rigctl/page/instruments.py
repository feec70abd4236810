"""What is known of the instruments' upkeep: from the campaign that runs, else from its journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rigctl.campaign.instruments import as_last_known, said_of, wrong_with
from rigctl.campaign.journal import Reader
from rigctl.config.load import LoadedConfig
from rigctl.page.shown import Instrument


def instruments(
    reader: Reader, loaded: LoadedConfig | None, status: Mapping[str, Any] | None
) -> tuple[Instrument, ...]:
    """Return the instruments of which something is known, in their order."""
    if status is not None and "upkeep" in status:
        known = status["upkeep"]
    else:
        known = [] if loaded is None else as_last_known(reader, loaded.rig)
    return tuple(
        Instrument(
            name=entry["device"],
            says=said_of(entry),
            wrong=wrong_with(entry),
            held=any(objection["holds"] for objection in entry.get("objections", ())),
        )
        for entry in known
    )
