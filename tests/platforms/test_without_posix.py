"""Trials by hand on a system that has no locks, users, modes and sockets as POSIX has them."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rigctl import system

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow  # each verb is a process of its own

DOUGH = """
rig: dough
currency: EUR
budget: 40 EUR
variables:
  hydration: {unit: "%", range: [60, 85], natural: {uniform: {low: 68, high: 75}}}
  rest:      {unit: h, range: [1, 24], natural: learned}
control_sets: all
outcome: {name: volume, unit: mL}
known_costs: {hydration: 0.2 EUR, rest: 0.5 EUR, hydration+rest: 0.7 EUR}
"""
OLD = "hydration,rest,volume,controlled\n71,4,700,nothing\n80,9,820,hydration+rest\n65,20,640,hydration\n"
PLAYED = "--control-set hydration --values hydration=84,rest=3 --outcome 812 --cost 0.2"
BY_HAND = (
    "check dough.yaml",
    "trial import dough.yaml old.csv",
    "suggest dough.yaml",
    f"ingest dough.yaml {PLAYED}",
    "trial void dough.yaml 4 --why 'tap was open'",
    "recommend dough.yaml",
    "report dough.yaml",
    "status dough.yaml",
    "journal verify dough.yaml",
    "journal export dough.yaml --format csv --out exported",
)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)

    def play(words):
        command = [sys.executable, "-m", "tests.platforms.without_posix", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    return play


def test_trials_by_hand_work(elsewhere, tmp_path):
    """From the first look at the configuration to the report, with trials of the past between."""
    (tmp_path / "dough.yaml").write_text(DOUGH, encoding="utf-8")
    (tmp_path / "old.csv").write_text(OLD, encoding="utf-8")
    for line in BY_HAND:
        done = elsewhere(shlex.split(line))
        assert done.returncode == 0, (line, done.stderr)
    told = json.loads(elsewhere(["status", "dough.yaml", "--json"]).stdout)
    assert told["trials"] == 4
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("line", ["run {}", "safe {}", "operate {}", "check --probe {}", "drill {}"])
def test_what_drives_instruments_says_that_it_needs_linux(elsewhere, line):
    """In one line, before anything is opened."""
    done = elsewhere([*line.format(ROOT / "config/greenhouse.yaml").split(), "--json"])
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout or done.stderr.splitlines()[-1])
    assert told["error"]["kind"] == "UsageError"


def test_the_demo_plays_its_campaign(elsewhere):
    """The simulated rig is a process without POSIX, too: all its instruments are behind TCP."""
    done = elsewhere(["demo", "--max-trials", "2", "--json"])
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout)
    assert (told["trials"], told["ending"], told["safe"]["ok"]) == (2, "trials", True)
    assert told["simulators_truth"] is not None


def test_the_python_face_works(elsewhere, tmp_path):
    """It decides in memory."""
    script = tmp_path / "face.py"
    script.write_text(
        "import rigctl\n"
        "bench = rigctl.Experiment.of([rigctl.variable('x', 0.0, 1.0, '')], [['x']], budget=40.0)\n"
        "bench.tell(['x'] * 3, [[0.1], [0.5], [0.9]], [1.0, 2.0, 1.0], cost=[1.0] * 3)\n"
        "print(bench.suggest().control_set)\n",
        encoding="utf-8",
    )
    done = elsewhere(["-m", "face"])
    assert done.returncode == 0, done.stderr
    assert "x" in done.stdout


def test_here_everything_is_to_be_had():
    """On Linux nothing stands in for anything."""
    assert system.drives_instruments()
