"""A controlled variable that does not follow: real processes at speed 1, beside a PLC that nobody here wrote."""

from __future__ import annotations

import json
import random
import struct
import threading

import pytest
import yaml
from pyModbusTCP.server import DataBank, DataHandler

from tests.drivers.peers import foreign_plc
from tests.system.stack import Stack

pytestmark = [pytest.mark.system, pytest.mark.slow]

P, Q, YIELD = 0, 2, 4
"""Input registers."""
P_SET, Q_SET = 10, 12
"""Holding registers."""
P_ON, Q_ON = 1, 2
"""Coils."""
RIG = """
rig: bench
currency: EUR
budget: 1000 EUR
seed: 5
policy: {name: explore-then-commit, explore: {share: 0.9, by: spend}}
model: {hyperparameters: fixed, lengthscales: 0.3, signal_sd: 3, noise_sd: 0.3, mean: 8}
variables:
  p: {unit: bar, range: [1, 9], sensor: p_gauge, actuator: p_valve, natural: {truncated_normal: {mean: 2, sd: 0.5}}}
  q: {unit: bar, range: [1, 9], sensor: q_gauge, actuator: q_valve, natural: {truncated_normal: {mean: 2, sd: 0.5}}}
control_sets: [[p], [q], [p, q]]
outcome: {name: yield, unit: g, sensor: balance, direction: maximise}
trial:
  settle: 0.2 s
  measure: {for: 0.2 s, every: 0.1 s, min_count: 1}
meters: [{name: water, kind: fixed, price: 0.05 EUR}]
buses: {plc: "modbus_tcp://127.0.0.1:PORT"}
devices:
  p_gauge: {driver: modbus, bus: plc, address: 1, unit: bar, read: {register: input, at: 0, type: float32}}
  q_gauge: {driver: modbus, bus: plc, address: 1, unit: bar, read: {register: input, at: 2, type: float32}}
  balance: {driver: modbus, bus: plc, address: 1, unit: g, read: {register: input, at: 4, type: float32}}
  p_valve: {driver: modbus, bus: plc, address: 1, unit: bar, write: {at: 10, type: float32}, enable: {coil: 1}}
  q_valve: {driver: modbus, bus: plc, address: 1, unit: bar, write: {at: 12, type: float32}, enable: {coil: 2}}
safety:
  safe_state: {p_valve: "off", q_valve: "off"}
  watch: {clear_for: 1 s}
"""


class Plc(DataHandler):
    """Two pressures that settle at once where their valves are set; registers and coils always read back as sent."""

    def __init__(self):
        super().__init__(DataBank())
        self.fault = ""
        self._random, self._lock = random.Random(1), threading.Lock()

    def read_i_regs(self, address, count, srv_info):
        with self._lock:
            self.data_bank.set_input_registers(P, [w for value in self.gauges() for w in floats(value)])
        return super().read_i_regs(address, count, srv_info)

    def gauges(self):
        """What the three sensors read now."""
        p, q = self.pressure(P_ON, P_SET), self.pressure(Q_ON, Q_SET)
        if self.fault == "valve dead":
            p = 2.0 + self._random.gauss(0.0, 0.2)
        outcome = p * q + self._random.gauss(0.0, 0.1)
        if self.fault == "hose off":
            p = 1.0 + self._random.gauss(0.0, 0.01)
        return (q, p, outcome) if self.fault == "gauges exchanged" else (p, q, outcome)

    def pressure(self, coil, register):
        words = self.data_bank.get_holding_registers(register, 2)
        held = struct.unpack(">f", struct.pack(">HH", *words))[0]
        return (held if self.data_bank.get_coils(coil)[0] else 2.0) + self._random.gauss(0.0, 0.03)


def floats(value):
    return struct.unpack(">HH", struct.pack(">f", value))


@pytest.fixture
def plc():
    """Stands where the PLC would, on a TCP port."""
    with foreign_plc(Plc()) as handler:
        yield handler


@pytest.fixture
def bench(plc, tmp_path):
    """Starts rigctl on it."""
    config = yaml.safe_load(RIG)
    config["buses"]["plc"] = f"modbus_tcp://127.0.0.1:{plc.port}"
    for device in config["devices"].values():
        device["timeout"] = "20 s"
    (tmp_path / "rig.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    stack, state = Stack(None, tmp_path), tmp_path / "state"

    def start(verb, *arguments):
        given = (*arguments,) if verb == "in-service" else (tmp_path / "rig.yaml", *arguments)
        return stack.rigctl(verb, *given, "--state", state, "--json", state=state)

    yield start
    stack.end()


def controlled(run):
    """What each trial controlled, in order."""
    return [json.loads(r["control_set"]) for r in run.rows("SELECT control_set FROM trials ORDER BY trial")]


def void(run):
    """Trials that rigctl has voided."""
    return [row["trial"] for row in run.rows("SELECT trial FROM corrections WHERE kind = 'void' AND who = 'rigctl'")]


@pytest.mark.parametrize("fault", ["valve dead", "hose off"])
def test_fault_83_a_variable_that_does_not_follow_is_held_until_a_person_has_looked(plc, bench, fault):
    """MAJOR alarm after four misses, its control sets held across a restart, its trials void; `in-service` lifts it."""
    plc.fault = fault
    first = bench("run", "--max-trials", 16)
    assert first.wait() == 0, first.said
    played = controlled(first)
    with_p = [number for number, names in enumerate(played, start=1) if "p" in names]
    assert 4 <= len(with_p) <= 6
    assert len(played) == 16
    assert 4 <= len(void(first)) <= len(with_p)
    assert set(void(first)) <= set(with_p)
    (alarm,) = first.alarms("p_valve: ", severity="MAJOR")

    again = bench("run", "--max-trials", 18)
    assert again.wait() == 0, again.said
    assert controlled(again)[16:] == [["q"], ["q"]]
    assert again.alarms("p_valve: ", severity="MAJOR") == [alarm]
    advice = bench("recommend")
    assert advice.wait() == 0, advice.said
    assert set(advice.answer["held"]) == {"p", "p+q"}
    assert advice.answer["control_set"] == ["q"]

    plc.fault = ""
    back = bench("in-service", "p_valve")
    assert back.wait() == 0, back.said
    mended = bench("run", "--max-trials", 30)
    assert mended.wait() == 0, mended.said
    assert sum("p" in names for names in controlled(mended)[18:]) > 5
    assert mended.alarms("p_valve: ", severity="MAJOR") == []
    assert void(mended) == void(first)
    advice = bench("recommend")
    assert advice.wait() == 0, advice.said
    assert "held" not in advice.answer


def test_fault_83_two_gauges_exchanged_hold_both_variables(plc, bench):
    """After a program update each gauge reads the other pressure: nothing is left to play, and the campaign waits."""
    plc.fault = "gauges exchanged"
    run = bench("run", "--max-trials", 40)
    run.until(lambda: "HOLDING" in run.phases(), "it holds")
    assert len(run.alarms("p_valve: ", severity="MAJOR")) == 1
    assert len(run.alarms("q_valve: ", severity="MAJOR")) == 1
    assert len(controlled(run)) <= 16
