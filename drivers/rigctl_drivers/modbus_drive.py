"""How a Modbus actuator is driven: what is written in which order, alone or with its neighbours, and how long it takes.

A setpoint is in its registers before it is put in force. Each frame leaves once; where the answer to the setpoint is
lost, or the connection is after it, for a unit that restarts holds another setpoint, the register is asked whether it
holds what was sent, and the enable follows only if it does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault, DeviceTimeout, GarbledReply
from rigctl.rig.protocols import Actuator, Deadline, Pace, RegisterLine
from rigctl_drivers.modbus_options import EnableOptions, ModbusOptions, WriteOptions
from rigctl_drivers.modbus_protocol import NOT_THIS_WAY, Refused
from rigctl_drivers.modbus_unit import Unit
from rigctl_drivers.registers import width

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
        elif len(write.words) > 1 or self._always:
            line.write_coils(unit, write.at, [bool(word) for word in write.words], deadline)
        else:
            line.write_coil(unit, write.at, bool(write.words[0]), deadline)


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
