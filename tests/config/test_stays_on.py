"""Switches without an auto-off of their own are driven only where a person has said that they may stay on."""

import pytest

from rigctl.errors import ConfigError, dotted
from rigctl.rig.dead_man import unguarded
from tests.config.conftest import loaded_to_run, problems
from tests.config.texts import SMALL, WHOLE


def plugged(profile: str, name: str, safety: str = "") -> str:
    """The small rig, whose calcium valve is a plug."""
    lines = WHOLE.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("  ca_valve:"))
    lines[place] = f'  ca_valve: {{driver: mqtt, bus: "mqtt://broker", profile: {profile}/switch, name: {name}}}'
    return "\n".join(lines).replace("[0, 7.7]", "[0, 1], step: 1").replace("safety:", f"safety:{safety}") + "\n"


def refused(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        loaded_to_run(text)
    return {dotted(p.path): p.what for p in caught.value.mistakes}


@pytest.mark.parametrize("profile", ["tasmota", "shelly"])
def test_a_plug_with_an_auto_off_is_a_watchdog_that_is_fed(profile):
    """It is driven, and is not among those that stay as they are."""
    assert unguarded(loaded_to_run(plugged(profile, "lamp")).rig) == ("base", "doser")


def test_one_without_is_refused_unless_it_is_accepted(golden):
    """Accepted, it is still told of as one that stays as it is."""
    found = refused(plugged("zigbee2mqtt", "zigbee2mqtt/lamp"))
    assert set(found) == {"devices.ca_valve"}
    golden(found)
    accepted = loaded_to_run(plugged("zigbee2mqtt", "zigbee2mqtt/lamp", "\n  stays_on: [ca_valve]"))
    assert set(unguarded(accepted.rig)) == {"ca_valve", "doser", "base"}


def test_an_auto_off_is_fed_no_more_often_than_the_watch_looks(golden):
    """A time that is too short names the key that sets it."""
    found = refused(plugged("shelly", "lamp, auto_off_s: 2"))
    assert set(found) == {"devices.ca_valve.auto_off_s"}
    golden(found)


def test_nothing_is_accepted_that_needs_no_accepting(golden):
    """A name that is no such switch is a mistake."""
    found = refused(plugged("tasmota", "lamp", "\n  stays_on: [ca_valve]"))
    assert set(found) == {"safety.stays_on[0]"}
    golden(found)


@pytest.mark.parametrize(
    "wrong",
    [
        "profile: tasmota/watts",
        "profile: tasmota/value",
        "profile: tasmota/switch, auto_off_s: 5",
        "profile: tasmota/switch, read: {topic: lamp}",
    ],
)
def test_what_a_profile_cannot_do_is_refused(wrong, golden):
    """Key, what it got, what it must be."""
    lines = SMALL.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("  ca_valve:"))
    lines[place] = f'  ca_valve: {{driver: mqtt, bus: "mqtt://broker", name: lamp, {wrong}}}'
    found = problems("\n".join(lines) + "\n")
    assert ["devices.ca_valve" in where for where in found] == [True]
    golden(found)
