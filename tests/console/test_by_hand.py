"""A bench by hand remembers what was suggested, what was set and what was corrected, and asks about slips."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.lock import state_lock
from rigctl.campaign.trial import Looked
from rigctl.config.load import load
from rigctl.console import trial_cli
from rigctl.console.benches.suggest import readings
from rigctl.console.run import setpoints
from tests.console.conftest import BENCH, TRIALS
from tests.profiles import slow_beyond

GOOD = ("--control-set", "ca+ph", "--values", "ph=6.0,ca=2", "--outcome", "1.1", "--cost", "0.25")


def suggested(bench, *more):
    return bench.rigctl("suggest", "bench.yaml", "--json", *more).json


def done(bench, answer, *, control_set=None, setpoints=None, **more):
    """Do the suggested trial, or another one."""
    values = {"ph": 6.0, "ca": 3.3, **({} if control_set or setpoints else answer.get("setpoints", {}))}
    row = {"control_set": control_set or answer["control_set"], "values": values, "outcome": 1.2}
    row |= {"cost": 0.1} | more | ({} if setpoints is None else {"setpoints": setpoints})
    return bench.rigctl("ingest", "bench.yaml", "-", stdin=json.dumps(row))


def exported(bench):
    return [json.loads(line) for line in bench.rigctl("export", "--format", "jsonl").out.splitlines()]


# Suggestions ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_suggestion_that_was_followed_is_explained_and_replayed(bench, golden):
    """The sentences are those that were said, and every suggestion comes out the same."""
    said = []
    for _ in range(4):
        answer = suggested(bench)
        said.append(bench.rigctl("suggest", "bench.yaml").out.split("Next: ")[0])
        done(bench, answer)
    for number, words in enumerate(said, start=1):
        told = bench.rigctl("explain", "bench.yaml", "--trial", str(number)).out
        golden(told.partition("\n")[0])
        assert told.split("\n", 3)[3] == words.partition("Why:\n")[2]
    found = bench.rigctl("replay", "bench.yaml", "--json").json
    assert (found["trials"], found["agree"], found["other_code"]) == (4, 4, [])
    assert bench.rigctl("explain", "bench.yaml", "--json").json["proposal"]["reason"]


def test_a_suggestion_is_kept_once_however_often_it_is_asked_for(bench):
    """Asking again writes nothing, not even that somebody has asked."""
    suggested(bench)
    before = (bench.folder / "state/bench/journal.sqlite").read_bytes()
    suggested(bench)
    assert (bench.folder / "state/bench/journal.sqlite").read_bytes() == before
    with open_reader(Path("state/bench")) as reader:
        assert len(reader.people.suggestions()) == 1


@pytest.mark.slow
def test_what_was_read_is_kept_with_the_suggestion_and_taken_along(bench):
    """It comes back in the export, the decision comes out again, and a history of it decides the same."""
    answer = suggested(bench, "--now", "ph=6.1,ca=3.3mM")
    assert answer["now"] == {"ph": 6.1, "ca": 3.3}
    done(bench, answer, control_set=["ph"])
    done(bench, suggested(bench))
    first, second = exported(bench)
    assert (first["look.ph"], first["look.ca"], first["look_sd.ph"]) == (6.1, 3.3, 0.0)
    assert second["look.ph"] is None
    with open_reader(Path("state/bench")) as reader:
        assert [r.count for r in reader.looks(1)] == [1, 1]
    found = bench.rigctl("replay", "bench.yaml", "--json").json
    assert (found["trials"], found["agree"]) == (2, 2)
    bench.rigctl("export", "--out", "trials.csv")
    again = [suggested(bench, *more) for more in ((), ("--history", "trials.csv"))]
    assert again[0]["control_sets"] == again[1]["control_sets"]


@pytest.mark.slow
def test_a_rule_is_recommended_where_readings_were_told(bench, golden):
    """A bench without wires declares no look; who told what was read is told what to control at which readings."""
    done(bench, suggested(bench))
    assert "rule" not in bench.rigctl("recommend", "bench.yaml", "--json").json
    done(bench, suggested(bench, "--now", "ph=6.1,ca=3.3"))
    assert bench.rigctl("recommend", "bench.yaml", "--json").json["rule"]["lines"]
    golden(bench.rigctl("recommend", "bench.yaml").out)
    golden(bench.rigctl("recommend", "--now", "ph=6,ca=3").out)
    golden(bench.rigctl("recommend", "--now", "pp=6", code=2).err)


def test_what_is_said_of_a_variable_without_a_unit_is_taken_whole(bench):
    """The unit of a ratio is written 1; a number may end in one. Others are converted."""
    bench.write("ratio.yaml", BENCH.replace("unit: pH, range: [5.2, 6.8]", 'unit: "1", range: [0, 100]'))
    loaded = load(bench.folder / "ratio.yaml")
    assert setpoints(loaded, "ph=61") == (("ph", 61.0),)
    assert readings(loaded, "ph=61,ca=3300 uM") == {"ph": Looked(61.0), "ca": Looked(3.3)}


@pytest.mark.slow
def test_a_trial_that_was_not_as_suggested_says_so(bench):
    """Another control set: the policy's memory stays as it was, the departure is kept, suggestions are replayed."""
    done(bench, suggested(bench))
    with open_reader(Path("state/bench")) as reader:
        kept = reader.policy_state()
    answer = suggested(bench)
    other = next(s["control_set"] for s in answer["control_sets"] if s["control_set"] != answer["control_set"])
    label, proposed = "+".join(other), "+".join(answer["control_set"])
    told = done(bench, answer, control_set=other)
    departed = f"controlled {label} instead of {proposed}"
    assert departed in told.err
    row = exported(bench)[-1]
    assert (row["hand.suggested"], row["hand.departed"], row["setpoint.ph"]) == (proposed, departed, None)
    assert departed in bench.rigctl("explain", "bench.yaml").out
    with open_reader(Path("state/bench")) as reader:
        assert [r.policy_state for r in reader.trials()] == [kept, None]
        assert reader.policy_state() == kept is not None
    assert bench.rigctl("replay", "bench.yaml", "--json").json["agree"] == 2


@pytest.mark.slow
def test_setpoints_are_what_was_suggested_or_what_the_person_says(bench):
    """A rounded one is the suggestion followed; another one is a departure; what nobody says stays empty."""
    answer = suggested(bench)
    (name, value), *_ = answer["setpoints"].items()
    done(bench, answer, setpoints={name: round(value, 2)})
    answer = suggested(bench)
    done(bench, answer)
    answer = suggested(bench)
    (other, _), *_ = answer["setpoints"].items()
    moved = {"ph": 5.2, "ca": 7.7}[other]
    done(bench, answer, setpoints={other: moved})
    bench.rigctl("ingest", "bench.yaml", *GOOD)  # without a suggestion
    first, second, third, fourth = exported(bench)
    assert (first[f"setpoint.{name}"], first["hand.departed"]) == (round(value, 2), "")
    assert second["hand.departed"] == ""
    assert third[f"setpoint.{other}"] == moved
    assert third["hand.departed"].startswith(f"{other} ")
    assert f" {moved:g} " in third["hand.departed"]
    assert [fourth["setpoint.ph"], fourth["setpoint.ca"], fourth["hand.suggested"]] == [None, None, ""]
    with open_reader(Path("state/bench")) as reader:
        assert dict(reader.trial(2).setpoints) == pytest.approx(reader.people.suggestions()[2].setpoints)


@pytest.mark.slow
def test_what_was_measured_far_from_what_was_suggested_is_no_following(bench):
    """Nobody said what was set, but it cannot have been that; a little beside it is what hands do."""
    for away, told in ((0.05, ""), (0.2, " was at ")):
        answer = suggested(bench)
        (name, value), *_ = answer["setpoints"].items()
        low, high = {"ph": (5.2, 6.8), "ca": (0.0, 7.7)}[name]
        beside = value + away * (high - low) * (1 if value < (low + high) / 2 else -1)
        values = {"ph": 6.0, "ca": 3.3, **answer["setpoints"], name: beside}
        row = {"control_set": answer["control_set"], "values": values, "outcome": 1.2, "cost": 0.1}
        said = bench.rigctl("ingest", "bench.yaml", "-", stdin=json.dumps(row)).err
        departed = exported(bench)[-1]["hand.departed"]
        assert departed.startswith(name + told) is bool(told)
        assert not departed or departed in said


NOT_KEPT = {
    "history": (("--history", "trials.csv"), "its history is not the campaign's"),
    "seed": (("--seed", "8"), "seed: was 7, is 8"),
}


@pytest.mark.parametrize(("options", "why"), NOT_KEPT.values(), ids=NOT_KEPT)
def test_a_suggestion_that_is_not_of_this_campaign_is_not_kept_and_says_so(bench, options, why, golden):
    """Standard output is the same; standard error has the reason."""
    suggested(bench)
    told = bench.rigctl("suggest", "bench.yaml", "--json", *options)
    golden(told.err)
    assert why in told.err
    with open_reader(Path("state/bench")) as reader:
        assert len(reader.people.suggestions()) == 1


@pytest.mark.slow
def test_a_suggestion_beside_a_running_campaign_is_not_kept(bench, golden):
    """The journal belongs to whoever runs the campaign."""
    done(bench, suggested(bench))
    with state_lock(Path("state/bench")):
        golden(bench.rigctl("suggest", "bench.yaml").err)
    with open_reader(Path("state/bench")) as reader:
        assert list(reader.people.suggestions()) == [1]


# Slips ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "code", "trials"), slow_beyond(1, [("y\n", 0, 6), ("n\n", 2, 5), ("\n", 2, 5), ("", 2, 5)], several=True)
)
def test_at_a_terminal_the_person_is_asked(ingested, monkeypatch, typed, code, trials, golden):
    """Yes records it; no, nothing and whoever goes away do not."""
    monkeypatch.setattr(trial_cli, "at_a_terminal", lambda: True)
    slip = ("--control-set", "ph", "--values", "ph=61,ca=3", "--outcome", "1", "--cost", "0.3")
    told = ingested.rigctl("ingest", "bench.yaml", *slip, stdin=typed, code=code)
    golden(told.err)
    assert len(exported(ingested)) == trials


# Corrections ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_void_trial_is_called_so_and_counts_for_nothing_but_money(ingested):
    """By status and export; the next suggestion, also from the export, does not know it; undone, all is as before."""
    before = suggested(ingested)
    ingested.rigctl("void", "bench.yaml", "3", "--why", "tap open")
    after = suggested(ingested)
    assert [after["budget"][k] for k in ("total", "spent")] == [before["budget"][k] for k in ("total", "spent")]
    assert [s["mean"] for s in after["control_sets"]] != [s["mean"] for s in before["control_sets"]]
    assert ingested.rigctl("status", "bench.yaml", "--json").json["void"] == 1
    row = exported(ingested)[2]
    assert (row["corrected.void"], row["growth"]) == ("void", 1.9)
    assert row["corrected.why"].startswith("void ")
    assert row["corrected.why"].endswith("tap open")
    ingested.rigctl("export", "--out", "again.csv")
    assert {**suggested(ingested, "--history", "again.csv"), "decision_s": 0} == {**after, "decision_s": 0}
    ingested.rigctl("void", "3", "--undo", "--why", "it was the other tap", "--state", "state/bench")
    assert {**suggested(ingested), "decision_s": 0} == {**before, "decision_s": 0}


@pytest.mark.slow
def test_dear_trials_are_told_in_full(bench):
    """Of a bench where a trial costs 30,000 yen every sentence says so; none has 3e+04, or a budget of 2e+06."""
    bench.write("dear.yaml", BENCH.replace("EUR", "JPY").replace("20 JPY", "2000000 JPY"))
    rows = [row.split(",") for row in TRIALS.splitlines()]
    dear = [rows[0], *([*row[:-1], str(1e5 * float(row[-1]))] for row in rows[1:])]
    bench.write("dear.csv", "\n".join(map(",".join, dear)))
    bench.rigctl("ingest", "dear.yaml", "dear.csv")
    slip = ("--control-set", "ph", "--values", "ph=6,ca=3", "--outcome", "1", "--cost", "900000000")
    asked = [["check"], ["status"], ["suggest"], ["suggest", "--technical"], ["recommend"], ["explain"], ["void", "2"]]
    told = [bench.rigctl(verb, "dear.yaml", *more, *["--why", "x"] * (verb == "void")) for verb, *more in asked]
    told.append(bench.rigctl("ingest", "dear.yaml", *slip, code=2))
    told.append(bench.rigctl("suggest", "dear.yaml", "--budget", "200001 JPY", code=1))
    said = "".join(t.out + t.err for t in told)
    assert "30000 JPY" in said
    assert re.findall(r".*e\+.*", said) == []


@pytest.mark.parametrize("verb", [("suggest", "bench.yaml"), ("ingest", "bench.yaml", "trials.csv")])
def test_a_journal_that_its_disk_had_no_room_for_is_begun_anew(bench, verb):
    """SQLite's own pages without a table of ours: no verb that begins one sends to another."""
    at = bench.folder / "state" / "bench" / "journal.sqlite"
    at.parent.mkdir(parents=True)
    with closing(sqlite3.connect(at)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    assert at.stat().st_size
    bench.rigctl(*verb)
    assert bench.rigctl("status", "--json").json["rig"] == "bench"
