"""Atlas Scientific EZO circuits that measure (pH, EC, RTD, ...), by UART (9600 8N1) or I2C."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import ClassVar

from pydantic import Field, model_validator

from rigctl.errors import DeviceError, IdentityMismatch
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import Deadline, DeviceOptions, Driver, Identity, Line, Reading, Sensor, Severity
from rigctl_drivers.ezo import UNITS, EzoDevice, EzoOptions
from rigctl_drivers.searching import search_ezo

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


LATE_S = 1.0
"""The slowest reading (pH) takes 900 ms."""
NO_PROBE = MappingProxyType({"rtd": -1023.0})

SET_TO = MappingProxyType({"rtd": ("S,?", "c"), "ec": ("O,?", "EC"), "do": ("O,?", "mg"), "hum": ("O,?", "HUM")})
"""What circuits can be set to say instead, which a power cut does not undo: the question, and what it must answer."""


class EzoSensorOptions(EzoOptions):
    """One EZO circuit."""

    model: str = Field(pattern=r"^[A-Za-z0-9]+$")
    """As the circuit names itself, in any case: pH, EC, RTD, ORP, DO, CO2, HUM."""
    unit: str | None = None
    """Unit of the reading; known for the models above."""
    field: int = Field(default=1, ge=1, le=8)
    """Which of the values is read, for circuits that answer several (EC)."""
    temperature_c: float | None = Field(default=None, ge=-20, le=200)
    """Temperature for compensation, degrees Celsius, sent once per connection; without it the circuit keeps its own."""

    compensate: CompensateOptions | None = None
    """Temperature for compensation, read by another device before each reading and sent with it (`RT`)."""

    @model_validator(mode="after")
    def _one_temperature(self) -> EzoSensorOptions:
        if self.compensate is not None and self.temperature_c is not None:
            raise ValueError("compensate: does not go with `temperature_c`: give one of them")
        return self

    @model_validator(mode="after")
    def _unit_is_known(self) -> EzoSensorOptions:
        if self.unit is None and self.model.casefold() not in UNITS:
            raise ValueError(f"unit: model {self.model!r} has no known unit, so `unit` must be given")
        return self


class EzoPhOptions(EzoSensorOptions):
    """One EZO-pH circuit: the model is known."""

    model: str = Field(default="pH", pattern=r"^[A-Za-z0-9]+$")
    """As the circuit names itself."""


class EzoSensor(EzoDevice, Sensor):
    """A sensor; one reading per request, never the circuit's own continuous ones."""

    def __init__(self, options: EzoSensorOptions, line: Line) -> None:
        super().__init__(options, options.model, line, late_s=LATE_S)
        self.unit = options.unit or UNITS[options.model.casefold()]
        self._options = options
        self._prepared = False
        compensate = options.compensate
        self.temperature_from = None if compensate is None else compensate.temperature
        self._compensation = None if compensate is None else Compensation(compensate, line.clock)

    def identify(self, deadline: Deadline) -> Identity:
        """Ask as `EzoChannel.identify`; raises `IdentityMismatch` also if it is set to speak another unit than ours.

        Who has to be asked may have been without power: it is prepared again before the next reading.
        """
        self._prepared = False
        found, model = super().identify(deadline), self._options.model.casefold()
        question, meant = SET_TO.get(model, ("", ""))
        said = self._channel.if_known(question, deadline) if meant and self.unit == UNITS[model] else None
        if said is not None and meant.casefold() not in map(str.casefold, said):
            mend = question.replace("?", meant) + (",1" if question == "O,?" else "")
            what = f"{question} got {','.join(said)!r}, so it does not read in {self.unit}"
            raise IdentityMismatch(f"{what}: send {mend}, or say in `unit` and `field` what it reads")
        return found

    def take_temperature(self, reading: Reading) -> None:
        if self._compensation is not None:
            self._compensation.take(reading)

    def read(self, deadline: Deadline) -> Reading:
        """Ask `R`, or `RT` with a temperature; INVALID without its probe or any temperature, MINOR if that is old.

        MINOR also after a restart or bad supply; `GarbledReply` if no number.
        """
        channel, question = self._channel, "R"
        doubt, severity = "", Severity.NONE
        if self._compensation is not None:
            celsius, doubt, severity = self._compensation.now()
            if celsius is None:
                return Reading.invalid(self.unit, channel.line.clock.now_s(), doubt)
            question = f"RT,{celsius:.2f}"
        elif not channel.unasked and self._options.temperature_c is not None:  # no restart is told, which forgets it
            question = f"RT,{self._options.temperature_c:.2f}"
        try:
            noticed = self._prepare(deadline)
            answer = channel.reading(question, deadline)
            value = channel.number(question, answer.split(","), self._options.field - 1)
        except DeviceError:
            self._prepared = False  # whoever answers next may be in continuous mode again
            raise
        now_s = channel.line.clock.now_s()
        if math.isnan(value) or value == NO_PROBE.get(self._options.model.casefold()):
            return Reading.invalid(self.unit, now_s, f"the circuit reports {answer} (probe off?)")
        noticed = noticed or self._noticed()
        if noticed:
            severity = max(severity, Severity.MINOR)
            doubt = "; ".join(filter(None, (f"seen: {noticed}", doubt)))
        return Reading(value, self.unit, now_s, severity, doubt)

    def _noticed(self) -> str:
        """Return what the circuit said unasked of a restart or its supply, once."""
        events = self._channel.events
        said = " ".join(events.codes) if events.restarted or events.supply else ""
        self._prepared = self._prepared and not events.restarted
        events.clear()
        return said

    def _prepare(self, deadline: Deadline) -> str:
        """Stop continuous mode (the factory setting) and set the temperature; returns what was noticed before."""
        channel = self._channel
        channel.listen()
        noticed = self._noticed()
        if not self._prepared and channel.unasked:
            channel.command("C,0", deadline)
            if self._options.temperature_c is not None:
                channel.command(f"T,{self._options.temperature_c:.2f}", deadline)
            self._prepared = True
        return noticed


class EzoSensorDriver(Driver):
    """Driver of an EZO circuit that measures."""

    name = "ezo"
    summary = "Atlas Scientific EZO sensor (pH, EC, RTD, ...)"
    schemes = ("serial", "tcp", "i2c")
    options: ClassVar[type[DeviceOptions]] = EzoSensorOptions
    search_rank = 2
    search = staticmethod(search_ezo)
    connect = staticmethod(EzoSensor)


class EzoPhDriver(EzoSensorDriver):
    """The commonest of them under a name of its own."""

    name = "ezo-ph"
    summary = "Atlas Scientific EZO-pH probe"
    options = EzoPhOptions
