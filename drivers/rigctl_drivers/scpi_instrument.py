"""An instrument that speaks SCPI over a serial port or socket: a reading, a setpoint, or both."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from rigctl.errors import GarbledReply
from rigctl.flaws import got
from rigctl.rig.protocols import ByteLine, ClaimedPlace, Deadline, Device, Driver, Reading, Severity
from rigctl_drivers.scpi import ScpiChannel, off_scale
from rigctl_drivers.searching import search_scpi
from rigctl_drivers.text_device import EnableCommands, TextOptions, TextTalk, device

QUESTION = r"^[^\r\n]*\?[^\r\n]*$"
COMMAND = r"^[^\r\n?]+$"
STATES = {"1": True, "+1": True, "ON": True, "0": False, "+0": False, "OFF": False}


class ScpiEnable(EnableCommands):
    """The commands that put the setpoint in force and out of it."""

    on: str = Field(pattern=COMMAND)
    """E.g. `OUTP ON`."""
    off: str = Field(pattern=COMMAND)
    """E.g. `OUTP OFF`."""
    state: str = Field(pattern=QUESTION)
    """What is asked whether it is on, e.g. `OUTP?`; answered 1 or 0, ON or OFF."""


class ScpiOptions(TextOptions):
    """A reading, a setpoint, or both, of an SCPI instrument."""

    query: str | None = Field(default=None, pattern=QUESTION)
    """What is asked for a reading, e.g. `MEAS:VOLT:DC?`; makes the device a sensor."""
    set: str | None = Field(default=None, pattern=COMMAND)
    """What sends a setpoint, e.g. `VOLT {value}` or `VOLT {value:.3f}`; makes the device an actuator."""
    confirm: str | None = Field(default=None, pattern=QUESTION)
    """What is asked for the setpoint it holds, e.g. `VOLT?`."""
    enable: ScpiEnable | None = None
    """What puts the setpoint in force; alone, the device is on/off and takes 0 or 1."""
    model: str | None = None
    """The second field `*IDN?` must have, in any case; without it, any instrument is taken."""
    terminator: str = Field(default="\n", pattern=r"^[\r\n]{1,2}$")
    """What ends a line in both directions."""
    check_errors: bool = True
    """Ask for errors (`SYST:ERR?`) after each reading and command; off for instruments that do not know it."""

    def occupies(self) -> Sequence[ClaimedPlace]:
        return self.claims("SCPI")


class ScpiTalk(ScpiChannel, TextTalk):
    """Questions and commands of SCPI, and its queue of errors."""

    def __init__(self, line: ByteLine, options: ScpiOptions) -> None:
        super().__init__(line, options.terminator, check_errors=options.check_errors, model=options.model)
        self._options = options

    def read(self, deadline: Deadline) -> Reading:
        """Ask the query; an overflow or not-a-number sentinel is INVALID. Errors found from before make it MINOR.

        Raises:
            DeviceFault: the query made the instrument queue errors.
            GarbledReply: the answer is no number.
        """
        query, unit = self._options.query or "", self._options.unit
        earlier = self.earlier_errors(deadline)
        answer = self.ask_or_explain(query, deadline)
        now_s = self.line.clock.now_s()
        if self.check_errors:
            self.raise_errors(query, deadline)
        value = self.number(query, answer)
        if off_scale(value):
            return Reading.invalid(unit, now_s, f"the instrument reports {answer} (off scale)")
        if earlier:
            return Reading(value, unit, now_s, Severity.MINOR, f"errors from before: {'; '.join(earlier)}")
        return Reading(value, unit, now_s)

    def begin(self, deadline: Deadline) -> None:
        self.earlier_errors(deadline)

    def told(self, command: str, deadline: Deadline) -> bool:
        self.tell(command, deadline)
        if self.check_errors:
            self.raise_errors(command, deadline)
        return self.check_errors

    def held(self, deadline: Deadline, *, unsure: bool = False) -> float:
        question, ask = self._options.confirm or "", self.ask if unsure else self.ask_or_explain
        value = self.number(question, ask(question, deadline))
        if off_scale(value):
            raise GarbledReply(f"{question} got {value}, which is no setpoint")
        return value

    def is_on(self, deadline: Deadline) -> bool:
        question = self._options.enable.state if self._options.enable else ""
        answer = self.ask_or_explain(question, deadline)
        on = STATES.get(answer.upper())
        if on is None:
            raise GarbledReply(got(answer, "must be 1, 0, ON or OFF", where=question))
        return on


class ScpiDriver(Driver):
    """Driver of an SCPI instrument."""

    name = "scpi"
    summary = "a reading or setpoint of an SCPI instrument (serial or TCP)"
    schemes = ("serial", "tcp")
    options = ScpiOptions
    search_rank = 1
    search = staticmethod(search_scpi)

    @staticmethod
    def connect(options: ScpiOptions, line: ByteLine) -> Device:
        return device(ScpiTalk(line, options), options)
