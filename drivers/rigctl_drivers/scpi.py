"""The SCPI exchange over a line of bytes: questions, commands, and the queue of errors.

IEEE 488.2 `*IDN?` tells who answers; `SYST:ERR?` pops one error at a time, and is asked after every reading and
command, and when no answer came, so that a mistyped one is reported in the instrument's own words.
"""

from __future__ import annotations

import math
import re

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.flaws import got
from rigctl.rig.protocols import ByteLine, Deadline, Identity
from rigctl_drivers.text_channel import TextChannel

ERROR_ENTRY = re.compile(r"""([+-]?\d{1,9})(?:(?:\s*,\s*|\s+)(["'A-Za-z].*))?""")
"""Code and text: `0,"No error"` by the standard; `0`, `0,No Error`, `0 No Error` in the field."""
OVERFLOW = 9.9e37
"""SCPI-99 7.2.1: 9.9E37 is infinity and 9.91E37 is not-a-number; neither is a measurement."""
SIMULATED = "SIMULATED"
"""Stands in the maker's field of a simulated instrument."""
LONGEST_ERROR = 255
"""Characters of an entry: SCPI-99 21.8.1."""
MAX_ERRORS = 50
"""A queue that is longer never empties."""
ERROR_SHARE = 0.25
"""Part of a question's time kept for asking what went wrong."""


def off_scale(value: float) -> bool:
    """Tell whether a number is SCPI's infinity or not-a-number, which no instrument has measured."""
    return not math.isfinite(value) or abs(value) >= OVERFLOW


def identity_of(answer: str, wanted: str | None) -> Identity:
    """Return who has answered `*IDN?`.

    Raises:
        GarbledReply: it is no such answer.
        IdentityMismatch: it is another model than `wanted`, in any case.
    """
    fields = [field.strip() for field in answer.split(",")]
    if len(fields) < 2 or not fields[1] or not answer.isprintable():
        raise GarbledReply(got(answer, "must be maker,model,serial,firmware", where="*IDN?"))
    model, serial, firmware = (*fields[1:4], "", "")[:3]
    if wanted is not None and model.casefold() != wanted.casefold():
        raise IdentityMismatch(f"model {model!r} answers, expected {wanted!r}; check `bus`")
    return Identity(model, firmware, serial)


class ScpiChannel(TextChannel):
    """One instrument on one line; `check_errors`: whether it knows `SYST:ERR?`."""

    def __init__(self, line: ByteLine, terminator: str, *, check_errors: bool, model: str | None) -> None:
        super().__init__(line, terminator)
        self.check_errors = check_errors
        self._model = model
        self._emptied = False
        """Whether the error queue has been emptied since we connected."""

    def identify(self, deadline: Deadline) -> Identity:
        try:
            return identity_of(self.ask("*IDN?", deadline), self._model)
        except GarbledReply:
            self._in_step = False
            raise

    def simulated(self, deadline: Deadline) -> bool:
        return SIMULATED in self.ask("*IDN?", deadline).partition(",")[0].upper()

    def ask_or_explain(self, question: str, deadline: Deadline) -> str:
        """Return the answer to a question; if none comes, the instrument may say why."""
        if not self.check_errors:
            return self.ask(question, deadline)
        try:
            return self.ask(question, deadline.within(deadline.remaining_s * (1 - ERROR_SHARE)))
        except DeviceTimeout:
            try:
                self.raise_errors(question, deadline, late=True)
            finally:
                self._in_step = False  # the answer may still come
            raise

    def earlier_errors(self, deadline: Deadline) -> list[str]:
        """Return what others left in the error queue, so that it is not blamed on our first question or command."""
        if self._emptied or not self.check_errors:
            return []
        if not self._in_step:
            self._settle(deadline)
        errors = self._errors(deadline)
        self._emptied = True
        return errors

    def raise_errors(self, doing: str, deadline: Deadline, *, late: bool = False) -> None:
        """Empty the error queue; raise `DeviceFault` with what was in it, unless others may have left it there.

        With `late` an answer to another question may still come, so that a bare number is not taken for a code.
        """
        errors, blamed = self._errors(deadline, late=late), self._emptied
        self._emptied = True
        if errors and (blamed or late):
            raise DeviceFault(f"{doing}: the instrument reports {'; '.join(errors)}")

    def _errors(self, deadline: Deadline, *, late: bool = False) -> list[str]:
        errors: list[str] = []
        while len(errors) < MAX_ERRORS and (entry := self._next_error(deadline, late=late)):
            errors.append(entry)
        return errors

    def _next_error(self, deadline: Deadline, *, late: bool) -> str:
        """Take one entry of the error queue, empty when there is none; a line of another form is a late answer."""
        self._in_step = False
        self._write("SYST:ERR?", deadline)
        while not (found := ERROR_ENTRY.fullmatch(self._answer("SYST:ERR?", deadline))) or (late and not found[2]):
            deadline.check("SYST:ERR?")
        self._in_step = True
        return "" if int(found[1]) == 0 else found[0][:LONGEST_ERROR]
