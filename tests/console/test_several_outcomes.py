"""What the verbs make of a bench with two outcomes."""

import csv
import io
import sqlite3

import pytest

from rigctl.campaign.events import TrialEnded
from rigctl.campaign.journal import open_reader
from rigctl.config.load import load
from rigctl.console.benches.suggest import read_past
from rigctl.console.progress import Board, line_for
from tests.console.conftest import BENCH

TWO = "further_outcomes: [{name: water, unit: L, direction: minimise}]\n"
TRIALS = """\
ph,ca,control_set,growth,water,cost
6.0,3.3,ph,1.2,4.0,0.5
5.5,2.2,ca,0.7,2.5,0.3
6.1,4.4,ca+ph,1.9,6.5,0.9
6.1,,ph,,,0.1
6.2,5.0,ca,1.6,7.0,0.3
"""
"""The fourth trial failed; the fifth is beaten by the third in both."""


@pytest.fixture
def two(bench):
    bench.write("bench.yaml", BENCH + TWO)
    bench.write("trials.csv", TRIALS)
    return bench


@pytest.fixture
def done(two):
    two.rigctl("ingest", "bench.yaml", "trials.csv")
    return two


@pytest.mark.slow
def test_an_export_reads_back_as_a_history(done):
    """A column per outcome, empty where the trial failed; what it suggests is what the journal suggests."""
    out = done.rigctl("export").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["water"] for row in rows] == ["4.0", "2.5", "6.5", "", "7.0"]
    done.write("again.csv", out)
    keys = ("trial", "control_set", "setpoints", "control_sets")
    journal = done.rigctl("suggest", "bench.yaml", "--json").json
    history = done.rigctl("suggest", "bench.yaml", "--history", "again.csv", "--json").json
    assert {k: journal[k] for k in keys} == {k: history[k] for k in keys}
    assert len(done.rigctl("export", "--format", "jsonl").out.splitlines()) == 5


@pytest.mark.slow
def test_a_journal_is_read_by_the_names_of_its_outcomes(bench):
    """A configuration that lists them in another order, or only some, gets each outcome's own values."""
    listed = "further_outcomes: [{}]\n"
    water, salt = "{name: water, unit: L, direction: minimise}", "{name: salt, unit: g}"
    bench.write("bench.yaml", BENCH + listed.format(f"{water}, {salt}"))
    rows = [line.split(",") for line in TRIALS.splitlines()]
    salted = [[*row[:5], "salt" if n == 0 else "70" if row[4] else "", row[5]] for n, row in enumerate(rows)]
    bench.write("trials.csv", "".join(",".join(row) + "\n" for row in salted))
    bench.rigctl("ingest", "bench.yaml", "trials.csv")
    for order, whole in ((f"{salt}, {water}", (70.0, 4.0)), (salt, (70.0,)), (water, (4.0,))):
        bench.write("other.yaml", BENCH + listed.format(order))
        loaded = load(bench.folder / "other.yaml")
        journal = next(bench.folder.rglob("journal.sqlite"))
        assert read_past(loaded, bench.folder, journal).history.observations[0].further == whole


@pytest.mark.slow
def test_recommendation_and_status_have_the_measured_front(done):
    """Trials that no other beats in both outcomes, and the volume they dominate, worked out by hand."""
    front = done.rigctl("recommend", "--json").json["front"]
    assert (front["measured"]["trials"], front["hypervolume"] > 0) == ([1, 2, 3], True)
    assert {tuple(p["measured"]) for p in front["points"]} <= {(1.2, 4.0), (0.7, 2.5), (1.9, 6.5), (1.6, 7.0)}
    status = done.rigctl("status", "--json").json
    assert status["pareto_trials"] == [1, 2, 3]
    # from the floor 0 of growth and 0.45 L above the worst of water: boxes of trials 3, 1 and 2, overlaps once
    assert status["hypervolume"] == pytest.approx(1.9 * 0.95 + 1.2 * 2.5 + 0.7 * 1.5)


@pytest.mark.slow
def test_a_single_trial_is_given_with_its_values(two):
    """Further outcomes are among the values, on the command line and in JSON."""
    one = ("ingest", "bench.yaml", "--control-set", "ph", "--cost", "0.5", "--outcome", "1.2", "--values")
    two.rigctl(*one, "ph=6,ca=3.3,water=4")
    entry = '{"control_set": ["ca"], "values": {"ph": 6, "ca": 2, "water": 1.5}, "outcome": 0.5, "cost": 0.1}'
    two.rigctl("ingest", "bench.yaml", "-", stdin=entry)
    with sqlite3.connect("state/bench/journal.sqlite") as file:
        found = file.execute("SELECT name, value, outcome FROM measurements WHERE outcome > 0 ORDER BY trial, outcome")
        assert list(found) == [("growth", 1.2, 1), ("water", 4.0, 2), ("growth", 0.5, 1), ("water", 1.5, 2)]
    file.close()


def test_every_outcome_is_told_when_a_trial_ends(done, golden):
    """The line for a finished trial has all of them, each with its unit."""
    loaded = load(done.folder / "bench.yaml")
    with open_reader(done.folder / "state/bench") as reader:
        row = reader.trial(1)
    event = TrialEnded(row, row.cost, loaded.problem.budget)
    line = line_for(Board.of(loaded), event)
    assert all(name in line for name in ("growth", "water"))
    golden(line)
