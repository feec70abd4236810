"""Modbus lines: TCP, RTU on a serial port, and RTU behind a serial device server.

`modbus_tcp://host:502`, `modbus_rtu://sim/mains?baud=9600&parity=N&stopbits=1&quiet=0.5&echo=auto` and
`rtu_tcp://host:4001?quiet=0.5&echo=auto`.

`modbus_exchange` says what is repeated (reads), what never is (writes), and when the line is trusted again; here are
the functions, and that a confirmation must be the one of *this* write.

Registers that several devices of one unit share are read in one request when all are asked at about the same time. No
value is ever an old one: what was read is handed on for `FRESH_S` after it arrived, to each device at most once, and
not at all once anything was written or the line closed. Whoever asks again, or later, causes a new request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rigctl.rig.protocols import BitKind, Block, Clock, Deadline, RegisterKind, RegisterLine
from rigctl_drivers import modbus_frames as frames
from rigctl_drivers.byte_line import DEFAULT_QUIET_S, serial_opener, socket_opener
from rigctl_drivers.modbus_exchange import Echo, Exchanger, Timing
from rigctl_drivers.urls import SERIAL_FRAME, Convert, LineUrl, one_of, positive
from rigctl_drivers.wire import OpenPort, Wire

FRESH_S = 0.1
"""Rig seconds: far below any sampling period."""


@dataclass(slots=True)
class _Held:
    """A block that has just been read, when, and to which devices it was given."""

    words: Sequence[int]
    arrived_s: float
    given: set[int] = field(default_factory=set)


MODBUS_PORT = 502
RTU_BREAK_S = 0.1
"""An RTU answer that pauses this long has ended: far above 1.5 characters, which no USB adapter keeps."""
RTU_TCP_BREAK_S = 0.5
"""The same behind a network, which may have to send a piece of it again."""
RTU: Mapping[str, Convert] = MappingProxyType(
    {"quiet": positive, "echo": one_of({"AUTO": None, "YES": True, "NO": False})}
)


def open_tcp(url: str, clock: Clock) -> ModbusLine:
    where = LineUrl.parse(url, {})
    return _line(where, clock, socket_opener(where, MODBUS_PORT), Timing(0.0, 0.0, 0.0, None), rtu=False)


def open_rtu(url: str, clock: Clock) -> ModbusLine:
    where = LineUrl.parse(url, {**SERIAL_FRAME, **RTU})
    per_byte_s = 11.0 / where.options.get("baud", 9600)
    # 3.5 characters, but never below 1.75 ms: MODBUS over Serial Line V1.02, section 2.5.1.1.
    silence_s = max(3.5 * per_byte_s, 0.00175)
    timing = Timing(where.options.get("quiet", DEFAULT_QUIET_S), silence_s, per_byte_s, RTU_BREAK_S)
    return _line(where, clock, serial_opener(where), timing, rtu=True)


def open_rtu_tcp(url: str, clock: Clock) -> ModbusLine:
    where = LineUrl.parse(url, RTU)
    timing = Timing(where.options.get("quiet", DEFAULT_QUIET_S), 0.0, 0.0, RTU_TCP_BREAK_S)
    return _line(where, clock, socket_opener(where, MODBUS_PORT), timing, rtu=True)


def _line(where: LineUrl, clock: Clock, open_port: OpenPort, timing: Timing, *, rtu: bool) -> ModbusLine:
    wire = Wire(where.text, open_port, reopens=not rtu)  # a server at an address is no other in the same second
    echo = Echo(where.options.get("echo") if rtu else False)
    return ModbusLine(clock, wire, Exchanger(clock, wire, frames.Framing(rtu=rtu), timing, echo))


class ModbusLine(RegisterLine):
    """A Modbus line over one wire."""

    def __init__(self, clock: Clock, wire: Wire, exchanger: Exchanger) -> None:
        self.url = wire.url
        self.clock = clock
        self._wire = wire
        self._exchanger = exchanger
        self._blocks: dict[Block, _Held] = {}

    @property
    def read_retries(self) -> int:  # type: ignore[override]
        return self._exchanger.repeated

    def open(self) -> None:
        self._exchanger.open()

    def press_on(self) -> None:
        self._exchanger.press_on()

    def is_up(self) -> bool:
        return self._exchanger.is_up()

    def is_lost(self) -> bool:
        return self._wire.is_lost()

    def stay(self) -> None:
        self._wire.stay()

    def close(self) -> None:
        self._blocks.clear()
        self._wire.close()

    def resync(self) -> None:
        self._wire.settle()

    def settle(self, deadline: Deadline, *, command: bool = False) -> bool:
        self._wire.settle(deadline, command=command)
        return not self._wire.is_open or self._wire.silence.is_over(command=command)

    def quiet_for_s(self, *, pressed_on: bool) -> float:  # noqa: ARG002 - a question waits all the same
        return self._exchanger.timing.quiet_s

    def exchange_s(self, sent_bytes: int, answer_bytes: int) -> float:
        timing = self._exchanger.timing
        return (sent_bytes + answer_bytes) * timing.per_byte_s + 2 * timing.silence_s

    def read_registers(
        self, unit: int, kind: RegisterKind, address: int, count: int, deadline: Deadline
    ) -> Sequence[int]:
        request = frames.reading(unit, kind, address, count)
        return self._exchanger.read(request, lambda answer: answer.registers, count, deadline)

    def read_block(self, block: Block, asker: object, deadline: Deadline) -> tuple[Sequence[int], float]:
        held = self._blocks.pop(block, None)
        if held is None or id(asker) in held.given or self.clock.now_s() - held.arrived_s > FRESH_S:
            held = _Held(self.read_registers(*block, deadline), self.clock.now_s())
        held.given.add(id(asker))
        self._blocks[block] = held
        return held.words, held.arrived_s

    def read_bits(self, unit: int, kind: BitKind, address: int, count: int, deadline: Deadline) -> Sequence[bool]:
        request = frames.reading(unit, kind, address, count)
        padding = -count % 8  # whole bytes come; more or fewer of them answer another question
        found = self._exchanger.read(request, lambda answer: answer.bits, count + padding, deadline)
        return found[:count]

    def write_registers(
        self, unit: int, address: int, values: Sequence[int], deadline: Deadline, *, multiple: bool = False
    ) -> None:
        self._write(frames.writing_registers(unit, address, values, multiple=multiple), address, values, deadline)

    def write_coil(self, unit: int, address: int, value: bool, deadline: Deadline) -> None:
        self._write(frames.writing_coils(unit, address, [value], multiple=False), address, [value], deadline)

    def write_coils(self, unit: int, address: int, values: Sequence[bool], deadline: Deadline) -> None:
        self._write(frames.writing_coils(unit, address, values, multiple=True), address, values, deadline)

    def vendor(self, unit: int, deadline: Deadline) -> str:
        return frames.vendor_of(self._exchanger.ask(frames.asking_vendor(unit), deadline))

    def _write(self, request: frames.ModbusRequest, address: int, values: Sequence[int], deadline: Deadline) -> None:
        """Send once; `GarbledReply` if the answer confirms something else than what was sent: an older write's echo."""
        self._blocks.clear()
        answer = self._exchanger.ask(request, deadline)
        if request.is_its_own_answer:
            sent, got = [address, values[0]], [answer.address, *answer.registers, *answer.bits[:1]]
        else:
            sent, got = [address, len(values)], [answer.address, answer.count]
        problem = f"sent {sent} but {got} was confirmed; only a read-back can tell"
        self._exchanger.check(request, got == sent, problem)
