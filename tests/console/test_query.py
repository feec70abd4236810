"""The verbs that only look, on a journal filled by hand."""

import csv
import io
import json
from contextlib import closing

import pytest

from rigctl.campaign.journal import Journal
from rigctl.campaign.ledger.lines import IdleLine
from rigctl.campaign.lock import state_lock
from rigctl.campaign.status import ending
from rigctl.config.load import load
from rigctl.page.campaign import campaign_spec
from rigctl.rig.clocks import RealClock
from tests.profiles import slow_beyond


@pytest.mark.slow
def test_status_says_how_the_last_run_ended(ingested):
    """What `suggest` and `ingest` wrote is no run; of one that was killed the remedy is said."""
    assert "ended" not in ingested.rigctl("status", "--json").json
    for how, told in (
        ("budget", "ended: no further trial fits the budget's limits\n"),
        (None, "ended: unknown: it was killed, "),
    ):
        with closing(Journal(ingested.folder / "state" / "bench", RealClock(), "boot")) as journal:
            journal.begin(campaign_spec(load(ingested.folder / "bench.yaml")), "0.0")
            journal.beat(ended=how)
        ingested.rigctl("suggest", "bench.yaml")
        assert told in ingested.rigctl("status").out


@pytest.mark.slow
def test_recommendation_names_set_setpoints_interval_and_alternatives(ingested):
    """The choice, and for each other set what it would lose and save; and the answer that people see."""
    answer = ingested.rigctl("recommend", "--json").json
    assert set(answer["setpoints"]) == set(answer["control_set"])
    assert answer["low"] < answer["expected"] < answer["high"]
    assert len(answer["alternatives"]) == 2
    assert {"loss", "saving", "cost_per_trial", "trials"} <= set(answer["alternatives"][0])
    run, certainty = answer["answer"]["ways"][0], answer["answer"]["certainty"]
    assert (run["control_set"], run["setpoints"]) == (answer["control_set"], answer["setpoints"])
    assert certainty["kind"] == "one trial"


@pytest.mark.slow
def test_what_no_trial_used_is_in_the_ledger_and_in_what_is_spent(ingested, golden):
    """Idle lines are exported as such; status counts them, and a suggestion has so much less to spend."""
    journal = Journal(ingested.folder / "state" / "bench", RealClock(), "boot")
    journal.idle.book([IdleLine("power", "energy", 4.0, "kWh", 1_240_000, "between trials")])
    journal.close()
    rows = list(csv.DictReader(io.StringIO(ingested.rigctl("export", "--records", "ledger").out)))
    assert sum(round(float(r["amount"]) * 1e6) for r in rows) == 2_100_000 + 1_240_000
    assert [(r["trial"], r["meter"], r["kind"], r["quantity"]) for r in rows if r["kind"] == "idle"] == [
        ("6", "power", "idle", "4.0")
    ]
    assert ingested.rigctl("status", "--json").json["spent"] == 3.34
    assert ingested.rigctl("suggest", "bench.yaml", "--json").json["budget"]["spent"] == 3.34
    golden(ingested.rigctl("suggest", "bench.yaml", "--budget", "3.3 EUR", code=1).err)


@pytest.mark.parametrize(
    "records", slow_beyond(1, ["trials", "ledger", "measurements", "events", "doses", "alarms", "acts"])
)
def test_every_kind_of_record_can_be_exported(ingested, records):
    """As CSV with a header, and as JSON with one object a line."""
    table = ingested.rigctl("export", "--records", records).out.splitlines()
    lines = ingested.rigctl("export", "--records", records, "--format", "jsonl").out.splitlines()
    assert "," in table[0]
    assert len(lines) == len(table) - 1
    assert all(list(json.loads(line)) == table[0].split(",") for line in lines)


@pytest.mark.parametrize(
    "words", slow_beyond(1, [("reset-trip",), ("ingest", "bench.yaml", "--control-set", "ph", "--cost", "1")])
)
def test_a_locked_state_directory_is_left_alone(ingested, words):
    """While a campaign runs, neither trials are taken nor a trip is reset: exit 4 and the holder's pid."""
    with state_lock(ingested.folder / "state/bench"):
        answer = ingested.rigctl(*words, code=4)
    assert "process" in answer.err


def test_drivers_are_listed_with_what_they_talk_over(bench):
    """Every built-in driver, its schemes and its sentence."""
    found = {d["name"]: d for d in bench.rigctl("drivers", "--json").json}
    assert {"modbus", "ezo", "ezo-pmp", "scpi", "sdm120", "sdm630"} <= set(found)
    assert "modbus_tcp" in found["modbus"]["schemes"]
    assert "ezo-pmp" in bench.rigctl("drivers").out


@pytest.mark.slow
def test_profiles_are_listed_with_their_quantities(bench):
    """Those that are shipped, and those beside a configuration."""
    (bench.folder / "profiles" / "scpi").mkdir(parents=True)
    bench.write("profiles/scpi/oven.yaml", "instrument: Oven 7\nsource: p. 3\nquantities: {inside: {query: T}}\n")
    found = {p["name"]: p for p in bench.rigctl("drivers", "bench.yaml", "--profiles", "--json").json}
    assert found["julabo"]["quantities"] == ["bath", "probe", "power"]
    assert len(found["oven"]["problems"]) == 1
    assert "julabo/bath" in bench.rigctl("drivers", "--profiles").out


@pytest.mark.slow
def test_bench_latency_has_a_row_per_kind_of_bounds_and_size(bench):
    """CPU seconds of a decision, with and without a refit, for each number of trials asked for."""
    rows = bench.rigctl("bench", "latency", "--size", "10", "--repeats", "1", "--json").json
    assert [(r["bounds"], r["n"]) for r in rows] == [("integrated", 10), ("pointwise", 10)]
    assert all(r["median_s"] > 0 and r["refit_s"] > 0 and r["sets"] == 7 for r in rows)


def test_an_end_for_several_reasons_is_one_line():
    """Each reason stands apart from the next, wherever the end is told."""
    assert ending("no port a\nno port b") == "no port a; no port b"
