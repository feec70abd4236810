"""What an EZO circuit says of how it is set: `Cal,?`, `Slope,?` of a pH circuit (EZO-pH data sheet), and others."""

from __future__ import annotations

from contextlib import suppress

from rigctl.errors import DeviceFault
from rigctl.rig.abilities import Calibration
from rigctl.rig.protocols import Deadline
from rigctl_drivers.ezo import EzoChannel


def calibration_of(channel: EzoChannel, deadline: Deadline, *, slopes: bool = False) -> Calibration:
    """Ask for points and, with `slopes`, for percent of an ideal probe's, acid and base.

    Raises:
        DeviceTimeout, GarbledReply: as `EzoChannel.query`, and where an answer makes no sense.
    """
    fields = if_known(channel, "Cal,?", deadline)
    if fields is None:
        return Calibration(None)
    points = channel.number("Cal,?", fields)
    if not (points >= 0 and points == int(points)):
        raise channel.garbled(f"Cal,?: got {','.join(fields)!r}, must be a whole number")
    told = if_known(channel, "Slope,?", deadline) if slopes else None
    percent = () if told is None else tuple(channel.number("Slope,?", told, at) for at in range(2))
    said = ["Cal", *fields, *([] if told is None else ["Slope", *told])]
    return Calibration(int(points), percent, ",".join(said))


def if_known(channel: EzoChannel, question: str, deadline: Deadline) -> tuple[str, ...] | None:
    """Ask what not every circuit knows; None if it is refused twice: once may come of noise on the line."""
    for _ in range(2):
        with suppress(DeviceFault):
            return channel.query(question, deadline)
    return None
