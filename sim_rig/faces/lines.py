"""What every text instrument on a serial line shares: splitting what arrives into commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

LONGEST_COMMAND = 256


@dataclass(slots=True)
class LineSplitter:
    """Collects bytes until a terminator; what is too long or not ASCII is handed on as an unknown command."""

    terminators: bytes
    on_line: Callable[[str], None]
    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        for byte in data:
            if byte not in self.terminators:
                if len(self._buffer) < LONGEST_COMMAND:
                    self._buffer.append(byte)
                continue
            line = self._buffer.decode("ascii", errors="replace").strip()
            self._buffer.clear()
            if line:
                self.on_line(line)
