"""How process variables and their actuators appear in a PLC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sim_rig.faces.registers import Bank, NumberType, WordOrder
from sim_rig.faults import SensorTap
from sim_rig.plants.channel import Channel
from sim_rig.plants.machine import Drives


def map_actuator(
    bank: Bank,
    channel: Channel,
    at: int,
    coil: int,
    *,
    kind: NumberType = "float32",
    order: WordOrder = "ABCD",
    scale: float = 1.0,
) -> None:
    """A setpoint in holding registers (out of range: exception 03) and an enable coil; both can be read back."""
    bank.number("holding", at, lambda: channel.setpoint, channel.impose, kind=kind, order=order, scale=scale)
    bank.bit("coil", coil, lambda: channel.enabled, partial(setattr, channel, "enabled"))


@dataclass(frozen=True, slots=True)
class Point:
    """Where a variable sits in a PLC: its reading and its setpoint at the same register number."""

    name: str
    at: int
    coil: int
    full_scale: float
    kind: NumberType = "float32"
    order: WordOrder = "ABCD"
    scale: float = 1.0


def map_drives(bank: Bank, drives: Drives, sensors: Mapping[str, SensorTap], points: Iterable[Point]) -> None:
    """Readings of all variables in input registers, setpoints and enable coils of their drives."""
    for p in points:
        bank.number("input", p.at, sensors[f"{p.name}_sensor"], kind=p.kind, order=p.order, scale=p.scale)
        map_actuator(bank, drives.channels[p.name], p.at, p.coil, kind=p.kind, order=p.order, scale=p.scale)


def drive_sensors(drives: Drives, points: Iterable[Point]) -> dict[str, SensorTap]:
    """A sensor for every variable, named as in the configuration."""
    return {f"{p.name}_sensor": SensorTap(partial(drives.sense, p.name), p.full_scale) for p in points}
