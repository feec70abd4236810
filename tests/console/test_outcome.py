"""`rigctl trial outcome`: what a person says is converted, doubted, recorded once, and known from then on."""

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rigctl.campaign import acts
from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.trial import Event, State
from rigctl.config.load import load_text
from rigctl.console.benches.outcomes import judged
from rigctl.errors import UsageError
from rigctl.notify.chores import Looker, summary, summary_of
from rigctl.notify.setup import Setup
from rigctl.page.campaign import campaign_spec
from rigctl.rig.protocols import ActuatorState
from rigctl.rig.values import Measurement
from rigctl.telling import NotifySpec, Telling
from rigctl.text import told_utc
from tests.campaign.records import SetClock, make_decision
from tests.config.test_hardware import late
from tests.page.served import Answering, asking, log_in, token_for

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DUE = NOON + timedelta(days=3)
CONFIG = late("by: hand, within: 3 d, plausible: [0, 5]", "\nfurther_outcomes: [{name: taste, unit: '1', by: hand}]")


@pytest.fixture
def awaited(bench):
    """Four trials whose outcomes are awaited; nobody runs them now."""
    loaded = load_text(CONFIG, bench.folder / "tank.yaml")
    bench.write("tank.yaml", CONFIG)
    directory = bench.folder / "state/tank"
    directory.mkdir(parents=True)
    with closing(Journal(directory, SetClock(), "boot-1", lambda: NOON)) as journal:
        journal.begin(campaign_spec(loaded), "0.0")
        for n in range(1, 5):
            journal.propose(make_decision(n, control_set=("ph",), setpoints={"ph": 6.0}))
            journal.arm(n, {})
            journal.run(n, {"ph": ActuatorState(True, 6.0)})
            measured = {"ph": Measurement(6.0, 0.0, 5), "ca": Measurement(2.0 + n, 0.0, 5)}
            journal.measure(n, measured, loaded.rig.outcome_names, {})
            journal.finish(n, State.MEASURED, Event.AWAIT, (), awaiting=loaded.rig.late)
        journal.beat(ended="stopped")
    return bench


def trials():
    with open_reader(Path("state/tank")) as reader:
        return {row.trial: (row.state, row.outcome, dict(row.further)) for row in reader.trials()}


@pytest.mark.slow
def test_a_campaign_goes_on_with_a_unit_in_other_letters(awaited, golden):
    """Of an outcome, a further one, a variable; nothing else may differ."""
    again = CONFIG.replace("cm2/day", "cm²/day").replace("unit: mM", "unit: mmol/L")
    journal = Journal(awaited.folder / "state/tank", SetClock(), "boot-1", lambda: NOON)
    with closing(journal):
        journal.begin(campaign_spec(load_text(again, awaited.folder / "tank.yaml")), "0.0")
        other = campaign_spec(load_text(CONFIG.replace("unit: mM", "unit: uM"), awaited.folder / "tank.yaml"))
        with golden.raises(UsageError):
            journal.begin(other, "0.0")


@pytest.mark.slow
def test_the_page_lists_what_is_awaited_and_takes_it_from_who_is_logged_in(awaited):
    """A value with its unit goes to the campaign by the same road; what looks mistyped is asked about first."""
    state = awaited.folder / "state/tank"
    with Answering(state).running() as campaign, asking(state, judge=judged) as client:
        seen = client.get("/").text
        assert 'action="act/outcome"' not in seen
        csrf = log_in(client, token_for(state))
        assert client.get("/").text.count('action="act/outcome"') == 2 * 4

        def says(trial, growth="", taste="1", **more):
            fields = {
                "csrf": csrf,
                "trial": str(trial),
                "of growth": growth,
                "of taste": taste,
                "why": "lab 17",
                **more,
            }
            return client.post("/act/outcome", data=fields)

        assert says(3, "0.0002 m2/day").status_code == 303
        asked = says(2, "9 cm2/day")
        assert (asked.status_code, "growth: 9" in asked.text) == (409, True)
        again = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', asked.text))
        assert says(2, "10", sure=again["sure"]).status_code == 409, "what was confirmed was another value"
        assert client.post("/act/outcome", data=again).status_code == 303
        assert says(1, lost="yes").status_code == 303
        wrong = ((2, "1 kg", "kg cannot be converted"), (9, "1", "not in this journal"), (2, "", "must be a quantity"))
        for trial, growth, told in wrong:
            refused = says(trial, growth)
            assert (refused.status_code, told in refused.text) == (409, True)
        assert client.post("/act/outcome", data={**again, "csrf": "another"}).status_code == 403
    given = [r for r in campaign.asked if r.verb == "outcome"]
    assert [(r.arguments["trial"], r.arguments.get("outcomes"), r.who, r.why) for r in given] == [
        (3, {"growth": 2.0, "taste": 1.0}, "Anna (page)", "lab 17"),
        (2, {"growth": 9.0, "taste": 1.0}, "Anna (page)", "lab 17"),
        (1, None, "Anna (page)", "lab 17"),
    ]


@pytest.mark.slow
def test_status_and_the_day_s_summary_say_what_is_awaited_and_until_when(awaited):
    """How many, and the first of them; nothing once all have come."""
    status = awaited.rigctl("status", "tank.yaml", "--json").json
    assert (status["awaiting"], status["first_due"]) == ([1, 2, 3, 4], told_utc(DUE.isoformat()))
    said = f"Awaited: 4 outcomes, the first of trial 1 until {told_utc(DUE.isoformat())}."
    assert said in summary_of(Looker(Path("state/tank")).numbers_now()).splitlines()
    there = Telling(NotifySpec(zone="Asia/Kathmandu"))
    assert "until 2026-03-04 17:45 +0545." in summary(Setup("tank", "EUR", "state/tank", there))
    for n in range(1, 5):
        awaited.rigctl("outcome", str(n), "--lost", "--why", "spilt")
    assert "Awaited" not in summary_of(Looker(Path("state/tank")).numbers_now())


SHEETS = {
    "Excel on the continent": "Trial;Growth [m2/day];Unit;Taste;Datum\r\n2;0,00015;;3,5;1.12.2026\r\n",
    "tabs": "trial\tgrowth\ttaste\n2\t1.5\t3.5\n",
    "unit of the cell": 'trial,growth,taste\n2,"1,5 cm2/day","3,5"\n',
    "unit of the cell, not of the header": 'trial,growth [m2/day],unit,taste\n2,"1,5 cm2/day",m2/day,"3,5"\n',
    "a title above": "Lab 17;;\ntrial;growth;taste\n2;1,5;3,5\n",
}


@pytest.mark.parametrize("text", SHEETS.values(), ids=SHEETS)
def test_a_file_is_read_as_spreadsheets_save_it(awaited, text, golden):
    """Separator, decimal comma, mark at the head, capitals and units: as `rigctl trial import` reads them."""
    (awaited.folder / "lab.csv").write_bytes(text.encode("utf-16"))
    said = awaited.rigctl("outcome", "--from", "lab.csv").out.splitlines()
    golden(said[-1])
    assert ("Datum" in said[0]) is ("Datum" in text)


def test_on_a_full_disk_it_says_so_and_nothing_is_recorded(awaited, monkeypatch, golden):
    """Not with a traceback: what SQLite finds is told as the journal's own trouble is."""
    apply = acts.Outcome.apply

    def filled(outcome, journal, rig):
        (pages,) = journal.past.connection.execute("PRAGMA page_count").fetchone()
        journal.past.connection.execute(f"PRAGMA max_page_count = {pages}")
        return apply(outcome, journal, rig)

    monkeypatch.setattr(acts.Outcome, "apply", filled)
    before = trials()
    told = awaited.rigctl("outcome", "2", "1.5", "--values", "taste=3", "--why", 100_000 * "x", "--json", code=1)
    assert told.json["error"]["kind"] == "JournalUnwritable"
    golden(told.err)
    assert trials() == before


@pytest.mark.slow
def test_a_disk_that_fails_as_the_journal_is_closed_is_told_as_any_other(awaited, bench, monkeypatch, golden):
    """It was SQLite's own error, with a traceback; what was said is recorded by then."""
    close = Journal.close

    def failing(journal):
        close(journal)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Journal, "close", failing)
    said = bench.rigctl("outcome", "tank.yaml", "2", "3.1", "--values", "taste=7", "--json", code=1)
    assert said.json["error"]["kind"] == "JournalError"
    golden(said.err)
