"""Lines and a clock for testing drivers without an instrument; part of the public interface, for third parties too."""

# ruff: noqa: ARG002 - these take what their protocol hands them, used or not, and are documented there

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from rigctl.errors import DeviceTimeout, GarbledReply
from rigctl.rig.clocks import Clock
from rigctl.rig.messages import Follow, Message, MessageLine
from rigctl.rig.protocols import AddressedLine, BitKind, ByteLine, Deadline, RegisterKind, RegisterLine


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

    def write_coils(
        self, unit: int, address: int, values: Sequence[bool], deadline: Deadline, *, multiple: bool = False
    ) -> None:
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
values)` or `("write_coils", unit, address, values)`."""


def _hands_on(name: str) -> Any:
    """Make a method of another line's, unseen."""
    return lambda line, *args, **how: getattr(line.inner, name)(*args, **how)


def _asks(name: str) -> Any:
    """Make a method that asks something of another line, whose answer may be lost."""
    return lambda line, *args, **how: line.answered(name, args, how)


def _sends(name: str, *, is_answered: bool = True) -> Any:
    """Make a method that sends what stands before the deadline, which is remembered; some of them bring no answer."""

    def send(line: RecordingLine, *args: Any, **how: Any) -> None:
        sent = itertools.takewhile(lambda arg: not isinstance(arg, Deadline), args)
        line.sent.append((name, *(tuple(arg) if isinstance(arg, list) else arg for arg in sent)))
        line.answered(name, args, how, lost=is_answered and line.lose_replies)

    return send


class RecordingLine(ByteLine, RegisterLine, AddressedLine, MessageLine):
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
        self.inner = inner

    open, close, press_on = map(_hands_on, ("open", "close", "press_on"))
    exchange_s, take_dropped, follow = map(_hands_on, ("exchange_s", "take_dropped", "follow"))
    write, publish = (_sends(name, is_answered=False) for name in ("write", "publish"))
    write_registers, write_coils = map(_sends, ("write_registers", "write_coils"))
    read_registers, read_bits, arrivals = map(_asks, ("read_registers", "read_bits", "arrivals"))

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:
        return self._next(lambda: self.inner.read_line(terminator, deadline))

    def read_bytes(self, count: int, deadline: Deadline, until: bytes = b"") -> bytes:
        return self._next(lambda: self.inner.read_bytes(count, deadline, until))

    def transfer(self, address: int | str, sent: bytes, count: int, deadline: Deadline) -> Any:
        if sent:
            self.sent.append(("write", address, sent))
        return self.answered("transfer", (address, sent, count, deadline), {})

    def resync(self) -> None:
        self._late.clear()
        self.inner.resync()

    def _next(self, come: Callable[[], bytes]) -> bytes:
        self.traffic += 1
        while self.lose_replies:
            self._late.append(come())
        return self._late.pop(0) if self._late else come()

    def answered(self, name: str, args: Sequence[Any], how: Mapping[str, Any], *, lost: bool | None = None) -> Any:
        """Hand a call on, and lose its answer if that is asked for, or replies are lost now."""
        self.traffic += 1
        answer = getattr(self.inner, name)(*args, **how)
        if self.lose_replies if lost is None else lost:
            raise DeviceTimeout("the reply was lost", bus=self.url)
        return answer
