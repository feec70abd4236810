"""`rigctl init --probe`: who is at these ports and hosts, each looked at by itself, all at the same time.

A port that a campaign drives, or that another program holds, is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rigctl.campaign.clock import RealClock
from rigctl.campaign.lock import bus_locks
from rigctl.config.draft import Device
from rigctl.errors import Locked, UsageError
from rigctl.rig.finding import Sighting, look, urls_of
from rigctl.rig.places import physical
from rigctl.rig.registry import Registry

MOST_UNITS = 247


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look."""

    name: str
    """What the person calls who is there; empty: nothing."""
    text: str
    urls: tuple[str, ...]


def places_of(given: Sequence[str]) -> tuple[Place, ...]:
    """Read `[NAME=]PORT|HOST|URL`.

    Raises:
        UsageError: one is nothing of the kind, or two lead to the same port.
    """
    places: list[Place] = []
    taken: dict[str, str] = {}
    for text in given:
        named = re.fullmatch(r"([A-Za-z][A-Za-z0-9_-]*)=(.+)", text)
        name, where = (named[1], named[2]) if named else ("", text)
        try:
            urls = urls_of(where)
        except ValueError as error:
            raise UsageError(f"--probe: {error}") from error
        for end in {end for url in urls for end in physical(url)}:
            if taken.setdefault(end, where) != where:
                raise UsageError(f"--probe: {where} is the same as {taken[end]}; give one of them")
        places.append(Place(name, where, urls))
    return tuple(places)


def units_of(text: str) -> tuple[int, ...]:
    """Read `1-8`, `3` or `1-4,17`.

    Raises:
        UsageError: it is nothing of the kind.
    """
    units: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,3})\s*(?:-\s*(\d{1,3})\s*)?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= MOST_UNITS:
            raise UsageError(f'--units: got "{text}", must be addresses from 1 to {MOST_UNITS} such as 1-8 or 1-4,17')
        units |= set(range(first, last + 1))
    return tuple(sorted(units))


def sightings(places: Sequence[Place], units: Sequence[int]) -> list[Sighting]:
    """Look at every place; nothing is written there."""
    registry = Registry.installed()
    with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
        return list(pool.map(lambda place: _looked(place, units, registry), places))


def _looked(place: Place, units: Sequence[int], registry: Registry) -> Sighting:
    try:
        with bus_locks(place.urls):
            return look(place.text, place.urls, units, registry, RealClock(1.0))
    except Locked as error:
        return Sighting(place.text, remark=f"left alone: {error}")


def devices_of(places: Sequence[Place], seen: Sequence[Sighting]) -> tuple[Device, ...]:
    """Return all that was found under names that differ."""
    devices: list[Device] = []
    for place, sighting in zip(places, seen, strict=True):
        for found in sighting.found:
            name = _free(place.name or found.name, [d.name for d in devices])
            who = found.identity
            said = ", ".join(filter(None, (who.model, who.firmware, f"serial {who.serial}" if who.serial else "")))
            channels = tuple((dict(options), text) for options, text in found.channels)
            devices.append(Device(name, found.driver, sighting.url, found.options, said, channels))
    return tuple(devices)


def _free(wanted: str, taken: Sequence[str]) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "_", wanted.lower()).strip("_")
    plain = plain if plain[:1].isalpha() else f"device_{plain}".rstrip("_")
    numbered = (f"{plain}_{n}" for n in range(2, len(taken) + 3))
    return next(name for name in (plain, *numbered) if name not in taken)


def told(places: Sequence[Place], seen: Sequence[Sighting], devices: Sequence[Device]) -> Iterator[str]:
    """Yield what was found where, and what was not."""
    rest = list(devices)
    for place, sighting in zip(places, seen, strict=True):
        for _ in sighting.found:
            device = rest.pop(0)
            yield f"found {device.name}: {device.said}"
            yield f"  driver {device.driver}, {sighting.url}"
        if not sighting.found:
            yield f"{place.text}: {sighting.remark}"
