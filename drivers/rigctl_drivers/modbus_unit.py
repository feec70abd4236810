"""What is asked of one Modbus unit: who it is, the value, and what it holds of a setpoint."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rigctl.errors import DeviceFault, IdentityMismatch
from rigctl.rig.protocols import ActuatorState, Deadline, Device, Identity, Reading, RegisterLine
from rigctl_drivers.modbus_heartbeat import heartbeat_of
from rigctl_drivers.modbus_options import EnableOptions, ModbusOptions, ReadOptions, WriteOptions
from rigctl_drivers.modbus_protocol import says_simulated
from rigctl_drivers.registers import decode, width


class Unit(Device):
    """One quantity of one unit, over a line; a sensor if it has something to read."""

    def __init__(self, options: ModbusOptions, line: RegisterLine) -> None:
        self.unit = options.unit
        self.options = options
        self.line = line
        self.anonymous = options.identity is None
        self.heart = heartbeat_of(options, line)

    def identify(self, deadline: Deadline) -> Identity:
        o, line = self.options, self.line
        model = f"Modbus unit {o.address}"
        if o.identity is not None:
            (got,) = line.read_registers(o.address, o.identity.table, o.identity.at, 1, deadline)
            if got != o.identity.value:
                where = f"unit {o.address}: {o.identity.table} register {o.identity.at}"
                raise IdentityMismatch(f"{where} holds {got}, expected {o.identity.value}: another device answers")
            return Identity(f"{model}, identity {got}")
        if o.read is not None:
            self._raw(o.read, deadline)
        else:
            self.read_back(deadline)
        return Identity(model)

    def simulated(self, deadline: Deadline) -> bool:
        return says_simulated(self.line, self.options.address, deadline)

    def read(self, deadline: Deadline) -> Reading:
        place = self.options.read
        if place is None:  # connect() makes no sensor without it
            raise DeviceFault("nothing to read: `read` is not configured")
        raw, now_s = self._raw(place, deadline)
        problem = ""
        if not math.isfinite(raw):
            problem = f"the device reports {raw}"
        elif place.means_fault(raw):
            problem = f"the device reports error code {raw:g}"
        if problem:
            return Reading.invalid(self.unit, now_s, problem)
        if place.bit is not None:
            raw = float(int(raw) >> place.bit & 1)
        return Reading(place.value(raw), self.unit, now_s)

    def read_back(self, deadline: Deadline) -> ActuatorState:
        o = self.options
        on, words = self._held(deadline)
        if o.write is None:
            return ActuatorState(on, float(on))
        if not on:
            return ActuatorState(False, None)
        held = o.write.value(decode(words, o.write.type, o.write.order))
        if o.release_value is not None and _same(o.write, held, o.release_value):
            return ActuatorState(False, o.release_value)
        return ActuatorState(True, held if math.isfinite(held) else math.nan)  # no setpoint, and none that was sent

    def _held(self, deadline: Deadline) -> tuple[bool, Sequence[int]]:
        """Ask whether it is enabled, and if so for the setpoint's registers; one request where all are neighbours."""
        enable, write = self.options.enable, self.options.write
        count = 0 if write is None else width(write.type)
        if enable is not None and enable.at is not None and write is not None:
            first = min(enable.at, write.at)
            if first + count + 1 == max(enable.at + 1, write.at + count):
                words = self.holding(first, count + 1, deadline)
                at = write.at - first
                return self._in_force(enable, words[enable.at - first]), words[at : at + count]
        on = enable is None or self._enabled(enable, deadline)
        return on, self.holding(write.at, count, deadline) if write is not None and on else ()

    def _enabled(self, enable: EnableOptions, deadline: Deadline) -> bool:
        if enable.at is not None:
            return self._in_force(enable, self.holding(enable.at, 1, deadline)[0])
        return self.line.read_bits(self.options.address, "coil", enable.coil or 0, 1, deadline)[0]

    def _in_force(self, enable: EnableOptions, word: int) -> bool:
        if word not in (enable.on, enable.off):
            where = f"unit {self.options.address}: holding register {enable.at}"
            raise DeviceFault(f"{where} holds {word}, neither `on` ({enable.on}) nor `off` ({enable.off})")
        return word == enable.on

    def holding(self, at: int, count: int, deadline: Deadline) -> Sequence[int]:
        return self.line.read_registers(self.options.address, "holding", at, count, deadline)

    def _raw(self, place: ReadOptions, deadline: Deadline) -> tuple[float, float]:
        """Return the number as it stands there, and when it arrived, rig time."""
        unit, line, table = self.options.address, self.line, place.table
        if table == "coil" or table == "discrete":  # noqa: PLR1714 - mypy narrows this form only
            bit = line.read_bits(unit, table, place.at, 1, deadline)[0]
            return float(bit), line.clock.now_s()
        count = width(place.type)
        if place.block is not None:
            words, arrived_s = line.read_block((unit, table, place.block.at, place.block.count), self, deadline)
            first = place.at - place.block.at
            return decode(words[first : first + count], place.type, place.order), arrived_s
        words = line.read_registers(unit, table, place.at, count, deadline)
        return decode(words, place.type, place.order), line.clock.now_s()


def _same(place: WriteOptions, held: float, wanted: float) -> bool:
    return math.isclose(held, wanted, rel_tol=1e-6, abs_tol=max(place.resolution / 2, 1e-9))
