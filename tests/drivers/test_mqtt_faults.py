"""What goes wrong between a broker and what is behind it, on Debian's mosquitto and plugs in processes of their own."""

import asyncio
import math
import time
from collections.abc import Iterator

import pytest

from rigctl.errors import DeviceError, DeviceFault, DeviceTimeout, GarbledReply, PortUnavailable
from rigctl.rig.bus import Bus
from rigctl.rig.clocks import RealClock
from rigctl.rig.handle import Handle
from rigctl.rig.protocols import Deadline
from rigctl.rig.registry import Registry
from rigctl.rig.values import News
from rigctl_drivers.mqtt_device import MqttDriver
from tests.drivers.brokers import Broker, eventually, options
from tests.drivers.peers import soon

pytestmark = pytest.mark.slow

HEATER = options("tasmota/switch", name="heater")
HEATER_METER = options("tasmota/energy", name="heater")
WATER = options("esphome/value", name="node", item="water", unit="degC")
RELAY = options("shelly/switch", name="relay", channel=0)


@pytest.fixture
def there(broker) -> Iterator:
    """Make the device with these options on a line that is open: `there(HEATER)`."""
    lines = []

    def make(given, query="", **more):
        line = Registry.installed().open_line(f"{broker.url}{query}", RealClock())
        device = MqttDriver.connect(MqttDriver.options.model_validate({**given, **more}), line)
        line.open()
        lines.append(line)
        return device, line

    yield make
    for line in lines:
        line.close()


@pytest.fixture
async def handled(broker):
    """Make the device with these options on a bus: `handled(HEATER)`."""
    made = []

    def make(given, **more):
        line = Registry.installed().open_line(broker.url, RealClock())
        made.append(Bus(line, News()))
        device = MqttDriver.connect(MqttDriver.options.model_validate({**given, **more}), line)
        return Handle("it", device, made[-1], 1.0)

    yield make
    for bus in made:
        await bus.close()


async def come_back(handle, question):
    """Ask until there is an answer."""
    until_s = time.monotonic() + 120.0
    while True:
        try:
            return await handle.ask(question, "ask")
        except DeviceError:
            assert time.monotonic() < until_s


async def test_fault_93_while_the_broker_is_gone_a_plug_goes_off_by_itself(broker, handled):
    """Questions fail, the plug's own time switches it off; once the broker is back it answers, and is off."""
    plug = broker.plug("shelly", "relay")
    relay = handled(RELAY, auto_off_s=2)
    await relay.tell(lambda deadline: relay.device.apply(1.0, deadline), "on")
    plug.is_(on=True, timer=True)
    broker.stop()
    with pytest.raises((DeviceTimeout, PortUnavailable)):
        await relay.ask(relay.device.read_back, "read back")
    await asyncio.sleep(2.2)
    broker.start()
    assert (await come_back(relay, relay.device.read_back)).controlled is False
    plug.is_(on=False)


async def test_fault_93_a_line_without_a_broker_says_where_none_is(broker, handled):
    """No broker at the address is a port that is not there."""
    relay = handled(RELAY)
    broker.stop()
    with pytest.raises(PortUnavailable) as refused:
        await relay.identify()
    assert refused.value.bus == broker.url
    broker.start()


def test_fault_94_what_the_broker_has_kept_is_no_reading(broker, there):
    """A kept value has no age: the reading is INVALID until one arrives; its time is that of the arrival."""
    node = broker.plug("esphome", "node")
    node.does("mute")
    broker.say("node/sensor/water/state", "99", kept=True)
    time.sleep(0.2)
    sensor, line = there(WATER)
    assert not sensor.read(soon()).valid
    begun_s = line.clock.now_s()
    node.does("mute off")
    eventually(lambda: sensor.read(soon()).valid)
    reading = sensor.read(soon())
    assert 21 <= reading.value < 22
    assert begun_s <= reading.time_s <= line.clock.now_s()


def test_fault_94_what_the_broker_has_kept_is_no_answer(broker, there):
    """A kept answer, or one of before the question, answers nothing; one that is no JSON is refused."""
    plug = broker.plug("tasmota", "heater")
    meter, _ = there(HEATER_METER)
    assert meter.total(soon()).value == 1.234
    plug.does("mute")
    broker.say("stat/heater/STATUS8", '{"StatusSNS": {"ENERGY": {"Total": 99}}}', kept=True)
    meter, _ = there(HEATER_METER)
    with pytest.raises(DeviceTimeout):
        meter.total(Deadline.after(0.3))
    broker.say("stat/heater/STATUS8", "rubbish", kept=True)
    time.sleep(0.2)
    with pytest.raises(DeviceTimeout):
        meter.total(Deadline.after(0.3))
    plug.does("mute off")
    eventually(lambda: meter.total(soon()).value == 1.234)


def test_fault_94_a_command_that_the_broker_keeps_is_found_before_anything_is_driven(broker, there, golden):
    """It would reach the plug whenever it comes back: it is not switched on before somebody has deleted it."""
    plug = broker.plug("tasmota", "heater")
    broker.say("cmnd/heater/POWER1", "ON", kept=True)
    switch, _ = there(HEATER)
    switch.identify(soon())
    plug.does("button")
    plug.is_(on=False)
    with golden.raises(DeviceFault):
        switch.apply(1.0, soon())
    plug.is_(on=False)
    switch.safe(soon())  # that is never kept from it
    broker.say("cmnd/heater/POWER1", "", kept=True)
    switch.apply(1.0, soon())
    plug.is_(on=True)


def test_fault_95_who_connects_under_our_name_is_named(broker, there, golden):
    """The broker hangs up on us: a name that could be another's is suspected, and the line is opened again."""
    plug = broker.plug("tasmota", "heater")
    switch, line = there(HEATER, "?client=shelf")
    switch.identify(soon())
    plug.does("steal shelf")
    time.sleep(1.0)
    with pytest.raises(DeviceTimeout) as lost:
        switch.read_back(soon())
    golden(lost.value.what)
    assert line.is_lost()
    assert switch.read_back(soon()).setpoint == 0.0


def test_fault_95_two_plugs_of_one_name_are_refused(broker, there):
    """Both would do what one is told: neither is driven."""
    broker.plug("tasmota", "heater", "AA:BB:CC:00:00:01")
    broker.plug("tasmota", "heater", "AA:BB:CC:00:00:02")
    switch, _ = there(HEATER)
    with pytest.raises(DeviceFault):
        switch.identify(soon())


async def test_fault_96_a_plug_is_off_after_a_power_cut_and_is_guarded_anew(broker, handled):
    """It comes back off, is recognised again, and its auto-off is set and read back before it is driven again."""
    plug = broker.plug("tasmota", "heater")
    heater = handled(HEATER)
    await heater.tell(lambda deadline: heater.device.apply(1.0, deadline), "on")
    plug.is_(on=True, timer=True)
    await heater.tell(heater.device.heart.beat, "heartbeat")
    contact = heater.bus._link.contact
    plug.does("cut")
    plug.is_(on=False)
    assert (await come_back(heater, heater.device.read_back)).controlled is False
    assert heater.bus._link.contact != contact
    before = plug.state["commands"]
    await heater.tell(lambda deadline: heater.device.apply(1.0, deadline), "on")
    assert plug.state["commands"] >= before + 5  # two settings made and read back, and the command
    plug.is_(on=True, timer=True)


@pytest.mark.parametrize(("kind", "given"), [("tasmota", HEATER), ("shelly", RELAY)])
def test_fault_97_a_plug_that_forgets_its_auto_off_is_not_driven(broker, there, golden, kind, given):
    """What it reads back is not what was set: nothing is switched on; while it is on, feeding it says so."""
    plug = broker.plug(kind, given["name"])
    switch, _ = there(given)
    switch.apply(1.0, soon())
    switch.heart.check(soon())
    plug.is_(on=True)
    plug.does("forget")
    plug.is_(timer=False)
    with golden.raises(DeviceFault):
        switch.heart.check(soon())
    switch.release(soon())
    with pytest.raises(DeviceFault):
        switch.apply(1.0, soon())
    plug.is_(on=False)


def test_fault_97_feeding_a_plug_keeps_it_on_and_never_switches_it_on(broker, there):
    """Fed, it stays on beyond its time; switched off at its button, it stays off."""
    plug = broker.plug("shelly", "relay")
    switch, _ = there(RELAY, auto_off_s=3)
    switch.apply(1.0, soon())
    for _ in range(5):
        time.sleep(1.0)
        switch.heart.beat(soon())
    assert plug.state["on"]
    plug.does("button")
    plug.is_(on=False)
    switch.heart.beat(soon())
    plug.is_(on=False)
    switch.apply(1.0, soon())
    plug.is_(on=True)
    plug.is_(on=False)  # nobody feeds it


def test_fault_98_a_value_that_stops_arriving_is_invalid(broker, there, golden):
    """It counts for `max_age_s` from its arrival, and no longer; not at all once the device's last will is told."""
    node = broker.plug("esphome", "node")
    sensor, _ = there(WATER, max_age_s=1)
    eventually(lambda: sensor.read(soon()).valid)
    node.does("mute")
    eventually(lambda: not sensor.read(soon()).valid)
    stale = sensor.read(soon())
    assert math.isnan(stale.value)
    golden(stale.detail)
    node.does("mute off")
    eventually(lambda: sensor.read(soon()).valid)
    node.process.kill()
    eventually(lambda: not sensor.read(soon()).valid)
    with pytest.raises(DeviceTimeout) as gone:
        sensor.identify(soon())
    golden(gone.value.what)


def test_a_question_to_a_plug_that_is_gone_tells_its_last_will(broker, there):
    """Nobody at the broker listens: that is told at once, with what the plug's last will says."""
    plug = broker.plug("tasmota", "heater")
    switch, _ = there(HEATER)
    plug.process.kill()
    eventually(lambda: broker.last("tele/heater/LWT") == "Offline")
    deadline = Deadline.after(120.0)
    with pytest.raises(DeviceTimeout) as gone:
        switch.read_back(deadline)
    assert "LWT" in gone.value.what
    assert deadline.remaining_s > 0


def test_a_device_that_refuses_is_quoted(broker, there, golden):
    """A relay that it does not have is a fault, in its own words."""
    broker.plug("shelly", "relay")
    switch, _ = there(RELAY, channel=3)
    with golden.raises(DeviceFault):
        switch.read_back(soon())


def test_a_counter_that_was_reset_is_told_as_it_is(broker, there):
    """The counter says what it reads; what a trial used then, the ledger decides."""
    plug = broker.plug("shelly", "relay")
    meter, _ = there(options("shelly/energy", name="relay", channel=0))
    assert meter.total(soon()).value == 1.234
    plug.does("reset")
    eventually(lambda: meter.total(soon()).value == 0.0)


def test_values_of_zigbee2mqtt_that_may_be_old_are_refused(broker, there):
    """With its cache on, each message repeats what was known before: the device is not accepted."""
    broker.plug("zigbee2mqtt", "zigbee2mqtt/heater")
    info = '{"config": {"advanced": {"cache_state": true}}}'
    eventually(lambda: "false" in broker.last("zigbee2mqtt/bridge/info"))
    broker.say("zigbee2mqtt/bridge/info", info, kept=True)
    sensor, _ = there(options("zigbee2mqtt/power", name="zigbee2mqtt/heater"))
    with pytest.raises(DeviceFault):
        sensor.identify(soon())


def test_noise_is_no_state(broker, there):
    """A state that is neither on nor off is garbled."""
    plug = broker.plug("tasmota", "heater")
    switch, line = there(HEATER)
    plug.does("mute")
    plug.is_(commands=0)
    line.follow("stat/heater/STATUS11")
    original = line.publish

    def publish(topic, payload, deadline):
        original(topic, payload, deadline)
        broker.say("stat/heater/STATUS11", '{"StatusSTS": {"POWER": "MAYBE"}}')

    line.publish = publish
    with pytest.raises(GarbledReply):
        switch.read_back(soon())


def test_who_may_use_the_broker_is_said_outside_the_url(tmp_path, monkeypatch, golden):
    """The password comes from a file or the environment; a wrong one is refused, one in the URL is not taken."""
    import subprocess

    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-c", "-b", passwords, "rig", "s3cret"], check=True, capture_output=True)
    passwords.chmod(0o644)
    broker = Broker(tmp_path, "allow_anonymous false", f"password_file {passwords}")
    (tmp_path / "secret").write_text("s3cret\n")
    lines = Registry.installed()
    try:
        line = lines.open_line(f"{broker.url}?user=rig&password_file={tmp_path / 'secret'}", RealClock())
        line.open()
        line.close()
        monkeypatch.setenv("RIGCTL_MQTT_PASSWORD", "s3cret")
        line = lines.open_line(f"{broker.url}?user=rig", RealClock())
        line.open()
        line.close()
        monkeypatch.setenv("RIGCTL_MQTT_PASSWORD", "wrong")
        line = lines.open_line(f"{broker.url}?user=rig", RealClock())
        with pytest.raises(PortUnavailable) as refused:
            line.open()
        golden(refused.value.what)
        line.close()
        with pytest.raises(ValueError) as told:
            lines.open_line("mqtt://rig:s3cret@127.0.0.1", RealClock())
        assert "s3cret" not in str(told.value)
    finally:
        broker.close()
