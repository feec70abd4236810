"""Buses of addressed parties that Linux gives to programs as a file: I2C, 1-Wire, GPIO chips."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final, Protocol

from rigctl.errors import DeviceError, PortUnavailable
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import PEEK_S, AddressedLine, Deadline
from rigctl_drivers.port_holder import Node, other_user_of

GONE: Final = (errno.ENODEV, errno.EBADF, errno.ESHUTDOWN)


class OpenNode(Protocol):
    """A file that was opened; both raise `OSError`."""

    def transfer(self, address: str, sent: bytes, count: int) -> bytes:
        """Do as `AddressedLine.transfer`, within a second."""

    def close(self) -> None:
        """Give it back."""


class NodeLine(AddressedLine):
    """A bus behind one file; if it is `sole`, nobody else may have the file open.

    `open_node` opens it or raises `OSError`; `meaning` returns the error for what the kernel says of an exchange.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        node: Node,
        open_node: Callable[[Node], OpenNode],
        meaning: Callable[[OSError, str], DeviceError],
        *,
        sole: bool = False,
    ) -> None:
        self.url = url
        self.clock = clock
        self._node, self._open_node, self._meaning, self._sole = node, open_node, meaning, sole
        self._opened: OpenNode | None = None

    def open(self) -> None:
        self.close()
        try:
            self._opened = self._open_node(self._node)
        except OSError as problem:
            raise self._node.why_not(problem, self.url) from problem
        holder = other_user_of(self._node.path) if self._sole else ""
        if holder:  # whoever opened it and asked for no lock
            self.close()
            raise self._node.held(holder, self.url)

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def transfer(self, address: int | str, sent: bytes, count: int, deadline: Deadline) -> bytes:
        deadline.check(str(self._node.path))
        if self._opened is None:
            raise PortUnavailable(f"the {self._node.kind} is closed", bus=self.url)
        try:
            return self._opened.transfer(str(address), sent, count)
        except OSError as problem:
            if problem.errno in GONE:
                raise PortUnavailable(f"the {self._node.kind} is gone ({problem})", bus=self.url) from problem
            error = self._meaning(problem, str(address))
            error.bus = self.url
            raise error from problem


def wait_until(due_s: float, clock: Clock, deadline: Deadline) -> None:
    """Wait until an instant of rig time; raises `DeviceTimeout` if that is too late."""
    while True:
        deadline.check("it is not ready")
        left_s = due_s - clock.now_s()
        if left_s <= 0:
            return
        clock.sleep(min(left_s, clock.speedup * min(PEEK_S, deadline.remaining_s)))
