"""Dead men in devices: what makes outputs safe should this computer die, and which actuators have none.

A device that watches over its outputs is fed by the lookout, which a look of the watch begins: an event loop that
hangs, or a process that was killed, feeds nothing, and the device goes safe by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rigctl.rig.handle import Handle, together
from rigctl.rig.protocols import Device, Heart
from rigctl.rig.spec import RigSpec
from rigctl.rig.wiring import Wiring
from rigctl.text import joined


def hearts(handles: Mapping[str, Handle[Device]]) -> Mapping[str, tuple[Handle[Device], Heart]]:
    """Return what feeds a watchdog, by device."""
    return {name: (h, h.device.heart) for name, h in handles.items() if h.device.heart is not None}


async def feed(handle: Handle[Device], heart: Heart) -> None:
    await handle.tell(heart.beat, "heartbeat")


async def check_all(wiring: Wiring) -> None:
    """Feed every watchdog and ask whether it works, before anything is driven.

    Raises:
        DeviceFault: one is off, or would not notice; nothing may be driven.
    """

    async def fed(handle: Handle[Device], heart: Heart) -> None:
        await feed(handle, heart)
        await handle.ask(heart.check, "watchdog")

    await together(*(fed(handle, heart) for handle, heart in hearts(wiring.in_service(wiring.handles)).values()))


def unguarded(spec: RigSpec) -> tuple[str, ...]:
    """Return the actuators and pumps that nothing makes safe should this computer die; asks nobody."""
    stations: dict[str, tuple[str, str]] = {}
    fed: set[tuple[str, str]] = set()
    for name, device in spec.devices.items():
        watchdog = device.options.watchdog()
        if watchdog is not None:
            unit, feeds = watchdog
            stations[name] = (device.url, unit)
            fed |= {stations[name]} if feeds else set()
    return tuple(name for name in spec.limits if stations.get(name) not in fed)


def unguarded_told(names: Sequence[str], spec: RigSpec) -> str:
    """Say of actuators that nothing makes them safe should this computer die, and what pumps do then; "" for none."""
    doses = [name for name in names if spec.limits[name].per_dose_ml is not None or spec.limits[name].most_ml]
    stay = [name for name in names if name not in doses]
    parts = [f"{joined(stay)} {'stay as they are' if stay[1:] else 'stays as it is'}"] if stay else []
    if doses:
        parts.append(f"{joined(doses)} {'give' if doses[1:] else 'gives'} the rest of a dose under way")
    return f"If this computer stops, {joined(parts)}: no watchdog in the device is set up." if parts else ""
