"""Modbus lines: TCP, RTU on a serial port, and RTU behind a serial device server.

`modbus_tcp://host:502`, `modbus_rtu://sim/mains?baud=9600&parity=N&stopbits=1&quiet=0.5&echo=auto` and
`rtu_tcp://host:4001?quiet=0.5&echo=auto`.

Reads are asked again a few times and counted, writes leave exactly once and must be confirmed as *this* write. After
any failure the line is not trusted: RTU stays silent for `quiet` wall seconds and drops what came, TCP connects anew
before it asks again. An answer over TCP carries the number of its question, so a command that must leave at once
need not wait for a new connection.

Some RS-485 adapters echo locally: what is sent comes back before the answer, or instead of one if the cable is cut. To
functions 05 and 06 a sound answer is the request once more, so an echo looks like success. Whether a line echoes is
learnt from what can be told apart: the answer to any other request never begins with the request.

Registers that several devices of one unit share are read in one request when all are asked at about the same time. No
value is ever an old one: what was read is handed on for `FRESH_S` after it arrived, to each device at most once, and
not at all once anything was written or the line closed. Whoever asks again, or later, causes a new request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NoReturn, TypeVar

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault, DeviceTimeout, GarbledReply
from rigctl.flaws import got
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import PEEK_S, BitKind, Block, Deadline, RegisterKind, RegisterLine
from rigctl_drivers import modbus_frames as frames
from rigctl_drivers.byte_line import DEFAULT_QUIET_S, serial_opener, socket_opener
from rigctl_drivers.modbus_frames import Answer, Framing, ModbusRequest
from rigctl_drivers.modbus_protocol import fault_of
from rigctl_drivers.urls import SERIAL_FRAME, Convert, LineUrl, one_of, positive
from rigctl_drivers.wire import NOW, OpenPort, Wire, WiredLine


class Echo:
    """Whether a line echoes, as far as is known."""

    def __init__(self, declared: bool | None) -> None:
        self._declared = declared
        self.known = declared
        """None: nothing has come yet that could tell."""

    def forget(self) -> None:
        """Forget what is known, as the port was opened: another adapter may be there."""
        self.known = self._declared

    def rest(self, sent: bytes, received: bytes, *, ambiguous: bool) -> bytes:
        """Return what of `received` is not the echo of `sent`; empty as long as there may be nothing else.

        From an `ambiguous` request, whose answer may be the request once more, nothing can be learnt.

        Raises:
            GarbledReply: the line echoes, but this is not what was sent.
        """
        if self.known is False or (self.known is None and ambiguous):
            return received
        if received.startswith(sent):
            self.known = True
            return received[len(sent) :]
        if sent.startswith(received):
            return b""
        if self.known:
            raise GarbledReply(
                f"the echo of what was sent came back as {received[:40].hex(' ')}: do two speak at once?"
            )
        return received

    def answered(self, *, ambiguous: bool) -> None:
        """Learn from a sound answer: had an echo come before it, this were known."""
        if self.known is None and not ambiguous:
            self.known = False


SILENT_TRIES = 2
"""How often a read is asked when nothing comes back."""
READ_TRIES = 3
"""How often a read is asked in all (garbled answers, silence)."""
BUSY_TRIES = 6
FIRST_BUSY_PAUSE_S = 0.1
"""Rig seconds; doubles with every busy answer."""
ANSWER_S = 0.2
"""The least time a unit gets to begin its answer, wall seconds."""
ECHO_S = 1.0
"""The most time for finding out whether the line echoes, wall seconds; a third of what there is if that is less."""
MOST_BYTES = 1024
"""Far beyond the longest frame (260 bytes, TCP) and its echo."""
HALF_OPEN = 2
"""Questions in a row without an answer after which a TCP connection is left even if a command must leave at once."""

Value = TypeVar("Value")


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


class Exchanger:
    """Asks over one wire."""

    def __init__(self, clock: Clock, wire: Wire, framing: Framing, timing: Timing, echo: Echo) -> None:
        self.timing = timing
        self.repeated = 0
        """How many reads had to be asked again."""
        self._clock = clock
        self._wire = wire
        self._framing = framing
        self._echo = echo
        self._unanswered = 0
        """Questions in a row that were asked over this connection and not answered."""
        self._stale = False
        """Whether an answer may still come over this connection."""

    def open(self) -> None:
        self._unanswered, self._stale = 0, False
        self._echo.forget()
        self._wire.open()

    def is_up(self) -> bool:
        """As `RegisterLine` says; drops what has arrived unasked."""
        self._wire.settle(NOW)
        return self._wire.is_open

    def press_on(self) -> None:
        """Waive, for writes, the silence owed by now; a read still waits for its end, as a late answer could be its.

        RTU keeps 3.5 characters of silence. TCP keeps its connection, unless two questions in a row had no answer.
        """
        self._wire.press_on()
        self._stale = self._unanswered >= HALF_OPEN

    def read(
        self, request: ModbusRequest, values: Callable[[Answer], Sequence[Value]], count: int, deadline: Deadline
    ) -> Sequence[Value]:
        """Ask, and ask again: after garbled answers or silence while time lasts, after `busy` with growing pauses.

        The error of a read that was repeated says so, and nobody else repeats it.
        """
        least_s = ANSWER_S + (request.answer_bytes + 8) * self.timing.per_byte_s
        quiet_s = self.timing.quiet_s
        tries, silent, busy = 0, 0, 0
        first_s = time.monotonic()
        while True:
            asked_s = time.monotonic()
            tries_left = 1 if tries + 1 >= READ_TRIES else SILENT_TRIES - silent
            try:
                found = values(self.ask(request, self._share(deadline, tries_left, least_s)))
                self.check(request, len(found) == count, f"asked for {count} values, got {len(found)}")
            except GarbledReply as problem:
                tries += 1
                problem.repeated = tries + busy > 1
                # without time for the silence and another try, what is wrong is worth more than a timeout
                if tries >= READ_TRIES or deadline.remaining_s < quiet_s + least_s:
                    raise
            except DeviceBusy as problem:
                busy += 1
                problem.repeated = tries + busy > 1
                if busy >= BUSY_TRIES or deadline.remaining_s < least_s:
                    raise
                self._rest(FIRST_BUSY_PAUSE_S * 2.0 ** (busy - 1), deadline)
            except DeviceTimeout:
                tries, silent = tries + 1, silent + 1
                if silent >= SILENT_TRIES or deadline.remaining_s < quiet_s + least_s:
                    raise
            else:
                if silent and quiet_s:
                    # This may be the answer to the first try: that to the last comes as much later as it was asked,
                    # after a silence. A command's answer is another, so it need not wait.
                    self._wire.silence.distrust(asked_s + quiet_s - first_s + quiet_s)
                    self._wire.press_on()
                return found
            self.repeated += 1

    def ask(self, request: ModbusRequest, deadline: Deadline) -> Answer:
        """Ask one question, sent once, and return its answer; raises what `RegisterLine` says."""
        if request.is_its_own_answer and self._echo.known is None:
            self._listen_for_echo(request, deadline)
        self._wire.settle(deadline, command=request.writes)
        deadline.check(str(request))
        if self._stale and not self.timing.quiet_s:
            self._wire.close()
        if not self._wire.is_open:
            self._unanswered, self._stale = 0, False
            self._wire.ensure_open(deadline)
        answer = self._answer(request, deadline)
        if self._unanswered and not (self.timing.quiet_s or answer.transaction_id):  # some servers leave it at 0
            self._refuse(f"{request}: got an answer without number, it may be that to an earlier question")
        self._unanswered, self._stale = 0, False
        self._wire.silence.space(self.timing.silence_s)
        if answer.function_code & 0x7F != request.function:
            self._refuse(f"{request}: got the answer to function {answer.function_code:02X}")
        if answer.isError():
            raise fault_of(answer.exception_code, str(request), self._wire.url, writes=request.writes)
        return answer

    def check(self, request: ModbusRequest, holds: bool, problem: str) -> None:
        """Raise `GarbledReply` unless the answer is one to this request, and trust the line no more."""
        if not holds:
            self._refuse(f"{request}: {problem}")

    def _listen_for_echo(self, request: ModbusRequest, deadline: Deadline) -> None:
        """Ask what is to be written, to learn whether the line echoes; no answer is no reason not to write."""
        try:
            self.ask(request.question(), deadline.within(min(ECHO_S, deadline.remaining_s / 3)))
        except (DeviceFault, DeviceBusy):  # an answer too
            return
        except (DeviceTimeout, GarbledReply):  # a late answer is that of another function, and no confirmation
            self.press_on()

    def _answer(self, request: ModbusRequest, deadline: Deadline) -> Answer:
        received = bytearray()
        try:
            sent = self._framing.pack(request)
            self._wire.write(sent, deadline)
            return self._receive(request, sent, received, deadline)
        except GarbledReply as problem:
            sender = self._framing.sender(bytes(received))
            hint = ""
            if sender not in (None, request.unit):
                hint = f"; it seems to be from unit {sender}: is `address` right, does each unit have its own?"
            self._refuse(f"{request}: {problem}{hint}", problem)
        except DeviceTimeout as problem:
            self._unanswered, self._stale = self._unanswered + 1, True
            self._wire.silence.distrust(self.timing.quiet_s)
            raise DeviceTimeout(f"{request}: {problem.what}", bus=self._wire.url) from problem

    def _receive(self, request: ModbusRequest, sent: bytes, received: bytearray, deadline: Deadline) -> Answer:
        taken, ambiguous = 0, request.is_its_own_answer
        while True:
            until = deadline
            if taken and self.timing.break_s is not None:
                until = until.within(self.timing.break_s)
            data = self._wire.read_some(until)
            received += data
            if not data:
                raise _nothing_more(bytes(received), taken)
            if len(received) > MOST_BYTES:
                raise GarbledReply(
                    got(len(received), f"must be at most {MOST_BYTES}", "who speaks there?", lead=" bytes")
                )
            rest = self._echo.rest(sent, bytes(received), ambiguous=ambiguous)
            answer = self._framing.unpack(rest[taken:])
            taken = len(rest)
            if answer is not None and ambiguous and self._echo.known is None:
                raise DeviceTimeout("it came back as it was sent, which may be the echo of an adapter; see `echo`")
            if answer is not None:
                self._echo.answered(ambiguous=ambiguous)
                return answer

    def _refuse(self, message: str, cause: Exception | None = None) -> NoReturn:
        """Take what came for no answer: RTU waits before it speaks again, TCP drops all that is under way."""
        if self.timing.quiet_s:
            self._wire.silence.distrust(self.timing.quiet_s)
        else:
            self._wire.close()
        raise GarbledReply(message, bus=self._wire.url) from cause

    def _share(self, deadline: Deadline, tries_left: int, least_s: float) -> Deadline:
        """Return how long one try may take so that another fits in, if that leaves each the time it needs."""
        if tries_left <= 1:
            return deadline
        each_s = (deadline.remaining_s - self.timing.quiet_s * (tries_left - 1)) / tries_left
        return deadline.within(each_s) if each_s >= least_s else deadline

    def _rest(self, seconds: float, deadline: Deadline) -> None:
        """Let rig time pass, unless the deadline comes nearer meanwhile."""
        while seconds > 0 and deadline.remaining_s > 0:
            step_s = min(seconds, PEEK_S * self._clock.speedup)
            self._clock.sleep(step_s)
            seconds -= step_s


def _nothing_more(received: bytes, taken: int) -> DeviceError:
    """Say that nothing more comes: of what came, `taken` bytes were not the echo."""
    if taken:
        return GarbledReply(f"got no valid answer but bytes {received[:40].hex(' ')}")
    if received:
        return DeviceTimeout("only what was sent came back, the adapter's echo; check wiring, power and unit address")
    return DeviceTimeout("no answer in time; check power, wiring, unit address and baud rate")


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


class ModbusLine(WiredLine, RegisterLine):
    """A Modbus line over one wire."""

    def __init__(self, clock: Clock, wire: Wire, exchanger: Exchanger) -> None:
        super().__init__(clock, wire)
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

    def close(self) -> None:
        self._blocks.clear()
        self._wire.close()

    def resync(self) -> None:
        self._wire.settle()

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

    def write_coils(
        self, unit: int, address: int, values: Sequence[bool], deadline: Deadline, *, multiple: bool = False
    ) -> None:
        self._write(frames.writing_coils(unit, address, values, multiple=multiple), address, values, deadline)

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
        self._exchanger.check(request, got == sent, f"sent {sent} but {got} was confirmed; only a read-back can tell")
