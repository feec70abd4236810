"""Lines and a clock for testing drivers without an instrument; part of the public interface, for third parties too."""

# ruff: noqa: ARG002 - these take what their protocol hands them, used or not, and are documented there

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from rigctl.errors import DeviceTimeout, GarbledReply
from rigctl.rig.clocks import Clock
from rigctl.rig.messages import Follow, Message, MessageLine
from rigctl.rig.protocols import AddressedLine, BitKind, ByteLine, Deadline, RegisterKind, RegisterLine

T = TypeVar("T")


@dataclass(slots=True)
class ManualClock(Clock):
    """Rig time that passes only when somebody sleeps."""

    speedup: float = 1.0
    time_s: float = 0.0

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += max(0.0, seconds)


class _Quiet:
    """What a line in memory has nothing to do for."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def resync(self) -> None: ...

    def press_on(self) -> None: ...

    def take_dropped(self) -> bytes:
        return b""

    def exchange_s(self, sent_bytes: int, answer_bytes: int) -> float:
        return 0.0


class _Registers(_Quiet, RegisterLine):
    """A register line made of `_read` and `_write`."""

    def read_registers(self, unit: int, kind: RegisterKind, address: int, count: int, deadline: Deadline) -> list[int]:
        return self._read(unit, kind, address, count, deadline)

    def read_bits(self, unit: int, kind: BitKind, address: int, count: int, deadline: Deadline) -> list[bool]:
        return list(map(bool, self._read(unit, kind, address, count, deadline)))

    def write_registers(
        self, unit: int, address: int, values: Sequence[int], deadline: Deadline, *, multiple: bool = False
    ) -> None:
        self._write(unit, "holding", address, values, deadline)

    def write_coil(self, unit: int, address: int, value: bool, deadline: Deadline) -> None:
        self._write(unit, "coil", address, [value], deadline)

    def write_coils(self, unit: int, address: int, values: Sequence[bool], deadline: Deadline) -> None:
        self._write(unit, "coil", address, values, deadline)

    def _read(self, unit: int, kind: str, address: int, count: int, deadline: Deadline) -> list[int]:
        raise NotImplementedError

    def _write(self, unit: int, kind: str, address: int, values: Sequence[int], deadline: Deadline) -> None:
        raise NotImplementedError


class SilentLine(_Registers, ByteLine, AddressedLine, MessageLine):
    """A line of every kind nobody answers on: every answer is waited for up to its deadline, in vain."""

    me = "test"

    def __init__(self, clock: Clock | None = None) -> None:
        self.url = "silent://nobody"
        self.clock: Clock = clock or ManualClock()
        self.asked: list[Deadline] = []
        """The deadline of each call that waits or sends."""

    def write(self, data: bytes, deadline: Deadline) -> None:
        self.asked.append(deadline)

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:
        self._wait(deadline)

    def read_bytes(self, count: int, deadline: Deadline, until: bytes = b"") -> bytes:
        return self.read_line(until, deadline)[:count] + until

    def transfer(self, address: int | str, sent: bytes, count: int, deadline: Deadline) -> bytes:
        self._wait(deadline)

    def follow(self, topic: str, what: Follow = "all") -> None: ...

    def publish(self, topic: str, payload: bytes, deadline: Deadline) -> None:
        self.asked.append(deadline)

    def arrivals(self, topic: str, since_s: float, deadline: Deadline, *, kept: bool = False) -> Sequence[Message]:
        self._wait(deadline)

    def _read(self, unit: int, kind: str, address: int, count: int, deadline: Deadline) -> list[int]:
        self._wait(deadline)

    def _write(self, unit: int, kind: str, address: int, values: Sequence[int], deadline: Deadline) -> None:
        self._wait(deadline)

    def _wait(self, deadline: Deadline) -> NoReturn:
        self.asked.append(deadline)
        time.sleep(deadline.remaining_s)
        raise DeviceTimeout("no answer, as always", bus=self.url)


class GarbageLine(SilentLine):
    """Everything that arrives is noise: lines of it, bytes of it from an address, a bad checksum on a register line."""

    NOISE = (b"", b"\x00\xff\xfe~", b"?", b"*", b"nonsense", b",,,", b"12.3.4", b"1e", b"*OK?", b"\x80\x80\x80")

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.url = "garbage://noise"
        self._next = 0

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:
        """Return one piece of noise; as it never ends, the deadline is what ends it."""
        deadline.check(self.url)
        self._next += 1
        return self.NOISE[self._next % len(self.NOISE)]

    def transfer(self, address: int | str, sent: bytes, count: int, deadline: Deadline) -> bytes:
        return (self.read_line(b"", deadline) * count)[:count]

    def arrivals(self, topic: str, since_s: float, deadline: Deadline, *, kept: bool = False) -> Sequence[Message]:
        return [Message(topic, self.read_line(b"", deadline), time.monotonic())]

    def _wait(self, deadline: Deadline) -> NoReturn:
        self.asked.append(deadline)
        raise GarbledReply("the checksum is wrong, as always", bus=self.url)


@dataclass(slots=True)
class ScriptedLine(_Quiet, ByteLine):
    """A byte line with an instrument made of a function: what was sent, without terminator, to the lines it answers."""

    answer: Callable[[str], Iterable[str]]
    terminator: bytes = b"\r"
    clock: Clock = field(default_factory=ManualClock)
    url: str = "scripted://instrument"
    sent: list[str] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)
    """Lines on their way, which silence drops; a test may add unsolicited ones."""

    def resync(self) -> None:
        self.pending.clear()

    press_on = resync

    def write(self, data: bytes, deadline: Deadline) -> None:
        deadline.check(self.url)
        for command in data.decode("ascii").split(self.terminator.decode("ascii"))[:-1]:
            self.sent.append(command)
            self.pending += [line.encode("ascii") for line in self.answer(command)]

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:
        if not self.pending:
            raise DeviceTimeout("no complete line in time", bus=self.url)
        return self.pending.pop(0)

    def read_bytes(self, count: int, deadline: Deadline, until: bytes = b"") -> bytes:
        line = self.read_line(until, deadline) + self.terminator
        data, rest = line[:count], line[count:].removesuffix(self.terminator)
        self.pending[:0] = [rest] if rest else []
        return data


@dataclass(slots=True)
class MemoryLine(_Registers):
    """A register line with Modbus units made of tables: (unit, kind, address) -> value; absent ones read as 0."""

    cells: dict[tuple[int, str, int], int] = field(default_factory=dict)
    clock: Clock = field(default_factory=ManualClock)
    url: str = "memory://registers"

    def _read(self, unit: int, kind: str, address: int, count: int, deadline: Deadline) -> list[int]:
        deadline.check(self.url)
        return [self.cells.get((unit, kind, address + i), 0) for i in range(count)]

    def _write(self, unit: int, kind: str, address: int, values: Sequence[int], deadline: Deadline) -> None:
        deadline.check(self.url)
        self.cells |= {(unit, kind, address + i): int(value) for i, value in enumerate(values)}


Sent = tuple[Any, ...]
"""`("write", data)`, `("write", address, data)`, `("publish", topic, payload)`, `("write_registers", unit, address,
values)` or `("write_coil", unit, address, value)`."""


class _Passing:
    """What goes on to another line unseen."""

    _inner: Any

    def open(self) -> None:
        self._inner.open()

    def close(self) -> None:
        self._inner.close()

    def press_on(self) -> None:
        self._inner.press_on()

    def exchange_s(self, sent_bytes: int, answer_bytes: int) -> float:
        seconds: float = self._inner.exchange_s(sent_bytes, answer_bytes)
        return seconds

    def take_dropped(self) -> bytes:
        dropped: bytes = self._inner.take_dropped()
        return dropped

    def follow(self, topic: str, what: Follow = "all") -> None:
        self._inner.follow(topic, what)


class RecordingLine(_Passing, ByteLine, RegisterLine, AddressedLine, MessageLine):
    """Passes everything on to another line, remembers what was sent, and loses replies when told to."""

    def __init__(self, inner: Any) -> None:
        self.url: str = inner.url
        self.clock: Clock = inner.clock
        self.me: str = getattr(inner, "me", "")
        self.sent: list[Sent] = []
        """Every write, in order; reads of registers are no writes."""
        self.traffic = 0
        """Calls of any kind."""
        self.lose_replies = False
        """What is sent arrives and is carried out, but the answer comes too late: behind what is asked next, unless the
        line is brought back into step."""
        self._late: list[bytes] = []
        self._inner = inner

    def write(self, data: bytes, deadline: Deadline) -> None:
        self._note("write", bytes(data))
        self._inner.write(data, deadline)

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:
        self.traffic += 1
        while self.lose_replies:
            self._late.append(self._inner.read_line(terminator, deadline))
        line: bytes = self._late.pop(0) if self._late else self._inner.read_line(terminator, deadline)
        return line

    def read_bytes(self, count: int, deadline: Deadline, until: bytes = b"") -> bytes:
        self.traffic += 1
        while self.lose_replies:
            self._late.append(self._inner.read_bytes(count, deadline, until))
        data: bytes = self._late.pop(0) if self._late else self._inner.read_bytes(count, deadline, until)
        return data

    def transfer(self, address: int | str, sent: bytes, count: int, deadline: Deadline) -> bytes:
        if sent:
            self.sent.append(("write", address, sent))
        self.traffic += 1
        answer: bytes = self._inner.transfer(address, sent, count, deadline)
        return self._answered(answer)

    def resync(self) -> None:
        self._late.clear()
        self._inner.resync()

    def publish(self, topic: str, payload: bytes, deadline: Deadline) -> None:
        self._note("publish", topic, payload)
        self._inner.publish(topic, payload, deadline)

    def arrivals(self, topic: str, since_s: float, deadline: Deadline, *, kept: bool = False) -> Sequence[Message]:
        self.traffic += 1
        messages: Sequence[Message] = self._inner.arrivals(topic, since_s, deadline, kept=kept)
        return self._answered(messages)

    def read_registers(self, unit: int, kind: RegisterKind, address: int, count: int, deadline: Deadline) -> list[int]:
        self.traffic += 1
        words: list[int] = self._inner.read_registers(unit, kind, address, count, deadline)
        return self._answered(words)

    def read_bits(self, unit: int, kind: BitKind, address: int, count: int, deadline: Deadline) -> list[bool]:
        self.traffic += 1
        bits: list[bool] = self._inner.read_bits(unit, kind, address, count, deadline)
        return self._answered(bits)

    def write_registers(
        self, unit: int, address: int, values: Sequence[int], deadline: Deadline, *, multiple: bool = False
    ) -> None:
        self._note("write_registers", unit, address, tuple(values))
        self._answered(self._inner.write_registers(unit, address, values, deadline, multiple=multiple))

    def write_coil(self, unit: int, address: int, value: bool, deadline: Deadline) -> None:
        self._note("write_coil", unit, address, value)
        self._answered(self._inner.write_coil(unit, address, value, deadline))

    def write_coils(self, unit: int, address: int, values: Sequence[bool], deadline: Deadline) -> None:
        self._note("write_coils", unit, address, tuple(values))
        self._answered(self._inner.write_coils(unit, address, values, deadline))

    def _note(self, *what: Any) -> None:
        self.traffic += 1
        self.sent.append(what)

    def _answered(self, answer: T) -> T:
        if self.lose_replies:
            raise DeviceTimeout("the reply was lost", bus=self.url)
        return answer
