"""What the options of a device behind a broker are: mostly topics and payloads, which a profile says for its maker.

In topics, paths and payloads `$name`, `$base` (the name but for its last part), `$channel`, `$item`, `$auto_off` (as
the device counts it), `$id` (another number each time) and `$me` (a topic of ours) stand for what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from typing import Any, Final

from pydantic import Field, model_validator

from rigctl.flaws import Flaw, got
from rigctl.rig.protocols import DeviceOptions
from rigctl_drivers.numerals import as_number


class _Missing:
    """A value that a message does not hold."""

    def __str__(self) -> str:
        return "missing"


MISSING: Final = _Missing()


class Exchange(DeviceOptions):
    """A message, and the one that answers it."""

    topic: str
    payload: Any = ""
    """Text, or a mapping, sent as JSON."""
    answer: str
    """Topic of the answer."""
    at: str = ""
    """Path of the value in the answer's JSON, parts joined by dots; several are tried, `|` between them."""
    where: dict[str, Any] = Field(default_factory=dict)
    """What the answer must hold besides, by path; any other message is none."""
    is_: Any = Field(default=None, alias="is")
    """What the value must be; a message with another one is no answer yet."""


class Setting(DeviceOptions):
    """A setting of the device, made and read back."""

    set_: Exchange = Field(alias="set")
    """What makes it."""
    ask: Exchange
    """What reads it back."""
    holds: dict[str, Any]
    """What both of their values must hold, by path; an empty path is the value itself."""


class AutoOff(DeviceOptions):
    """How a switch goes off by itself unless it is told again."""

    least_s: float
    """Shortest time it can be set to."""
    most_s: float
    """Longest."""
    adds: float = 0.0
    """What is added to the seconds to give the number that is sent."""
    settings: tuple[Setting, ...]
    """Its time first, then what the switch does once it has power again."""
    feeds: bool = False
    """The first setting, made again, starts the time anew and switches nothing; else `on` does, where it is on."""


class SwitchOptions(DeviceOptions):
    """How something is switched."""

    on: Exchange
    """Switches it on."""
    off: Exchange
    """Switches it off."""
    state: Exchange
    """Asks whether it is on."""
    means_on: Any
    """The state that means on."""
    means_off: Any
    """The state that means off."""
    auto_off: AutoOff | None = None
    """How it goes off by itself; without it, it cannot."""


class Quantity(DeviceOptions):
    """Something that is measured or counted: asked for, or else said by itself under `topic`."""

    ask: Exchange | None = None
    """How it is asked for."""
    topic: str = ""
    """Where it is said."""
    at: str = ""
    """Path of the value in what is said."""
    unit: str = ""
    """Its unit; empty: the device's section says it."""
    words: dict[str, float] = Field(default_factory=dict)
    """Numbers for what it says in words."""
    scale: float = 1.0
    """What a value is multiplied by to be in that unit."""
    grain: float = 0.0
    """Smallest step of a counter, in that unit."""

    @property
    def needs_item(self) -> bool:
        """Tell whether the device's section must say which of several values it is."""
        templates = (self.topic, self.at, "" if self.ask is None else self.ask.at)
        return any("item" in Template(template).get_identifiers() for template in templates)

    def number(self, value: Any) -> float | None:
        """Return what a device said as a number; None if it is none."""
        text = str(int(value) if isinstance(value, bool) else value)
        return self.words.get(text, as_number(text))


class Kept(DeviceOptions):
    """Something that the broker keeps: a last will, or what the device's surroundings are set to."""

    topic: str
    """Where it is said."""
    at: str = ""
    """Path of the word in what is said."""
    is_: Any = Field(alias="is")
    """What it must be."""
    remedy: str = ""
    """What to do otherwise."""


class MqttOptions(DeviceOptions):
    """One thing that a device behind a broker measures, counts or switches."""

    name: str = Field(pattern=r"^[^#+$\s][^#+$]*$")
    """The device's name in topics: Tasmota's topic, Shelly's or ESPHome's prefix, zigbee2mqtt/NAME."""
    channel: int = Field(default=1, ge=0)
    """Which of its relays, as the device counts: Tasmota from 1, Shelly from 0."""
    item: str = Field(default="", pattern=r"^[^#+$]*$")
    """Which of its values, where the profile cannot know: AM2301.Temperature, water_temperature."""
    unit: str = ""
    """Unit of the reading where the profile has none."""
    auto_off_s: int = Field(default=30, ge=1)
    """After this time without a word from rigctl a plug goes off by itself."""
    max_age_s: float = Field(default=60.0, gt=0, le=86400)
    """How old a value that comes by itself may be, wall time."""
    latency_s: float = Field(default=0.3, gt=0)
    """How long it takes over an answer, for reckoning how fast the rig is safe."""
    model: str
    """What such a device is called."""
    presence: Kept
    """Its last will."""
    refusal: str = ""
    """Path in an answer that holds the words of a refusal."""
    identity: Exchange | None = None
    """What asks for its number; without it, it is known by its name and its last will."""
    demands: Kept | None = None
    """What must be set for its values to be fresh."""
    switch: SwitchOptions | None = None
    """How it is switched; makes it an actuator that takes 0 or 1."""
    read: Quantity | None = None
    """What is read; makes it a sensor."""
    count: Quantity | None = None
    """What is counted; makes it a meter."""

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

    @property
    def auto_off(self) -> AutoOff | None:
        """Return how it goes off by itself, if it is a switch and can."""
        return None if self.switch is None else self.switch.auto_off

    def addressed(self, me: str) -> MqttOptions:
        """Return these options with names in all topics, payloads and paths, but for `$id`."""
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
    """Put values into a template of text, mappings and lists; one that is nothing but a name becomes its value."""
    if isinstance(template, Mapping):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, list | tuple):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    alone = values.get(template.removeprefix("$"), MISSING) if template.startswith("$") else MISSING
    return Template(template).safe_substitute(values) if alone is MISSING else alone


def dug(data: Any, path: str) -> Any:
    """Return what stands under the first path of `a.b | c` that there is; `MISSING` where there is none."""
    for way in path.split(" | "):
        found = data
        for key in filter(None, way.split(".")):
            found = found.get(key, MISSING) if isinstance(found, Mapping) else MISSING
        if found is not MISSING:
            return found
    return MISSING
