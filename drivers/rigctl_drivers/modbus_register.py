"""One quantity behind Modbus registers or coils: a sensor, an actuator, both, or a counter.

What the options hold decides what the device can do: `read` makes a sensor, `write` and/or `enable` an actuator,
`read` with `counter: true` a meter.

A setpoint is in its registers before it is put in force. Each frame leaves once; where the answer to the setpoint is
lost, or the connection is after it, for a unit that restarts holds another setpoint, the register is asked whether it
holds what was sent, and the enable follows only if it does.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.flaws import got
from rigctl.rig.protocols import (
    Actuator,
    ActuatorState,
    Deadline,
    Device,
    Driver,
    Identity,
    Meter,
    Pace,
    Reading,
    RegisterLine,
    Sensor,
)
from rigctl_drivers.modbus_options import EnableOptions, HeartbeatOptions, ModbusOptions, ReadOptions, WriteOptions
from rigctl_drivers.modbus_protocol import NOT_THIS_WAY, Refused, says_simulated
from rigctl_drivers.registers import decode, width
from rigctl_drivers.searching import search_modbus

MISSED = 3
"""Heartbeats that may be lost, on a busy bus, before the device makes its outputs safe."""


class Heartbeat:
    """Feeds one unit's watchdog with a number that is another each time, and asks whether it works."""

    def __init__(self, unit: int, options: HeartbeatOptions, line: RegisterLine, *, multiple: bool = False) -> None:
        self.every_s = options.every_s
        self.key: tuple[str, ...] = ("heartbeat", "every_s")
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


class Unit(Device):
    """One quantity of one unit, over a line; a sensor if it has something to read."""

    def __init__(self, options: ModbusOptions, line: RegisterLine) -> None:
        self.unit = options.unit
        self.options = options
        self.line = line
        self.anonymous = options.identity is None
        if options.heartbeat is not None:  # else the unit has no watchdog, or another device feeds it
            multiple = options.write_multiple == "always"
            self.heart = Heartbeat(options.address, options.heartbeat, line, multiple=multiple)

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


RTU_LATENCY_S = 0.05
LATENCY_S = 0.1
"""How long a unit is taken to think if nothing is said of it: on RTU, and behind a network. Wall seconds."""
MOST_COILS, MOST_REGISTERS = 1968, 123
"""What one frame can write."""


@dataclass(frozen=True, slots=True)
class Write:
    """What one frame writes."""

    table: Literal["coil", "holding"]
    at: int
    words: tuple[int, ...]
    """From `at` on; of coils 0 or 1."""


class Drive(Unit, Actuator):
    """An actuator: imposes, releases and makes safe."""

    def __init__(self, options: ModbusOptions, line: RegisterLine) -> None:
        super().__init__(options, line)
        self.together = options.write_multiple != "never"
        """Whether it is worth asking the unit to write several at once."""
        self._always = options.write_multiple == "always"

    def apply(self, value: float, deadline: Deadline) -> None:
        self._carry_out(self._imposing(value), deadline)

    def release(self, deadline: Deadline) -> None:
        self._carry_out(self._releasing(), deadline)

    def safe(self, deadline: Deadline) -> None:
        self._carry_out(self.safe_writes(), deadline)

    def pace(self) -> Pace:
        o = self.options
        command_s = sum(_write_s(self, write) for write in self.safe_writes())
        count = 0 if o.write is None else width(o.write.type)
        answers = [5 + 2 * count] * (o.write is not None)
        answers += [] if o.enable is None else [6 if o.enable.at is None else 7]
        return Pace(command_s, sum(_exchange_s(self, 8, answer_bytes) for answer_bytes in answers))

    def safe_all_s(self, group: Sequence[Actuator]) -> float:
        return sum(_write_s(self, write) for write in _merged(_writes_of(group)))

    def safe_group(self) -> Hashable | None:
        """Group actuators of one unit that are made safe by one write each, into the same table; None: goes alone."""
        writes = self.safe_writes()
        if not self.together or len(writes) != 1:
            return None
        return ("modbus", self.line.url, self.options.address, writes[0].table)

    def safe_all(self, group: Sequence[Actuator], deadline: Deadline) -> None:
        """Make all of the group safe: neighbouring addresses in one frame, none that is not theirs.

        An answer that fails keeps no other frame from leaving; the first failure is raised when all have.

        Raises:
            DeviceFault: the unit refuses such frames; if it knows none of the kind, none is asked of it again.
        """
        failure: DeviceError | None = None
        frames = _merged(_writes_of(group))
        for left, write in zip(range(len(frames), 0, -1), frames, strict=True):
            try:
                self._send(write, deadline.within(deadline.remaining_s / left))
            except Refused as refusal:
                for drive in map(_drive_of, group):
                    drive.together = drive.together and refusal.code not in NOT_THIS_WAY
                raise
            except (DeviceTimeout, GarbledReply, DeviceBusy) as problem:
                failure = failure or problem
                self.line.press_on()
        if failure is not None:
            raise failure

    def _imposing(self, value: float) -> list[Write]:
        o = self.options
        if o.write is not None:
            return [self._setpoint(o.write, value), *_enabling(o.enable, on=True)]
        if value not in (0.0, 1.0):
            raise DeviceFault(f"got setpoint {value}, an on/off device takes 0 or 1; nothing was sent")
        return _enabling(o.enable, on=value == 1.0)

    def _releasing(self) -> list[Write]:
        o = self.options
        if o.write is not None and o.release_value is not None:
            return [self._setpoint(o.write, o.release_value)]
        return _enabling(o.enable, on=False)

    def safe_writes(self) -> list[Write]:
        value = self.options.safe_value
        return self._releasing() if value is None else self._imposing(value)

    def _setpoint(self, place: WriteOptions, value: float) -> Write:
        try:
            words = place.words(value)
        except ValueError as problem:
            where = f"setpoint {value} {self.options.unit}".rstrip()
            raise DeviceFault(f"{where} does not fit register {place.at}: {problem}; nothing was sent") from problem
        return Write("holding", place.at, words)

    def _carry_out(self, writes: Sequence[Write], deadline: Deadline) -> None:
        """Send one after the other; the next one only if the one before is known to have arrived."""
        *setpoint, last = writes
        for write in setpoint:
            try:
                self._send(write, deadline.within(deadline.remaining_s / 2))  # the rest is for what follows
            except (DeviceTimeout, GarbledReply) as lost:
                self._settle(write, lost, deadline)
            else:
                if not self.line.is_up():
                    what = "the connection was lost after the setpoint, which is not held any more; has it restarted?"
                    self._settle(write, DeviceTimeout(what), deadline)
        self._send(last, deadline)

    def _settle(self, write: Write, lost: DeviceError, deadline: Deadline) -> None:
        """Raise `lost` unless the registers hold what was sent; nothing is sent again."""
        try:
            held = self.holding(write.at, len(write.words), deadline)
        except DeviceError as problem:
            raise lost from problem
        if tuple(held) != write.words:
            raise lost

    def _send(self, write: Write, deadline: Deadline) -> None:
        line, unit = self.line, self.options.address
        if write.table == "holding":
            line.write_registers(unit, write.at, write.words, deadline, multiple=self._always)
        else:
            line.write_coils(unit, write.at, list(map(bool, write.words)), deadline, multiple=self._always)


def _drive_of(actuator: Actuator) -> Drive:
    if not isinstance(actuator, Drive):
        raise DeviceFault(f"{actuator} cannot be made safe together with Modbus actuators; nothing was sent")
    return actuator


def _merged(writes: Iterable[Write]) -> list[Write]:
    wanted = {(w.table, w.at + i): word for w in writes for i, word in enumerate(w.words)}
    frames: list[Write] = []
    for (table, at), word in sorted(wanted.items()):
        last = frames[-1] if frames else None
        most = MOST_COILS if table == "coil" else MOST_REGISTERS
        if last and last.table == table and last.at + len(last.words) == at and len(last.words) < most:
            frames[-1] = replace(last, words=(*last.words, word))
        else:
            frames.append(Write(table, at, (word,)))
    return frames


def _writes_of(group: Sequence[Actuator]) -> list[Write]:
    return [write for actuator in group for write in _drive_of(actuator).safe_writes()]


def _enabling(enable: EnableOptions | None, *, on: bool) -> list[Write]:
    if enable is None:
        return []
    if enable.at is not None:
        return [Write("holding", enable.at, (enable.on if on else enable.off,))]
    return [Write("coil", enable.coil or 0, (int(on),))]


def _write_s(unit: Unit, write: Write) -> float:
    count = len(write.words)
    if count == 1 and unit.options.write_multiple != "always":
        return _exchange_s(unit, 8, 8)
    return _exchange_s(unit, 9 + ((count + 7) // 8 if write.table == "coil" else 2 * count), 8)


def _exchange_s(unit: Unit, sent_bytes: int, answer_bytes: int) -> float:
    line, latency_s = unit.line, unit.options.latency_s
    if latency_s is None:
        latency_s = RTU_LATENCY_S if line.url.startswith("modbus_rtu:") else LATENCY_S
    return line.exchange_s(sent_bytes, answer_bytes) + latency_s


class ModbusRegisterDriver(Driver):
    """Driver of a quantity in registers or coils."""

    name = "modbus"
    summary = "a sensor, actuator or counter in Modbus registers or coils"
    schemes = ("modbus_tcp", "modbus_rtu", "rtu_tcp")
    options = ModbusOptions
    search_rank = 3
    search = staticmethod(search_modbus)

    @staticmethod
    def connect(options: ModbusOptions, line: RegisterLine) -> Device:
        if options.address == 0 and line.url.startswith(("modbus_rtu:", "rtu_tcp:")):
            everybody = "every unit on the line obeys it, and none answers"
            raise ValueError(got(0, f"must be 1 to 247: 0 is the broadcast, {everybody}", where="address"))
        if options.counter:
            return ModbusCounter(options, line)
        if options.read is None:
            return Drive(options, line)
        if options.write is None and options.enable is None:
            return ModbusSensor(options, line)
        return ModbusControlled(options, line)


class ModbusSensor(Unit, Sensor):
    """Reads the quantity."""


class ModbusCounter(Unit, Meter):
    """Counts what is consumed."""

    def __init__(self, options: ModbusOptions, line: RegisterLine) -> None:
        super().__init__(options, line)
        self.meter_unit = options.unit

    def total(self, deadline: Deadline) -> Reading:
        reading = self.read(deadline)
        if reading.valid and reading.value < 0:
            detail = f"a counter cannot read {reading.value}: check type and order"
            return Reading.invalid(reading.unit, reading.time_s, detail)
        return reading


class ModbusControlled(Drive, Sensor):
    """Imposes a setpoint and reads the quantity."""
