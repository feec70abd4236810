"""The temperature that an EZO circuit compensates by, as another instrument reads it."""

from __future__ import annotations

from pydantic import Field

from rigctl.rig.protocols import Clock, DeviceOptions, Reading, Severity

FRESH_WALL_S = 5.0
"""Wall seconds for which a temperature counts as taken together with the reading."""


class CompensateOptions(DeviceOptions):
    """What a reading is compensated by."""

    temperature: str
    """Device that reads the temperature of the same liquid, degC."""
    stale_after_s: float = Field(default=600.0, gt=0)
    """Rig seconds after which a temperature that cannot be read any more is too old to compensate by."""


class Compensation:
    """Knows the last temperature, and how far it can be relied on."""

    def __init__(self, options: CompensateOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._last: Reading | None = None
        self._why = "it was not read yet"

    def take(self, reading: Reading) -> None:
        if reading.valid:
            self._last, self._why = reading, ""
        else:
            self._why = reading.detail or "it is INVALID"

    def now(self) -> tuple[float | None, str, Severity]:
        """Return the degrees to send, what is doubtful about them, and how bad that is; INVALID: there are none."""
        whose = self._options.temperature
        if self._last is None:
            return None, f"cannot be compensated, {whose} has given no temperature: {self._why}", Severity.INVALID
        age_s = self._clock.now_s() - self._last.time_s
        if age_s > self._options.stale_after_s and age_s > FRESH_WALL_S * self._clock.speedup:
            why = f"cannot be compensated, the temperature of {whose} is {age_s:.0f} s old: {self._why}"
            return None, why, Severity.INVALID
        if self._why:
            why = f"compensated by a temperature of {whose} that is {age_s:.0f} s old: {self._why}"
            return self._last.value, why, Severity.MINOR
        return self._last.value, "", self._last.severity
