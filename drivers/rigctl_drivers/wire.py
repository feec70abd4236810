"""Bytes over a file descriptor, with deadlines: what serial ports and sockets have in common (POSIX).

Waiting is done by `poll`, so nothing spins and no byte is waited for longer than asked. A wire that breaks is closed
and opened again when it is next used, after a pause that doubles up to `MAX_BACKOFF_S`.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable
from typing import Protocol

from rigctl.errors import DeviceTimeout, PortUnavailable
from rigctl.rig.protocols import Deadline

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 10.0
CHUNK = 4096


class Port(Protocol):
    """An open serial port or socket, not blocking."""

    def fileno(self) -> int:
        """Its file descriptor."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


OpenPort = Callable[[float], Port]
"""Opens the port within so many wall seconds; raises `PortUnavailable`."""


class LineLost(DeviceTimeout):
    """The connection broke during an exchange: whether the other end acted is unknown."""


class Wire:
    """One port, opened when needed."""

    def __init__(self, where: str, open_port: OpenPort, *, patience_s: float) -> None:
        self.where = where
        """For messages: the line's URL."""
        self._open_port = open_port
        self._patience_s = patience_s
        """How long opening may take where no deadline says so, wall seconds."""
        self._port: Port | None = None
        self._failures = 0
        self._not_before_s = 0.0
        self._silent_until_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether there is a port to talk to."""
        return self._port is not None

    def open(self) -> None:
        """Open or reopen now, back-off or not.

        Raises:
            PortUnavailable: the port is missing, held by another process, or refuses.
        """
        self.close()
        self._try_open(self._patience_s)

    def ensure_open(self, deadline: Deadline) -> None:
        """Open if closed, no sooner than the back-off allows.

        Raises:
            PortUnavailable: it cannot be opened, or the next try is due after the deadline.
        """
        if self._port is not None:
            return
        pause_s = self._not_before_s - time.monotonic()
        if pause_s > deadline.remaining_s:
            raise PortUnavailable(f"{self.where}: still unavailable; next try in {pause_s:.1f} s")
        if pause_s > 0:
            time.sleep(pause_s)
        self._try_open(max(deadline.remaining_s, 0.001))

    def close(self) -> None:
        """Close; harmless when closed."""
        port, self._port = self._port, None
        if port is not None:
            port.close()

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Send everything.

        Raises:
            DeviceTimeout: the port did not take it all in time (`LineLost`: it broke).
        """
        rest = memoryview(data)
        while rest:
            if not self._ready(select.POLLOUT, deadline.remaining_s):
                taken = len(data) - len(rest)
                raise DeviceTimeout(f"{self.where}: only {taken} of {len(data)} bytes could be sent: the port blocks")
            try:
                rest = rest[os.write(self._fileno(), rest) :]
            except BlockingIOError:  # poll promised more room than there is
                continue
            except OSError as problem:
                raise self._lost(problem) from problem

    def read_some(self, until: Deadline) -> bytes:
        """What has arrived, waiting for the first byte; empty once the time is over.

        Raises:
            LineLost: the other end is gone.
        """
        while True:
            if not self._ready(select.POLLIN, until.remaining_s):
                return b""
            try:
                data = os.read(self._fileno(), CHUNK)
            except BlockingIOError:  # somebody else's byte: nothing for us yet
                continue
            except OSError as problem:
                raise self._lost(problem) from problem
            if not data:
                raise self._lost(None)
            return data

    def drain(self) -> bytes:
        """What has arrived already; closes the wire, quietly, if the other end has gone meanwhile."""
        found = bytearray()
        now = Deadline(0.0)
        try:
            while self._port is not None and (data := self.read_some(now)):
                found += data
        except LineLost:  # nothing was under way: the next use opens it again
            pass
        return bytes(found)

    def distrust(self, quiet_s: float) -> None:
        """An answer may still be on its way: `settle` will wait until `quiet_s` of wall time from now."""
        self._silent_until_s = max(self._silent_until_s, time.monotonic() + quiet_s)

    def press_on(self) -> None:
        """Waive the silence and drop what has arrived."""
        self._silent_until_s = 0.0
        self.drain()

    def settle(self, deadline: Deadline = Deadline(math.inf)) -> bytes:  # noqa: B008 - frozen
        """Stay silent while the wire is not trusted, or up to the deadline; returns what has arrived until then."""
        found = self.drain()
        until = Deadline(min(self._silent_until_s, deadline.at_s))
        try:
            while self._port is not None and (data := self.read_some(until)):
                found += data
        except LineLost:  # as in drain: nothing was under way
            pass
        return found

    def _try_open(self, patience_s: float) -> None:
        try:
            self._port = self._open_port(patience_s)
        except PortUnavailable:
            pause_s = min(FIRST_BACKOFF_S * 2.0**self._failures, MAX_BACKOFF_S)
            self._failures = min(self._failures + 1, 16)
            self._not_before_s = time.monotonic() + pause_s
            raise
        self._failures = 0

    def _ready(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._fileno(), event)
        # Rounded up: poll counts whole milliseconds, and rounding down would spin through the last one.
        return bool(poll.poll(int(seconds * 1000) + (seconds > 0)))

    def _fileno(self) -> int:
        if self._port is None:
            raise LineLost(f"{self.where}: the connection is closed")
        return self._port.fileno()

    def _lost(self, problem: OSError | None) -> LineLost:
        self.close()
        why = "closed by the other end" if problem is None else (problem.strerror or str(problem))
        return LineLost(f"{self.where}: connection lost ({why}); whether the last request was carried out is unknown")
