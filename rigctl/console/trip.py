"""`rigctl reset-trip`, `rigctl accept-device`: a person has looked, and says that the rig may run again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rigctl.campaign.caretaker import pin_of
from rigctl.campaign.clock import RealClock
from rigctl.campaign.journal import open_reader
from rigctl.campaign.lock import bus_locks
from rigctl.campaign.people import this_person
from rigctl.config.load import LoadedConfig
from rigctl.console.assemble import own_journal
from rigctl.errors import UsageError
from rigctl.rig.protocols import Clock, Identity
from rigctl.rig.registry import Registry
from rigctl.rig.spec import RigSpec
from rigctl.rig.wiring import wired


def reset(directory: Path) -> Mapping[str, Any]:
    """Let go of the trip latched in this state directory, and record when; return what had tripped, if anything had.

    Raises:
        UsageError: there is no campaign here.
        Locked: a campaign is running here: it ends by itself when it trips.
        JournalError: the journal cannot be used.
    """
    with open_reader(directory) as reader:  # before the lock, which would make a missing directory
        reader.campaign()
    with own_journal(directory) as journal:
        was = journal.trips.reset(this_person())
    return {"reset": None if was is None else {"reason": was.reason, "tripped": was.utc}}


def accept_device(loaded: LoadedConfig, directory: Path, name: str) -> Mapping[str, Any]:
    """Ask a device who it is, and expect this instrument there from now on; return who was expected and who is.

    Writes to no device.

    Raises:
        UsageError: there is no campaign here, or no device of that name.
        Locked: a campaign is running here, or on this bus.
        DeviceError: it does not answer, or is not what its driver drives.
        JournalError: the journal cannot be used.
    """
    if name not in loaded.rig.devices:
        raise UsageError(f"{name}: no such device in {loaded.path}; known: {', '.join(loaded.rig.devices)}")
    with open_reader(directory) as reader:
        reader.campaign()
    device, clock = loaded.rig.devices[name], RealClock(loaded.rig.speedup)
    with own_journal(directory, loaded.rig.speedup) as journal, bus_locks([device.url]):
        was = journal.read.beside.pins().get(name)
        pin = pin_of(device, asyncio.run(_identity(loaded.rig, name, clock)))
        journal.pins.keep([pin], accepted_by=this_person())
    return {"device": name, "was": None if was is None else str(was), "is": str(pin), "by": this_person()}


async def _identity(rig: RigSpec, name: str, clock: Clock) -> Identity:
    handle = wired(rig, Registry.installed(), clock, lambda _: None).handles[name]
    try:
        return await handle.identify()
    finally:
        await handle.bus.close()
