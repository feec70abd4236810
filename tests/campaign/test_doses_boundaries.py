"""The pump's 24 hours, to the second."""

from __future__ import annotations

import math

import pytest

from rigctl.campaign.journal import Journal
from tests.campaign.fakes import make_spec
from tests.campaign.records import SetClock


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def doses(tmp_path, clock):
    """6 mL at 1000 s, 4 mL at 2000 s, of which the second is still open; another pump's do not count."""
    journal = Journal(tmp_path, clock, "boot-1")
    journal.begin(make_spec(), "0.0")
    for at_s, pump, volume_ml in ((1000.0, "pump", 6.0), (1500.0, "other", 99.0), (2000.0, "pump", 4.0)):
        clock.at_s = at_s
        dose = journal.doses.intend(pump, volume_ml, 0.0)
        if at_s < 2000.0:
            journal.doses.settle(dose, "DONE", volume_ml, "")
    yield journal.doses
    journal.close()


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
    assert doses.room_at_s(["pump"], volume_ml, 10.0) == from_s


def test_a_pump_that_gave_nothing_has_room_at_once(doses, clock):
    """Even for all of its cap."""
    clock.at_s = 5_000.0
    assert doses.room_at_s(["idle"], 10.0, 10.0) == 5_000.0


def test_a_dose_counts_from_its_second_on(doses):
    """The window includes its beginning."""
    booked = [doses.volume_since_ml("pump", since_s) for since_s in (999.0, 1000.0, 1000.001, 2000.0, 2000.001)]
    assert booked == [10.0, 10.0, 4.0, 4.0, 0.0]


def test_pumps_of_a_tank_count_together_in_every_span(doses, clock):
    """An hour's cap of 105 mL of both pumps has room for 2 mL once the 6 of the first are an hour old."""
    clock.at_s = 4_000.0
    both = ["pump", "other"]
    assert doses.room_at_s(both, 2.0, 105.0, 3600.0) == 4_600.0
    assert doses.room_at_s(both, 100.0, 105.0, 3600.0) == 5_100.0
    assert (doses.given_ml(both, -math.inf), doses.given_ml(both, None)) == (109.0, 0.0)
