"""Configurations to break, one way at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rigctl.config.load import LoadedConfig, load_text
from rigctl.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((ROOT / "config").glob("*.yaml"))

SMALL = """\
rig: tank
currency: EUR
budget: 12 EUR
variables:
  ph: {unit: pH, range: [5.2, 6.8], sensor: probe, actuator: doser, natural: {truncated_normal: {mean: 6.1, sd: 0.3}}}
  ca: {unit: mM, range: [0, 7.7], sensor: ca_probe, actuator: ca_valve, natural: uniform}
control_sets: [[ph], [ca], [ph, ca]]
outcome: {name: growth, unit: cm2/day, sensor: camera, floor: 0}
trial:
  settle: 20 min
  measure: {for: 5 min, every: 10 s}
meters:
  - {kind: energy, device: mains, price: 0.31 EUR/kWh}
  - {kind: volume, device: doser, price: 4.2 EUR/L}
  - {kind: time, price: 1.5 EUR/h}
  - {kind: fixed, price: 0.05 EUR}
buses:
  plc: modbus_tcp://127.0.0.1:5020
devices:
  mains: {driver: sdm120, bus: "modbus_rtu:///dev/ttyUSB0", address: 1}
  probe: {driver: ezo, bus: "serial:///dev/ttyUSB1", model: pH}
  doser: {driver: ezo-pmp, bus: "serial:///dev/ttyUSB2"}
  ca_probe: {driver: modbus, bus: plc, unit: mM, read: {at: 0, type: float32}}
  ca_valve: {driver: modbus, bus: plc, unit: mM, write: {at: 2, type: float32}, enable: {coil: 0}}
  camera: {driver: scpi, bus: "tcp://127.0.0.1:5025", unit: cm2/day, query: "MEAS?"}
dosing:
  doser: {sensor: probe, effect: -0.04 pH/mL, tolerance: 0.04 pH, mix: 45 s, max_doses: 6}
safety:
  safe_state: {doser: off, ca_valve: off}
  limits: {doser: {per_dose: 20 mL, per_day: 200 mL}}
"""
"""A small rig with one instrument of each family."""

BY_HAND = """\
rig: bench
currency: EUR
budget: 12 EUR
variables:
  ph: {unit: pH, range: [5.2, 6.8], natural: {truncated_normal: {mean: 6.1, sd: 0.3}}}
  ca: {unit: mM, range: [0, 7.7], natural: uniform}
control_sets: all
outcome: {name: growth, unit: cm2/day, floor: 0}
"""
"""The least there is: a person does the trials."""


def loaded(text: str) -> LoadedConfig:
    return load_text(text, Path("rig.yaml"))


def loaded_to_run(text: str) -> LoadedConfig:
    return load_text(text, Path("rig.yaml"), to_run=True)


def problems(text: str) -> dict[str, str]:
    """What is wrong with it: where -> what."""
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return {p.where: p.what for p in caught.value.mistakes}


@pytest.fixture
def broken() -> Callable[[str, str], dict[str, str]]:
    """The problems of SMALL after one replacement, which must apply."""

    def replace(old: str, new: str) -> dict[str, str]:
        assert SMALL.count(old) == 1, f"{old!r} is not unique"
        return problems(SMALL.replace(old, new))

    return replace
