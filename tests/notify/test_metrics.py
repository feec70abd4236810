"""A campaign's numbers, read by the parser of the library that Prometheus' users have."""

from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rigctl.campaign.journal import Journal
from rigctl.campaign.status import Status
from rigctl.notify import chores
from rigctl.notify.chores import Looker, registry_of, summary_of, write_textfile
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from tests.campaign.fakes import make_spec
from tests.campaign.records import SetClock, record_trial

STATUS = Status.of(
    {
        "phase": "holding",
        "why": "acid",
        "decision_s": 0.25,
        "watch": {"late_s": 0.1, "worst_late_s": 3.5, "age_s": 0.4},
        "buses": {"serial:///dev/ttyUSB0": {"failed": 7, "repeated": 3}},
        "readings": {
            "ph": {"value": 6.1, "unit": "pH", "age_s": 2.0},
            "ec": {"value": None, "unit": "", "age_s": None},
        },
    }
)


@pytest.fixture
def directory(tmp_path):
    """A campaign of two trials, a dose and three alarms."""
    with closing(Journal(tmp_path, SetClock(), "boot-1")) as journal:
        journal.begin(make_spec(outcome_unit="g"), "0.0")
        record_trial(journal, 1)
        record_trial(journal, 2)
        dose = journal.doses.intend("pump", 12.5, 0.0)
        journal.doses.sent(dose)
        journal.doses.settle(dose, "DONE", 12.5, "")
        journal.alarms.add(Alarm(Severity.MAJOR, "ph", "low", kind="low", state="stands"))
        journal.alarms.add(Alarm(Severity.MAJOR, "trial", "failed: no answer", kind="trial failed"))
        journal.alarms.add(Alarm(Severity.MINOR, "disk", "150 MiB left", kind="disk", state="stands"))
        journal.alarms.acknowledge(2, "Ada")
    return tmp_path


def looked(directory, monkeypatch, status=STATUS):
    looker = Looker(directory)
    monkeypatch.setattr(chores, "answered", lambda *_: status)
    looker.numbers_now()
    return looker


def test_the_numbers_are_those_of_the_journal_and_the_campaign(directory, tmp_path, monkeypatch):
    """By conventional names, with units and a help text; the file is written in one piece, for others to read."""
    looker, path = looked(directory, monkeypatch), tmp_path / "rig.prom"
    write_textfile(path, registry_of(lambda: looker.numbers))
    assert [file.name for file in tmp_path.iterdir() if "prom" in file.name] == ["rig.prom"]
    assert path.stat().st_mode & 0o444 == 0o444
    families = list(text_string_to_metric_families(path.read_text()))
    found = {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}
    expected = {
        ("rigctl_trials", "RECORDED"): 2.0,
        ("rigctl_trials", "FAILED"): 0.0,
        ("rigctl_money_spent", "EUR"): 0.16,
        ("rigctl_money_budget", "EUR"): looker.numbers.facts.money.budget,
        ("rigctl_best_outcome", "g", "y"): 1.7,
        ("rigctl_alarms_active", "MAJOR"): 1.0,
        ("rigctl_alarms_active", "MINOR"): 1.0,
        ("rigctl_alarms_unacknowledged",): 1.0,
        ("rigctl_phase", "holding"): 1.0,
        ("rigctl_phase", "running"): 0.0,
        ("rigctl_dosed_milliliters_total", "pump"): 12.5,
        ("rigctl_up",): 1.0,
        ("rigctl_watch_late_seconds",): 0.1,
        ("rigctl_watch_late_max_seconds",): 3.5,
        ("rigctl_watch_age_seconds",): 0.4,
        ("rigctl_decision_seconds",): 0.25,
        ("rigctl_bus_failed_exchanges_total", "serial:///dev/ttyUSB0"): 7.0,
        ("rigctl_bus_repeated_reads_total", "serial:///dev/ttyUSB0"): 3.0,
        ("rigctl_reading", "pH", "ph"): 6.1,
        ("rigctl_reading_age_seconds", "ph"): 2.0,
    }
    assert {key: found.get(key) for key in expected} == pytest.approx(expected)
    assert found["rigctl_journal_bytes",] > 0
    assert found["rigctl_disk_free_bytes",] > 0
    assert [family.name for family in families if not family.documentation.endswith(".")] == []


def test_a_campaign_that_does_not_run_is_not_up(directory, monkeypatch):
    """What only a running one knows is left out, not nought."""
    looker = looked(directory, monkeypatch, None)
    found = {f.name: f.samples for f in registry_of(lambda: looker.numbers).collect()}
    assert [s.value for s in found["rigctl_up"]] == [0.0]
    assert found["rigctl_watch_late_seconds"] == found["rigctl_reading"] == []
    assert [s.value for s in found["rigctl_trials"] if s.labels == {"state": "RECORDED"}] == [2.0]


def test_the_summary_says_how_it_stands(directory, monkeypatch, golden):
    """Trials, spend, best so far, alarms, when it will end."""
    text = summary_of(looked(directory, monkeypatch).numbers)
    golden(text.splitlines()[0])
    golden(text)
    assert " 0.16 " in text
    golden(text)


@pytest.mark.parametrize("made", [False, True])
def test_a_campaign_that_has_not_begun_has_no_numbers_and_that_is_no_trouble(tmp_path, made):
    """Whoever tells people is started before the campaign is written down."""
    if made:
        Journal(tmp_path, SetClock(), "boot-1").close()
    assert chores._given(Looker(tmp_path), str(tmp_path / "rig.prom"), None) == ""
    assert not (tmp_path / "rig.prom").exists()


def test_numbers_that_nobody_has_looked_for_are_none():
    """An empty answer, not an error."""
    assert list(registry_of(lambda: None).collect()) == []
