"""Options of a device behind a broker: mostly topics and payloads, which the profile of its make provides.

In topics, paths and payloads `$name`, `$base` (the name but for its last part), `$channel`, `$item`, `$auto_off` (as
the device counts it), `$id` (a new number for each message) and `$me` (our topic for answers) are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from typing import Any, Final

from pydantic import Field, model_validator

from rigctl.flaws import Flaw, got
from rigctl.rig.protocols import ClaimedPlace, DeviceOptions
from rigctl_drivers.numerals import as_number


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
