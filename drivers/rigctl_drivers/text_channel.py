"""Questions and commands in lines of text: what SCPI has in common with the protocols of single makers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import xor
from types import MappingProxyType
from typing import Final, Literal

from rigctl.errors import DeviceTimeout, GarbledReply
from rigctl.flaws import got
from rigctl.rig.protocols import ByteLine, Deadline
from rigctl_drivers.numerals import as_number

Checksum = Literal["none", "sum", "xor"]
CHECKSUMS: Final[Mapping[str, Callable[[bytes], int]]] = MappingProxyType(
    {"sum": lambda data: sum(data) & 0xFF, "xor": lambda data: reduce(xor, data, 0)}
)
"""Of all bytes before it; written as two hexadecimal digits, in front of the line end."""
FRAME: Final = " \t\r\n\x02\x03"
"""What may stand around an answer and is no part of it: blanks, line ends, STX and ETX."""


class TextChannel:
    """One instrument on one line."""

    def __init__(
        self,
        line: ByteLine,
        end: str,
        answer_end: str | None = None,
        pauses_s: tuple[float, float] = (0.0, 0.0),
        checksum: Checksum = "none",
    ) -> None:
        self.line = line
        self._end = end.encode("ascii")
        self._answer_end = (answer_end or end).encode("ascii")
        self._pauses_s = pauses_s
        """Rig seconds of silence before the next line: after an answer, and after a line that got none."""
        self._unanswered = True
        self._checksum = CHECKSUMS.get(checksum)
        self._in_step = False
        """Whether the next line will be the answer to the next question."""

    def ask(self, question: str, deadline: Deadline) -> str:
        """Return the next line after a question. After a failure the line is made quiet first."""
        self._send(question, deadline)
        answer = self._answer(question, deadline)
        self._in_step, self._unanswered = True, False
        return answer

    def number(self, question: str, answer: str) -> float:
        value = as_number(answer)
        if value is None:
            self._in_step = False
            raise GarbledReply(got(answer, "must be a number", where=question))
        return value

    def tell(self, command: str, deadline: Deadline) -> None:
        self._send(command, deadline)
        self._in_step = True

    def _send(self, text: str, deadline: Deadline) -> None:
        # also in step: of a question asked twice, the second answer may have come since
        self._settle(deadline)
        self._in_step = False
        self._pause(text, deadline)
        self._write(text, deadline)

    def _pause(self, text: str, deadline: Deadline) -> None:
        clock, pause_s = self.line.clock, self._pauses_s[self._unanswered]
        if pause_s > deadline.remaining_s * clock.speedup:
            raise DeviceTimeout(f"no time left for the pause before {text}; nothing was sent", bus=self.line.url)
        if pause_s:
            clock.sleep(pause_s)
        self._unanswered = True

    def _write(self, text: str, deadline: Deadline) -> None:
        data = text.encode("ascii")
        if self._checksum is not None:
            data += b"%02X" % self._checksum(data)
        self.line.write(data + self._end, deadline)

    def _settle(self, deadline: Deadline) -> None:
        if not self.line.settle(deadline, command=True):
            raise DeviceTimeout("an earlier answer may still come; nothing was sent", bus=self.line.url)

    def _answer(self, question: str, deadline: Deadline) -> str:
        try:
            answer = self.line.read_line(self._answer_end, deadline)
        except DeviceTimeout as problem:
            raise DeviceTimeout(f"no answer to {question}: {problem.what}", bus=problem.bus) from problem
        text = answer.decode("ascii", "replace").strip(FRAME).replace("\t", " ")
        if not text.isprintable() or "\ufffd" in text:
            raise GarbledReply(f"{question} got {answer[:60]!r}; check baud rate and parity")
        if self._checksum is None:
            return text
        said, owed = text[-2:], f"{self._checksum(text[:-2].encode('ascii')):02X}"
        if said.upper() != owed:
            raise GarbledReply(got(text, f"must end with its checksum {owed}", where=question))
        return text[:-2]
