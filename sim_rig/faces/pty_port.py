"""A virtual serial port: a pseudo-terminal under a stable name."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sim_rig.errors import ControlError, ListenError
from sim_rig.faults import WireFaults

READ_BYTES = 4096
FULL_BYTES = 512
"""More than this unread at the other end means that nobody listens: a UART's bytes would be gone."""
TIOCGEXCL = 0x80045440
"""Linux asm-generic/ioctls.h; not in `termios`."""
RELEASE_S = 0.1
"""Wall seconds between two looks whether whoever had the port for itself is gone."""


class PtyPort:
    """Is one end of a serial line; the other end is `link`, a symbolic link to the pseudo-terminal.

    Both file descriptors stay open: with the far end closed, the near one would report an error instead of silence.
    That keeps alive what ends with the last close of a real port: its exclusive mode, which is therefore ended here
    once nobody holds a lock on the port any more. When the port is removed the far end stays open: a campaign may still
    hold the lock of its number, which the kernel would give to the next rig that asks.
    """

    def __init__(self, link: Path, faults: WireFaults, receive: Callable[[bytes], None]) -> None:
        self.link = link
        self._faults = faults
        self._receive = receive
        self._near: int | None = None
        self._far = -1
        self._target = ""
        self._release: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Create the pseudo-terminal and put its name in place.

        Raises:
            ControlError: it is there already.
            ListenError: the link cannot be made.
        """
        if self._near is not None:
            raise ControlError(f"bus: {self.link.name} is plugged in")
        near, far = os.openpty()
        tty.setraw(near)
        tty.setraw(far)
        os.set_blocking(near, False)
        self._near, self._far, self._target = near, far, os.ttyname(far)
        try:
            self._place_link()
        except OSError as error:
            self.close()
            raise ListenError(f"{self.link}: cannot make this link: {error.strerror}") from error
        asyncio.get_running_loop().add_reader(near, self._readable)
        self._release_if_left()

    def close(self) -> None:
        """Remove the port: whoever has it open sees it hang up. Harmless when closed."""
        if self._near is None:
            return
        asyncio.get_running_loop().remove_reader(self._near)
        if self._release is not None:
            self._release.cancel()
        os.close(self._near)
        self._near = None
        if self.link.is_symlink() and os.readlink(self.link) == self._target:  # noqa: PTH115  # compare as text
            self.link.unlink()

    def transmit(self, reply: bytes) -> None:
        self._faults.transmit(reply, self._write)

    def _release_if_left(self) -> None:
        (exclusive,) = struct.unpack("i", fcntl.ioctl(self._far, TIOCGEXCL, struct.pack("i", 0)))
        if exclusive and not _locked(self._far):
            with suppress(BlockingIOError):  # /proc/locks is read in parts, and may lack a lock that is held throughout
                fcntl.flock(self._far, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.ioctl(self._far, termios.TIOCNXCL)
                fcntl.flock(self._far, fcntl.LOCK_UN)
        self._release = asyncio.get_running_loop().call_later(RELEASE_S, self._release_if_left)

    def _place_link(self) -> None:
        temporary = self.link.with_name(f".{self.link.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(self._target)
        temporary.replace(self.link)

    def _readable(self) -> None:
        if self._near is None:
            return
        try:
            data = os.read(self._near, READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._receive(data)

    def _write(self, data: bytes) -> None:
        if self._near is None:
            return
        (unread,) = struct.unpack("i", fcntl.ioctl(self._far, termios.FIONREAD, struct.pack("i", 0)))
        if unread > FULL_BYTES:
            return
        try:
            os.write(self._near, data)
        except BlockingIOError:
            return  # the line's buffer is full: the bytes are lost, as on a wire


def _locked(fd: int) -> bool:
    # trying for the lock oneself would keep others from it for a moment, at every look
    stat = os.fstat(fd)
    file = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    try:
        return any(file in line.split() for line in Path("/proc/locks").read_text().splitlines())
    except OSError:  # no /proc here: nothing is known, so nothing is changed
        return True
