"""A campaign over QCoDeS' classes: five instruments, simulated by QCoDeS itself, each behind a socket.

QCoDeS is large, so that no extra for tests brings it: `pip install 'rigctl[qcodes]' pyvisa-sim`.
"""

import json
import math
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest

pytest.importorskip("qcodes")
pytest.importorskip("pyvisa_sim")
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore")]  # other people's imports

RIG = """
rig: five-instruments
currency: EUR
budget: 10 EUR
seed: 1
policy: {name: random}
variables:
  power: {unit: dBm, range: [-20, 10], step: 0.01, sensor: source, actuator: source, read_back_tolerance: 0.02,
          natural: {truncated_normal: {mean: -5, sd: 6}}}
  level: {unit: V, range: [0, 1.5], step: 0.001, sensor: level, actuator: level,
          natural: {truncated_normal: {mean: 0.7, sd: 0.3}}}
  cold:  {unit: K, range: [90, 110], sensor: thermometer, natural: {truncated_normal: {mean: 100, sd: 3}}}
control_sets: [[power], [power, level]]
outcome: {name: signal, unit: V, sensor: voltmeter, direction: maximise, floor: 0, plausible: [0, 20]}
trial: {prepare: [{actuator: switch, value: 1, wait: 1 s}], settle: 1 s, measure: {for: 2 s, every: 1 s}}
meters: [{name: crew, kind: time, price: 36 EUR/h}, {name: helium, kind: fixed, price: 0.5 EUR}]
devices:
  switch:      {driver: qcodes, bus: "$switch", instrument: yokogawa.YokogawaGS200,
                enable: output, on: "on", off: "off"}
  source:      {driver: qcodes, bus: "$source", instrument: rohde_schwarz.RohdeSchwarzSGS100A,
                unit: dBm, read: power, set: power, enable: status}
  level:       {driver: qcodes, bus: "$level", instrument: Keysight.KeysightE4980A,
                unit: V, read: voltage_level, set: voltage_level, safe_value: 0}
  thermometer: {driver: qcodes, bus: "$thermometer", instrument: Lakeshore.LakeshoreModel336,
                channel: A, unit: K, read: temperature}
  voltmeter:   {driver: qcodes, bus: "$voltmeter", instrument: Keysight.Keysight34465A,
                unit: V, read: volt}
safety: {safe_state: {source: off, level: 0, switch: off}}
"""


def test_three_trials_over_five_instruments(tmp_path):
    """Set, switched on, read back, measured, and safe at the end: each by a class that nobody here wrote."""
    from tests.drivers.qcodes_sims import SimulatedInstrument, served

    source = SimulatedInstrument("RSSGS100A.yaml", b"\n")
    level = SimulatedInstrument("Keysight_E4980A.yaml", b"\n")
    switch = SimulatedInstrument("Yokogawa_GS200.yaml", b"\n")

    def signal() -> str:
        return f"{5 - source.number(b'SOUR:POW?') / 10 + math.sin(level.number(b':VOLTage:LEVel?')):.6f}"

    parties = {
        "switch": switch,
        "source": source,
        "level": level,
        "thermometer": SimulatedInstrument("lakeshore_model336.yaml", b"\r\n"),
        "voltmeter": SimulatedInstrument("Keysight_34465A.yaml", b"\n", {b"READ?": signal}),
    }
    config = tmp_path / "rig.yaml"
    with served(**parties) as urls:
        config.write_text(Template(RIG).substitute(urls), encoding="utf-8")
        rigctl = Path(sys.executable).with_name("rigctl")
        command = [rigctl, "run", config, "--state", tmp_path / "state", "--max-trials", "3", "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["trials"] == 3
    assert told["safe"]["ok"]
    assert (source.number(b":OUTP:STAT?"), level.number(b":VOLTage:LEVel?"), switch.number(b"OUTPUT?")) == (0, 0, 0)
