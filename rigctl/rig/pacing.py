"""How long going safe takes, from what the devices say of their exchanges. Pure: nothing is asked.

On one bus everything happens in turn: a question under way is cut short, devices that can be told apart are recognised,
everything is told, the line is silenced, everything is asked. Buses go side by side.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from rigctl.rig.abilities import SafeTogether, said
from rigctl.rig.bus import Bus
from rigctl.rig.handle import Handle
from rigctl.rig.spec import ActuatorLimits, RigSpec
from rigctl.rig.values import SafeTimes
from rigctl.rig.wiring import Wiring

QUIET_S: Final = 0.5
"""The silence a line may owe after a question was cut short."""
PATIENCE: Final = 4.0
"""A healthy device is given so many times what it says it needs."""
LEAST_PATIENCE_S: Final = 0.5


def to_make_safe(wiring: Wiring) -> list[Handle[Any]]:
    """All that has a safe state, pumps first."""
    return [*wiring.dosers.values(), *wiring.actuators.values()]


def grouped(handles: Iterable[Handle[Any]], limits: Mapping[str, ActuatorLimits]) -> list[list[Handle[Any]]]:
    """Those that can go to their safe state together; most stand alone."""
    groups: dict[Hashable, list[Handle[Any]]] = {}
    for handle in handles:
        group = None
        # the device's own way leads to its own safe state, not to a number declared for the rig
        if limits[handle.name].safe_state == "off" and isinstance(handle.device, SafeTogether):
            group = said(handle.device.safe_group, None)
        groups.setdefault(("alone", handle.name) if group is None else ("together", group), []).append(handle)
    return list(groups.values())


def together_s(group: Sequence[Handle[Any]]) -> float:
    """How long one exchange for the whole group takes."""
    return said(lambda: group[0].device.safe_all_s([h.device for h in group]), group[0].timeout_s)


def time_to_safe(spec: RigSpec, wiring: Wiring) -> SafeTimes:
    """The worst case with healthy devices, over all and by bus.

    Nobody has been recognised yet, a question to a silent device is under way, and groups refuse to go together.
    """
    by_bus = {}
    for url, bus in wiring.buses.items():
        handles = [h for h in to_make_safe(wiring) if h.bus is bus]
        if handles:
            by_bus[url] = _on_one_bus(_cut_short_s(bus, wiring), grouped(handles, spec.limits))
    told, confirmed = zip(*by_bus.values(), strict=True) if by_bus else ((0.0,), (0.0,))
    return SafeTimes(max(told), max(confirmed), by_bus)


def _cut_short_s(bus: Bus, wiring: Wiring) -> float:
    return max(h.hurried_s for h in wiring.handles.values() if h.bus is bus)


def _on_one_bus(begin_s: float, groups: Sequence[Sequence[Handle[Any]]]) -> tuple[float, float]:
    told_s, asked_s = begin_s, QUIET_S
    for group in groups:
        told_s += sum(h.pace.command_s for h in group)
        if len(group) > 1:
            told_s += together_s(group)
        # one of a group is recognised before it is told, all before they are asked
        to_meet_s = [h.pace.confirm_s for h in group if not h.anonymous]
        told_s += sum(to_meet_s[:1])
        asked_s += sum(to_meet_s[1:]) + sum(h.pace.confirm_s for h in group)
    return told_s, told_s + asked_s
