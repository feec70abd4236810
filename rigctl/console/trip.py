"""`rigctl reset-trip`: a person has found the cause, and lets the rig run again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rigctl.campaign.clock import RealClock, boot_id
from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.lock import state_lock
from rigctl.rig.protocols import Clock


def reset(directory: Path) -> Mapping[str, Any]:
    """Let go of the trip latched in this state directory, and record when; harmless if none is.

    Returns:
        What had tripped, and when; None if nothing had.

    Raises:
        UsageError: there is no campaign here.
        Locked: a campaign is running here: it ends by itself when it trips.
        JournalError: the journal cannot be used.
    """
    with open_reader(directory) as reader:  # before the lock, which would make a missing directory
        reader.campaign()
    clock: Clock = RealClock()  # rig time plays no part in it
    with state_lock(directory), closing(Journal(directory, clock, boot_id())) as journal:
        was = journal.trips.reset()
    return {"reset": None if was is None else {"reason": was.reason, "tripped": was.utc}}
