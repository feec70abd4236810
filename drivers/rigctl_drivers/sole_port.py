"""A serial port that is ours alone, as Linux gives it."""

from __future__ import annotations

import fcntl
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_CFLAG = 2
"""Where `termios` has the control modes."""


class SolePort:
    """A serial port that nobody else can open while we have it (but root, who may open anything).

    pyserial's lock (`flock`) keeps out only those who ask for it too. The terminal's own exclusive mode (TIOCEXCL)
    keeps out everybody; it belongs to the terminal, so it is given back before closing: somebody else may keep a
    virtual port open, and with it the mode.

    DTR stays raised when it is closed (HUPCL): raised anew it restarts some boards, in the middle of what they drive,
    and one that takes longer to start than it is waited for would be restarted for ever.

    Raises `OSError` where this port is no terminal.
    """

    def __init__(self, port: Any) -> None:
        self._port = port
        self.fileno: Callable[[], int] = port.fileno
        try:
            fcntl.ioctl(port.fileno(), termios.TIOCEXCL)
            attributes = termios.tcgetattr(port.fileno())
            attributes[_CFLAG] &= ~termios.HUPCL
            termios.tcsetattr(port.fileno(), termios.TCSANOW, attributes)
        except termios.error as error:
            raise OSError(*error.args) from error

    def close(self) -> None:
        with suppress(OSError):  # unplugged: there is nothing left to give back
            fcntl.ioctl(self._port.fileno(), termios.TIOCNXCL)
        self._port.close()
