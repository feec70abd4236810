"""What every text instrument on a serial line shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sim_rig.clock import Timer

LONGEST_COMMAND = 256


class TextInstrument:
    """Takes commands as lines; what is too long or not ASCII is handed on as an unknown command."""

    terminators: ClassVar[bytes]

    def __init__(self, timer: Timer, identity: str) -> None:
        self.timer = timer
        self.identity = identity
        """What it answers when it is asked who it is."""
        self.send: Callable[[bytes], None] = lambda _: None
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        for byte in data:
            if byte not in self.terminators:
                if len(self._buffer) < LONGEST_COMMAND:
                    self._buffer.append(byte)
                continue
            line = self._buffer.decode("ascii", errors="replace").strip()
            self._buffer.clear()
            if line:
                self.take(line)

    def take(self, line: str) -> None:
        raise NotImplementedError

    def power_up(self) -> None:
        """Begin what it does unasked; mostly nothing."""

    def power_cycle(self) -> None:
        """Let the supply fail and come back."""
        raise NotImplementedError
