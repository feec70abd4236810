"""A bench by hand in a folder of its own, and the command line called in this process."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rigctl.console.cli import app
from tests.console.dough import DOUGH

ROOT = Path(__file__).parent.parent.parent
GOLDEN = Path(__file__).parent / "golden"

BENCH = """\
rig: bench
currency: EUR
budget: 20 EUR
seed: 7
policy: {name: explore-then-commit, tolerance: 0.05}
model: {hyperparameters: fixed, lengthscales: {ph: 0.2, ca: 0.2}, signal_sd: 1, noise_sd: 0.01, mean: 0}
variables:
  ph: {unit: pH, range: [5.2, 6.8], natural: {truncated_normal: {mean: 6.1, sd: 0.3}}}
  ca: {unit: mM, range: [0, 7.7], natural: uniform}
control_sets: all
outcome: {name: growth, unit: cm2/day, floor: 0}
"""

TRIALS = """\
ph,ca,control_set,growth,cost
6.0,3.3,ph,1.2,0.5
5.5,2.2,ca,0.7,0.3
6.1,4.4,ca+ph,1.9,0.9
6.1,,ph,,0.1
6.2,5.0,ca,1.6,0.3
"""
"""The fourth trial failed."""


def assert_golden(name: str, text: str) -> None:
    """Raise AssertionError unless it is what the golden file says."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@dataclass
class Answer:
    """What a verb answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Bench:
    """A folder with a configuration and a history, which is the working directory."""

    folder: Path

    def rigctl(self, *arguments: str, stdin: str | None = None, code: int = 0) -> Answer:
        """Call a verb, expecting this exit code."""
        found = CliRunner().invoke(app, arguments, input=stdin)
        answer = Answer(found.exit_code, found.stdout, found.stderr)
        assert answer.code == code, (answer, found.exception)
        return answer

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


def made(folder: Path) -> Bench:
    """Return a bench with its configuration and its history."""
    bench = Bench(folder)
    bench.write("bench.yaml", BENCH)
    bench.write("trials.csv", TRIALS)
    return bench


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    return made(tmp_path)


@pytest.fixture(scope="session")
def journal_of_all(tmp_path_factory) -> Path:
    """State directory of a bench that has all its trials in the journal; copied for each test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("ingested"))
        made(Path.cwd()).rigctl("ingest", "bench.yaml", "trials.csv")
        return Path.cwd() / "state"


@pytest.fixture
def ingested(bench, journal_of_all) -> Bench:
    """The bench with all its trials in the journal."""
    shutil.copytree(journal_of_all, bench.folder / "state")
    return bench


@pytest.fixture
def dough(bench):
    bench.write("dough.yaml", DOUGH)
    return bench
