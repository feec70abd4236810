"""A device that is asked and told in lines of text: a reading, a setpoint, or both.

What the options hold decides what it can do: `query` makes a sensor, `set` and/or `enable` an actuator. How the
instrument is talked to is its `TextTalk`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from pydantic import Field

from rigctl.errors import DeviceFault, DeviceTimeout
from rigctl.rig.protocols import ClaimedPlace, Deadline, Device, DeviceOptions, Identity, Reading, Sensor
from rigctl_drivers.numerals import as_number
from rigctl_drivers.setpoint import SetpointActuator, same

VALUE: Final = re.compile(r"\{value(?::([^{}]*))?\}")
"""Where a command has its setpoint."""
FORM: Final = re.compile(r"[-+ ]?0?\d{0,2}(?:\.\d{1,2})?[eEfFgG]?")
"""How a setpoint may be written: a form of a thousand million digits would take all memory."""
ANOTHER: Final = re.compile(r"\{\w*[:.!}]")
"""What looks like a place for something else."""


class EnableCommands(DeviceOptions):
    """The commands that put the setpoint in force and out of it."""

    on: str
    """E.g. `OUTP ON`."""
    off: str
    """E.g. `OUTP OFF`."""
    state: str
    """What is asked whether it is on, e.g. `OUTP?`."""


class TextOptions(DeviceOptions):
    """A reading, a setpoint, or both, of an instrument that talks in lines of text."""

    unit: str = ""
    """Unit of the reading and of the setpoint."""
    query: str | None = None
    """What is asked for a reading; makes the device a sensor."""
    set: str | None = None
    """What sends a setpoint, e.g. `VOLT {value}` or `VOLT {value:.3f}`; makes the device an actuator."""
    confirm: str | None = None
    """What is asked for the setpoint it holds, e.g. `VOLT?`."""
    enable: EnableCommands | None = None
    """What puts the setpoint in force; alone, the device is on/off and takes 0 or 1."""
    release_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint that imposes nothing, for an actuator without `enable`."""
    safe_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint imposed as the safe state; without it, safe means released."""

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        drives = self.set is not None or self.enable is not None
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
            (not self.on_off or self.safe_value in (None, 0.0, 1.0), "`safe_value` of an on/off device must be 0 or 1"),
        )

    @property
    def on_off(self) -> bool:
        """Tell whether it takes 0 or 1 only."""
        return self.enable is not None and self.set is None

    def misfit(self, setpoint: float) -> str:
        return "an on/off device takes 0 or 1" if self.on_off and setpoint not in (0.0, 1.0) else ""

    def written(self, value: float, form: str) -> str:
        """Return a setpoint as the instrument is sent it."""
        return format(value, form)

    def meant(self, text: str) -> float | None:
        """Return what a number means as the instrument writes it; None: it is none."""
        return as_number(text)

    def rounded(self, setpoint: float) -> float:
        found = VALUE.search(self.set or "")
        held = self.meant(self.written(setpoint, (found and found[1]) or ""))
        return setpoint if held is None else held

    def command(self, setpoint: float) -> str:
        return VALUE.sub(lambda found: self.written(setpoint, found[1] or ""), self.set or "")

    def claims(self, language: str, part: str = "") -> Sequence[ClaimedPlace]:
        """Claim the line, shared with others of the same instrument, each command, and `part` of the query's answer."""
        found = [ClaimedPlace("the line", "shares", language)]
        if self.query is not None:
            found.append(ClaimedPlace(f"query {self.query}{part}", "reads", self.query))
        commands = [self.set, None if self.enable is None else self.enable.on]
        return found + [ClaimedPlace(f"command {text}", "writes") for text in commands if text is not None]


def _takes_value(template: str) -> bool:
    """Tell whether a command has a place for the setpoint, which writes it in no more than 99 digits, and no other."""
    forms = VALUE.findall(template)
    return bool(forms) and all(map(FORM.fullmatch, forms)) and ANOTHER.search(VALUE.sub("", template)) is None


class TextTalk(ABC):
    """How one instrument is asked and told."""

    anonymous: bool = False
    """It does not say who it is."""

    @abstractmethod
    def identify(self, deadline: Deadline) -> Identity: ...

    @abstractmethod
    def simulated(self, deadline: Deadline) -> bool: ...

    @abstractmethod
    def read(self, deadline: Deadline) -> Reading: ...

    def begin(self, deadline: Deadline) -> None:  # noqa: B027 - most have nothing to do
        """Do what must be done before a setpoint is sent, unless it is a safe one."""

    exact: bool = False
    """It holds what it was sent, to the last digit: else it has not taken it."""

    def start(self, deadline: Deadline) -> None:  # noqa: B027 - most have nothing to do
        """Start what holds its setpoint now, where it cannot be asked whether it is started."""

    @abstractmethod
    def told(self, command: str, deadline: Deadline) -> bool:
        """Send a command; tell whether the instrument has said that it has dealt with it. Raises `DeviceFault`."""

    @abstractmethod
    def held(self, deadline: Deadline, *, unsure: bool = False) -> float:
        """Ask which setpoint it holds; `unsure`: because a command was not acknowledged."""

    @abstractmethod
    def is_on(self, deadline: Deadline) -> bool:
        """Ask whether its setpoint is in force."""


def device(talk: TextTalk, options: TextOptions) -> Device:
    """Return a device that can do what its options hold."""
    if options.query is None:
        return TextOutput(talk, options)
    if options.set is None and options.enable is None:
        return TextSensor(talk, options)
    return TextControlled(talk, options)


class TextDevice(Device):
    """What every such instrument can be asked."""

    def __init__(self, talk: TextTalk, options: TextOptions) -> None:
        self.unit = options.unit
        self.anonymous = talk.anonymous
        self._talk = talk
        self._options = options

    def identify(self, deadline: Deadline) -> Identity:
        return self._talk.identify(deadline)

    def simulated(self, deadline: Deadline) -> bool:
        return self._talk.simulated(deadline)


class TextSensor(TextDevice, Sensor):
    """A sensor by query."""

    def read(self, deadline: Deadline) -> Reading:
        return self._talk.read(deadline)


class TextOutput(TextDevice, SetpointActuator):
    """An actuator: a setpoint, switched on and off, or one of both."""

    def __init__(self, talk: TextTalk, options: TextOptions) -> None:
        super().__init__(talk, options)
        self.sets, self.switches = options.set is not None, options.enable is not None
        self.release_value, self.safe_value = options.release_value, options.safe_value

    def apply(self, value: float, deadline: Deadline) -> None:
        super().apply(value, deadline)
        self._talk.start(deadline)

    def _begin(self, deadline: Deadline) -> None:
        self._talk.begin(deadline)

    def _held(self, deadline: Deadline) -> float:
        return self._talk.held(deadline)

    def _is_on(self, deadline: Deadline) -> bool:
        return self._talk.is_on(deadline)

    def _set(self, value: float, deadline: Deadline) -> None:
        """Send a setpoint, once. If it is unknown whether it arrived, what the instrument holds decides."""
        try:
            acknowledged = self._talk.told(self._options.command(value), deadline.within(deadline.remaining_s / 2))
        except DeviceTimeout:
            if not same(self._talk.held(deadline, unsure=True), self._options.rounded(value)):
                raise
        else:
            if not acknowledged:  # it answers once it has dealt with what came before
                held = self._talk.held(deadline)
                if self._talk.exact and not same(held, self._options.rounded(value)):
                    raise DeviceFault(f"holds {held:g} after it was sent {value:g}; nothing was switched on")

    def _switch(self, on: bool, deadline: Deadline) -> None:
        """Send a command, and wait until the instrument has dealt with it."""
        enable = self._options.enable
        if enable is not None and not self._talk.told(enable.on if on else enable.off, deadline):
            self.read_back(deadline)


class TextControlled(TextSensor, TextOutput):
    """Imposes a setpoint and reads the quantity."""
