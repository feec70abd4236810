"""Plugs, sensors and meters behind an MQTT broker; a profile has the topics and payloads of each make.

In topics, paths and payloads `$name`, `$base` (the name but for its last part), `$channel`, `$item`, `$auto_off` (as
the device counts it), `$id` (a new number for each message) and `$me` (our topic for answers) are replaced.

A value is asked for where the device can be asked. A pushed value is used for `max_age_s` from its arrival; a retained
one is never used. A plug is switched on only after its own auto-off was set and read back since the last reconnection;
from then on the auto-off is fed like a watchdog.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import Any, Final

from pydantic import Field, model_validator

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply
from rigctl.flaws import Flaw, got
from rigctl.rig.messages import Message, MessageLine
from rigctl.rig.protocols import (
    ClaimedPlace,
    Deadline,
    Device,
    DeviceOptions,
    Driver,
    Identity,
    Meter,
    Pace,
    Reading,
    Sensor,
)
from rigctl_drivers.numerals import as_number
from rigctl_drivers.setpoint import SetpointActuator


class _Missing:
    """Stands for a value that a message does not hold."""

    def __str__(self) -> str:
        return "missing"


MISSING: Final = _Missing()


class Exchange(DeviceOptions):
    """A message to the device, and its answer."""

    topic: str
    """Topic that the message is sent under."""
    payload: Any = ""
    """Text, or a mapping, sent as JSON."""
    answer: str
    """Topic of the answer."""
    at: str = ""
    """Path of the value in the answer's JSON, parts joined by dots; several are tried, `|` between them."""
    where: dict[str, Any] = Field(default_factory=dict)
    """Values that the answer must hold besides, by path; any other message is not the answer."""
    is_: Any = Field(default=None, alias="is")
    """The value expected; a message with another value is not the answer yet."""


class PlugSetting(DeviceOptions):
    """A setting of the device, written and read back."""

    set_: Exchange = Field(alias="set")
    """Writes the setting."""
    ask: Exchange
    """Reads the setting back."""
    holds: dict[str, Any]
    """Values that both answers must hold, by path; an empty path is the answer's value itself."""


class AutoOff(DeviceOptions):
    """A switch's own timer: it goes off by itself unless it is told again."""

    least_s: float
    """Shortest time that can be set."""
    most_s: float
    """Longest time that can be set."""
    adds: float = 0.0
    """Offset from seconds to the number that is sent."""
    settings: tuple[PlugSetting, ...]
    """The time first, then the state after a power cut."""
    feeds: bool = False
    """Whether writing the first setting restarts the timer and switches nothing; otherwise `on` restarts it."""


class SwitchOptions(DeviceOptions):
    """The commands of a switch."""

    on: Exchange
    """Switches on."""
    off: Exchange
    """Switches off."""
    state: Exchange
    """Asks for the state."""
    means_on: Any
    """The state that means on."""
    means_off: Any
    """The state that means off."""
    auto_off: AutoOff | None = None
    """Its own timer; default: it has none."""


class TopicQuantity(DeviceOptions):
    """A measured or counted value: asked for, or pushed by the device under `topic`."""

    ask: Exchange | None = None
    """Asks for the value."""
    topic: str = ""
    """Topic under which the device pushes the value."""
    at: str = ""
    """Path of the value in a pushed message."""
    unit: str = ""
    """Unit; empty: the device's section gives it."""
    words: dict[str, float] = Field(default_factory=dict)
    """Numbers for values that are words."""
    scale: float = 1.0
    """Factor from the device's value to the unit."""
    grain: float = 0.0
    """Smallest step of a counter, in that unit."""

    @property
    def needs_item(self) -> bool:
        """Tell whether the device's section must give `item`."""
        templates = (self.topic, self.at, "" if self.ask is None else self.ask.at)
        return any("item" in Template(template).get_identifiers() for template in templates)

    def number(self, value: Any) -> float | None:
        """Return a device's value as a number; None if it is not one."""
        text = str(int(value) if isinstance(value, bool) else value)
        return self.words.get(text, as_number(text))


class Kept(DeviceOptions):
    """A retained message: a last will, or a setting of a bridge."""

    topic: str
    """Topic of the message."""
    at: str = ""
    """Path of the value in it; empty: the whole text."""
    is_: Any = Field(alias="is")
    """The value expected."""
    remedy: str = ""
    """Remedy for any other value."""


class MqttOptions(DeviceOptions):
    """One quantity or switch of a device behind a broker."""

    name: str = Field(pattern=r"^[^#+$\s][^#+$]*$")
    """Name of the device in topics: Tasmota's topic, Shelly's or ESPHome's prefix, zigbee2mqtt/NAME."""
    channel: int = Field(default=1, ge=0)
    """Number of the relay as the device counts: Tasmota from 1, Shelly from 0."""
    item: str = Field(default="", pattern=r"^[^#+$]*$")
    """Name of the value, where the profile cannot know it: AM2301.Temperature, water_temperature."""
    unit: str = ""
    """Unit of the reading where the profile has none."""
    auto_off_s: int = Field(default=30, ge=1)
    """Time without a message from rigctl after which a plug switches itself off, wall time."""
    max_age_s: float = Field(default=60.0, gt=0, le=86400)
    """Oldest age of a pushed value that is still used, wall time."""
    latency_s: float = Field(default=0.3, gt=0)
    """Time that the device takes to answer, for the time to the safe state."""
    model: str
    """Name of the make, for the device's identity."""
    presence: Kept
    """Last will of the device."""
    refusal: str = ""
    """Path of the message in an answer that refuses."""
    identity: Exchange | None = None
    """Asks for its serial number or MAC address; default: its name identifies it."""
    demands: Kept | None = None
    """Setting of its bridge without which values may be old."""
    switch: SwitchOptions | None = None
    """Commands of a switch; makes it an actuator that takes 0 or 1."""
    read: TopicQuantity | None = None
    """Value that is read; makes it a sensor."""
    count: TopicQuantity | None = None
    """Value that is counted; makes it a meter."""

    @model_validator(mode="after")
    def _parts_fit_together(self) -> MqttOptions:
        quantities = [quantity for quantity in (self.read, self.count) if quantity is not None]
        if bool(quantities) == (self.switch is not None):
            raise ValueError("must have `switch`, or else `read`, `count` or both")
        if not self.item and any(quantity.needs_item for quantity in quantities):
            raise ValueError(Flaw("is missing", "must say which of its values", where="item"))
        limits = self.auto_off
        if limits is not None and not limits.least_s <= self.auto_off_s <= limits.most_s:
            must = f"must be {limits.least_s:g} to {limits.most_s:g}"
            raise ValueError(got(self.auto_off_s, must, where="auto_off_s"))
        return self

    def occupies(self) -> Sequence[ClaimedPlace]:
        """Claim the relay it switches; any number may read."""
        return [] if self.switch is None else [ClaimedPlace(self._relay, "writes")]

    def misfit(self, setpoint: float) -> str:
        return "" if setpoint in (0.0, 1.0) else "an on/off device takes 0 or 1"

    def grain_at(self, total: float) -> float:  # noqa: ARG002 - the same at every count
        return 0.0 if self.count is None else self.count.grain

    def watchdog(self) -> tuple[str, bool]:
        return self._relay, self.auto_off is not None

    def stays_on(self) -> str:
        lacks = self.switch is not None and self.auto_off is None
        return f"{self.model} has no auto-off that could be set and read back" if lacks else ""

    @property
    def _relay(self) -> str:
        return f"{self.name} channel {self.channel}"

    @property
    def auto_off(self) -> AutoOff | None:
        return None if self.switch is None else self.switch.auto_off

    def addressed(self, me: str) -> MqttOptions:
        """Return these options with all placeholders replaced but `$id`; `me` is the topic for answers."""
        values = {
            "me": me,
            "name": self.name,
            "base": self.name.rpartition("/")[0],
            "channel": self.channel,
            "item": self.item,
            "auto_off": int(self.auto_off_s + (0.0 if self.auto_off is None else self.auto_off.adds)),
        }
        return self.model_validate(filled(self.model_dump(by_alias=True), values))


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Replace placeholders in text, mappings and lists; a text that is one placeholder becomes its value."""
    if isinstance(template, Mapping):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, list | tuple):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    alone = values.get(template.removeprefix("$"), MISSING) if template.startswith("$") else MISSING
    return Template(template).safe_substitute(values) if alone is MISSING else alone


def dug(data: Any, path: str) -> Any:
    """Return the value under the first path of `a.b | c` that exists, or `MISSING`."""
    for way in path.split(" | "):
        found = data
        for key in filter(None, way.split(".")):
            found = found.get(key, MISSING) if isinstance(found, Mapping) else MISSING
        if found is not MISSING:
            return found
    return MISSING


# the device -----------------------------------------------------------------------------------------------------------


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
            return Plug(options, line)
        if options.count is None:
            return MqttSensor(options, line)
        return MqttMeter(options, line) if options.read is None else MqttMeteredSensor(options, line)


class MqttDevice(Device):
    """What every device behind a broker can be asked."""

    def __init__(self, options: MqttOptions, line: MessageLine) -> None:
        self._line = line
        self._options = options
        self._own = own = options.addressed(line.me)
        self._asked = 0
        line.follow(own.presence.topic, "renews")
        if own.demands is not None:
            line.follow(own.demands.topic)
        if own.identity is not None:
            line.follow(own.identity.answer)

    def pace(self) -> Pace:
        return Pace(self._own.latency_s, self._own.latency_s)

    def identify(self, deadline: Deadline) -> Identity:
        """Ask for its number, which its twin would answer, too; or see that it is there, by its last will."""
        own, demands = self._own, self._own.demands
        found = None if demands is None else self._last(demands, deadline)
        if demands is not None and found != demands.is_:
            raise DeviceFault(Flaw(f"is {found}", f"must be {demands.is_}", demands.remedy, where=demands.at))
        if own.identity is None:
            if self._last(own.presence, deadline) != own.presence.is_:
                raise DeviceTimeout(f"it is offline{self._gone()}")
            return Identity(own.model, serial=own.name)
        since_s = time.monotonic()
        number = self._ask(own.identity, deadline)
        twin_by = deadline.within(TWIN_S)
        while twin_by.remaining_s:
            with suppress(DeviceTimeout):
                for message in self._line.arrivals(own.identity.answer, since_s, twin_by):
                    since_s = message.at_s
                    other = _found(message, own.identity.at)
                    if other not in (number, MISSING):
                        what = f"{number} and {other} answer to the same name; give each its own topic"
                        raise DeviceFault(f"{own.name}: {what}")
        return Identity(own.model, serial=str(number))

    def _last(self, kept: Kept, deadline: Deadline) -> Any:
        """Return what was said last where the broker keeps it."""
        return _found(self._line.arrivals(kept.topic, -math.inf, deadline, kept=True)[-1], kept.at)

    def _gone(self) -> str:
        """Return what its last will says, if it says that the device is not there."""
        presence = self._own.presence
        with suppress(DeviceTimeout):
            said = self._last(presence, NOW)
            if said != presence.is_:
                return f"; its last will: {presence.topic} says {said}"
        return ""

    def _ask(self, exchange: Exchange, deadline: Deadline) -> Any:
        """Send a message, once, and return the value in its answer.

        Raises:
            DeviceTimeout: no answer in time; with its last will, if it says that the device is gone.
            DeviceFault: it refuses.
            GarbledReply: what came is not what such a device says.
        """
        self._asked += 1
        payload, where = filled([exchange.payload, exchange.where], {"id": self._asked})
        text = payload if isinstance(payload, str) else json.dumps(payload)
        since_s = time.monotonic()
        try:
            self._line.publish(exchange.topic, text.encode("utf-8"), deadline)
            while True:
                for message in self._line.arrivals(exchange.answer, since_s, deadline):
                    since_s = message.at_s
                    if any(_found(message, path) != value for path, value in where.items()):
                        continue
                    refused = _found(message, self._own.refusal) if self._own.refusal else MISSING
                    if refused is not MISSING:
                        raise DeviceFault(f"{exchange.topic} was refused: {refused}")
                    value = _found(message, exchange.at)
                    if value is not MISSING and exchange.is_ in (None, value):
                        return value
        except DeviceTimeout as late:
            raise type(late)(f"{late.what}{self._gone()}", bus=late.bus) from late

    def _reading(self, quantity: TopicQuantity, unit: str, deadline: Deadline) -> Reading:
        """Ask for a quantity, or take what came last of it, unless it is too old."""
        clock = self._line.clock
        if quantity.ask is not None:
            value, now_s = self._ask(quantity.ask, deadline), clock.now_s()
        else:
            value, at_s = self._pushed(quantity, deadline)
            now_s = clock.now_s() - (time.monotonic() - at_s) * clock.speedup
            if value is MISSING:
                what = f"no value on {quantity.topic} within {self.max_age_s:g} s{self._gone()}"
                return Reading.invalid(unit, now_s, what)
        number = math.nan if value is None else quantity.number(value)
        if number is None:
            raise GarbledReply(got(value, "must be a number"))
        if not math.isfinite(number):
            return Reading.invalid(unit, now_s, f"the device reports {value}")
        return Reading(number * quantity.scale, unit, now_s)

    def _pushed(self, quantity: TopicQuantity, deadline: Deadline) -> tuple[Any, float]:
        """Return the last value that came, and when, monotonic; `MISSING` if none is young enough."""
        now_s = time.monotonic()
        with suppress(DeviceTimeout):
            came = self._line.arrivals(quantity.topic, now_s - self.max_age_s, deadline.within(FIRST_S))
            for message in () if self._gone() else reversed(came):
                value = _found(message, quantity.at)
                if value is not MISSING:
                    return value, message.at_s
        return MISSING, now_s

    def _listen(self, quantity: TopicQuantity | None) -> tuple[TopicQuantity, str]:
        """Follow what a quantity needs, and return it with its unit."""
        if quantity is None:  # connect() makes no such device
            raise DeviceFault("it is not configured")
        self._line.follow(quantity.topic if quantity.ask is None else quantity.ask.answer)
        if quantity.ask is None:
            self.max_age_s = self._own.max_age_s
        return quantity, quantity.unit or self._own.unit


class MqttSensor(MqttDevice, Sensor):
    """Reads one quantity."""

    def __init__(self, options: MqttOptions, line: MessageLine) -> None:
        super().__init__(options, line)
        self._read, self.unit = self._listen(self._own.read)

    def read(self, deadline: Deadline) -> Reading:
        return self._reading(self._read, self.unit, deadline)


class MqttMeter(MqttDevice, Meter):
    """Counts one quantity; a device that was set to zero says less than before, and that is what is returned."""

    def __init__(self, options: MqttOptions, line: MessageLine) -> None:
        super().__init__(options, line)
        self._count, self.meter_unit = self._listen(self._own.count)

    def total(self, deadline: Deadline) -> Reading:
        return self._reading(self._count, self.meter_unit, deadline)


class MqttMeteredSensor(MqttMeter, MqttSensor):
    """Counts energy, and reads the power that it is held against."""


class Plug(MqttDevice, SetpointActuator):
    """Switches something: 0 is off and 1 is on. Its auto-off is its watchdog, and it is its own heart."""

    unit = ""
    key: tuple[str, ...] = ("auto_off_s",)

    def __init__(self, options: MqttOptions, line: MessageLine) -> None:
        super().__init__(options, line)
        if self._own.switch is None:  # connect() makes no such device
            raise DeviceFault("it is not configured")
        self._commands = self._own.switch
        self._settings = () if self._own.auto_off is None else self._own.auto_off.settings
        self.every_s = self._own.auto_off_s / MISSED
        self.heart = self if self._settings else None
        self._guarded = False
        """Whether its auto-off was set and read back since it was recognised last."""
        for exchange in (self._commands.on, self._commands.off, self._commands.state, *(s.ask for s in self._settings)):
            line.follow(exchange.answer)

    def identify(self, deadline: Deadline) -> Identity:
        self._guarded = False  # whoever answers from now on may have forgotten
        return super().identify(deadline)

    def _switch(self, on: bool, deadline: Deadline) -> None:
        if on:
            self._guard(deadline)
        self._ask(self._commands.on if on else self._commands.off, deadline)

    def _is_on(self, deadline: Deadline) -> bool:
        commands = self._commands
        said = self._ask(commands.state, deadline)
        if said not in (commands.means_on, commands.means_off):
            must = f"must be {commands.means_on} or {commands.means_off}"
            raise GarbledReply(got(said, must, where=commands.state.at))
        return bool(said == commands.means_on)

    def beat(self, deadline: Deadline) -> None:
        """Start its time anew: by setting it again, or else by switching it on again if it is on."""
        self._guard(deadline)
        if self._own.auto_off is not None and self._own.auto_off.feeds:
            self._hold(self._settings[0], self._settings[0].set_, deadline)
        elif self._is_on(deadline):
            self._ask(self._commands.on, deadline)

    def check(self, deadline: Deadline) -> None:
        """Read its settings back; raises `DeviceFault`."""
        for setting in self._settings:
            self._hold(setting, setting.ask, deadline)

    def _guard(self, deadline: Deadline) -> None:
        """Set its auto-off and read it back, unless that was done since it was recognised last.

        Raises:
            DeviceFault: it does not hold it, or the broker keeps a command for it.
        """
        if self._guarded:
            return
        commands = (self._commands.on.topic, self._commands.off.topic)
        for topic in commands:
            self._line.follow(topic, "kept")  # whatever comes of it comes before an answer to what is asked next
        for setting in self._settings:
            self._ask(setting.set_, deadline)
        self.check(deadline)
        self._is_on(deadline)
        for topic in commands:
            with suppress(DeviceTimeout):
                if any(m.kept and m.payload for m in self._line.arrivals(topic, -math.inf, NOW, kept=True)):
                    remedy = f"delete it: mosquitto_pub -r -n -t '{topic}'"
                    raise DeviceFault(
                        Flaw(
                            "the broker retains a command, which switches the plug at each reconnection",
                            "",
                            remedy,
                            where=topic,
                        )
                    )
        self._guarded = True

    def _hold(self, setting: PlugSetting, exchange: Exchange, deadline: Deadline) -> None:
        """Raise `DeviceFault` unless the answer to this holds what the setting is to be."""
        value = self._ask(exchange, deadline)
        for path, wanted in setting.holds.items():
            held = dug(value, path)
            if held != wanted:
                self._guarded = False
                where = f"{exchange.topic}: {path or exchange.at}"
                raise DeviceFault(
                    Flaw(f"is {held}", f"must be {wanted}", "the plug would stay on if rigctl failed", where=where)
                )


def _found(message: Message, at: str) -> Any:
    """Return what stands under a path of a message's JSON, or its text if that is empty. Raises `GarbledReply`."""
    try:
        text = message.payload.decode("utf-8")
        return dug(json.loads(text), at) if at else text
    except ValueError as problem:
        raise GarbledReply(f"{message.topic} says {message.payload[:60]!r}, which is no JSON") from problem
