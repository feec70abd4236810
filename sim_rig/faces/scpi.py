"""A SCPI instrument on a serial line: one measuring query, perhaps an output, common commands, an error queue.

SCPI-1999, volumes 1 and 2; IEEE 488.2 sections 10 (common commands) and 11 (status reporting). NaN is 9.91E37.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sim_rig.clock import Timer
from sim_rig.faces.lines import TextInstrument

NOT_A_NUMBER = 9.91e37
QUERY_ERROR, DEVICE_ERROR, EXECUTION_ERROR, COMMAND_ERROR, POWER_ON = 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 7
OPERATION_COMPLETE = 1 << 0
MEASURE_S = 0.2
_QUEUE_LENGTH = 10
_ERROR_QUERIES = ("SYST:ERR?", "SYST:ERR:NEXT?", "SYSTEM:ERROR?", "SYSTEM:ERROR:NEXT?")


@dataclass(slots=True)
class Output:
    """Has a level, set by `header value` and switched by `OUTPut ON|OFF`; both are answered when asked."""

    header: str
    """In SCPI notation."""
    greatest: float
    level: float = 0.0
    on: bool = False

    def power_cycle(self) -> None:
        self.level, self.on = 0.0, False

    def answer(self, header: str, argument: str) -> str | None:
        """Answer a command (`""`) or question; None if it is none of this output's.

        Raises:
            ValueError, KeyError: the argument is out of range.
        """
        word, asked = header.removesuffix("?"), header.endswith("?")
        if re.fullmatch(_either_form(self.header), word, re.IGNORECASE):
            if not asked:
                level = float(argument)
                if not 0.0 <= level <= self.greatest:
                    raise ValueError(argument)
                self.level = level
            return f"{self.level:+.6E}" if asked else ""
        if re.fullmatch(_either_form("OUTPut") + "(:STATe?)?", word, re.IGNORECASE):
            if not asked:
                self.on = {"ON": True, "1": True, "OFF": False, "0": False}[argument.upper()]
            return str(int(self.on)) if asked else ""
        return None


class ScpiInstrument(TextInstrument):
    """Answers `header?`, e.g. `MEASure:GROWth?`, with the measured value.

    Args:
        identity: maker,model,serial,firmware.
        header: of the measuring query, in SCPI notation: capitals are the short form.
    """

    terminators = b"\n"

    def __init__(self, timer: Timer, identity: str, header: str, measure: Callable[[], float]) -> None:
        super().__init__(timer, identity)
        self.measure = measure
        self.output: Output | None = None
        self.event_status = POWER_ON
        self._errors: deque[tuple[int, str]] = deque()
        self._pattern = re.compile(_either_form(header) + r"\?", re.IGNORECASE)

    def power_cycle(self) -> None:
        """Restart: errors and status are lost, and the power-on bit says so."""
        self._errors.clear()
        self.event_status = POWER_ON
        if self.output is not None:
            self.output.power_cycle()

    def _report(self, code: int, text: str, bit: int) -> None:
        self.event_status |= bit
        if len(self._errors) >= _QUEUE_LENGTH:
            self._errors[-1] = (-350, "Queue overflow")
        else:
            self._errors.append((code, text))

    def take(self, line: str) -> None:
        commands = [c.strip().removeprefix(":") for c in line.split(";") if c.strip()]
        slow = any(self._pattern.fullmatch(c) for c in commands)
        if slow:
            self.timer.soon(MEASURE_S, lambda: self._execute(commands))
        else:
            self._execute(commands)

    def _execute(self, commands: list[str]) -> None:
        answers = [answer for answer in map(self._answer, commands) if answer is not None]
        if answers:
            self.send(";".join(answers).encode("ascii") + b"\n")

    def _answer(self, command: str) -> str | None:
        if self._pattern.fullmatch(command):
            value = self.measure()
            return f"{NOT_A_NUMBER if math.isnan(value) else value:+.6E}"
        act = self._common().get(command.upper())
        if act is not None:
            return act()
        header, _, argument = command.partition(" ")
        try:
            answer = None if self.output is None else self.output.answer(header, argument.strip())
        except (ValueError, KeyError):
            self._report(-222, "Data out of range", EXECUTION_ERROR)
            return None
        if answer is None:
            self._report(-113, "Undefined header", COMMAND_ERROR)
        return answer or None

    def _common(self) -> dict[str, Callable[[], str | None]]:
        error_query = dict.fromkeys(_ERROR_QUERIES, self._next_error)
        return error_query | {
            "*IDN?": lambda: self.identity,
            "*OPC?": lambda: "1",
            "*ESR?": self._take_status,
            "*STB?": lambda: str((4 if self._errors else 0) | (32 if self.event_status else 0)),
            "*CLS": self._clear,
            "*OPC": self._completed,
            "*TST?": lambda: "0",
            "*RST": lambda: None,
            "*WAI": lambda: None,
        }

    def _next_error(self) -> str:
        code, text = self._errors.popleft() if self._errors else (0, "No error")
        return f'{code},"{text}"'

    def _take_status(self) -> str:
        status, self.event_status = self.event_status, 0
        return str(status)

    def _clear(self) -> None:
        self._errors.clear()
        self.event_status = 0

    def _completed(self) -> None:
        self.event_status |= OPERATION_COMPLETE


def _either_form(header: str) -> str:
    """Return a pattern that takes each word of a header in its short (capitals) or its long form."""
    words = []
    for word in header.split(":"):
        short = "".join(c for c in word if not c.islower())
        words.append(f"(?:{re.escape(word)}|{re.escape(short)})")
    return ":".join(words)
