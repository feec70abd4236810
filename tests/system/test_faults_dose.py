"""Faults of a dosing pump in a campaign that is under way: what it cannot do is told, and nothing is dosed twice."""

import pytest

from tests.system.stack import WITH_CALCIUM, because, greenhouse, next_trial

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def campaign_config(tmp_path_factory):
    """Every trial doses calcium."""
    return greenhouse(tmp_path_factory.mktemp("config") / "rig.yaml", WITH_CALCIUM)


def dispensed(sim):
    """Doses of the calcium pump, says the simulator."""
    return [d for d in sim.state()["doses"] if d["pump"] == "ca_doser"]


def test_every_dose_is_booked_as_it_was_dispensed(sim, campaign):
    """In an undisturbed campaign journal and pump agree on every dose."""
    last = next_trial(campaign, "RECORDED")["trial"]
    booked = campaign.rows("SELECT dispensed_ml FROM doses WHERE trial <= ? ORDER BY id", last)
    witnessed = [d["dispensed_ml"] for d in dispensed(sim)][: len(booked)]
    assert [row["dispensed_ml"] for row in booked] == pytest.approx(witnessed, abs=0.02)


def test_fault_22_a_refused_dose_is_booked_as_nothing(sim, campaign):
    """The pump answers `*ER`: the dose is recorded as 0 mL, the trial fails, the next one doses again."""
    sim.control({"fault": "pump", "bus": "ca", "weak": True})
    lost = next_trial(campaign, "FAILED")["trial"]
    known = len(dispensed(sim))
    refused = campaign.rows("SELECT * FROM doses WHERE trial = ? ORDER BY id DESC LIMIT 1", lost)[0]
    assert (refused["state"], refused["dispensed_ml"]) == ("DONE", 0.0)
    assert "*ER" in because(campaign, lost)
    assert campaign.alarms(kind="dose refused", source="ca_doser")
    sim.control({"clear": True})
    next_trial(campaign, "RECORDED")
    assert len(dispensed(sim)) > known


@pytest.mark.parametrize(
    ("fault", "named"),
    [({"fault": "dstart", "ml": 12.0}, "Dstart"), ({"fault": "pump", "unpowered": True}, "10.8 V")],
    ids=["Dstart", "no motor supply"],
)
def test_fault_26_a_pump_that_would_dose_at_power_up_or_cannot_is_not_used(sim, campaign, fault, named):
    """`Dstart` and `PV` are asked before each dose: none is even intended, and the message names what is wrong."""
    sim.control({**fault, "bus": "ca"})
    next_trial(campaign, "FAILED")  # it may have been dosing already
    lost = next_trial(campaign, "FAILED")["trial"]
    assert named in because(campaign, lost)
    assert campaign.rows("SELECT 1 FROM doses WHERE trial = ?", lost) == []
    sim.control({"clear": True})
    assert next_trial(campaign, "RECORDED")["trial"] > lost


def test_fault_25_a_pump_past_its_deadline_trips_the_campaign(sim, campaign, shared):
    """A pump that does not end is stopped, and all is safe; the trip ends the campaign, exit 3, until it is reset."""
    sim.control({"fault": "pump", "bus": "ca", "stuck": True})
    assert campaign.wait() == 3
    state = sim.state()
    assert [d for d in state["doses"] if d["ended_s"] is None] == []
    assert (state["plant"]["setpoints"], state["plant"]["softener"]) == ({}, False)
    (ended,) = campaign.rows("SELECT ended FROM starts ORDER BY id DESC LIMIT 1")
    assert "reset-trip" in ended["ended"]
    assert campaign.error["kind"] == "Tripped"
    # so that a test that shares the state directory may come after this one
    reset = shared.rigctl("reset-trip", "--state", campaign.state, "--json")
    assert reset.wait() == 0
    assert reset.answer["reset"]["reason"] in campaign.error["what"]
    assert campaign.alarms(kind="tripped")
