"""The dead man in a Modbus device: a register that must be written again and again, else it makes its outputs safe."""

from __future__ import annotations

from rigctl.errors import DeviceFault
from rigctl.rig.protocols import Deadline, RegisterLine
from rigctl_drivers.modbus_options import HeartbeatOptions, ModbusOptions

MISSED = 3
"""Heartbeats that may be lost, on a busy bus, before the device makes its outputs safe."""


class Heartbeat:
    """Feeds one unit's watchdog with a number that is another each time, and asks whether it works."""

    def __init__(self, unit: int, options: HeartbeatOptions, line: RegisterLine, *, multiple: bool = False) -> None:
        self.every_s = options.every_s
        self._unit = unit
        self._options = options
        self._line = line
        self._multiple = multiple
        self._count = 0

    def beat(self, deadline: Deadline) -> None:
        self._count = self._count % 0xFFFF + 1
        self._line.write_registers(self._unit, self._options.at, (self._count,), deadline, multiple=self._multiple)

    def check(self, deadline: Deadline) -> None:
        """Raise `DeviceFault` unless the device keeps what was written last, and its watchdog's time is sane."""
        o, where = self._options, f"unit {self._unit}: heartbeat register {self._options.at}"
        (held,) = self._line.read_registers(self._unit, "holding", o.at, 1, deadline)
        if held != self._count:
            raise DeviceFault(f"{where} holds {held}, {self._count} was written: nothing would notice if we died")
        if o.timeout_at is None:
            return
        (raw,) = self._line.read_registers(self._unit, "holding", o.timeout_at, 1, deadline)
        timeout_s, where = raw * o.timeout_scale_s, f"unit {self._unit}: watchdog register {o.timeout_at}"
        if raw == 0:
            raise DeviceFault(f"{where} holds 0: its watchdog is off; set it to at least {MISSED * o.every_s:g} s")
        least_s = MISSED * o.every_s
        if not least_s <= timeout_s <= o.timeout_most_s:
            allowed = f"must be {least_s:g} s ({MISSED} heartbeats) to {o.timeout_most_s:g} s"
            raise DeviceFault(f"{where} holds {raw}, {timeout_s:g} s; {allowed}")


def heartbeat_of(options: ModbusOptions, line: RegisterLine) -> Heartbeat | None:
    """Return what feeds the watchdog of this device's unit; None where it has none, or another device feeds it."""
    if options.heartbeat is None:
        return None
    return Heartbeat(options.address, options.heartbeat, line, multiple=options.write_multiple == "always")


def watchdog_of(options: ModbusOptions) -> tuple[str, bool]:
    """Name the unit that makes its outputs safe as a whole, and tell whether this device feeds it."""
    return f"unit {options.address}", options.heartbeat is not None
