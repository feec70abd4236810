# ruff: noqa: ARG004 - a driver is asked with all that others need
"""Plugs, sensors and meters behind an MQTT broker; how each kind speaks is a profile.

A value is asked for where the device can be asked. Where it speaks by itself, a value counts for `max_age_s` from its
arrival, and one that the broker had kept never. A plug is switched on only once its own auto-off has been set and read
back since the last contact with it; from then on it is fed as a watchdog is.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply
from rigctl.flaws import Flaw, got
from rigctl.rig.messages import Follow, Message, MessageLine
from rigctl.rig.protocols import (
    Actuator,
    ActuatorState,
    ClaimedPlace,
    Deadline,
    Device,
    Driver,
    Identity,
    Meter,
    Pace,
    Reading,
    Sensor,
)
from rigctl_drivers.mqtt_options import (
    MISSING,
    AutoOff,
    Exchange,
    MqttOptions,
    Quantity,
    Setting,
    SwitchOptions,
    dug,
    filled,
)
from rigctl_drivers.numerals import as_number

MISSED = 3
"""Times a plug may not be fed before it goes off."""
TWIN_S = 0.1
"""Wall seconds in which another device of the same name answers, too."""
FIRST_S = 0.3
"""Wall seconds that a value which comes by itself is waited for: others on the line have a turn, too."""
NOW = Deadline(0.0)


class MqttDriver(Driver):
    """Driver of whatever is behind a broker."""

    name = "mqtt"
    summary = "plugs, sensors and energy meters behind an MQTT broker (Tasmota, Shelly, ESPHome, Zigbee2MQTT)"
    schemes = ("mqtt", "mqtts")
    options = MqttOptions
    profiles = Path(__file__).parent / "profiles" / "mqtt"

    @staticmethod
    def connect(options: MqttOptions, line: MessageLine) -> Device:
        if options.switch is not None:
            return Plug(options, options.switch, line)
        if options.count is None:
            return MqttSensor(options, line)
        return MqttMeter(options, line) if options.read is None else MqttMeteredSensor(options, line)

    @staticmethod
    def occupies(options: MqttOptions) -> Sequence[ClaimedPlace]:
        """Claim the relay it switches; any number may read."""
        switched = ClaimedPlace(f"{options.name} channel {options.channel}", "writes")
        return [] if options.switch is None else [switched]

    @staticmethod
    def misfits(options: MqttOptions, setpoints: Sequence[float]) -> Sequence[str]:
        return [f"setpoint {v:g} cannot be held: a switch takes 0 or 1" for v in setpoints if v not in (0.0, 1.0)]

    @staticmethod
    def grain(options: MqttOptions, total: float) -> float:
        return 0.0 if options.count is None else options.count.grain

    @staticmethod
    def watchdog(options: MqttOptions) -> tuple[str, bool]:
        return f"{options.name} channel {options.channel}", options.auto_off is not None

    @staticmethod
    def stays_on(options: MqttOptions) -> str:
        if options.switch is None or options.auto_off is not None:
            return ""
        return f"{options.model} has no auto-off that could be set and read back"


class MqttDevice(Device):
    """What every device behind a broker can be asked."""

    def __init__(self, options: MqttOptions, line: MessageLine) -> None:
        self._options = options
        self._line = line
        self._values = {**options.values, "me": line.me}
        self._asked = 0
        self._follow(self._options.presence.topic, "renews")
        if self._options.demands is not None:
            self._follow(self._options.demands.topic)
        if self._options.identity is not None:
            self._follow(self._options.identity.answer)

    def pace(self) -> Pace:
        return Pace(self._options.latency_s, self._options.latency_s)

    def identify(self, deadline: Deadline) -> Identity:
        """Ask for its number, which its twin would answer, too; or see that it is there, by its last will."""
        question, model = self._options.identity, self._options.model
        self._check_demands(deadline)
        if question is None:
            where = self._options.presence
            said = self._line.arrivals(filled(where.topic, self._values), -math.inf, deadline, kept=True)[-1]
            if self._word(said) != where.there:
                raise DeviceTimeout(f"its last will: {said.topic} says {said.payload[:60]!r}")
            return Identity(model, serial=self._options.name)
        since_s = time.monotonic()
        number = self._ask(question, deadline)
        twin_by = deadline.within(TWIN_S)
        while twin_by.remaining_s:
            with suppress(DeviceTimeout):
                for message in self._line.arrivals(filled(question.answer, self._values), since_s, twin_by):
                    since_s = message.at_s
                    other = dug(_decoded(message, question.at), question.at)
                    if other not in (number, MISSING):
                        what = f"{number} and {other} answer to one name; give each a topic of its own"
                        raise DeviceFault(f"{self._options.name}: {what}")
        return Identity(model, serial=str(number))

    def _check_demands(self, deadline: Deadline) -> None:
        wanted = self._options.demands
        if wanted is not None:
            said = self._line.arrivals(filled(wanted.topic, self._values), -math.inf, deadline, kept=True)[-1]
            value = dug(_decoded(said, wanted.at), wanted.at)
            if value != wanted.is_:
                shown = "nothing" if value is MISSING else value
                raise DeviceFault(Flaw(f"{wanted.at} is {shown}", f"must be {wanted.is_}", wanted.remedy))

    def _follow(self, topic: str, what: Follow = "all") -> None:
        self._line.follow(filled(topic, self._values), what)

    def _word(self, said: Message) -> Any:
        at = self._options.presence.at
        return dug(_decoded(said, at), at)

    def _gone(self) -> str:
        """Return what its last will says, if it says that the device is not there."""
        with suppress(DeviceTimeout):
            said = self._line.arrivals(filled(self._options.presence.topic, self._values), -math.inf, NOW, kept=True)
            if self._word(said[-1]) != self._options.presence.there:
                return f"; its last will: {said[-1].topic} says {said[-1].payload[:60]!r}"
        return ""

    def _ask(self, exchange: Exchange, deadline: Deadline) -> Any:
        """Send a message, once, and return the value in its answer.

        Raises:
            DeviceTimeout: no answer in time; with its last will, if it says that the device is gone.
            DeviceFault: it refuses.
            GarbledReply: what came is not what such a device says.
        """
        self._asked += 1
        values = {**self._values, "id": self._asked}
        topic, payload = filled(exchange.topic, values), filled(exchange.payload, values)
        text = payload if isinstance(payload, str) else json.dumps(payload)
        since_s = time.monotonic()
        try:
            self._line.publish(topic, text.encode("utf-8"), deadline)
            while True:
                for message in self._line.arrivals(filled(exchange.answer, values), since_s, deadline):
                    since_s = message.at_s
                    value = self._answer_in(message, exchange, values)
                    if value is not MISSING:
                        return value
        except DeviceTimeout as late:
            raise type(late)(f"{late.what}{self._gone()}", bus=late.bus) from late

    def _answer_in(self, message: Message, exchange: Exchange, values: Mapping[str, Any]) -> Any:
        at = filled(exchange.at, values)
        data = _decoded(message, at)
        if any(dug(data, path) != filled(value, values) for path, value in exchange.where.items()):
            return MISSING
        refused = dug(data, self._options.refusal) if self._options.refusal else MISSING
        if refused is not MISSING:
            raise DeviceFault(f"{filled(exchange.topic, values)} was refused: {refused}")
        value = dug(data, at)
        return MISSING if exchange.is_ is not None and value != exchange.is_ else value

    def _reading(self, quantity: Quantity, unit: str, deadline: Deadline) -> Reading:
        """Ask for a quantity, or take what came last of it, unless it is too old."""
        clock = self._line.clock
        if quantity.ask is not None:
            value, now_s = self._ask(quantity.ask, deadline), clock.now_s()
        else:
            value, age_s = self._pushed(quantity, deadline)
            now_s = clock.now_s() - age_s * clock.speedup
            if value is MISSING:
                what = f"nothing fresh on {filled(quantity.topic, self._values)} for {self.max_age_s:g} s"
                return Reading.invalid(unit, clock.now_s(), f"{what}{self._gone()}")
        if value is None:
            return Reading.invalid(unit, now_s, "the device reports no value")
        text = str(int(value) if isinstance(value, bool) else value)
        number = quantity.words.get(text, as_number(text))
        if number is None:
            raise GarbledReply(got(value, "must be a number"))
        if not math.isfinite(number):
            return Reading.invalid(unit, now_s, f"the device reports {value}")
        return Reading(number * quantity.scale, unit, now_s)

    def _pushed(self, quantity: Quantity, deadline: Deadline) -> tuple[Any, float]:
        """Return the last value that came, and its age, wall seconds; `MISSING` if none is young enough."""
        now_s, at = time.monotonic(), filled(quantity.at, self._values)
        with suppress(DeviceTimeout):
            topic = filled(quantity.topic, self._values)
            came = self._line.arrivals(topic, now_s - self.max_age_s, deadline.within(FIRST_S))
            for message in () if self._gone() else reversed(came):
                value = dug(_decoded(message, at), at)
                if value is not MISSING:
                    return value, max(0.0, time.monotonic() - message.at_s)
        return MISSING, 0.0

    def _listen(self, quantity: Quantity | None) -> tuple[Quantity, str]:
        """Follow what a quantity needs, and return it with its unit."""
        if quantity is None:  # connect() makes no such device
            raise DeviceFault("it is not configured")
        self._follow(quantity.topic if quantity.ask is None else quantity.ask.answer)
        if quantity.ask is None:
            self.max_age_s = self._options.max_age_s
        return quantity, quantity.unit or self._options.unit


class MqttSensor(MqttDevice, Sensor):
    """Reads one quantity."""

    def __init__(self, options: MqttOptions, line: MessageLine) -> None:
        super().__init__(options, line)
        self._read, self.unit = self._listen(options.read)

    def read(self, deadline: Deadline) -> Reading:
        return self._reading(self._read, self.unit, deadline)


class MqttMeter(MqttDevice, Meter):
    """Counts one quantity; a device that was set to zero says less than before, and that is what is returned."""

    def __init__(self, options: MqttOptions, line: MessageLine) -> None:
        super().__init__(options, line)
        self._count, self.meter_unit = self._listen(options.count)

    def total(self, deadline: Deadline) -> Reading:
        return self._reading(self._count, self.meter_unit, deadline)


class MqttMeteredSensor(MqttMeter, MqttSensor):
    """Counts energy, and reads the power that it is held against."""


class Plug(MqttDevice, Actuator):
    """Switches something: 0 is off and 1 is on."""

    unit = ""

    def __init__(self, options: MqttOptions, switch: SwitchOptions, line: MessageLine) -> None:
        super().__init__(options, line)
        self._switch = switch
        self._guarded = False
        """Whether its auto-off was set and read back since it was recognised last."""
        for exchange in (switch.on, switch.off, switch.state):
            self._follow(exchange.answer)
            self._follow(
                exchange.topic, "kept"
            )  # a command that the broker keeps would reach the plug whenever it comes back
        if switch.auto_off is not None:
            self.heart = AutoOffHeart(self, switch.auto_off, options.auto_off_s / MISSED)
            for setting in switch.auto_off.settings:
                self._follow(setting.ask.answer)

    def identify(self, deadline: Deadline) -> Identity:
        self._guarded = False  # whoever answers from now on may have forgotten
        return super().identify(deadline)

    def apply(self, value: float, deadline: Deadline) -> None:
        if value not in (0.0, 1.0):
            raise DeviceFault(f"got setpoint {value}, a switch takes 0 or 1; nothing was sent")
        if value == 1.0:
            self.guard(deadline)
        self._ask(self._switch.on if value == 1.0 else self._switch.off, deadline)

    def release(self, deadline: Deadline) -> None:
        self._ask(self._switch.off, deadline)

    safe = release

    def read_back(self, deadline: Deadline) -> ActuatorState:
        state = self._ask(self._switch.state, deadline)
        if state not in (self._switch.means_on, self._switch.means_off):
            must = f"must be {self._switch.means_on} or {self._switch.means_off}"
            raise GarbledReply(got(state, must, where=self._switch.state.at))
        on = state == self._switch.means_on
        return ActuatorState(on, float(on))

    def guard(self, deadline: Deadline) -> None:
        """Set its auto-off and read it back, unless that was done since it was recognised last.

        Raises:
            DeviceFault: it does not hold it, or the broker keeps a command for it.
        """
        if self._guarded:
            return
        for exchange in (self._switch.on, self._switch.off):
            topic = filled(exchange.topic, self._values)
            with suppress(DeviceTimeout):
                if any(m.kept and m.payload for m in self._line.arrivals(topic, -math.inf, NOW, kept=True)):
                    remedy = f"delete it: mosquitto_pub -r -n -t '{topic}'"
                    raise DeviceFault(Flaw("the broker keeps a command, and repeats it", "", remedy, where=topic))
        settings = () if self._switch.auto_off is None else self._switch.auto_off.settings
        for setting in settings:
            self._ask(setting.set_, deadline)
            self.check(setting, setting.ask, deadline)
        self._guarded = True

    def feed(self, auto_off: AutoOff, deadline: Deadline) -> None:
        """Start the time anew: by setting it again, or else by switching it on again if it is on."""
        if not self._guarded:
            self.guard(deadline)
        elif auto_off.feeds:
            self.check(auto_off.settings[0], auto_off.settings[0].set_, deadline)
        elif self.read_back(deadline).controlled:
            self._ask(self._switch.on, deadline)

    def check(self, setting: Setting, exchange: Exchange, deadline: Deadline) -> None:
        """Raise `DeviceFault` unless the answer to this holds what the setting is to be."""
        value = self._ask(exchange, deadline)
        for path, wanted in filled(setting.holds, self._values).items():
            held = dug(value, path)
            if held is MISSING or held != wanted:
                self._guarded = False
                where = f"{filled(exchange.topic, self._values)}: {path or exchange.at}"
                shown = "nothing" if held is MISSING else held
                raise DeviceFault(Flaw(f"is {shown}", f"must be {wanted}", "it would stay on if we died", where=where))


class AutoOffHeart:
    """Feeds the auto-off of a plug, which is its watchdog."""

    def __init__(self, plug: Plug, auto_off: AutoOff, every_s: float) -> None:
        self.every_s = every_s
        self._plug = plug
        self._auto_off = auto_off

    def beat(self, deadline: Deadline) -> None:
        self._plug.feed(self._auto_off, deadline)

    def check(self, deadline: Deadline) -> None:
        for setting in self._auto_off.settings:
            self._plug.check(setting, setting.ask, deadline)


def _decoded(message: Message, at: str) -> Any:
    """Return the JSON of a message where a value in it is wanted, else its text. Raises `GarbledReply`."""
    try:
        text = message.payload.decode("utf-8")
        return json.loads(text) if at else text
    except ValueError as problem:
        raise GarbledReply(f"{message.topic} says {message.payload[:60]!r}, which is no JSON") from problem
