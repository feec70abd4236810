"""What `rigctl check` compares, prints and refuses, and that `run` refuses the same."""

import pytest

RELAYS = [f"relay{i}" for i in range(16)]
BOARD = f"""\
rig: board
currency: EUR
budget: 10 EUR
variables:
  level: {{unit: L, range: [1, 5], sensor: gauge, actuator: valve, natural: uniform}}
control_sets: all
outcome: {{name: growth, unit: cm2/day, sensor: camera}}
trial:
  prepare: [{", ".join(f"{{actuator: {r}, value: 1, wait: 1 min}}" for r in RELAYS)}]
  settle: 14 min
  measure: {{for: 30 min, every: 10 s}}
meters:
  - {{kind: energy, device: mains, price: 0.31 EUR/kWh}}
buses:
  board: modbus_rtu:///dev/serial/by-id/usb-board?baud=9600
  plc: modbus_tcp://127.0.0.1:1502
devices:
  mains: {{driver: sdm120, bus: "modbus_rtu:///dev/serial/by-id/usb-mains"}}
  gauge: {{driver: modbus, bus: plc, unit: L, read: {{at: 0}}}}
  valve: {{driver: modbus, bus: plc, unit: L, write: {{at: 0, scale: 0.01}}, enable: {{coil: 0}}}}
  camera: {{driver: scpi, bus: "tcp://127.0.0.1:5025", unit: cm2/day, query: "MEAS?"}}
{"".join(f"  {r}: {{driver: modbus, bus: board, enable: {{coil: {i}}}}}{chr(10)}" for i, r in enumerate(RELAYS))}\
safety:
  safe_state: {{valve: off, {", ".join(f"{r}: off" for r in RELAYS)}}}
"""


@pytest.fixture
def board(bench):
    def check(text: str, *arguments: str, verb: str = "check", code: int = 0):
        return bench.rigctl(verb, bench.write("board.yaml", text), *arguments, code=code)

    return check


def test_check_tells_how_long_going_safe_takes(board):
    """Worst case until told and until confirmed, over all and by bus, for people and for programs."""
    safe = board(BOARD, "--json").json["safe"]
    assert set(safe["buses"]) == {"modbus_rtu:///dev/serial/by-id/usb-board?baud=9600", "modbus_tcp://127.0.0.1:1502"}
    assert safe["told_s"] == max(b["told_s"] for b in safe["buses"].values())
    assert safe["confirmed_s"] == max(b["confirmed_s"] for b in safe["buses"].values())
    assert 0 < safe["told_s"] < safe["confirmed_s"]
    told = board(BOARD).out
    assert f" {safe['told_s']:.2f} s," in told
    assert f" {safe['confirmed_s']:.2f} s" in told
    assert all(url in told for url in safe["buses"])


@pytest.mark.slow
def test_run_tells_the_warnings_of_check(board):
    """One line each on standard error, before the rig is opened (here: refused, as nothing is there)."""
    text = BOARD.replace("/dev/serial/by-id/usb-mains", "/dev/ttyUSB7")
    (warning,) = (w for w in board(text, "--json").json["warnings"] if "/dev/ttyUSB7" in w)
    assert warning in board(text, verb="run", code=1).err


def test_a_counter_too_coarse_for_a_trial_is_told_of(board):
    """A float32 at 100 000 kWh has steps of 1/128 kWh: 5 % of an hour at 156 W. A trial here takes an hour."""
    rated = "price: 0.31 EUR/kWh, rated: "
    assert len(board(BOARD.replace("price: 0.31 EUR/kWh", f"{rated}150 W"), "--json").json["warnings"]) == 1
    for fine in (f"{rated}300 W", "price: 0.31 EUR/kWh, max_per_trial: 1 kWh"):
        assert board(BOARD.replace("price: 0.31 EUR/kWh", fine), "--json").json["warnings"] == []
