"""A campaign on plugs and sensors behind a broker."""

import sqlite3
import sys
import time

import pytest

from tests import forked
from tests.drivers.brokers import eventually

pytestmark = pytest.mark.slow

CONFIG = """
rig: shelf
currency: EUR
budget: 10 EUR
max_trials: 3
policy: {{name: random}}
model: {{hyperparameters: fixed, lengthscales: 0.3, signal_sd: 3, noise_sd: 0.3, mean: 20}}
variables:
  light: {{unit: "1", range: [0, 1], step: 1, sensor: lamp_state, actuator: lamp, natural: {{uniform: {{}}}}}}
control_sets: [[light]]
outcome: {{name: warmth, unit: degC, sensor: water, direction: maximise}}
trial: {{settle: {settle}, measure: {{for: 1 s, every: 500 ms}}}}
meters:
  - {{name: electricity, kind: energy, device: lamp_meter, price: 0.31 EUR/kWh}}
buses: {{home: "{url}"}}
devices:
  lamp: {{driver: mqtt, bus: home, profile: {kind}/switch, name: {name}, channel: {channel}, auto_off_s: {auto_off_s}}}
  lamp_state: {{driver: mqtt, bus: home, profile: {kind}/state, name: {name}, channel: {channel}}}
  lamp_meter: {{driver: mqtt, bus: home, profile: {kind}/energy, name: {name}, channel: {channel}}}
  water: {{driver: mqtt, bus: home, profile: esphome/value, name: node, item: water, unit: degC, max_age_s: 2}}
safety: {{safe_state: {{lamp: off}}}}
"""


def rigctl(folder, *words, code=0) -> str:
    done = forked.run(["rigctl", *words], cwd=folder)
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def shelf(broker, tmp_path):
    """A shelf whose lamp is such a plug, and its configuration: `shelf("tasmota", "lamp", 1)`."""

    def make(kind, name, channel, settle="1 s", auto_off_s=12):
        plug = broker.plug(kind, name)
        broker.plug("esphome", "node", "AA:BB:CC:00:00:02")
        config = tmp_path / "shelf.yaml"
        told = {"kind": kind, "name": name, "channel": channel, "settle": settle, "auto_off_s": auto_off_s}
        config.write_text(CONFIG.format(url=broker.url, **told))
        return plug, config

    return make


def states(folder) -> list[str]:
    with sqlite3.connect(folder / "state/shelf/journal.sqlite") as journal:
        return [state for (state,) in journal.execute("select state from trials order by trial")]


@pytest.mark.parametrize(("kind", "name", "channel"), [("tasmota", "lamp", 1), ("shelly", "shellyplus1pm-01", 0)])
def test_three_trials_with_a_plug_a_sensor_and_a_meter(shelf, tmp_path, kind, name, channel):
    """Each is recorded and paid by what the plug counted; in the end it is off."""
    plug, config = shelf(kind, name, channel)
    assert "stays as it is" not in rigctl(tmp_path, "check", str(config), "--probe")
    rigctl(tmp_path, "run", str(config))
    assert states(tmp_path) == ["RECORDED"] * 3
    plug.is_(on=False)
    assert "ok: yes" in rigctl(tmp_path, "safe", str(config))


def test_fault_97_a_process_that_is_killed_leaves_a_plug_that_goes_off(shelf, tmp_path):
    """As long as the campaign lives the lamp is on, beyond its own time; nobody feeds it any more, and it is off."""
    plug, config = shelf("shelly", "relay", 0, settle="1 min", auto_off_s=4)
    process = forked.Forked([sys.executable, "-m", "rigctl", "run", str(config)], cwd=tmp_path)
    try:
        plug.is_(on=True, timer=True)
        time.sleep(8.0)
        assert plug.state["on"]
    finally:
        process.kill()
        process.wait()
    plug.is_(on=False)


def test_fault_96_a_trial_whose_plug_lost_power_fails(shelf, tmp_path):
    """The plug comes back off: what was driven does not hold."""
    plug, config = shelf("shelly", "relay", 0, settle="6 s")
    process = forked.Forked([sys.executable, "-m", "rigctl", "run", str(config)], cwd=tmp_path)
    try:
        plug.is_(on=True)
        plug.does("cut 1")
        eventually(lambda: states(tmp_path) == ["FAILED"])
        process.terminate()
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert states(tmp_path) == ["FAILED"]
    plug.is_(on=False)


@pytest.mark.nightly
def test_fault_93_a_campaign_waits_for_its_broker(shelf, broker, tmp_path):
    """The trial fails, the plug goes off by itself; once the broker is back all is confirmed safe and it goes on."""
    plug, config = shelf("shelly", "relay", 0, settle="20 s", auto_off_s=6)
    process = forked.Forked([sys.executable, "-m", "rigctl", "run", str(config)], cwd=tmp_path)
    try:
        plug.is_(on=True)
        broker.stop()
        time.sleep(18.0)
        broker.start()
        plug.is_(on=False)
        assert process.wait(timeout=180) == 0
    finally:
        process.kill()
        process.wait()
    assert states(tmp_path)[0] == "FAILED"
    assert states(tmp_path)[1:] == ["RECORDED"] * 2
