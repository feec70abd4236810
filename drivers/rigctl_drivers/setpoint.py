"""Applies, releases and makes safe a setpoint and its switch, whatever protocol carries them."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from rigctl.errors import DeviceFault
from rigctl.flaws import Flaw
from rigctl.rig.protocols import Actuator, ActuatorState, Deadline


class SetpointActuator(Actuator):
    """Imposes a setpoint that may be switched on and off, or drives a switch alone, which takes 0 or 1."""

    sets: bool = False
    """Whether it takes a setpoint."""
    switches: bool = True
    """Whether a switch puts it in force."""
    release_value: float | None = None
    """Setpoint that imposes nothing, for an actuator without a switch."""
    safe_value: float | None = None
    """Setpoint of the safe state; None: safe means released."""
    _options: Any
    """Its `DeviceOptions`, which tell what it can hold."""

    def apply(self, value: float, deadline: Deadline) -> None:
        if not math.isfinite(value):
            raise DeviceFault(Flaw("", "must be a finite number", "nothing was sent", got=f"setpoint {value}"))
        why = self._options.misfit(value)
        if why:
            raise DeviceFault(f"got setpoint {value}, {why}; nothing was sent")
        self._begin(deadline)
        self._impose(value, deadline)

    def release(self, deadline: Deadline) -> None:
        if self.switches:
            self._switch(False, deadline)
        elif self.release_value is not None:
            self._set(self.release_value, deadline)

    def safe(self, deadline: Deadline) -> None:
        """Impose `safe_value` if there is one, else release; nothing is asked before."""
        if self.safe_value is None:
            self.release(deadline)
        else:
            self._impose(self.safe_value, deadline)

    def read_back(self, deadline: Deadline) -> ActuatorState:
        on = not self.switches or self._is_on(deadline)
        if not self.sets:
            return ActuatorState(on, float(on))
        if not on:
            return ActuatorState(False, None)
        held = self._held(deadline)
        if self.release_value is not None and same(held, self._options.rounded(self.release_value)):
            return ActuatorState(False, self.release_value)
        return ActuatorState(True, held)

    def _impose(self, value: float, deadline: Deadline) -> None:
        if self.sets:
            self._set(value, deadline)
        if self.switches:
            self._switch(self.sets or value == 1.0, deadline)

    def _begin(self, deadline: Deadline) -> None:
        """Do what must be done before a setpoint is sent, unless it is a safe one."""

    def _set(self, value: float, deadline: Deadline) -> None:
        """Send a setpoint once, and find out whether it arrived."""
        raise NotImplementedError

    def _held(self, deadline: Deadline) -> float:
        """Ask which setpoint the instrument holds."""
        raise NotImplementedError

    @abstractmethod
    def _switch(self, on: bool, deadline: Deadline) -> None:
        """Switch it once, and find out whether that arrived."""

    @abstractmethod
    def _is_on(self, deadline: Deadline) -> bool:
        """Ask whether its setpoint is in force."""


def same(held: float, wanted: float, within: float = 1e-9) -> bool:
    """Tell whether a setpoint is the one that was wanted, as far as numbers are written."""
    return math.isclose(held, wanted, rel_tol=1e-6, abs_tol=within)
