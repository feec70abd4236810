"""Atlas Scientific EZO-PMP dosing pump on a UART (EZO-PMP data sheet, UART part).

`*DONE,v` comes unsolicited when a dispense ends, so possibly between a query and its reply.
"""

from __future__ import annotations

import math

from sim_rig.clock import Handle, Timer
from sim_rig.faces.ezo import SIMULATED, Answer, Circuit, Command, NotUnderstood, asks, none, number
from sim_rig.plants.pump import DosingPump

FOREVER_ML = 1e9
"""`D,*`: until it is stopped."""


class PumpCircuit:
    """The command set of the EZO-PMP."""

    def __init__(self, timer: Timer, pump: DosingPump, name: str = "") -> None:
        self.pump = pump
        self.dstart_ml = 0.0
        """What it would dispense at power-up."""
        self._timer = timer
        self._watch: Handle | None = None
        self._watching = False
        commands: dict[str, Command] = {
            "D": self._dispense,
            "DC": self._constant_rate,
            "TV": lambda a: self._query(a, f"?TV,{self.pump.total_ml:.2f}"),
            "ATV": lambda a: self._query(a, f"?ATV,{self.pump.absolute_ml:.2f}"),
            "PV": lambda a: self._query(a, f"?PV,{12.0 if self.pump.powered else 0.0:.2f}"),
            "R": self._reading,
            "CLEAR": self._clear,
            "X": self._stop,
            "P": self._pause,
            "DSTART": self._dstart,
            "C": self._continuous,
        }
        self.circuit = Circuit(timer, f"?I,PMP,{SIMULATED}1.06", commands, name=name)
        self.feed = self.circuit.feed

    def power_cycle(self) -> None:
        """The supply fails and comes back in the middle of whatever it was doing."""
        self._forget()
        self.pump.power_cycle()
        self.circuit.power_cycle()
        if self.dstart_ml:
            self._begin(self.dstart_ml, self.pump.max_rate_ml_per_min)

    # dispensing --------------------------------------------------------------------------------------------------

    def _dispense(self, arguments: list[str]) -> Answer:
        if asks(arguments):
            return [f"?D,{self.pump.dispensed_ml:.2f},{int(self.pump.running)}"]
        if len(arguments) not in (1, 2):
            raise NotUnderstood(",".join(arguments))
        backwards, volume_ml = _volume(arguments[0])
        rate = self.pump.max_rate_ml_per_min
        if len(arguments) == 2:
            minutes = number(arguments[1])
            if minutes <= 0 or volume_ml == FOREVER_ML:
                raise NotUnderstood(",".join(arguments))
            rate = volume_ml / minutes
        return self._begin(volume_ml, -rate if backwards else rate)

    def _constant_rate(self, arguments: list[str]) -> Answer:
        if asks(arguments):
            return [f"?MAXRATE,{self.pump.max_rate_ml_per_min:.1f}"]
        if len(arguments) != 2:
            raise NotUnderstood(",".join(arguments))
        rate = number(arguments[0])
        volume_ml = FOREVER_ML if arguments[1] == "*" else abs(rate) * number(arguments[1])
        if rate == 0 or volume_ml <= 0:
            raise NotUnderstood(",".join(arguments))
        return self._begin(volume_ml, rate)

    def _begin(self, volume_ml: float, rate_ml_per_min: float) -> Answer:
        if not self.pump.can_turn:
            return ["*UV,PUMPPWR,0.00", "*ER"]
        if abs(rate_ml_per_min) > self.pump.max_rate_ml_per_min:
            return ["*TOOFAST", "*ER"]
        if volume_ml < self.pump.min_dose_ml:
            return ["*MINVOL", "*ER"]
        self._forget()
        self.pump.start(volume_ml, rate_ml_per_min, self.circuit.received)
        self._watching = True
        self._look_again()
        return []

    def _look_again(self) -> None:
        if math.isfinite(self.pump.remaining_s):
            self._watch = self._timer.after(self.pump.remaining_s, self._maybe_done)

    def _maybe_done(self) -> None:
        self._watch = None
        if not self._watching:
            return
        if self.pump.running:
            self._look_again()
            return
        self._watching = False
        self.circuit.say(f"*DONE,{self.pump.dispensed_ml:.2f}")

    def _forget(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = None
        self._watching = False

    # the rest ----------------------------------------------------------------------------------------------------

    def _stop(self, arguments: list[str]) -> Answer:
        none(arguments)
        self._forget()
        return [f"*DONE,{self.pump.stop():.2f}"]

    def _pause(self, arguments: list[str]) -> Answer:
        if asks(arguments):
            return [f"?P,{int(self.pump.paused)}"]
        none(arguments)
        if self.pump.running:
            self.pump.paused = not self.pump.paused
            if not self.pump.paused:
                self._look_again()
        return []

    def _dstart(self, arguments: list[str]) -> Answer:
        if asks(arguments):
            return [f"?DSTART,{self.dstart_ml:.2f}"]
        if len(arguments) != 1:
            raise NotUnderstood(",".join(arguments))
        self.dstart_ml = 0.0 if arguments[0].upper() == "OFF" else number(arguments[0])
        return []

    def _reading(self, arguments: list[str]) -> Answer:
        none(arguments)
        return [f"{self.pump.dispensed_ml:.2f}"]

    def _clear(self, arguments: list[str]) -> Answer:
        none(arguments)
        self.pump.clear()
        return []

    def _continuous(self, arguments: list[str]) -> Answer:
        """Reports while dispensing are accepted and not sent: nothing here needs them."""
        if arguments not in (["0"], ["1"], ["*"], ["?"]):
            raise NotUnderstood(",".join(arguments))
        return ["?C,0"] if asks(arguments) else []

    @staticmethod
    def _query(arguments: list[str], reply: str) -> Answer:
        if not asks(arguments):
            raise NotUnderstood(",".join(arguments))
        return [reply]


def _volume(text: str) -> tuple[bool, float]:
    """(backwards, mL); `*` is without end."""
    backwards = text.startswith("-")
    volume_ml = FOREVER_ML if text.lstrip("-") == "*" else abs(number(text))
    if volume_ml == 0:
        raise NotUnderstood(text)
    return backwards, volume_ml
