"""Relays and switches on the GPIO lines of this computer.

A line knows its own level, not whether a contact has closed. It has no watchdog: what holds once nobody drives it is
the kernel's doing, and the board's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from rigctl.errors import DeviceFault, GarbledReply
from rigctl.rig.protocols import (
    AddressedLine,
    ClaimedPlace,
    Deadline,
    Device,
    DeviceOptions,
    Driver,
    Identity,
    Pace,
    Reading,
    Sensor,
)
from rigctl_drivers.gpio_line import MOST_READ, OFF, ON
from rigctl_drivers.setpoint import SetpointActuator

MODULES = Path("/sys/module")
KEEPS = "pinctrl_*/parameters/persist_gpio_outputs"
"""Whether a Raspberry Pi leaves an output as it is once nobody holds it."""
PROMPT_S = 0.01
"""A line needs microseconds."""


class GpioOptions(DeviceOptions):
    """One line."""

    line: int = Field(ge=0, le=1023)
    """Number of the line on its chip; on a Raspberry Pi the number after "GPIO", not that of the pin."""
    active_low: bool = False
    """On means a low level, as many relay boards want it, and a switch between line and ground gives."""

    def occupies(self) -> Sequence[ClaimedPlace]:
        return (ClaimedPlace(f"line {self.line}", "keeps"),)


class GpioRelayOptions(GpioOptions):
    """One relay."""

    def misfit(self, setpoint: float) -> str:
        return "" if setpoint in (0.0, 1.0) else "an on/off device takes 0 or 1"

    def assess(self) -> tuple[Sequence[str], Sequence[str]]:
        """Say what becomes of the relay when nobody holds its line any more."""
        kept = {path.read_text().strip() for path in MODULES.glob(KEEPS)}
        if not kept:
            what = "may stay as it is, or go off"
        elif kept <= {"N", "0"}:
            what = "goes off: its line becomes an input"
        else:
            what = "stays as it is, unless config.txt has `dtparam=strict_gpiod`"
        hung = "while the computer hangs it stays as it is; a timer relay in what it switches ends both"
        return (), (f"if rigctl dies, the relay {what}; {hung}",)


class GpioSwitchOptions(GpioOptions):
    """One switch."""

    pull: Literal["up", "down", "none"] = "up"
    """Resistor in the chip that holds an open line; none where there is one outside."""


class _Line(Device):
    """One line and its address."""

    anonymous = True
    unit = ""

    def __init__(self, options: GpioOptions, line: AddressedLine, *words: str) -> None:
        self._options = options
        self._name = f"GPIO line {options.line}"
        self._address = " ".join([str(options.line), *["active-low"] * options.active_low, *words])
        self._line = line

    def identify(self, deadline: Deadline) -> Identity:
        """Look at its level: nothing tells one line from another."""
        self._is_on(deadline)
        return Identity(self._name)

    def _is_on(self, deadline: Deadline, sent: bytes = b"") -> bool:
        """Return its level, after what is sent."""
        got = self._line.transfer(self._address, sent, MOST_READ, deadline)
        if got not in (ON, OFF):
            raise GarbledReply(f"{self._name}: got {got!r}, must be on or off")
        return got == ON


class GpioRelay(_Line, SetpointActuator):
    """A relay: 1 is on; 0, let go and safe are off. Its state is the level of the pin, whoever drives it."""

    def _switch(self, on: bool, deadline: Deadline) -> None:
        if self._is_on(deadline, ON if on else OFF) != on:
            raise DeviceFault(f"{self._name} is driven {on:d} and does not follow: is it shorted?")

    def pace(self) -> Pace:
        return Pace(PROMPT_S, PROMPT_S)


class GpioSwitch(_Line, Sensor):
    """A float switch, button or contact: 1 is on."""

    def __init__(self, options: GpioSwitchOptions, line: AddressedLine) -> None:
        super().__init__(options, line, "floating" if options.pull == "none" else f"pull-{options.pull}")

    def read(self, deadline: Deadline) -> Reading:
        return Reading(float(self._is_on(deadline)), self.unit, self._line.clock.now_s())


class GpioRelayDriver(Driver):
    """Driver of a relay."""

    name = "gpio-relay"
    summary = "relay on a GPIO line (on/off)"
    schemes = ("gpio",)
    options = GpioRelayOptions
    connect = staticmethod(GpioRelay)


class GpioSwitchDriver(Driver):
    """Driver of a switch."""

    name = "gpio-switch"
    summary = "float switch, button or contact on a GPIO line (0 or 1)"
    schemes = ("gpio",)
    options = GpioSwitchOptions
    connect = staticmethod(GpioSwitch)
