"""`rigctl ingest`: trials done by hand, from options, JSON or CSV, into the journal."""

import json
import sqlite3

import pytest

from rigctl.campaign.journal.rows import TrialRecord
from rigctl.campaign.journal.writer import Journal
from tests.profiles import slow_beyond

GOOD = ("--control-set", "ca+ph", "--values", "ph=6.0, ca=2", "--outcome", "1.1", "--cost", "0.25")


def test_a_trial_from_options_is_recorded_whole(bench):
    """Set, measured values, outcome and exact cost reach the journal."""
    answer = bench.rigctl("ingest", "bench.yaml", *GOOD, "--json").json
    assert answer == {"trials": [1], "spent": 0.25, "budget": 20.0}
    row = json.loads(bench.rigctl("export", "--format", "jsonl").out)
    assert (row["control_set"], row["ph"], row["ca"], row["growth"]) == ("ph+ca", 6.0, 2.0, 1.1)
    assert (row["state"], row["cost"], row["origin"]) == ("RECORDED", 0.25, "manual")


@pytest.mark.slow
def test_a_failed_trial_costs_and_teaches_nothing(bench):
    """Without outcome it is FAILED, and charged."""
    bench.rigctl("ingest", "bench.yaml", "--control-set", "ph", "--cost", "0.4")
    answer = bench.rigctl("suggest", "bench.yaml", "--json").json
    assert answer["trial"] == 2
    assert answer["budget"]["spent"] == 0.4
    assert json.loads(bench.rigctl("export", "--format", "jsonl").out)["state"] == "FAILED"


def test_a_value_may_have_its_unit(bench):
    """What is said with a unit is converted to the configuration's, as in a table."""
    said = ("--values", "ph=6.0, ca=2000 uM", "--outcome", "1.1", "--cost", "0.25 EUR")
    bench.rigctl("ingest", "bench.yaml", "--control-set", "ca+ph", *said)
    assert json.loads(bench.rigctl("export", "--format", "jsonl").out)["ca"] == 2.0


@pytest.mark.parametrize("outcome", ["-", "nan", "1e999", "inf"])
def test_an_outcome_that_is_no_number_is_no_failed_trial(bench, outcome):
    """In a table some of these say that there is none; who gives one by itself has meant a number."""
    rest = ("--values", "ph=6.0,ca=2", "--cost", "0.25")
    assert "growth" in bench.rigctl("ingest", "bench.yaml", *GOOD[:2], *rest, f"--outcome={outcome}", code=2).err
    row = {"control_set": ["ph"], "values": {"ph": 6, "ca": 2}, "cost": 0.1, "outcome": outcome}
    assert "growth" in bench.rigctl("ingest", "bench.yaml", "-", stdin=json.dumps(row), code=2).err


def test_a_note_is_kept_as_it_is_said(bench):
    """`none` is no note in a table, where people fill columns with it; by itself somebody has meant it."""
    bench.rigctl("ingest", "bench.yaml", *GOOD, "--note", "none")
    assert json.loads(bench.rigctl("export", "--format", "jsonl").out)["hand.note"] == "none"


def test_a_number_without_end_is_none(bench, golden):
    """An outcome of 1e999 in a table would be infinity."""
    bench.write("past.csv", "ph,ca,controlled,growth,cost\n6,2,ph,1e999,0.1\n")
    golden(bench.rigctl("import", "bench.yaml", "past.csv", code=2).err)


@pytest.mark.slow
def test_trials_from_json_on_standard_input(bench):
    """One object or a list of them; money is read exactly."""
    one = {"control_set": ["ph"], "values": {"ph": 6.2, "ca": 3}, "outcome": 1.0, "cost": 0.1}
    assert bench.rigctl("ingest", "bench.yaml", "-", "--json", stdin=json.dumps(one)).json["trials"] == [1]
    many = json.dumps([one, {"control_set": ["ca"], "cost": 0.2}])
    answer = bench.rigctl("ingest", "bench.yaml", "-", "--json", stdin=many).json
    assert answer == {"trials": [2, 3], "spent": pytest.approx(0.4), "budget": 20.0}


@pytest.mark.slow
def test_trials_from_a_csv_file_keep_their_order(ingested):
    """The rows become trials 1, 2, ... and are what the export gives back."""
    rows = [json.loads(line) for line in ingested.rigctl("export", "--format", "jsonl").out.splitlines()]
    assert [r["trial"] for r in rows] == [1, 2, 3, 4, 5]
    assert [r["growth"] for r in rows] == [1.2, 0.7, 1.9, None, 1.6]


def test_costs_add_up_exactly(bench):
    """Ten times 0.1 is 1, and the trial that costs what is left is still taken."""
    rows = [{"control_set": ["ph"], "cost": 0.1}] * 10
    assert bench.rigctl("ingest", "bench.yaml", "-", "--json", stdin=json.dumps(rows)).json["spent"] == 1.0


@pytest.mark.slow
def test_a_cost_that_is_known_need_not_be_said(bench):
    """Options, JSON and a table without a cost have that of known_costs; one that is said has the last word."""
    text = (bench.folder / "bench.yaml").read_text(encoding="utf-8")
    bench.write("bench.yaml", text + "known_costs: {ph: 0.5 EUR, ca: 0.3 EUR, ca+ph: 0.9 EUR}\n")
    bench.rigctl("ingest", "bench.yaml", "--control-set", "ca+ph", "--values", "ph=6,ca=2", "--outcome", "1.1")
    bench.rigctl("ingest", "bench.yaml", "-", stdin='{"control_set": ["ca"]}')
    bench.write("table.csv", "ph,ca,control_set,growth\n6.0,3.3,ph,1.2\n")
    bench.rigctl("ingest", "bench.yaml", "table.csv")
    bench.write("more.csv", "ph,ca,control_set,growth,cost\n6.0,3.3,ph,1.2,\n6.0,3.3,ph,1.2,0.75\n")
    bench.rigctl("ingest", "bench.yaml", "more.csv")
    rows = [json.loads(line) for line in bench.rigctl("export", "--format", "jsonl").out.splitlines()]
    assert [row["cost"] for row in rows] == [0.9, 0.3, 0.5, 0.5, 0.75]
    assert "--cost" not in bench.rigctl("suggest", "bench.yaml").out


@pytest.mark.slow
def test_another_configuration_cannot_be_mixed_in(ingested):
    """A journal takes trials of its own configuration only; the message names what changed."""
    text = (ingested.folder / "bench.yaml").read_text(encoding="utf-8")
    ingested.write("other.yaml", text.replace("[0, 7.7]", "[0, 9]"))
    assert "variables.ca" in ingested.rigctl("ingest", "other.yaml", *GOOD, code=2).err


@pytest.mark.parametrize("verb", slow_beyond(1, ["suggest", "recommend", "export"]))
def test_results_are_not_taken_for_another_unit_s(ingested, verb, golden):
    """What was measured in cm2/day is neither told, nor gone on with, as if it were mm2/day; nor is a variable's pH."""
    text = (ingested.folder / "bench.yaml").read_text(encoding="utf-8")
    for old, new, key in (("cm2/day", "mm2/day", "outcome.unit"), ("unit: mM", "unit: uM", "variables.ca.unit")):
        ingested.write("other.yaml", text.replace(old, new))
        told = ingested.rigctl(verb, "other.yaml", code=0 if verb == "suggest" else 2).err
        assert f"{key}: was " in told
        golden(told)


@pytest.mark.slow
def test_a_list_is_recorded_whole_or_not_at_all(bench, monkeypatch):
    """If the journal fails in the middle of a list, none of it is there, and the list can be given again."""
    bench.rigctl("ingest", "bench.yaml", *GOOD)
    insert = Journal._insert

    def full(self, kind, values, on_conflict=""):
        if kind is TrialRecord and values["trial"] == 4:
            raise sqlite3.OperationalError("full")
        return insert(self, kind, values, on_conflict)

    for does, code, trials in ((full, 1, 1), (insert, 0, 6)):
        monkeypatch.setattr(Journal, "_insert", does)
        bench.rigctl("ingest", "bench.yaml", "trials.csv", code=code)
        assert len(bench.rigctl("export", "--format", "jsonl").out.splitlines()) == trials
    assert bench.rigctl("status", "bench.yaml", "--json").json["spent"] == 2.35
