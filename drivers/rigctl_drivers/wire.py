"""Bytes over a file descriptor, with deadlines: what serial ports and sockets have in common (POSIX).

Waiting is done by `poll`, so nothing spins and no byte is waited for longer than asked. A wire that breaks is closed
and opened again when it is next used, after a pause that doubles up to `MAX_BACKOFF_S` until something is heard: a
gateway that accepts connections and drops them must not be asked for one after the other.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rigctl.errors import DeviceTimeout, PortUnavailable
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import PEEK_S, Deadline, Line

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 10.0
CHUNK = 4096
FLOOD = 1024 * 1024
"""Bytes that nobody has asked for; whoever sends more at a time is hung up on, for it would never end."""
PATIENCE_S = 3.0
"""How long opening may take where no deadline says so, wall seconds."""


class Opened(Protocol):
    """A serial port or socket that the system has opened, not blocking."""

    def fileno(self) -> int:
        """Its file descriptor."""

    def close(self) -> None:
        """Give it back."""


@runtime_checkable
class Port(Protocol):
    """What a wire needs of its port; none of it blocks but `ready`."""

    def ready(self, event: int, seconds: float) -> bool:
        """Wait so long, at most, until `POLLIN` or `POLLOUT` holds; infinite is for ever. Also ready: broken."""

    def read(self) -> bytes:
        """Return what has arrived, empty once the other end has closed; `OSError`, also `BlockingIOError`."""

    def write(self, data: memoryview) -> int:
        """Send what there is room for, and return how much; raises as `read`."""

    def close(self) -> None:
        """Give it back."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A `Port` of the system's."""

    opened: Opened

    def ready(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self.opened.fileno(), event)
        # Rounded up: poll counts whole milliseconds, and rounding down would spin through the last one.
        return bool(poll.poll(None if math.isinf(seconds) else int(seconds * 1000) + (seconds > 0)))

    def read(self) -> bytes:
        return os.read(self.opened.fileno(), CHUNK)

    def write(self, data: memoryview) -> int:
        return os.write(self.opened.fileno(), data)

    def close(self) -> None:
        self.opened.close()

    def hung_up(self) -> bool:
        """Tell whether the other end has gone; takes nothing that has arrived."""
        poll = select.poll()
        poll.register(self.opened.fileno(), select.POLLRDHUP)
        return bool(poll.poll(0))


NOW = Deadline(0.0)
"""Only what has arrived already."""
OpenPort = Callable[[float], Opened | Port]
"""Opens the port within so many wall seconds; raises `PortUnavailable`."""


class LineLost(DeviceTimeout):
    """The connection broke during an exchange: whether the other end acted is unknown."""


@dataclass(slots=True)
class BackOff:
    """When the next connection may be tried. Monotonic wall seconds."""

    failures: int = 0
    """Connections in a row that could not be had, or were lost before anything came over them."""
    not_before_s: float = 0.0

    @property
    def pause_s(self) -> float:
        """Return how long from now; negative when it is due."""
        return self.not_before_s - time.monotonic()

    def failed(self) -> None:
        self.not_before_s = time.monotonic() + min(FIRST_BACKOFF_S * 2.0**self.failures, MAX_BACKOFF_S)
        self.failures = min(self.failures + 1, 16)


@dataclass(slots=True)
class Silence:
    """How long nothing may be sent. Monotonic wall seconds."""

    owed_until_s: float = 0.0
    """A late answer may come until then."""
    waived_until_s: float = 0.0
    """Commands need not wait for what is owed up to here."""
    gap_until_s: float = 0.0
    """Between two frames; never waived."""

    def until_s(self, *, command: bool) -> float:
        waived = command and self.owed_until_s <= self.waived_until_s
        return max(self.gap_until_s, 0.0 if waived else self.owed_until_s)

    def is_over(self, *, command: bool) -> bool:
        return time.monotonic() >= self.until_s(command=command)

    def distrust(self, quiet_s: float) -> None:
        """Expect a late answer: `Wire.settle` will wait until `quiet_s` of wall time from now."""
        self.owed_until_s = max(self.owed_until_s, time.monotonic() + quiet_s)

    def space(self, gap_s: float) -> None:
        """Let the next frame begin no sooner than `gap_s` from now: one has ended."""
        self.gap_until_s = time.monotonic() + gap_s


class Wire:
    """One port, opened when needed; `reopens`: also within one exchange, where it can be nobody else who answers."""

    def __init__(self, url: str, open_port: OpenPort, *, reopens: bool = False) -> None:
        self.url = url
        self._reopens = reopens
        self._openings = self._known_on = 0
        """How often it was opened, and on which opening who is there has been recognised, or will be."""
        self._stays = False
        """Whether what is said now is meant for that one."""
        self._open_port = open_port
        self._port: Port | None = None
        self.silence = Silence()
        self._back_off = BackOff()
        self._heard = False
        """Whether anything has come over this connection."""

    @property
    def is_open(self) -> bool:
        return self._port is not None

    def is_lost(self) -> bool:
        """Tell whether it was or will be opened anew since last asked: whoever answers then may be another."""
        gone = self._port is None or (isinstance(self._port, Descriptor) and self._port.hung_up())
        lost = gone or self._openings > self._known_on
        self._known_on, self._stays = self._openings + gone, False
        return lost

    def stay(self) -> None:
        """Let what follows be meant for who is there now, until `is_lost` is asked."""
        self._stays = True

    def open(self) -> None:
        """Open or reopen now, back-off or not; raises `PortUnavailable`: missing, held by another, or refused."""
        self.close()
        self._try_open(PATIENCE_S)
        self._known_on, self._stays = self._openings, False

    def ensure_open(self, deadline: Deadline) -> None:
        """Open if closed, no sooner than the back-off allows; raises `PortUnavailable` also if that is too late."""
        if self._port is not None:
            return
        if self._stays and self._openings >= self._known_on and not self._reopens:
            raise LineLost("the connection was lost, and whoever is there next may be another", bus=self.url)
        pause_s = self._back_off.pause_s
        if pause_s > deadline.remaining_s:
            raise PortUnavailable(f"still unavailable; next try in {pause_s:.1f} s", bus=self.url)
        while pause_s > 0:
            deadline.check("waiting to connect again")
            time.sleep(min(pause_s, PEEK_S))
            pause_s = self._back_off.pause_s
        self._try_open(max(deadline.remaining_s, 0.001))

    def close(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            port.close()

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Send everything. Raises `DeviceTimeout`: the port did not take it all in time (`LineLost`: it broke)."""
        rest = memoryview(data)
        while rest:
            if not _ready(self._opened(), select.POLLOUT, deadline):
                taken = len(data) - len(rest)
                raise DeviceTimeout(f"only {taken} of {len(data)} bytes could be sent: the port blocks", bus=self.url)
            try:
                rest = rest[self._opened().write(rest) :]
            except BlockingIOError:  # poll promised more room than there is
                continue
            except OSError as problem:
                raise self._lost(problem) from problem

    def read_some(self, until: Deadline) -> bytes:
        """Return what has arrived, waiting for the first byte; empty once time is over. Raises `LineLost`."""
        while True:
            if not _ready(self._opened(), select.POLLIN, until):
                return b""
            try:
                data = self._opened().read()
            except BlockingIOError:  # somebody else's byte: nothing for us yet
                continue
            except OSError as problem:
                raise self._lost(problem) from problem
            if not data:
                raise self._lost(None)
            self._heard, self._back_off.failures = True, 0
            return data

    def press_on(self) -> None:
        """Waive, for commands, the silence owed by now and the pause before reconnecting; drop what has arrived."""
        self._received()
        self.silence.waived_until_s = self.silence.owed_until_s
        self._back_off.not_before_s = 0.0

    def settle(self, deadline: Deadline = Deadline(math.inf), *, command: bool = False) -> bytes:  # noqa: B008 - frozen
        """Stay silent while the wire is not trusted, or up to the deadline; returns what has arrived until then.

        A `command` may leave next in spite of a silence that was waived.
        """
        found = self._received()
        until = Deadline(min(self.silence.until_s(command=command), deadline.at_s), deadline.hurry)
        return found + self._received(until)

    def _received(self, until: Deadline = NOW) -> bytes:
        """Return what arrives; closes the wire, quietly, if the other end has gone meanwhile."""
        found = bytearray()
        with suppress(LineLost):  # nothing was under way: the next use opens it again
            while self._port is not None and (data := self.read_some(until)):
                found += data
                if len(found) > FLOOD:
                    self.close()
        return bytes(found)

    def _try_open(self, patience_s: float) -> None:
        try:
            opened = self._open_port(patience_s)
        except PortUnavailable:
            self._back_off.failed()
            raise
        self._port = opened if isinstance(opened, Port) else Descriptor(opened)
        self._heard = False
        self._openings += 1

    def _opened(self) -> Port:
        if self._port is None:
            raise LineLost("the connection is closed", bus=self.url)
        return self._port

    def _lost(self, problem: OSError | None) -> LineLost:
        self.close()
        if not self._heard:
            self._back_off.failed()
        why = "closed by the other end" if problem is None else (problem.strerror or str(problem))
        return LineLost(f"connection lost ({why}); whether the last request was carried out is unknown", bus=self.url)


class WiredLine(Line):
    """A line over one wire."""

    def __init__(self, clock: Clock, wire: Wire) -> None:
        self.url = wire.url
        self.clock = clock
        self._wire = wire

    def settle(self, deadline: Deadline, *, command: bool = False) -> bool:
        self._take(self._wire.settle(deadline, command=command))
        return not self._wire.is_open or self._wire.silence.is_over(command=command)

    def _take(self, dropped: bytes) -> None:
        """Do with what has arrived unasked what is to be done; most drop it."""

    def is_lost(self) -> bool:
        return self._wire.is_lost()

    def stay(self) -> None:
        self._wire.stay()


def _ready(port: Port, event: int, until: Deadline) -> bool:
    """Tell whether the port is ready in time; looks up now and then if the deadline may come nearer meanwhile."""
    slice_s = math.inf if until.hurry is None else PEEK_S
    while True:
        left_s = until.remaining_s
        if port.ready(event, min(left_s, slice_s)):
            return True
        if left_s <= slice_s:
            return False
