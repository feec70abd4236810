"""Modbus TCP and RTU lines on pymodbus, which only this module knows.

`modbus_tcp://host:502` and `modbus_rtu://sim/mains?baud=9600&parity=N&stopbits=1&quiet=0.5`.

pymodbus encodes, frames, checks and matches; sending, waiting and repeating are ours, because its own retries re-send
writes, and a late RTU answer would be taken for the next request's. So: reads are asked again a few times and counted,
writes leave exactly once, an echo must be the echo of *this* write, and after any failure the line is not trusted:
RTU stays silent for `quiet` wall seconds and drops what came, TCP connects anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pymodbus import FramerType, ModbusException
from pymodbus.client.base import ModbusBaseSyncClient
from pymodbus.pdu import ModbusPDU
from pymodbus.transport import CommParams

from rigctl.errors import DeviceBusy, DeviceTimeout, GarbledReply
from rigctl.rig.protocols import BitKind, Clock, Deadline, RegisterKind
from rigctl_drivers.byte_line import DEFAULT_QUIET_S, PATIENCE_S, serial_opener, socket_opener
from rigctl_drivers.modbus_faults import fault_of
from rigctl_drivers.urls import SERIAL_FRAME, LineUrl, positive
from rigctl_drivers.wire import Wire

MODBUS_PORT = 502
SILENT_TRIES = 2
"""How often a read is asked when nothing comes back."""
READ_TRIES = 3
"""How often a read is asked in all (garbled answers, silence)."""
BUSY_TRIES = 6
FIRST_BUSY_PAUSE_S = 0.1
"""Rig seconds; doubles with every busy answer."""
RTU_BREAK_S = 0.1
"""An RTU answer that pauses this long has ended: far above 1.5 characters, which no USB adapter keeps."""
ANSWER_S = 0.2
"""The least time a unit gets to begin its answer, wall seconds."""

Ask = Callable[[], ModbusPDU]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of whom."""

    unit: int
    function: int
    register: str
    """For messages."""
    answer_bytes: int = 8

    def __str__(self) -> str:
        return f"unit {self.unit}, function {self.function:02X}, {self.register}"


@dataclass(frozen=True, slots=True)
class Timing:
    """How a line's time runs, wall seconds."""

    quiet_s: float
    """Silence after a timeout; 0 where answers carry the number of their question."""
    silence_s: float
    """Between two frames."""
    per_byte_s: float
    break_s: float | None
    """A pause that ends an answer; None where there is no such thing."""


def open_tcp(url: str, clock: Clock) -> ModbusLine:
    """The Modbus TCP server at `url`, still closed.

    Raises:
        ValueError: the URL does not hold.
    """
    where = LineUrl.parse(url, {})
    wire = Wire(url, socket_opener(where, MODBUS_PORT), patience_s=PATIENCE_S)
    return ModbusLine(url, clock, wire, FramerType.SOCKET, Timing(0.0, 0.0, 0.0, None))


def open_rtu(url: str, clock: Clock) -> ModbusLine:
    """The Modbus RTU bus at `url`, still closed.

    Raises:
        ValueError: the URL does not hold.
    """
    where = LineUrl.parse(url, {**SERIAL_FRAME, "quiet": positive})
    per_byte_s = 11.0 / where.options.get("baud", 9600)
    # 3.5 characters, but never below 1.75 ms: MODBUS over Serial Line V1.02, section 2.5.1.1.
    silence_s = max(3.5 * per_byte_s, 0.00175)
    timing = Timing(where.options.get("quiet", DEFAULT_QUIET_S), silence_s, per_byte_s, RTU_BREAK_S)
    wire = Wire(url, serial_opener(where), patience_s=PATIENCE_S)
    return ModbusLine(url, clock, wire, FramerType.RTU, timing)


class WireClient(ModbusBaseSyncClient):
    """pymodbus' synchronous client, its bytes carried by a `Wire` under a deadline."""

    def __init__(self, wire: Wire, framer: FramerType, break_s: float | None) -> None:
        # The time limit is ours; pymodbus' own would only log and give up in its way.
        super().__init__(framer, 0, CommParams(timeout_connect=3600.0), None, None, None)
        logger = logging.getLogger("pymodbus")
        if not logger.handlers:  # else its remarks on bad frames land on the terminal; we raise errors instead
            logger.addHandler(logging.NullHandler())
        self._wire = wire
        self._break_s = break_s
        self.deadline = Deadline(0.0)
        self.received = bytearray()

    def connect(self) -> bool:
        """The line opens the wire before it asks."""
        return True

    def send(self, request: bytes, addr: tuple[str, int] | None = None) -> int:  # noqa: ARG002 - pymodbus' signature
        """Send one frame, once."""
        self.received.clear()
        self._wire.write(request, self.deadline)
        return len(request)

    def recv(self, size: int | None) -> bytes:  # noqa: ARG002 - pymodbus' signature
        """Some bytes of the answer.

        Raises:
            DeviceTimeout: nothing came in time.
            GarbledReply: what came is not an answer, or not all of one.
        """
        until = self.deadline
        if self.received and self._break_s is not None:
            until = until.within(self._break_s)
        data = self._wire.read_some(until)
        self.received += data
        if data:
            return data
        if self.received:
            raise GarbledReply(f"got no valid answer but bytes {self.received[:40].hex(' ')}")
        raise DeviceTimeout("no answer in time; check power, wiring, unit address and baud rate")


class ModbusLine:
    """A `RegisterLine`."""

    def __init__(self, url: str, clock: Clock, wire: Wire, framer: FramerType, timing: Timing) -> None:
        self.url = url
        self.clock = clock
        self.read_retries = 0
        """How many reads had to be asked again since this line was made."""
        self._wire = wire
        self._timing = timing
        self._client = WireClient(wire, framer, timing.break_s)
        self._unit_at = 0 if framer is FramerType.RTU else 6

    def open(self) -> None:
        """Open or reopen the port; raises `PortUnavailable`."""
        self._wire.open()

    def close(self) -> None:
        """Close the port; harmless when closed."""
        self._wire.close()

    def resync(self) -> None:
        """Stay silent until no late answer can come any more, then drop what has arrived."""
        self._wire.settle()

    def press_on(self) -> None:
        """Waive the silence that is owed, and drop what has arrived."""
        self._wire.press_on()

    def exchange_s(self, sent_bytes: int, answer_bytes: int) -> float:
        """Wall seconds of frames of this many bytes on the wire, with the silence between them."""
        return (sent_bytes + answer_bytes) * self._timing.per_byte_s + 2 * self._timing.silence_s

    def read_registers(
        self, unit: int, kind: RegisterKind, address: int, count: int, deadline: Deadline
    ) -> Sequence[int]:
        """`count` registers; see `RegisterLine` for the errors, `DeviceBusy` after several tries."""
        client = self._client
        function, ask = {
            "holding": (0x03, client.read_holding_registers),
            "input": (0x04, client.read_input_registers),
        }[kind]
        question = Question(unit, function, f"{kind} register {address}", 5 + 2 * count)
        return self._read(
            question,
            lambda: ask(address, count=count, device_id=unit),
            lambda answer: self._exactly(count, answer.registers, question),
            deadline,
        )

    def read_bits(self, unit: int, kind: BitKind, address: int, count: int, deadline: Deadline) -> Sequence[bool]:
        """`count` bits; errors as `read_registers`."""
        client = self._client
        function, ask = {"coil": (0x01, client.read_coils), "discrete": (0x02, client.read_discrete_inputs)}[kind]
        question = Question(unit, function, f"{kind} {address}", 6 + count // 8)
        return self._read(
            question,
            lambda: ask(address, count=count, device_id=unit),
            lambda answer: self._exactly(count, answer.bits[:count], question),
            deadline,
        )

    def write_registers(self, unit: int, address: int, values: Sequence[int], deadline: Deadline) -> None:
        """Write holding registers, sent exactly once; any error but `DeviceFault` leaves it unknown what happened."""
        client, words = self._client, list(values)
        if len(words) == 1:
            question = Question(unit, 0x06, f"holding register {address}")
            answer = self._exchange(
                question, lambda: client.write_register(address, words[0], device_id=unit), deadline
            )
            self._match_echo(question, (answer.address, *answer.registers), (address, words[0]))
        else:
            question = Question(unit, 0x10, f"holding registers {address} to {address + len(words) - 1}")
            answer = self._exchange(question, lambda: client.write_registers(address, words, device_id=unit), deadline)
            self._match_echo(question, (answer.address, answer.count), (address, len(words)))

    def write_coil(self, unit: int, address: int, value: bool, deadline: Deadline) -> None:
        """Write one coil, sent exactly once; errors as `write_registers`."""
        question = Question(unit, 0x05, f"coil {address}")
        answer = self._exchange(question, lambda: self._client.write_coil(address, value, device_id=unit), deadline)
        self._match_echo(question, (answer.address, *answer.bits[:1]), (address, value))

    def write_coils(self, unit: int, address: int, values: Sequence[bool], deadline: Deadline) -> None:
        """Write neighbouring coils in one frame, sent exactly once; errors as `write_registers`."""
        question, bits = Question(unit, 0x0F, f"coils {address} to {address + len(values) - 1}"), list(values)
        answer = self._exchange(question, lambda: self._client.write_coils(address, bits, device_id=unit), deadline)
        self._match_echo(question, (answer.address, answer.count), (address, len(bits)))

    def _read(
        self, question: Question, ask: Ask, values: Callable[[ModbusPDU], Sequence[Value]], deadline: Deadline
    ) -> Sequence[Value]:
        """Ask, and ask again: after garbled answers or silence while time lasts, after `busy` with growing pauses."""
        least_s = ANSWER_S + (question.answer_bytes + 8) * self._timing.per_byte_s
        tries, silent, busy = 0, 0, 0
        while True:
            tries_left = 1 if tries + 1 >= READ_TRIES else SILENT_TRIES - silent
            try:
                return values(self._exchange(question, ask, self._share(deadline, tries_left, least_s)))
            except GarbledReply:
                tries += 1
                # without time for the silence and another try, what is wrong is worth more than a timeout
                if tries >= READ_TRIES or deadline.remaining_s < self._timing.quiet_s + least_s:
                    raise
            except DeviceBusy:
                busy += 1
                if busy >= BUSY_TRIES or deadline.remaining_s < least_s:
                    raise
                self.clock.sleep(FIRST_BUSY_PAUSE_S * 2.0 ** (busy - 1))
            except DeviceTimeout:
                tries, silent = tries + 1, silent + 1
                if silent >= SILENT_TRIES or deadline.remaining_s < self._timing.quiet_s + least_s:
                    raise
            self.read_retries += 1

    def _share(self, deadline: Deadline, tries_left: int, least_s: float) -> Deadline:
        """How long one try may take so that another fits in, if that leaves each the time it needs."""
        if tries_left <= 1:
            return deadline
        each_s = (deadline.remaining_s - self._timing.quiet_s * (tries_left - 1)) / tries_left
        return deadline.within(each_s) if each_s >= least_s else deadline

    def _exchange(self, question: Question, ask: Ask, deadline: Deadline) -> ModbusPDU:
        """One question, sent once, and its answer."""
        what = f"{self.url}: {question}"
        self._wire.settle(deadline)
        deadline.check(what)
        self._wire.ensure_open(deadline)
        self._client.deadline = deadline
        try:
            answer = ask()
        except GarbledReply as problem:
            self._distrust()
            raise GarbledReply(f"{what}: {problem}{self._wrong_unit(question.unit)}") from problem
        except DeviceTimeout as problem:
            self._distrust()
            raise DeviceTimeout(f"{what}: {problem}") from problem
        except ModbusException as problem:
            self._distrust()
            raise GarbledReply(f"{what}: {problem}") from problem
        self._wire.distrust(self._timing.silence_s)
        if answer.function_code & 0x7F != question.function:
            self._distrust()
            raise GarbledReply(f"{what}: got the answer to function {answer.function_code:02X}")
        if answer.isError():
            raise fault_of(answer.exception_code, what)
        return answer

    def _wrong_unit(self, unit: int) -> str:
        """If the answer is another unit's, who that is."""
        got = bytes(self._client.received)
        if len(got) <= self._unit_at or got[self._unit_at] == unit:
            return ""
        return f"; it seems to be from unit {got[self._unit_at]}: is `address` right, does each unit have its own?"

    def _match_echo(self, question: Question, got: Sequence[int], sent: Sequence[int]) -> None:
        """Raise `GarbledReply` if the answer confirms something else than what was sent: an older write's late echo."""
        if tuple(got) != tuple(sent):
            self._distrust()
            raise GarbledReply(
                f"{self.url}: {question}: sent {list(sent)} but {list(got)} was confirmed; only a read-back can tell"
            )

    def _exactly(self, count: int, values: Sequence[Value], question: Question) -> Sequence[Value]:
        """Raise `GarbledReply` unless there are `count` values: the answer is to another question."""
        if len(values) != count:
            self._distrust()
            raise GarbledReply(f"{self.url}: {question}: asked for {count} values, got {len(values)}")
        return values

    def _distrust(self) -> None:
        """After a failure: RTU waits before it speaks again, TCP drops the connection with all that is under way."""
        if self._timing.quiet_s:
            self._wire.distrust(self._timing.quiet_s)
        else:
            self._wire.close()
