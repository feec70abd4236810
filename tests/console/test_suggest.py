"""`rigctl suggest`: the next trial as JSON or sentences, from a CSV file or a journal."""

import re
from dataclasses import replace

import pytest

from rigctl.config.load import load
from rigctl.console.benches.suggest import read_past, suggest
from rigctl.errors import PolicyError
from tests.campaign.fakes import SoonContent

KEYS = "trial policy phase control_set setpoints seed decision_s reason technical control_sets read threshold budget"
SET_KEYS = (
    "control_set at mean sd lower upper cost_mean cost_lcb trials eligible ruled_out spent best_lower best_lower_at"
)


def test_the_answer_has_the_agreed_keys_and_takes_the_history_as_written(bench):
    """In the agreed order, an entry per control set; failed trials cost; what is proposed can be set."""
    answer = bench.rigctl("suggest", "bench.yaml", "--history", "trials.csv", "--json").json
    assert list(answer) == KEYS.split()
    assert [s["control_set"] for s in answer["control_sets"]] == [["ph"], ["ca"], ["ph", "ca"]]
    assert all(list(s) == SET_KEYS.split() for s in answer["control_sets"])
    assert list(answer["budget"]) == ["total", "spent", "predicted_next", "assumed_next"]
    assert (answer["trial"], answer["budget"]["spent"]) == (6, pytest.approx(2.1))
    assert [s["trials"] for s in answer["control_sets"]] == [2, 2, 1]
    assert answer["control_sets"][2]["cost_mean"] == pytest.approx(0.9)
    ranges = {"ph": (5.2, 6.8), "ca": (0.0, 7.7)}
    assert set(answer["setpoints"]) == set(answer["control_set"])
    assert all(ranges[n][0] <= v <= ranges[n][1] for n, v in answer["setpoints"].items())


def test_without_a_history_the_first_trial_is_suggested(bench):
    """Neither journal nor CSV: trial 1, exploring, nothing spent."""
    answer = bench.rigctl("suggest", "bench.yaml", "--json").json
    assert (answer["trial"], answer["phase"], answer["budget"]["spent"]) == (1, "explore", 0.0)


@pytest.mark.slow
def test_people_read_labels_and_commands_take_names(bench):
    """A label stands wherever a person reads; what is to be typed, and JSON, have the name."""
    text = (bench.folder / "bench.yaml").read_text(encoding="utf-8")
    for name, label in (("ca", "Calcium"), ("ph", "Acidity")):
        assert f"  {name}:" in text
        text = text.replace(f"  {name}: {{", f"  {name}: {{label: {label}, ")
    (bench.folder / "bench.yaml").write_text(text, encoding="utf-8")
    read = bench.rigctl("suggest", "bench.yaml", "--history", "trials.csv").out
    said, typed = read.partition("Next: ")[::2]
    assert "Calcium" in said
    assert re.findall(r"(?<![\w-])(?:ca|ph)(?![\w-]).*", said) == []
    assert not re.search("Calcium|Acidity", typed)
    answer = bench.rigctl("suggest", "bench.yaml", "--history", "trials.csv", "--json").json
    assert [s["control_set"] for s in answer["control_sets"]] == [["ph"], ["ca"], ["ph", "ca"]]


@pytest.mark.slow
def test_same_seed_same_suggestion(bench):
    """A suggestion depends on history and seed, on nothing else."""

    def setpoints(*seed):
        return bench.rigctl("suggest", "bench.yaml", "--json", *seed).json["setpoints"]

    assert setpoints() == setpoints() == setpoints("--seed", "7")
    assert setpoints() != setpoints("--seed", "8")


@pytest.mark.slow
def test_journal_and_csv_say_the_same(ingested):
    """The same trials, from the journal or its own export, give the same suggestion."""
    ingested.rigctl("export", "bench.yaml", "--out", "again.csv")
    answers = [
        ingested.rigctl("suggest", "bench.yaml", "--json", *more).json
        for more in ((), ("--history", "state/bench"), ("--history", "again.csv"), ("--history", "trials.csv"))
    ]
    for answer in answers:
        answer.pop("decision_s")
    assert answers[1:] == answers[:1] * 3


def test_a_stopping_rule_that_fired_is_said(bench, golden):
    """No trial to suggest, but what to do instead: the message has the rule's own words and the remedy."""
    loaded = replace(load(bench.folder / "bench.yaml"), policy=SoonContent())
    past = read_past(loaded, bench.folder, bench.folder / "trials.csv")
    with golden.raises(PolicyError):
        suggest(loaded, past)


@pytest.mark.slow
def test_people_get_sentences(bench, golden):
    """What to do first, and on a page to print, too; then the reason and one sentence per control set."""
    lines = bench.rigctl("suggest", "bench.yaml", "--history", "trials.csv", "--card", "card.html").out.splitlines()
    to_do = lines[: lines.index("Why:")]
    golden(to_do)
    page = (bench.folder / "card.html").read_text(encoding="utf-8")
    assert [line for line in to_do[1:] if line.removeprefix("  [ ] ") not in page] == []
    golden(bench.rigctl("suggest", "bench.yaml", "--card", "no/card.html", code=2).err)
    assert sum("likely" in line and "trial" in line for line in lines) == 3
    technical = bench.rigctl("suggest", "bench.yaml", "--history", "trials.csv", "--technical").out.splitlines()
    golden(technical[0])
    assert sum("posterior" in line for line in technical) == 3
