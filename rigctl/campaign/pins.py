"""Which instrument stands where, pinned at the first start and compared at every later one (faults 18, 65).

An instrument is known by its model and its own number (serial number, or the name that was given to it); one without
a number by the stable name of its port. Firmware does not count: updates are welcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from rigctl.campaign.journal.rows import Pin
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.protocols import Hands
from rigctl.errors import IdentityMismatch
from rigctl.rig.places import Seen
from rigctl.rig.protocols import Identity, Severity
from rigctl.rig.spec import DeviceSpec, RigSpec
from rigctl.rig.values import Alarm


def pin_of(device: DeviceSpec, found: Identity) -> Pin:
    """Return what to pin of the instrument that answers as this device."""
    seen = Seen.at(device.url, found)
    return Pin(device.name, seen.model, seen.serial, seen.place)


async def expect_pinned(hands: Hands, journal: JournalThread) -> None:
    """Let safe values reach who was pinned only, from before the rig is opened: it goes safe also if that fails."""
    for pin in (await journal.call(lambda j: j.read.beside.pins())).values():
        hands.expect(pin.device, _seen(pin))


async def hold_pins(
    found: Mapping[str, Identity], rig: RigSpec, journal: JournalThread, on_alarm: Callable[[Alarm], None]
) -> Mapping[str, Seen]:
    """Compare who answers with who was pinned; pin what is new. To be called before anything is written to the rig.

    Returns:
        Who is known to stand where, by device, those among them that were not asked now.

    Raises:
        IdentityMismatch: another instrument answers than the one pinned; names all of them.
    """
    pins = [pin_of(rig.devices[name], identity) for name, identity in found.items() if name in rig.devices]
    known = await journal.call(lambda j: j.read.beside.pins())
    changed = [p for p in pins if p.device in known and known[p.device] != p]
    if changed:
        raise IdentityMismatch(
            "; ".join(
                f"{p.device} on {rig.devices[p.device].url}: {p} answers, but on {known[p.device].utc} it was "
                f"{known[p.device]}"
                for p in changed
            )
            + ". Nothing was written. Connect the right instruments; or, where one was exchanged on purpose, look at "
            f"it and say so: `rigctl accept-device CONFIG {changed[0].device}` (with the same --state)"
        )
    new = [p for p in pins if p.device not in known]
    if new:
        await journal.call(lambda j: j.pins.keep(new))
    for message in _alike(p for p in pins if p.device in rig.pumps):
        on_alarm(Alarm(Severity.MINOR, "pumps", message, kind="alike"))
    return {pin.device: _seen(pin) for pin in (*known.values(), *new)}


def _seen(pin: Pin) -> Seen:
    return Seen(pin.model, pin.serial, pin.place)


def _alike(pumps: Iterable[Pin]) -> list[str]:
    """Name the pumps that could change places without anybody noticing."""
    loose = [p for p in pumps if not (p.serial or p.place)]
    models = Counter(p.model for p in loose)
    return [
        f"{', '.join(p.device for p in loose if p.model == model)}: {number} {model} that cannot be told apart: if "
        "they change ports nobody notices. Give each a name (EZO: `Name,...`) or a port under /dev/serial/by-id"
        for model, number in models.items()
        if number > 1
    ]
