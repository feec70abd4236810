"""Atlas Scientific EZO-PMP dosing pump on a UART (EZO-PMP data sheet, UART part).

`*DONE,v` comes unsolicited when a dispense ends, so possibly between a query and its reply.
"""

from __future__ import annotations

import math

from sim_rig.clock import PlannedCall, Timer
from sim_rig.errors import NotUnderstood
from sim_rig.faces.ezo import Answer, Circuit, number
from sim_rig.plants.pump import DosingPump

FOREVER_ML = 1e9
"""`D,*`: until it is stopped."""


class PumpCircuit(Circuit):
    """Speaks the command set of the EZO-PMP."""

    def __init__(self, timer: Timer, pump: DosingPump, name: str = "") -> None:
        super().__init__(timer, "PMP", "1.06", name)
        self.pump = pump
        self.dstart_ml = 0.0
        """What it would dispense at power-up."""
        self._watch: PlannedCall | None = None
        self._watching = False
        self._calibrated = True
        self.commands |= {
            "D": self._dispense,
            "DC": self._constant_rate,
            "R": lambda: [f"{pump.dispensed_ml:.2f}"],
            "CLEAR": pump.clear,
            "X": self._stop,
            "P": self._pause,
            "DSTART": self._dstart,
            "CAL": self._calibrate,
            "C": self._continuous,
        }
        self.questions |= {
            "D": lambda: f"{pump.dispensed_ml:.2f},{int(pump.running)}",
            "TV": lambda: f"{pump.total_ml:.2f}",
            "ATV": lambda: f"{pump.absolute_ml:.2f}",
            "PV": lambda: f"{12.0 if pump.powered else 0.0:.2f}",
            "P": lambda: str(int(pump.paused)),
            "DSTART": lambda: f"{self.dstart_ml:.2f}",
            "C": lambda: "0",
            "CAL": lambda: str(int(self._calibrated)),
        }

    def power_cycle(self, reason: str = "B") -> None:
        """Let the supply fail and come back in the middle of whatever it was doing."""
        self._forget()
        self.pump.power_cycle()
        super().power_cycle(reason)
        if self.dstart_ml:
            self._begin(self.dstart_ml, self.pump.max_rate_ml_per_min)

    # dispensing --------------------------------------------------------------------------------------------------

    def _dispense(self, volume: str, minutes: str | None = None) -> Answer:
        backwards, volume_ml = _volume(volume)
        rate = self.pump.max_rate_ml_per_min
        if minutes is not None:
            duration_min = number(minutes)
            if duration_min <= 0 or volume_ml == FOREVER_ML:
                raise NotUnderstood(minutes)
            rate = volume_ml / duration_min
        return self._begin(volume_ml, -rate if backwards else rate)

    def _constant_rate(self, ml_per_min: str, minutes: str | None = None) -> Answer:
        if minutes is None and ml_per_min == "?":
            return [f"?MAXRATE,{self.pump.max_rate_ml_per_min:.1f}"]
        if minutes is None:
            raise NotUnderstood(ml_per_min)
        rate = number(ml_per_min)
        volume_ml = FOREVER_ML if minutes == "*" else abs(rate) * number(minutes)
        if rate == 0 or volume_ml <= 0:
            raise NotUnderstood(minutes)
        return self._begin(volume_ml, rate)

    def _begin(self, volume_ml: float, rate_ml_per_min: float) -> Answer:
        if not self.pump.can_turn:
            return ["*UV,PUMPPWR,0.00", "*ER"]
        if abs(rate_ml_per_min) > self.pump.max_rate_ml_per_min:
            return ["*TOOFAST", "*ER"]
        if volume_ml < self.pump.min_dose_ml:
            return ["*MINVOL", "*ER"]
        self._forget()
        self.pump.start(volume_ml, rate_ml_per_min, self.received)
        self._watching = True
        self._catch_up()
        return []

    def _catch_up(self) -> None:
        if math.isfinite(self.pump.remaining_s):
            self._watch = self.timer.after(self.pump.remaining_s, self._maybe_done)

    def _maybe_done(self) -> None:
        self._watch = None
        if not self._watching:
            return
        if self.pump.running:
            self._catch_up()
            return
        self._watching = False
        self.say(f"*DONE,{self.pump.dispensed_ml:.2f}")

    def _forget(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = None
        self._watching = False

    # the rest ----------------------------------------------------------------------------------------------------

    def _stop(self) -> Answer:
        self._forget()
        return [f"*DONE,{self.pump.stop():.2f}"]

    def _pause(self) -> None:
        if self.pump.running:
            self.pump.paused = not self.pump.paused
            if not self.pump.paused:
                self._catch_up()

    def _dstart(self, volume: str) -> None:
        self.dstart_ml = 0.0 if volume.upper() == "OFF" else number(volume)

    def _calibrate(self, volume: str) -> None:
        """Take what a person has measured of the last dose: from now on it dispenses what it is asked for."""
        if volume.upper() == "CLEAR":
            self._calibrated = False
            return
        measured_ml = number(volume)
        if measured_ml <= 0 or self.pump.running:
            raise NotUnderstood(volume)
        self._calibrated = True

    def _continuous(self, mode: str) -> None:
        # reports while dispensing are accepted and not sent: nothing here needs them
        if mode not in ("0", "1", "*"):
            raise NotUnderstood(mode)


def _volume(text: str) -> tuple[bool, float]:
    """Return whether it is backwards, and mL; `*` is without end."""
    backwards = text.startswith("-")
    volume_ml = FOREVER_ML if text.lstrip("-") == "*" else abs(number(text))
    if volume_ml == 0:
        raise NotUnderstood(text)
    return backwards, volume_ml
