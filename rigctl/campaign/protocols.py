"""What a campaign needs of a rig; `rigctl.rig.rig.Rig` is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rigctl.rig.protocols import ActuatorState, DoseLog, Identity, Reading
from rigctl.rig.values import Alarm, Glance, Measurement, OpenDose, SafeReport


class CampaignRig(Protocol):
    """Commands and reads all instruments of one rig."""

    @property
    def tripped(self) -> str | None:
        """Return why the trip is latched, or None."""
        ...

    async def open(self) -> Mapping[str, Identity]:
        """Open every bus and identify every device before any write; what could be opened stays open on failure."""
        ...

    async def control(self, setpoints: Mapping[str, float]) -> Mapping[str, ActuatorState]:
        """Impose setpoints by variable name, release everything else, confirm both."""
        ...

    async def measure(self) -> Mapping[str, Measurement]:
        """Measure a window of every sensor; return it by the names of variables and outcomes."""
        ...

    async def meters(self) -> Mapping[str, Reading]:
        """Read the counters, by meter name; unreadable ones are INVALID."""
        ...

    async def safe(self) -> SafeReport:
        """Bring everything to its safe state; never raise, and need no `open`."""
        ...

    async def snapshot(self) -> Mapping[str, Reading]:
        """Read each sensor once now; INVALID if it cannot be read."""
        ...

    def look(self) -> Glance:
        """Return what the rig was last seen to be; begin what has to be asked, and wait for nothing."""
        ...

    async def roll_call(self) -> Mapping[str, str]:
        """Ask every device whether it is there; what is wrong with those that are not."""
        ...

    async def verify(self) -> Mapping[str, str]:
        """Read back every actuator; those that are not as they were left, and what they say instead."""
        ...

    async def trip(self, reason: str) -> SafeReport:
        """Latch the trip, then everything to its safe state."""
        ...

    async def settle_doses(self, open_doses: Sequence[OpenDose]) -> None:
        """Settle the doses a crash left open; never re-sends."""
        ...

    async def close(self) -> None:
        """Close every bus."""
        ...


RigFactory = Callable[[DoseLog, Callable[[Alarm], None]], CampaignRig]
"""Makes the rig from the dose log and the alarm desk that the campaign keeps."""
