"""Plugs, sensors and meters behind Debian's mosquitto; each plug is a process of its own."""

import pytest

from rigctl.config.profiles import listed
from rigctl.rig.clocks import RealClock
from rigctl.rig.conformance import check_driver
from rigctl.rig.registry import Registry
from rigctl_drivers.mqtt_device import MqttDriver
from tests.drivers.brokers import options

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("profile", "device", "abilities"),
    [
        ("tasmota/switch", {"name": "heater"}, {"Actuator"}),
        ("tasmota/state", {"name": "heater"}, {"Sensor"}),
        ("tasmota/power", {"name": "heater"}, {"Sensor"}),
        ("tasmota/energy", {"name": "heater"}, {"Sensor", "Meter"}),
        ("tasmota/value", {"name": "heater", "item": "AM2301.Temperature", "unit": "degC"}, {"Sensor"}),
        ("shelly/switch", {"name": "shellyplus1pm-01", "channel": 0}, {"Actuator"}),
        ("shelly/state", {"name": "shellyplus1pm-01", "channel": 0}, {"Sensor"}),
        ("shelly/energy", {"name": "shellyplus1pm-01", "channel": 0}, {"Sensor", "Meter"}),
        ("esphome/value", {"name": "node", "item": "water", "unit": "degC"}, {"Sensor"}),
        ("zigbee2mqtt/switch", {"name": "zigbee2mqtt/heater"}, {"Actuator"}),
        ("zigbee2mqtt/energy", {"name": "zigbee2mqtt/heater"}, {"Sensor", "Meter"}),
    ],
)
def test_it_keeps_every_promise(broker, profile, device, abilities):
    """Each profile's switch, reading and counter conform."""
    broker.plug(profile.partition("/")[0], device["name"])
    report = check_driver(MqttDriver, options(profile, **device), broker.url, RealClock())
    assert set(report.abilities) == abilities


def test_every_shipped_profile_holds(tmp_path):
    """The driver takes all that they say; a device gives its name, and which value where there are several."""
    found = listed(Registry({"mqtt": lambda: MqttDriver}), tmp_path)
    assert {info.name for info in found} == {"esphome", "shelly", "tasmota", "zigbee2mqtt"}
    assert [info.problems for info in found if info.problems] == []
