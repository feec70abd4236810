"""A campaign on plugs and sensors behind a broker."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.drivers.brokers import Broker

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
trial: {{settle: 1 s, measure: {{for: 1 s, every: 500 ms}}}}
meters:
  - {{name: electricity, kind: energy, device: lamp_meter, price: 0.31 EUR/kWh}}
buses: {{home: "{url}"}}
devices:
  lamp: {{driver: mqtt, bus: home, profile: {kind}/switch, name: {name}, channel: {channel}}}
  lamp_state: {{driver: mqtt, bus: home, profile: {kind}/state, name: {name}, channel: {channel}}}
  lamp_meter: {{driver: mqtt, bus: home, profile: {kind}/energy, name: {name}, channel: {channel}}}
  water: {{driver: mqtt, bus: home, profile: esphome/value, name: node, item: water, unit: degC, max_age_s: 2}}
safety: {{safe_state: {{lamp: off}}}}
"""


@pytest.fixture
def broker(tmp_path) -> Iterator[Broker]:
    """A broker that anybody may use."""
    made = Broker(tmp_path)
    yield made
    made.close()


def rigctl(folder, *words, code=0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rigctl", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize(("kind", "name", "channel"), [("tasmota", "lamp", 1), ("shelly", "shellyplus1pm-01", 0)])
def test_three_trials_with_a_plug_a_sensor_and_a_meter(broker, tmp_path, kind, name, channel):
    """Each is recorded and paid by what the plug counted; in the end it is off."""
    plug = broker.plug(kind, name)
    broker.plug("esphome", "node", "AA:BB:CC:00:00:02")
    config = tmp_path / "shelf.yaml"
    config.write_text(CONFIG.format(url=broker.url, kind=kind, name=name, channel=channel))
    said = rigctl(tmp_path, "check", str(config), "--probe")
    assert "stays as it is" not in said
    rigctl(tmp_path, "run", str(config))
    with sqlite3.connect(next(tmp_path.glob("state/*/journal.sqlite"))) as journal:
        states = [state for (state,) in journal.execute("select state from trials order by trial")]
    assert states == ["RECORDED"] * 3
    plug.is_(on=False)
