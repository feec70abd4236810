"""A pump's doses: its 24 hours, to the second, and whether they did anything."""

import math
from contextlib import closing

import pytest

from rigctl.errors import JournalError
from rigctl.rig.dose_log import Unanswered
from tests.campaign.fakes import open_journal
from tests.campaign.records import STEPS, Event, record_trial, rows


@pytest.fixture
def doses(journal, clock):
    """6 mL at 1000 s, 4 mL at 2000 s, of which the second is still open; another pump's do not count."""
    for at_s, pump, volume_ml in ((1000.0, "pump", 6.0), (1500.0, "other", 99.0), (2000.0, "pump", 4.0)):
        clock.at_s = at_s
        dose = journal.doses.intend(pump, volume_ml, 0.0)
        if at_s < 2000.0:
            journal.doses.settle(dose, "DONE", volume_ml, "")
    return journal.doses


@pytest.mark.parametrize(
    ("now_s", "volume_ml", "from_s"),
    [
        (5_000.0, 0.0, 5_000.0),
        (5_000.0, 0.001, 87_400.0),
        (5_000.0, 6.0, 87_400.0),
        (5_000.0, 6.001, 88_400.0),
        (5_000.0, 10.0, 88_400.0),
        (5_000.0, 10.5, 88_400.0),
        (87_399.0, 6.0, 87_400.0),
        (87_400.0, 6.0, 87_400.0),
        (87_401.0, 6.0, 87_401.0),
        (87_401.0, 6.001, 88_400.0),
        (88_401.0, 10.0, 88_401.0),
    ],
)
def test_room_comes_24_hours_after_the_dose_that_takes_it(doses, clock, now_s, volume_ml, from_s):
    """With a cap of 10 mL: now if it fits, else when the oldest doses that stand in its way leave the window."""
    clock.at_s = now_s
    assert doses.room_at_s(["pump"], volume_ml, 10.0, 86_400.0) == from_s


def test_a_dose_counts_from_its_second_on(doses):
    """The window includes its beginning."""
    booked = [doses.given_ml(["pump"], since_s) for since_s in (999.0, 1000.0, 1000.001, 2000.0, 2000.001)]
    assert booked == [10.0, 10.0, 4.0, 4.0, 0.0]


def test_pumps_of_a_tank_count_together_in_every_span(doses, clock):
    """An hour's cap of 105 mL of both pumps has room for 2 mL once the 6 of the first are an hour old."""
    clock.at_s = 4_000.0
    both = ["pump", "other"]
    assert doses.room_at_s(["idle"], 10.0, 10.0, 86_400.0) == 4_000.0
    assert doses.room_at_s(both, 2.0, 105.0, 3600.0) == 4_600.0
    assert doses.room_at_s(both, 100.0, 105.0, 3600.0) == 5_100.0
    assert (doses.given_ml(both, -math.inf), doses.given_ml(both, None)) == (109.0, 0.0)


def dose(journal, answered, pump="acid", probe="ph"):
    """One dose, and whether the probe answered it."""
    number = journal.doses.intend(pump, 5.0, 0.0)
    journal.doses.sent(number)
    journal.doses.settle(number, "DONE", 5.0, "")
    journal.doses.answered(pump, probe, -0.2 if answered else 0.0, -0.2, answered=answered)


def in_trial(journal, number, *answers):
    """An ordinary trial with these doses."""
    for event in (Event.PROPOSE, Event.ARM):
        STEPS[event](journal, number)
    for answered in answers:
        dose(journal, answered)
    for event in (Event.RUN, Event.MEASURE, Event.RECORD):
        STEPS[event](journal, number)


def test_unanswered_doses_are_counted_over_trials_and_processes(journal, clock):
    """Trials between that dosed nothing neither add nor take away."""
    in_trial(journal, 1, True, False, False)
    record_trial(journal, 2)
    in_trial(journal, 3, False)
    assert journal.doses.unanswered("acid", "ph") == Unanswered(doses=3, trials=2)
    journal.close()
    with closing(open_journal(journal.path.parent, clock)) as again:
        assert again.doses.unanswered("acid", "ph") == Unanswered(doses=3, trials=2)


def test_an_answer_clears_them_for_its_pump_and_probe_alone(journal):
    """Other pumps and other probes have their own evidence."""
    for _ in range(2):
        dose(journal, False)
        dose(journal, False, pump="base")
        dose(journal, False, probe="ph2")
    dose(journal, True)
    assert journal.doses.unanswered("acid", "ph") == Unanswered(0, 0)
    assert journal.doses.unanswered("base", "ph").doses == 2
    assert journal.doses.unanswered("acid", "ph2").doses == 2


def test_a_person_who_resets_a_trip_forgives_them(journal):
    """Only where something had tripped; what they did stays on record."""
    dose(journal, False)
    assert journal.trips.reset() is None
    assert journal.doses.unanswered("acid", "ph").doses == 1
    journal.trips.latch("acid: 1 dose did not move ph")
    journal.trips.reset()
    assert journal.doses.unanswered("acid", "ph") == Unanswered(0, 0)
    assert [tuple(answer)[2:] for answer in rows(journal.read, "answers")] == [(0.0, -0.2, 0, 1)]
    dose(journal, False)
    assert journal.doses.unanswered("acid", "ph").doses == 1


def test_an_answer_belongs_to_one_settled_dose(journal):
    """Neither an open dose nor one that has its answer takes another."""
    dose(journal, True)
    for _ in range(2):
        with pytest.raises(JournalError):
            journal.doses.answered("acid", "ph", 0.0, -0.2, answered=False)
        journal.doses.intend("acid", 5.0, 0.0)


def test_what_a_pump_gave_unasked_is_booked_at_once_and_has_no_answer(journal):
    """In one step, to the trial under way; the last dose that was asked for still waits for its answer."""
    for event in (Event.PROPOSE, Event.ARM):
        STEPS[event](journal, 1)
    asked = journal.doses.intend("acid", 5.0, 0.0)
    journal.doses.settle(asked, "DONE", 5.0, "")
    journal.doses.found("acid", 2.0, 5.0)
    assert journal.doses.open() == ()
    assert journal.doses.given_ml(["acid"], None) == 7.0
    found = journal.read.doses.rows()[-1]
    assert (found.trial, found.state, found.volume_ml, found.dispensed_ml) == (1, "FOUND", 2.0, 2.0)
    journal.doses.answered("acid", "ph", 0.0, -0.2, answered=False)
    assert [answer["dose"] for answer in rows(journal.read, "answers")] == [asked]
