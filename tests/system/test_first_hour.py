"""From nothing to a configuration that `check` accepts, against the simulated greenhouse."""

import time

import pytest

from rigctl.config.load import load
from tests.forked import run
from tests.simulated import start_sim

pytestmark = pytest.mark.system

VARIABLES = (
    "ph pH 5 7 natural=6.3+-0.3 sensor=ph_probe actuator=acid_pump effect=-0.04 per_dose=80mL per_day=10L price=9",
    "b uM 5 60 natural=28+-9 sensor=plc/input/2/float32/CDAB actuator=plc/holding/2/float32/CDAB/coil=2",
    "nh4 mM 0.1 4 sensor=plc/input/4/float32 actuator=plc/holding/4/float32/coil=3",
    "k mM 1 12 sensor=plc/input/6/int16/scale=0.01 actuator=plc/holding/6/int16/scale=0.01/coil=4",
)


@pytest.fixture
def sim(tmp_path):
    handle = start_sim("greenhouse", tmp_path, speed=1.0, seed=5)
    yield handle
    handle.stop()


def rigctl(folder, *words):
    """Run it where nobody can be asked."""
    return run(["rigctl", *words], cwd=folder)


def test_from_nothing_to_a_checked_configuration_and_nothing_was_written(sim, tmp_path, record_property):
    """Who is there is found, `check` takes the file at once, `check --probe` hears everybody: by reads alone."""
    names = {"ph": "ph_probe=", "acid": "acid_pump=", "ca": "", "cam": "camera=", "mains": ""}
    places = [f"{name}{sim.path(bus)}" for bus, name in names.items()] + ["{}:{}".format(*sim.plc)]
    probes = [word for place in places for word in ("--probe", place)]
    variables = [word for text in VARIABLES for word in ("--variable", text)]
    outcome = ("--outcome", "growth cm2/day maximise sensor=camera/MEAS:GROW?")
    money = ("--budget", "40 EUR", "--energy-price", "0.31", "--per-hour", "0.5", "--per-trial", "0.05")
    began_s = time.monotonic()
    made = rigctl(tmp_path, "init", "rig.yaml", *probes, *outcome, *variables, *money)
    assert made.returncode == 0, made.stderr
    assert "rigctl check rig.yaml" in made.stdout
    checked = rigctl(tmp_path, "check", "rig.yaml")
    assert checked.returncode == 0, checked.stderr
    asked = rigctl(tmp_path, "check", "rig.yaml", "--probe")
    record_property("seconds", time.monotonic() - began_s)  # must be a minute at most, which no busy machine promises
    assert asked.returncode == 0, asked.stderr + asked.stdout
    for answer in ("pH SIM2.14 nutrient_ph", "PMP SIM1.06 acid: at rest", "SDM120", "GC-1"):
        assert answer in asked.stdout
    rig = load(tmp_path / "rig.yaml", to_run=True).rig
    assert len(rig.devices) == 10
    state = sim.state()
    assert state["writes"] == {"plc": [], "mains": []}
    assert state["doses"] == []
    assert state["requests"]["plc"] > 0
