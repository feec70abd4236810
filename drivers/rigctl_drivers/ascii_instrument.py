"""An instrument that talks in lines of text of its maker's own: a thermostat, balance, stirrer, flow controller, pump.

Its options say what is sent and what an answer looks like; a profile (`profiles/ascii`) has them for one make.
`{address}` in a command or pattern stands for the instrument's address on a line that several share.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from rigctl.errors import DeviceFault, GarbledReply, IdentityMismatch
from rigctl.flaws import got
from rigctl.rig.protocols import (
    ByteLine,
    ClaimedPlace,
    Deadline,
    Device,
    DeviceOptions,
    Driver,
    Identity,
    Reading,
    Severity,
)
from rigctl_drivers.numerals import as_number
from rigctl_drivers.scpi import SIMULATED
from rigctl_drivers.text_channel import Checksum, TextChannel
from rigctl_drivers.text_device import EnableCommands, TextOptions, TextTalk, device

LONGEST: Final = 200
"""Characters of an answer; patterns are matched against short ones only."""
ANYTHING: Final = "(.+)"
END: Final = r"^[\x00-\x20]{1,4}$"


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(got(text, "must be a regular expression", str(error))) from error
    return text


def _one_group(text: str) -> str:
    if re.compile(text).groups != 1:
        raise ValueError(
            got(text, "must have one group: parentheses around what is wanted, (?:...) around other parts")
        )
    return text


Marks = Annotated[str, AfterValidator(_pattern)]
"""A regular expression for a whole answer."""
Answer = Annotated[Marks, AfterValidator(_one_group)]
"""The same, with one group around what is wanted."""


class Query(DeviceOptions):
    """A question and its answer."""

    ask: str
    """What is sent."""
    answer: Answer
    """What the answer looks like; the group is what it says."""


class AsciiEnable(EnableCommands):
    """The commands that put the setpoint in force and out of it."""

    is_on: Marks = "1"
    """What the answer to `state` looks like while it is in force."""
    is_off: Marks = "0"
    """What it looks like while it is not."""
    already_off: Marks | None = None
    """What refuses `off` because it is off already."""


class AsciiOptions(TextOptions):
    """A reading, a setpoint, or both, of an instrument that talks in lines of text."""

    enable: AsciiEnable | None = None
    """What puts the setpoint in force; alone, the device is on/off and takes 0 or 1."""
    answer: Answer = ANYTHING
    """What the answer to `query` looks like; the group is the number."""
    confirm_answer: Answer | None = None
    """The same of `confirm`; default: as `answer`."""
    start: str | None = None
    """Sent once a setpoint is held, unless that releases or makes safe: starts what does not say that it is started."""
    unstable: Marks | None = None
    """Answers to `query` that have not settled yet; such a reading is MINOR."""
    invalid: Marks | None = None
    """Answers to `query` that are no measurement, such as an overload; such a reading is INVALID."""
    accepted: Marks | None = None
    """What answers a command; without it nothing does, and what holds is asked for."""
    refused: Marks | None = None
    """What answers a question or command that the instrument does not understand or obey."""
    number: Literal["decimal", "int16"] = "decimal"
    """How numbers are written; int16: four hexadecimal digits, two's complement."""
    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """What the instrument's number is multiplied by to give `unit`."""
    identity: Query | None = None
    """What is asked who it is; without it, it cannot be told from another."""
    serial_number: Query | None = None
    """What is asked for its serial number."""
    model: str | None = None
    """What `identity` must give, in any case; without it, any instrument is taken that answers in its form."""
    address: str = Field(default="", pattern=r"^[0-9A-Za-z]{0,8}$")
    """Stands for {address} in commands and patterns."""
    terminator: str = Field(default="\r\n", pattern=END)
    """What ends what is sent."""
    answer_terminator: str | None = Field(default=None, pattern=END)
    """What ends an answer; default: as `terminator`."""
    pause_s: float = Field(default=0.0, ge=0, le=5)
    """Silence that it needs after a command that it does not answer, rig seconds."""
    gap_s: float = Field(default=0.0, ge=0, le=5)
    """The same after an answer."""
    checksum: Checksum = "none"
    """Two hexadecimal digits at the end of each line in both directions: sum, or exclusive or, of all bytes before."""

    @model_validator(mode="before")
    @classmethod
    def _addressed(cls, given: Any) -> Any:
        address = given.get("address") if isinstance(given, dict) else None
        return _filled(given, address) if isinstance(address, str) else given

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        named = self.serial_number is None or self.identity is not None
        held = [value for value in (self.release_value, self.safe_value) if value is not None]
        return (
            *super()._rules(),
            (named, "`serial_number` needs `identity`"),
            (not any(map(self.misfit, held)), "`release_value` and `safe_value` must fit into four hexadecimal digits"),
        )

    def occupies(self) -> Sequence[ClaimedPlace]:
        part = "" if self.answer == ANYTHING else f" ({self.answer})"
        return self.claims(f"lines that end with {self.terminator!r}", part)

    def written(self, value: float, form: str) -> str:
        steps = value / self.scale
        return f"{round(steps) & 0xFFFF:04X}" if self.number == "int16" else format(steps, form)

    def misfit(self, setpoint: float) -> str:
        if self.number == "int16" and not -0x8000 <= setpoint / self.scale <= 0x7FFF:
            return "four hexadecimal digits do not reach as far"
        return super().misfit(setpoint)

    def meant(self, text: str) -> float | None:
        steps: float | None
        if self.number == "int16":
            steps = (int(text, 16) ^ 0x8000) - 0x8000 if re.fullmatch("[0-9A-Fa-f]{4}", text) else None
        else:
            steps = as_number(text.replace(" ", ""))
        return None if steps is None else steps * self.scale


def _filled(given: Any, address: str) -> Any:
    """Put the address into all text."""
    if isinstance(given, dict):
        return {key: _filled(part, address) for key, part in given.items()}
    return given.replace("{address}", address) if isinstance(given, str) else given


class AsciiTalk(TextChannel, TextTalk):
    """Questions and commands as the options have them."""

    exact = True

    def __init__(self, line: ByteLine, options: AsciiOptions) -> None:
        o = options
        super().__init__(line, o.terminator, o.answer_terminator, (o.gap_s, o.pause_s), o.checksum)
        self.anonymous = o.identity is None
        self._options = o

    def identify(self, deadline: Deadline) -> Identity:
        o = self._options
        if o.identity is None:
            _ = self.read(deadline) if o.query else self.held(deadline) if o.set else self.is_on(deadline)
            return Identity("an instrument that does not say who it is")
        answer = self._heard(o.identity.ask, deadline)
        found = re.fullmatch(o.identity.answer, answer)
        if found is None or (o.model is not None and found[1].casefold() != o.model.casefold()):
            expected = f"must be {o.model}" if found and o.model else f"must look like {o.identity.answer}"
            raise IdentityMismatch(got(answer, expected, "check `bus` and `profile`", where=o.identity.ask))
        if o.serial_number is None:
            return Identity(found[1])
        ask, pattern = o.serial_number.ask, o.serial_number.answer
        return Identity(found[1], serial=self._part(ask, pattern, self._heard(ask, deadline)))

    def simulated(self, deadline: Deadline) -> bool:
        return not self.anonymous and SIMULATED in self.identify(deadline).model.upper()

    def read(self, deadline: Deadline) -> Reading:
        """Ask the query; an answer marked as no measurement is INVALID, one that has not settled MINOR.

        Raises:
            DeviceFault: the instrument refuses it.
            GarbledReply: the answer does not look like one, or has no number.
        """
        o, query = self._options, self._options.query or ""
        answer = self._heard(query, deadline)
        now_s = self.line.clock.now_s()
        value = math.nan if _matches(o.invalid, answer) else self._number(query, o.answer, answer)
        if not math.isfinite(value):
            return Reading.invalid(o.unit, now_s, f"the instrument answers {answer}")
        if _matches(o.unstable, answer):
            return Reading(value, o.unit, now_s, Severity.MINOR, "not settled")
        return Reading(value, o.unit, now_s)

    def start(self, deadline: Deadline) -> None:
        if self._options.start is not None:
            self.told(self._options.start, deadline)

    def told(self, command: str, deadline: Deadline) -> bool:
        o = self._options
        if o.accepted is None:
            self.tell(command, deadline)
            return False
        already = o.enable.already_off if o.enable is not None and command == o.enable.off else None
        answer = self._heard(command, deadline, already)
        if not _matches(o.accepted, answer) and not _matches(already, answer):
            raise GarbledReply(got(answer, f"must look like {o.accepted}", where=command))
        return True

    def held(self, deadline: Deadline, *, unsure: bool = False) -> float:  # noqa: ARG002 - it has no queue of errors
        o, question = self._options, self._options.confirm or ""
        value = self._number(question, o.confirm_answer or o.answer, self._heard(question, deadline))
        if not math.isfinite(value):
            raise GarbledReply(got(value, "must be a setpoint", where=question))
        return value

    def is_on(self, deadline: Deadline) -> bool:
        enable = self._options.enable or AsciiEnable(on="", off="", state="")
        answer = self._heard(enable.state, deadline)
        if _matches(enable.is_on, answer) == _matches(enable.is_off, answer):
            expected = f"must look like {enable.is_on} or {enable.is_off}"
            raise GarbledReply(got(answer, expected, where=enable.state))
        return _matches(enable.is_on, answer)

    def _heard(self, text: str, deadline: Deadline, unless: str | None = None) -> str:
        answer = self.ask(text, deadline)
        refused = _matches(self._options.refused, answer) and not _matches(unless, answer)
        if len(answer) > LONGEST or refused:
            raise DeviceFault(f"{text}: the instrument answers {answer[:LONGEST]}")
        return answer

    def _part(self, question: str, pattern: str, answer: str) -> str:
        found = re.fullmatch(pattern, answer)
        if found is None:
            raise GarbledReply(got(answer, f"must look like {pattern}", where=question))
        return found[1]

    def _number(self, question: str, pattern: str, answer: str) -> float:
        value = self._options.meant(self._part(question, pattern, answer))
        if value is None:
            raise GarbledReply(got(answer, "must have a number", where=question))
        return value


def _matches(pattern: str | None, answer: str) -> bool:
    return pattern is not None and re.fullmatch(pattern, answer) is not None


class AsciiDriver(Driver):
    """Driver of an instrument that talks in lines of text."""

    name = "ascii"
    summary = "an instrument that talks in lines of text of its maker's own (serial or TCP)"
    schemes = ("serial", "tcp")
    options = AsciiOptions
    profiles = Path(__file__).parent / "profiles" / "ascii"

    @staticmethod
    def connect(options: AsciiOptions, line: ByteLine) -> Device:
        return device(AsciiTalk(line, options), options)
