"""`rigctl tools drill` on the simulated rig; a script pulls the plugs there in the person's place."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from rigctl.campaign import safe_file
from rigctl.config.load import Overrides, load
from rigctl.console.drills import daemon
from rigctl.console.drills.daemon import Daemon, written
from rigctl.console.drills.drill import FAULTS, REPORT, UNPOWERED, drill
from tests.forked import Forked
from tests.simulated import at_rest, start_sim
from tests.system.stack import ROOT, wait_until

pytestmark = pytest.mark.system
CLEAR = {"clear": True}
PLUGS = {
    "probe": ({"fault": "unplug", "bus": "ph"}, {"fault": "replug", "bus": "ph"}),
    "silent": ({"fault": "half_open"}, {"fault": "half_open", "on": False}),
    "meter": ({"fault": "unplug", "bus": "mains"}, {"fault": "replug", "bus": "mains"}),
    "frozen": ({"fault": "sensor", "name": "camera", "mode": "frozen"}, CLEAR),
    "follow": ({"fault": "sensor", "name": "b_probe", "mode": "offset", "offset": 40}, CLEAR),
    "wrong": ({"fault": "identity", "bus": "ph", "as": "EC"}, CLEAR),
}
ALL = [fault.name for fault in FAULTS]
SECONDS = re.compile(r"\b\d+\.\d\d(?= s\b)")


@pytest.fixture
def forked(monkeypatch):
    """The processes of a drill that nobody kills: forked, they would outlive it."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def begin(words, before=None):
        return Forked([sys.executable, "-m", "rigctl", *words], **streams, start_new_session=True)

    monkeypatch.setattr(daemon, "_rigctl", begin)


def on_a_rig(tmp_path, speed):
    sim = start_sim("greenhouse", tmp_path, speed=speed, seed=5)
    config = ROOT / "config/greenhouse.yaml"
    return sim, load(config, Overrides(buses=sim.buses, speedup=speed), to_run=True)


@pytest.mark.parametrize(
    ("speed", "only"), [(20.0, ["kill", "silent"]), pytest.param(1.0, ALL, marks=pytest.mark.nightly)]
)
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("forked")
def test_every_fault_that_can_be_played_is_held(tmp_path, speed, only, golden):
    """With times to safe, and a rig at rest after each; what the rig has no part for is absent, the power stays on."""
    sim, loaded = on_a_rig(tmp_path, speed)
    said: list[str] = []

    def person(moment, text):
        said.append(text)
        if moment == "begin":
            return UNPOWERED
        if moment == "power":
            return "s"
        name, _, undo = moment.partition(" ")
        if name in PLUGS:
            sim.control(PLUGS[name][bool(undo)])
        return ""

    try:
        done = drill(loaded, tmp_path / "drill", only, person, said.append)
        assert at_rest(sim.state())
    finally:
        sim.stop()
    results = {name: struck.result for name, struck in done.faults.items()}
    assert results == {n: {"broker": "absent", "power": "skipped"}.get(n, "held") for n in only}
    for name, struck in done.faults.items():
        if struck.took_s is not None and not struck.unconfirmed:
            assert 0.0 < struck.took_s <= struck.safe_s, name
    assert "b_valve" in done.faults["silent"].unconfirmed
    assert done.faults["silent"].again_s > 0.0
    assert json.loads((tmp_path / "drill" / REPORT).read_text())["faults"].keys() == set(only)
    for text in said:
        golden(SECONDS.sub("N", text))


def test_a_drill_that_is_killed_leaves_nothing_driven(tmp_path):
    """Its campaign is told to go safe by the kernel, whatever ends the drill."""
    sim, loaded = on_a_rig(tmp_path, 20.0)
    place = tmp_path / "drill"
    place.mkdir()
    written(loaded, place)
    code = (
        "import sys; from pathlib import Path; from rigctl.console.drills.daemon import Daemon;"
        "d = Daemon.started(Path(sys.argv[1])); d.drive(120.0); print('driven', flush=True); sys.stdin.read()"
    )
    try:
        drilling = subprocess.Popen(
            [sys.executable, "-c", code, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
        )
        assert drilling.stdout is not None
        assert drilling.stdout.readline() == b"driven\n"
        os.kill(drilling.pid, signal.SIGKILL)
        drilling.communicate()
        sim.wait_until_safe()
        wait_until(lambda: not safe_file.read(place / "state").driven, "the campaign's word that nothing is driven")
    finally:
        sim.stop()


@pytest.mark.usefixtures("forked")
def test_what_a_power_cut_left_driven_is_made_safe_first_and_the_time_kept(tmp_path):
    """As after a start of the computer: the campaign of the drill is gone, and its rig is driven."""
    sim, loaded = on_a_rig(tmp_path, 20.0)
    place = tmp_path / "drill"
    place.mkdir()
    written(loaded, place)
    try:
        driving = Daemon.started(place)
        driving.drive(120.0)
        driving.kill()
        driving.process.stdout.close()
        assert not at_rest(sim.state())
        done = drill(loaded, place, (), lambda moment, _: {"power": "7.5"}[moment], lambda _: None)
        assert at_rest(sim.state())
    finally:
        sim.stop()
    assert (done.faults["power"].result, done.faults["power"].safe_s) == ("held", 7.5)
