"""An instrument that speaks SCPI over a serial port or socket: a reading, a setpoint, or both.

What the options hold decides what the device can do: `query` makes a sensor, `set` and/or `enable` an actuator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from string import Formatter

from pydantic import Field, model_validator

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply
from rigctl.flaws import Flaw, got
from rigctl.rig.protocols import (
    Actuator,
    ActuatorState,
    ByteLine,
    ClaimedPlace,
    Deadline,
    Device,
    DeviceOptions,
    Driver,
    Identity,
    Reading,
    Sensor,
    Severity,
)
from rigctl_drivers.scpi import ScpiChannel
from rigctl_drivers.searching import search_scpi

FORM = re.compile(r"[-+ ]?0?\d{0,2}(?:\.\d{1,2})?[eEfFgG]?")
"""How a setpoint may be written: a form of a thousand million digits would take all memory."""
OVERFLOW = 9.9e37
"""SCPI-99 7.2.1: 9.9E37 is infinity and 9.91E37 is not-a-number; neither is a measurement."""
QUESTION = r"^[^\r\n]*\?[^\r\n]*$"
COMMAND = r"^[^\r\n?]+$"
STATES = {"1": True, "+1": True, "ON": True, "0": False, "+0": False, "OFF": False}


class EnableCommands(DeviceOptions):
    """The commands that put the setpoint in force and out of it."""

    on: str = Field(pattern=COMMAND)
    """E.g. `OUTP ON`."""
    off: str = Field(pattern=COMMAND)
    """E.g. `OUTP OFF`."""
    state: str = Field(pattern=QUESTION)
    """What is asked whether it is on, e.g. `OUTP?`; answered 1 or 0, ON or OFF."""


class ScpiOptions(DeviceOptions):
    """A reading, a setpoint, or both, of an SCPI instrument."""

    unit: str = ""
    """Unit of the reading and of the setpoint."""
    query: str | None = Field(default=None, pattern=QUESTION)
    """What is asked for a reading, e.g. `MEAS:VOLT:DC?`; makes the device a sensor."""
    set: str | None = Field(default=None, pattern=COMMAND)
    """What sends a setpoint, e.g. `VOLT {value}` or `VOLT {value:.3f}`; makes the device an actuator."""
    confirm: str | None = Field(default=None, pattern=QUESTION)
    """What is asked for the setpoint it holds, e.g. `VOLT?`."""
    enable: EnableCommands | None = None
    """What puts the setpoint in force; alone, the device is on/off and takes 0 or 1."""
    release_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint that imposes nothing, for an actuator without `enable`."""
    safe_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint imposed as the safe state; without it, safe means released."""
    model: str | None = None
    """The second field `*IDN?` must have, in any case; without it, any instrument is taken."""
    terminator: str = Field(default="\n", pattern=r"^[\r\n]{1,2}$")
    """What ends a line in both directions."""
    check_errors: bool = True
    """Ask for errors (`SYST:ERR?`) after each reading and command; off for instruments that do not know it."""

    @model_validator(mode="after")
    def _parts_fit_together(self) -> ScpiOptions:
        for holds, problem in self._rules():
            if not holds:
                raise ValueError(problem)
        return self

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        drives = self.set is not None or self.enable is not None
        on_off = self.enable is not None and self.set is None
        return (
            (self.query is not None or drives, "nothing to do: give `query`, `set` or `enable`"),
            (self.set is None or _takes_value(self.set), "`set` must hold the setpoint as {value}, e.g. VOLT {value}"),
            ((self.set is None) == (self.confirm is None), "`set` and `confirm` go together: a setpoint is read back"),
            (
                self.set is None or self.enable is not None or self.release_value is not None,
                "`set` needs `enable` or `release_value`, else it can never be released",
            ),
            (self.release_value is None or not self.enable, "`release_value` does not go with `enable`: drop one"),
            (self.release_value is None or self.set is not None, "`release_value` needs `set`"),
            (self.safe_value is None or drives, "`safe_value` needs `set` or `enable`"),
            (not on_off or self.safe_value in (None, 0.0, 1.0), "`safe_value` of an on/off device must be 0 or 1"),
        )


def _takes_value(template: str) -> bool:
    """Tell whether a command differs with the setpoint that is put into it, and writes it in no more than 99 digits."""
    try:
        fields = [(name, form) for _, name, form, _ in Formatter().parse(template) if name is not None]
        if not all(name == "value" and FORM.fullmatch(form or "") for name, form in fields):
            return False
        return template.format(value=1.5) != template.format(value=250.0)
    except (LookupError, ValueError, AttributeError):  # another field than `value`, or no way to write a number
        return False


def _rounded(options: ScpiOptions, setpoint: float) -> float:
    forms = (form for _, name, form, _ in Formatter().parse(options.set or "") if name is not None)
    return float(format(setpoint, next(forms, "") or ""))


class ScpiDriver(Driver):
    """Driver of an SCPI instrument."""

    name = "scpi"
    summary = "a reading or setpoint of an SCPI instrument (serial or TCP)"
    schemes = ("serial", "tcp")
    options = ScpiOptions
    rounded = staticmethod(_rounded)
    search_rank = 1
    search = staticmethod(search_scpi)

    @staticmethod
    def occupies(options: ScpiOptions) -> Sequence[ClaimedPlace]:
        """Claim the line, shared with others of the same instrument, and each command to itself."""
        claims = [ClaimedPlace("the line", "shares", "SCPI")]
        if options.query is not None:
            claims.append(ClaimedPlace(f"query {options.query}", "reads", options.query))
        if options.set is not None:
            claims.append(ClaimedPlace(f"command {options.set}", "writes"))
        if options.enable is not None:
            claims.append(ClaimedPlace(f"command {options.enable.on}", "writes"))
        return claims

    @staticmethod
    def misfits(options: ScpiOptions, setpoints: Sequence[float]) -> Sequence[str]:
        """Name what an on/off device, which takes 0 or 1, cannot hold; of others the instrument knows best."""
        if options.set is not None or options.enable is None:
            return []
        return [
            f"setpoint {v:g} cannot be held: an on/off device takes 0 or 1" for v in setpoints if v not in (0.0, 1.0)
        ]

    @staticmethod
    def connect(options: ScpiOptions, line: ByteLine) -> Device:
        channel = ScpiChannel(line, options.terminator, check_errors=options.check_errors, model=options.model)
        if options.query is None:
            return ScpiOutput(channel, options)
        if options.set is None and options.enable is None:
            return ScpiSensor(channel, options)
        return ScpiControlled(channel, options)


class ScpiDevice(Device):
    """What every SCPI instrument can be asked."""

    def __init__(self, channel: ScpiChannel, options: ScpiOptions) -> None:
        self.unit = options.unit
        self._channel = channel
        self._options = options

    def identify(self, deadline: Deadline) -> Identity:
        return self._channel.identify(deadline)

    def simulated(self, deadline: Deadline) -> bool:
        return self._channel.simulated(deadline)


class ScpiSensor(ScpiDevice, Sensor):
    """A sensor by query."""

    def read(self, deadline: Deadline) -> Reading:
        """Ask the query; an overflow or not-a-number sentinel is INVALID. Errors found from before make it MINOR.

        Raises:
            DeviceFault: the query made the instrument queue errors.
            GarbledReply: the answer is no number.
        """
        channel, query = self._channel, self._options.query or ""
        earlier = channel.earlier_errors(deadline)
        answer = channel.ask_or_explain(query, deadline)
        now_s = channel.line.clock.now_s()
        if self._options.check_errors:
            channel.raise_errors(query, deadline)
        value = channel.number(query, answer)
        if not math.isfinite(value) or abs(value) >= OVERFLOW:
            return Reading.invalid(self.unit, now_s, f"the instrument reports {answer} (off scale)")
        if earlier:
            return Reading(value, self.unit, now_s, Severity.MINOR, f"errors from before: {'; '.join(earlier)}")
        return Reading(value, self.unit, now_s)


class ScpiOutput(ScpiDevice, Actuator):
    """An actuator: a setpoint, switched on and off, or one of both. Each command is sent once."""

    def apply(self, value: float, deadline: Deadline) -> None:
        if not math.isfinite(value):
            raise DeviceFault(Flaw("", "must be a finite number", "nothing was sent", got=f"setpoint {value}"))
        if self._options.set is None and value not in (0.0, 1.0):
            raise DeviceFault(f"got setpoint {value}, an on/off device takes 0 or 1; nothing was sent")
        self._channel.earlier_errors(deadline)
        self._impose(value, deadline)

    def release(self, deadline: Deadline) -> None:
        o = self._options
        if o.enable is not None:
            self._tell(o.enable.off, deadline)
        elif o.release_value is not None:
            self._set(o.release_value, deadline)

    def safe(self, deadline: Deadline) -> None:
        """Impose `safe_value` if there is one, else release; nothing is asked before."""
        if self._options.safe_value is None:
            self.release(deadline)
        else:
            self._impose(self._options.safe_value, deadline)

    def read_back(self, deadline: Deadline) -> ActuatorState:
        o = self._options
        on = o.enable is None or self._is_on(o.enable.state, deadline)
        if o.confirm is None:
            return ActuatorState(on, float(on))
        if not on:
            return ActuatorState(False, None)
        held = self._held(o.confirm, deadline)
        if o.release_value is not None and _same(held, _rounded(o, o.release_value)):
            return ActuatorState(False, o.release_value)
        return ActuatorState(True, held)

    def _impose(self, value: float, deadline: Deadline) -> None:
        o = self._options
        if o.set is not None:
            self._set(value, deadline)
        if o.enable is not None:
            self._tell(o.enable.on if o.set is not None or value == 1.0 else o.enable.off, deadline)

    def _set(self, value: float, deadline: Deadline) -> None:
        """Send a setpoint, once. If it is unknown whether it arrived, what the instrument holds decides."""
        o = self._options
        if o.set is None or o.confirm is None:
            return
        try:
            self._tell(o.set.format(value=value), deadline.within(deadline.remaining_s / 2))
        except DeviceTimeout:
            held = self._channel.number(o.confirm, self._channel.ask(o.confirm, deadline))
            if not _same(held, _rounded(o, value)):
                raise

    def _tell(self, command: str, deadline: Deadline) -> None:
        """Send a command, and wait until the instrument has dealt with it."""
        self._channel.tell(command, deadline)
        if self._options.check_errors:
            self._channel.raise_errors(command, deadline)
        else:
            self.read_back(deadline)

    def _is_on(self, question: str, deadline: Deadline) -> bool:
        answer = self._channel.ask_or_explain(question, deadline)
        on = STATES.get(answer.upper())
        if on is None:
            raise GarbledReply(got(answer, "must be 1, 0, ON or OFF", where=question))
        return on

    def _held(self, question: str, deadline: Deadline) -> float:
        value = self._channel.number(question, self._channel.ask_or_explain(question, deadline))
        if not math.isfinite(value) or abs(value) >= OVERFLOW:
            raise GarbledReply(f"{question} got {value}, which is no setpoint")
        return value


class ScpiControlled(ScpiSensor, ScpiOutput):
    """Imposes a setpoint and reads the quantity."""


def _same(held: float, wanted: float) -> bool:
    return math.isclose(held, wanted, rel_tol=1e-6, abs_tol=1e-9)
