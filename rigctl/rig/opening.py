"""Opening a rig: every bus, and every device recognised, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rigctl.errors import DeviceError, DeviceFault, in_words
from rigctl.rig.bus import Bus
from rigctl.rig.handle import Handle, by_line, combined, together
from rigctl.rig.imposing import told
from rigctl.rig.protocols import Actuator, Deadline, Device, Doser, Identity, Meter, Reading, Sensor
from rigctl.rig.wiring import Wiring
from rigctl.text import in_full, lasting


async def open_all(wiring: Wiring) -> Mapping[str, Identity]:
    found: dict[str, Identity] = {}
    errors: list[DeviceError] = []
    asked = wiring.in_service(wiring.handles)  # what comes back meanwhile was recognised by whoever put it back
    await together(*(_open(bus, asked, found, errors) for bus in wiring.buses.values()))
    if errors:
        raise combined(errors)
    return {name: found[name] for name in asked}


async def _open(
    bus: Bus, asked: Mapping[str, Handle[Device]], found: dict[str, Identity], errors: list[DeviceError]
) -> None:
    here = {n: h for n, h in asked.items() if h.bus is bus}
    if not here:
        return  # all of it is out of service
    try:
        await bus.open()
    except DeviceError as error:
        errors.append(error)
        return
    for name, handle in here.items():
        try:
            found[name] = await handle.identify()
        except DeviceError as error:
            errors.append(error)


async def refuse_real_time_lapse(wiring: Wiring, speedup: float, only: Bus | None = None) -> None:
    """Refuse rig time faster than the wall unless every bus leads to something that says it is simulated.

    Every bus with a device in service; or `only` this one, whatever is in service there.

    Raises:
        DeviceFault: a bus does not.
        DeviceError: a device cannot be asked.
    """
    if speedup == 1.0:
        return
    handles = wiring.in_service(wiring.handles) if only is None else wiring.handles
    used = {h.bus for h in handles.values() if only in (None, h.bus)}
    asked = {url: bus for url, bus in wiring.buses.items() if bus in used}
    simulated = await together(*(_leads_to_simulation(bus, handles) for bus in asked.values()))
    real = [url for url, says_so in zip(asked, simulated, strict=True) if not says_so]
    if real:
        cap_s = lasting(86400 / speedup)
        raise DeviceFault(
            f"{', '.join(real)}: nothing there says that it is simulated, and clock.speedup is {speedup:g}; nothing "
            f"was written. clock.speedup is for simulated rigs only, leave it out: a 24 h cap would be one of {cap_s}"
        )


async def _leads_to_simulation(bus: Bus, handles: Mapping[str, Handle[Device]]) -> bool:
    for handle in handles.values():
        if handle.bus is bus and await handle.ask(handle.device.simulated, "is it simulated"):
            return True
    return False


async def probed(handle: Handle[Device]) -> tuple[bool, str]:
    """Ask who answers, and for one reading; return whether all is well, and both in words. Writes nothing."""
    try:
        identity = await handle.identify()
        reading = await handle.ask(partial(_any_reading, handle.device), "read")
    except DeviceError as error:
        return False, in_words(error)
    who = " ".join(filter(None, (identity.model, identity.firmware, identity.serial)))
    return True, f"{who}: {reading}"


def _any_reading(device: Device, deadline: Deadline) -> str:
    if isinstance(device, Sensor):
        return _in_words(device.read(deadline))
    if isinstance(device, Doser):
        return "running" if device.dose_status(deadline).running else "at rest"
    if isinstance(device, Meter):
        return _in_words(device.total(deadline))
    if isinstance(device, Actuator):
        return told(device.read_back(deadline), device.unit)
    return "answers"


def _in_words(reading: Reading) -> str:
    return f"{in_full(reading.value)} {reading.unit}" if reading.valid else f"INVALID ({reading.detail})"


async def missing(wiring: Wiring) -> Mapping[str, str]:
    """Ask every device who it is; return what is wrong, by device or by line."""
    asked = wiring.in_service(wiring.handles)
    answers = await together(*map(_wrong_with, asked.values()))
    wrong = {name: why for name, why in zip(asked, answers, strict=True) if why}
    return {source: why for source, (_, why) in by_line(wrong, asked).items()}


async def _wrong_with(handle: Handle[Device]) -> str:
    try:
        await handle.identify()
    except DeviceError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a driver's mistake is a thing to be mended, too
        return in_words(error)
    return ""
