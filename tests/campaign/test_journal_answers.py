from __future__ import annotations

import pytest

from rigctl.errors import JournalError
from rigctl.rig.protocols import Unanswered
from tests.campaign.fakes import make_spec, open_journal
from tests.campaign.records import STEPS, Event, SetClock, record_trial, rows


@pytest.fixture
def journal(tmp_path):
    """A campaign that has begun."""
    made = open_journal(tmp_path, SetClock())
    made.begin(make_spec(), "0.0")
    yield made
    made.close()


def dose(journal, answered, pump="acid", probe="ph"):
    """One dose, and whether the probe answered it."""
    number = journal.doses.intend(pump, 5.0, 0.0)
    journal.doses.sent(number)
    journal.doses.settle(number, "DONE", 5.0, "")
    journal.answers.keep(pump, probe, -0.2 if answered else 0.0, -0.2, answered=answered)


def in_trial(journal, number, *answers):
    """An ordinary trial with these doses."""
    for event in (Event.PROPOSE, Event.ARM):
        STEPS[event](journal, number)
    for answered in answers:
        dose(journal, answered)
    for event in (Event.RUN, Event.MEASURE, Event.RECORD):
        STEPS[event](journal, number)


def test_unanswered_doses_are_counted_over_trials_and_processes(journal, tmp_path):
    """Trials between that dosed nothing neither add nor take away."""
    in_trial(journal, 1, True, False, False)
    record_trial(journal, 2)
    in_trial(journal, 3, False)
    assert journal.answers.unanswered("acid", "ph") == Unanswered(doses=3, trials=2)
    journal.close()
    again = open_journal(tmp_path, SetClock())
    assert again.answers.unanswered("acid", "ph") == Unanswered(doses=3, trials=2)
    again.close()


def test_an_answer_clears_them_for_its_pump_and_probe_alone(journal):
    """Other pumps and other probes have their own evidence."""
    for _ in range(2):
        dose(journal, False)
        dose(journal, False, pump="base")
        dose(journal, False, probe="ph2")
    dose(journal, True)
    assert journal.answers.unanswered("acid", "ph") == Unanswered(0, 0)
    assert journal.answers.unanswered("base", "ph").doses == 2
    assert journal.answers.unanswered("acid", "ph2").doses == 2


def test_a_person_who_resets_a_trip_forgives_them(journal):
    """Only where something had tripped; what they did stays on record."""
    dose(journal, False)
    assert journal.trips.reset() is None
    assert journal.answers.unanswered("acid", "ph").doses == 1
    journal.trips.latch("acid: 1 dose did not move ph")
    journal.trips.reset()
    assert journal.answers.unanswered("acid", "ph") == Unanswered(0, 0)
    assert [tuple(answer)[2:] for answer in rows(journal.read, "answers")] == [(0.0, -0.2, 0, 1)]
    dose(journal, False)
    assert journal.answers.unanswered("acid", "ph").doses == 1


def test_an_answer_belongs_to_one_settled_dose(journal):
    """Neither an open dose nor one that has its answer takes another."""
    dose(journal, True)
    for _ in range(2):
        with pytest.raises(JournalError, match="acid: no settled dose waits"):
            journal.answers.keep("acid", "ph", 0.0, -0.2, answered=False)
        journal.doses.intend("acid", 5.0, 0.0)
