"""What may not share a line, a register or a coil; and names of lines that may come to mean another one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

from rigctl.config.context import Context
from rigctl.config.document import Path
from rigctl.config.instruments import built
from rigctl.rig.abilities import Claim, Occupies
from rigctl.rig.places import line_of, taken_apart
from rigctl.rig.protocols import ByteLine
from rigctl.rig.registry import Registry
from rigctl.rig.spec import DeviceSpec

_NUMBERED: Final = re.compile(r"/dev/tty(USB|ACM)\d+")
_REAL: Final = re.compile(r"/dev/(?!pts/)")
"""A pseudo-terminal has a program at its other end; every other port has a plug."""
_WHOLE_LINE: Final = Claim("the line", "keeps")


def inspect_lines(context: Context, devices: Mapping[str, DeviceSpec], registry: Registry) -> None:
    """Every line once, every place on it for one device only."""
    by_line: dict[str, list[DeviceSpec]] = defaultdict(list)
    for device in devices.values():
        by_line[line_of(device.url)].append(device)
    for sharing in by_line.values():
        _one_url(context, sharing)
        _no_numbers(context, sharing[0])
        claims = [(d, _claims(d, registry)) for d in sharing]
        for (first, held), (second, wanted) in combinations(claims, 2):
            _at_odds(context, (first, held), (second, wanted))


def _bus(device: DeviceSpec) -> Path:
    return ("devices", device.name, "bus")


def _one_url(context: Context, sharing: Sequence[DeviceSpec]) -> None:
    first = sharing[0]
    for device in sharing[1:]:
        if device.url != first.url:
            context.findings.add(
                _bus(device),
                f"got {device.url}, the same line as {first.url} of {first.name}; must be one URL and one protocol, "
                f"for two who open one wire read each other's answers",
            )


def _no_numbers(context: Context, device: DeviceSpec) -> None:
    _, place = taken_apart(device.url)
    if _NUMBERED.fullmatch(place):
        context.findings.warn(
            _bus(device), f"{place} may be another instrument after the next plugging in; use /dev/serial/by-id/..."
        )


def _claims(device: DeviceSpec, registry: Registry) -> Sequence[Claim]:
    """What a device uses; a byte line as a whole, unless its driver knows better."""
    driver = registry.driver(device.driver)
    if isinstance(driver, Occupies):
        return driver.occupies(device.options)
    made = built(device, registry)
    return (_WHOLE_LINE,) if made is not None and isinstance(made[0], ByteLine) else ()


def _at_odds(
    context: Context, first: tuple[DeviceSpec, Sequence[Claim]], second: tuple[DeviceSpec, Sequence[Claim]]
) -> None:
    """The first thing that two devices on one line cannot both have, or should know of."""
    if first[0].url != second[0].url:
        return  # told already
    if _WHOLE_LINE in first[1] or _WHOLE_LINE in second[1]:
        context.findings.add(
            _bus(second[0]),
            f"got the line of {first[0].name}, which cannot be shared; give each a port of its own",
        )
        return
    held = {claim.place: claim for claim in first[1]}
    for claim in second[1]:
        other = held.get(claim.place)
        if other is not None and _conflict(context, first[0].name, other, second[0].name, claim):
            return


def _conflict(context: Context, first: str, held: Claim, second: str, wanted: Claim) -> bool:
    """Whether anything was to be said."""
    path: Path = ("devices", second)
    uses = {held.use, wanted.use}
    if uses == {"shares"} and held.span == wanted.span:
        return False
    if "keeps" in uses or uses == {"writes"}:
        what = "writes" if uses == {"writes"} else "is"
        context.findings.add(path, f"{what} {wanted.place}, as {first} does; each needs a place of its own")
    elif held.span != wanted.span:
        context.findings.add(
            path,
            f"{wanted.use} {wanted.place} as part of {wanted.span}, which {first} {held.use} as part of {held.span}; "
            f"words may not overlap: one of the addresses or types is wrong",
        )
    elif uses == {"reads"}:
        context.findings.warn(path, f"reads {wanted.place}, as {first} does: both show the same quantity")
    else:
        reader, writer = (first, second) if held.use == "reads" else (second, first)
        context.findings.warn(
            path, f"{wanted.use} {wanted.place}: {reader} reads what {writer} was sent, which is no measurement"
        )
    return True


def real_ports(urls: Iterable[str]) -> list[str]:
    """The URLs that lead to a port of this machine's own; a simulated rig's stand elsewhere."""
    return [url for url in dict.fromkeys(urls) if _REAL.match(taken_apart(url)[1]) or _REAL.match(line_of(url))]
