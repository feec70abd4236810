"""An instrument that speaks SCPI over a serial port or socket: one query, one number.

IEEE 488.2 `*IDN?` tells who answers; `SYST:ERR?` pops one error at a time, and is asked after every reading and when
no answer came, so that a mistyped query is reported in the instrument's own words.
"""

from __future__ import annotations

import math
import re
from typing import ClassVar

from pydantic import Field

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.protocols import ByteLine, Deadline, Device, DeviceOptions, Identity, Line, Reading, Severity
from rigctl_drivers import scpi_claims

OVERFLOW = 9.9e37
"""SCPI-99 7.2.1: 9.9E37 is infinity and 9.91E37 is not-a-number; neither is a measurement."""
ERROR_ENTRY = re.compile(r"""([+-]?\d+)(?:(?:\s*,\s*|\s+)(["'A-Za-z].*))?""")
"""Code and text: `0,"No error"` by the standard; `0`, `0,No Error`, `0 No Error` in the field."""
SIMULATED = "SIMULATED"
"""Stands in the maker's field of a simulated instrument."""
MAX_ERRORS = 50
"""A queue that is longer never empties."""
ERROR_SHARE = 0.25
"""Part of a reading's time kept for asking what went wrong."""


class ScpiOptions(DeviceOptions):
    """One reading of an SCPI instrument."""

    unit: str = ""
    """Unit of the number the query returns."""
    query: str = Field(pattern=r"^[^\r\n]*\?[^\r\n]*$")
    """What is asked for a reading, e.g. `MEAS:VOLT:DC?`."""
    model: str | None = None
    """The second field `*IDN?` must have, in any case; without it, any instrument is taken."""
    terminator: str = Field(default="\n", pattern=r"^[\r\n]{1,2}$")
    """What ends a line in both directions."""
    check_errors: bool = True
    """Ask for errors (`SYST:ERR?`) after each reading; switch off for instruments that do not know it."""


class ScpiDriver:
    """Driver of an SCPI instrument."""

    name: ClassVar[str] = "scpi"
    summary: ClassVar[str] = "a reading of an SCPI instrument (serial or TCP)"
    schemes: ClassVar[tuple[str, ...]] = ("serial", "tcp")
    options: ClassVar[type[DeviceOptions]] = ScpiOptions
    occupies = staticmethod(scpi_claims.occupies)

    @staticmethod
    def connect(name: str, options: DeviceOptions, line: Line) -> Device:
        """The instrument called `name`; sends nothing yet."""
        if not isinstance(options, ScpiOptions) or not isinstance(line, ByteLine):
            raise TypeError(f"{name}: driver scpi needs ScpiOptions and a serial or tcp line, got {line.url}")
        return ScpiInstrument(name, options, line)


class ScpiInstrument:
    """A sensor by query."""

    def __init__(self, name: str, options: ScpiOptions, line: ByteLine) -> None:
        self.unit = options.unit
        self._name = name
        self._options = options
        self._line = line
        self._end = options.terminator.encode("ascii")
        self._in_step = False
        """Whether the next line will be the answer to the next question."""
        self._emptied = False
        """Whether the error queue has been emptied since we connected."""

    def identify(self, deadline: Deadline) -> Identity:
        """Ask `*IDN?`.

        Raises:
            IdentityMismatch: the model is another.
            GarbledReply: the answer has no model.
        """
        answer = self._ask("*IDN?", deadline)
        fields = [field.strip() for field in answer.split(",")]
        if len(fields) < 2:
            self._in_step = False
            raise GarbledReply(f"{self._where}: *IDN? got {answer!r}, must be maker,model,serial,firmware")
        model, serial, firmware = (*fields[1:4], "", "")[:3]
        wanted = self._options.model
        if wanted is not None and model.casefold() != wanted.casefold():
            raise IdentityMismatch(f"{self._where}: model {model!r} answers, expected {wanted!r}; check `bus`")
        return Identity(model, firmware, serial)

    def simulated(self, deadline: Deadline) -> bool:
        """Whether the maker's name in `*IDN?` says that it is simulated."""
        return SIMULATED in self._ask("*IDN?", deadline).partition(",")[0].upper()

    def read(self, deadline: Deadline) -> Reading:
        """Ask the query; an overflow or not-a-number sentinel is INVALID. Errors found from before make it MINOR.

        Raises:
            DeviceFault: the query made the instrument queue errors.
            GarbledReply: the answer is no number.
        """
        earlier = self._earlier_errors(deadline)
        answer = self._ask_for_number(deadline)
        now_s = self._line.clock.now_s()
        if self._options.check_errors:
            self._raise_errors(deadline)
        try:
            value = float(answer)
        except ValueError:
            self._in_step = False
            raise GarbledReply(f"{self._where}: {self._options.query} got {answer!r}, must be a number") from None
        if not math.isfinite(value) or abs(value) >= OVERFLOW:
            return Reading(math.nan, self.unit, now_s, Severity.INVALID, f"the instrument reports {answer} (off scale)")
        if earlier:
            return Reading(value, self.unit, now_s, Severity.MINOR, f"errors from before: {'; '.join(earlier)}")
        return Reading(value, self.unit, now_s)

    @property
    def _where(self) -> str:
        return f"{self._name}: {self._line.url}"

    def _ask_for_number(self, deadline: Deadline) -> str:
        """The answer to the query; if none comes, the instrument may say why."""
        if not self._options.check_errors:
            return self._ask(self._options.query, deadline)
        try:
            return self._ask(self._options.query, deadline.within(deadline.remaining_s * (1 - ERROR_SHARE)))
        except DeviceTimeout:
            try:
                self._raise_errors(deadline, late=True)
            finally:
                self._in_step = False  # the answer may still come
            raise

    def _ask(self, question: str, deadline: Deadline) -> str:
        """The next line after a question. After a failure the line is made quiet first."""
        if not self._in_step:
            self._line.resync()
        self._in_step = False
        self._line.write(question.encode("ascii") + self._end, deadline)
        answer = self._answer(question, deadline)
        self._in_step = True
        return answer

    def _answer(self, question: str, deadline: Deadline) -> str:
        try:
            answer = self._line.read_line(self._end, deadline)
        except DeviceTimeout as problem:
            raise DeviceTimeout(f"{self._name}: no answer to {question}: {problem}") from problem
        try:
            return answer.decode("ascii").strip()
        except UnicodeDecodeError:
            raise GarbledReply(f"{self._where}: {question} got {answer[:60]!r}; check baud rate and parity") from None

    def _earlier_errors(self, deadline: Deadline) -> list[str]:
        """What others left in the error queue, so that it is not blamed on our first query."""
        if self._emptied or not self._options.check_errors:
            return []
        if not self._in_step:
            self._line.resync()
        errors = self._errors(deadline)
        self._emptied = True
        return errors

    def _errors(self, deadline: Deadline, *, late: bool = False) -> list[str]:
        """Empty the error queue."""
        errors: list[str] = []
        while len(errors) < MAX_ERRORS and (entry := self._next_error(deadline, late=late)):
            errors.append(entry)
        return errors

    def _raise_errors(self, deadline: Deadline, *, late: bool = False) -> None:
        """Empty the error queue; raise `DeviceFault` with what was in it."""
        errors = self._errors(deadline, late=late)
        if errors:
            raise DeviceFault(f"{self._where}: {self._options.query}: the instrument reports {'; '.join(errors)}")

    def _next_error(self, deadline: Deadline, *, late: bool) -> str:
        """One entry of the error queue, empty when there is none; a line of another form is a late answer to the query.

        Where such an answer may still come (`late`), a bare number is not taken for a code.
        """
        self._in_step = False
        self._line.write(b"SYST:ERR?" + self._end, deadline)
        while not (found := ERROR_ENTRY.fullmatch(self._answer("SYST:ERR?", deadline))) or (late and not found[2]):
            continue
        self._in_step = True
        return "" if int(found[1]) == 0 else found[0]
