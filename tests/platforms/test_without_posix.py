"""Trials by hand on a system that has no locks, users, modes and sockets as POSIX has them."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rigctl import system

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

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
    "status dough.yaml --json",
    "journal verify dough.yaml",
    "journal export dough.yaml --format csv --out exported",
)
DRIVING = tuple(
    f"{verb} {ROOT}/config/greenhouse.yaml --json" for verb in ("run", "safe", "operate", "check --probe", "drill")
)
FACE = """
import rigctl
bench = rigctl.Experiment.of([rigctl.variable('x', 0.0, 1.0, '')], [['x']], budget=40.0)
bench.tell(['x'] * 3, [[0.1], [0.5], [0.9]], [1.0, 2.0, 1.0], cost=[1.0] * 3)
print(bench.suggest().control_set)
"""


def elsewhere(directory, *words, said=None):
    command = [sys.executable, "-m", "tests.platforms.without_posix", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, input=said, cwd=directory, env=environment
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What each line did, all of them in one process that lacks POSIX; and where."""
    here = tmp_path_factory.mktemp("elsewhere")
    (here / "dough.yaml").write_text(DOUGH, encoding="utf-8")
    (here / "old.csv").write_text(OLD, encoding="utf-8")
    (here / "face.py").write_text(FACE, encoding="utf-8")
    lines = (*BY_HAND, *DRIVING, "-m face")
    done = elsewhere(here, "-", said=json.dumps([shlex.split(line) for line in lines]))
    assert done.returncode == 0, done.stderr
    answers = (SimpleNamespace(**answer) for answer in json.loads(done.stdout))
    return dict(zip(lines, answers, strict=True)), here


def test_trials_by_hand_work(played):
    """From the first look at the configuration to the report, with trials of the past between."""
    done, here = played
    assert {line: done[line].stderr for line in BY_HAND if done[line].returncode} == {}
    assert json.loads(done["status dough.yaml --json"].stdout)["trials"] == 4
    assert (here / "report.html").exists()


@pytest.mark.parametrize("line", DRIVING, ids=lambda line: line.split()[0])
def test_what_drives_instruments_says_that_it_needs_linux(played, line):
    """In one line, before anything is opened."""
    done = played[0][line]
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout or done.stderr.splitlines()[-1])
    assert told["error"]["kind"] == "UsageError"


def test_the_demo_plays_its_campaign(tmp_path):
    """The simulated rig is a process without POSIX, too: all its instruments are behind TCP."""
    done = elsewhere(tmp_path, "demo", "--max-trials", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout)
    assert (told["trials"], told["ending"], told["safe"]["ok"]) == (1, "trials", True)
    assert told["simulators_truth"] is not None


def test_the_python_face_works(played):
    """It decides in memory."""
    done = played[0]["-m face"]
    assert done.returncode == 0, done.stderr
    assert "x" in done.stdout


def test_here_everything_is_to_be_had():
    """On Linux nothing stands in for anything."""
    assert system.drives_instruments()
