"""A wired rig with a category and a second outcome within a limit: a whole campaign on the simulated lathe."""

import csv
import re
from pathlib import Path

import pytest

from tests import forked
from tests.simulated import start_sim

LATHE = Path(__file__).parents[2] / "config" / "lathe.yaml"
COOLANT = re.compile(r"(?<=  coolant:  ){unit: L/min.*}}")
LEVELS = "{levels: {low: 2, usual: 6, high: 10}, sensor: coolant_sensor, actuator: coolant_valve, natural: uniform}"
LOAD = "  load: {driver: modbus, bus: plc, address: 1, unit: kW, read: {register: input, at: 24, type: float32}}\n"
"""The power of the cut, which must stay below what the spindle can give."""


def limited():
    """Return the lathe's configuration with levels of coolant, controlled in all trials, and a limit of the load."""
    text = COOLANT.sub(LEVELS, LATHE.read_text(encoding="utf-8")).replace("unit: L/min, ", 'unit: "1", ')
    sets, rest = text.split("control_sets:\n")[1].split("\n\n", 1)
    text = text.replace(sets, "  - [coolant]\n  - [speed, coolant]\n  - [feed, depth, coolant]")
    assert rest in text
    limit = "further_outcomes: [{name: load, unit: kW, sensor: load, at_most: 3 kW}]\n\ntrial:"
    return text.replace("\ntrial:", limit, 1).replace("devices:\n", f"devices:\n{LOAD}", 1)


@pytest.mark.system
def test_a_wired_rig_has_levels_and_keeps_a_limit(tmp_path):
    """Every trial sets one of three flows, and measures both outcomes; what is recommended is within the limit."""
    (tmp_path / "lathe.yaml").write_text(limited(), encoding="utf-8")
    sim = start_sim("lathe", tmp_path)

    def rigctl(*arguments):
        done = forked.run(["rigctl", *arguments], cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        rigctl("run", "lathe.yaml", "--max-trials", "4", *sim.options)
    finally:
        sim.stop()
    rows = list(csv.DictReader(rigctl("journal", "export", "lathe.yaml", "--format", "csv").splitlines()))
    assert len(rows) == 4
    assert {row["setpoint.coolant"] for row in rows} <= {"low", "usual", "high"}
    assert all(row["coolant"] == row["setpoint.coolant"] and float(row["load"]) > 0 for row in rows)
    assert "load" in rigctl("recommend", "lathe.yaml")
