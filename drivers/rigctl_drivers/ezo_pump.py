"""Atlas Scientific EZO-PMP dosing pump, by UART or I2C.

A dose is sent once and never again: whether it runs is found out by asking (`D,?`, `TV,?`). The commands without an
end (`D,*`, `DC,...`) and those that toggle (`P`, `Invert`) are never sent.
"""

from __future__ import annotations

import math

from pydantic import Field

from rigctl.errors import DeviceFault, DeviceTimeout
from rigctl.flaws import Flaw, got
from rigctl.rig.protocols import Deadline, Doser, DoseStatus, Driver, Line, Meter, Pace, Reading
from rigctl_drivers.ezo import LEAST_LATE_S, SETTING_LATE_S, EzoDevice, EzoOptions

MODEL = "PMP"
ANSWER_S = 0.35
"""Rig seconds that the pump takes over any command (300 ms) and its answer on the wire."""
NOISE = 1e-6
"""Of a hundredth of a mL: 0.57 is no less than 57 of them."""
LEAST_CAL_ML = 0.01
"""Less would be sent as nothing."""
LEAST_MOTOR_V = 10.8
"""The motor is made for 12 to 24 V; this is 12 V less a tenth."""


class EzoPumpOptions(EzoOptions):
    """One pump."""

    min_dose_ml: float = Field(default=0.5, ge=0.5, allow_inf_nan=False)
    """Smallest dose, mL; the pump refuses less than 0.5."""
    max_rate_ml_per_min: float = Field(default=58.5, gt=0, allow_inf_nan=False)
    """How fast it dispenses at most, mL/min, until the pump has been asked (`DC,?`)."""


class EzoPump(EzoDevice, Doser, Meter):
    """A doser, and a meter of what it has dispensed."""

    meter_unit = "mL"
    calibratable = True

    def __init__(self, options: EzoPumpOptions, line: Line) -> None:
        super().__init__(options, MODEL, line, late_s=SETTING_LATE_S)
        self.min_dose_ml = options.min_dose_ml
        self.max_rate_ml_per_min = options.max_rate_ml_per_min
        self._rate_known = False

    def pace(self) -> Pace:
        exchange_s = max(ANSWER_S / self._channel.line.clock.speedup, LEAST_LATE_S)
        return Pace(exchange_s, exchange_s)

    def ready(self, deadline: Deadline) -> None:
        at_start = self._number_if_known("Dstart,?", deadline, tries=2) or 0.0
        if at_start != 0.0:
            raise DeviceFault(f"dispenses {at_start:g} mL at every power-up (Dstart); send Dstart,0 before using it")
        _, running = self._numbers("D,?", 2, deadline)
        if running:
            raise DeviceFault("a dose is running; stop it (X) or wait for its end")
        motor_v = self._number_if_known("PV,?", deadline)
        if motor_v is not None and not motor_v >= LEAST_MOTOR_V:
            allowed = f"must be >= {LEAST_MOTOR_V:g} V"
            raise DeviceFault(got(motor_v, allowed, "is it switched on?", where="PV,?: motor supply", lead=" V"))
        if not self._rate_known:
            (rate_ml_per_min,) = self._numbers("DC,?", 1, deadline)
            if not rate_ml_per_min > 0:  # else no dose would ever be overdue, or every one
                raise self._channel.garbled(got(rate_ml_per_min, "must be > 0", where="DC,?", lead=" mL/min"))
            self.max_rate_ml_per_min, self._rate_known = rate_ml_per_min, True

    def start_dose(self, volume_ml: float, deadline: Deadline) -> None:
        channel = self._channel
        if not (math.isfinite(volume_ml) and volume_ml >= self.min_dose_ml):
            asked = f"a dose of {volume_ml} mL"
            raise DeviceFault(Flaw("", f"must be >= {self.min_dose_ml}", "nothing was sent", got=asked))
        channel.listen()
        channel.events.forget_dose()
        # down to what it can be sent: what was asked for is what caps were held against
        channel.command(f"D,{math.floor(100 * volume_ml + NOISE) / 100:.2f}", deadline)

    def dose_status(self, deadline: Deadline) -> DoseStatus:
        """Ask `D,?`; a `*DONE` that arrives in between counts, a restart is reported once."""
        events = self._channel.events
        self._channel.listen()
        events.done_ml = None  # what was said before may be of the dose before, heard only after this one was sent
        dispensed_ml, running = self._numbers("D,?", 2, deadline)
        if events.done_ml is not None:  # it ended while we were asking
            dispensed_ml, running = events.done_ml, 0.0
        if math.isnan(dispensed_ml):
            raise self._channel.garbled(f"D,?: the pump cannot have dispensed {dispensed_ml} mL")
        status = DoseStatus(bool(running), dispensed_ml, events.restarted, events.refusal)
        events.restarted = False
        return status

    def total_volume_ml(self, deadline: Deadline) -> Reading:
        (volume_ml,) = self._numbers("TV,?", 1, deadline)
        now_s = self._channel.line.clock.now_s()
        if not volume_ml >= 0.0:
            return Reading.invalid(self.meter_unit, now_s, f"the pump cannot have dispensed {volume_ml} mL")
        return Reading(volume_ml, self.meter_unit, now_s)

    def calibrate(self, volume_ml: float, deadline: Deadline) -> None:
        """Send `Cal,v`: what its last dose was in truth, as somebody has measured it."""
        if not (math.isfinite(volume_ml) and volume_ml >= LEAST_CAL_ML):
            raise DeviceFault(Flaw("", f"must be >= {LEAST_CAL_ML}", "nothing was sent", got=f"{volume_ml} mL"))
        self._channel.command(f"Cal,{volume_ml:.2f}", deadline)

    def total(self, deadline: Deadline) -> Reading:
        """Read the total volume; it begins at 0 again when the pump loses power."""
        return self.total_volume_ml(deadline)

    def stop(self, deadline: Deadline) -> None:
        """Send `X` at once, and again until there is a sign that it arrived; harmless when nothing runs.

        Raises:
            DeviceTimeout: there was none; whether the pump stands still only `dose_status` can tell.
        """
        try:
            while not self._channel.interject("X", deadline):
                continue
        except DeviceTimeout as problem:
            raise DeviceTimeout("X: no sign that it arrived; if the pump runs on, cut its supply") from problem

    def _number_if_known(self, query: str, deadline: Deadline, tries: int = 1) -> float | None:
        fields = self._channel.if_known(query, deadline, tries=tries)
        return None if fields is None else self._channel.number(query, fields)

    def _numbers(self, query: str, count: int, deadline: Deadline) -> tuple[float, ...]:
        fields = self._channel.query(query, deadline)
        return tuple(self._channel.number(query, fields, at) for at in range(count))


class EzoPumpDriver(Driver):
    """Driver of the pump."""

    name = "ezo-pmp"
    summary = "Atlas Scientific EZO-PMP dosing pump (doses once, counts mL)"
    schemes = ("serial", "tcp", "i2c")
    options = EzoPumpOptions
    connect = staticmethod(EzoPump)
