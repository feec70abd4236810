"""Sensors that lie, in a campaign that is under way: the trial is lost and paid for, the model never hears of it."""

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.config.load import load
from tests.system.stack import because, cost, greenhouse, next_trial

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def campaign_config(tmp_path_factory):
    """Valves only."""
    return greenhouse(tmp_path_factory.mktemp("config") / "rig.yaml")


def known_to_the_policy(campaign_config, campaign, trial):
    """A trial as the model is given it."""
    with open_reader(campaign.state) as reader:
        return reader.history(load(campaign_config).problem.space).observations[trial - 1]


@pytest.mark.parametrize(
    ("sensor", "name", "mode"), [("b_probe", "b", "nan"), ("k_probe", "k", "zero"), ("ph_probe", "ph", "fullscale")]
)
def test_fault_37_a_reading_that_cannot_be_true_is_invalid(sim, campaign, campaign_config, sensor, name, mode):
    """NaN, zero, full scale: INVALID and without a number; the trial fails and is charged, the model has no x."""
    sim.control({"fault": "sensor", "name": sensor, "mode": mode})
    lost = next_trial(campaign, "FAILED")["trial"]
    sim.control({"clear": True})
    (measured,) = campaign.rows("SELECT * FROM measurements WHERE trial = ? AND name = ?", lost, name)
    assert (measured["severity"], measured["value"], measured["count"]) == (3, None, 0)
    assert because(campaign, lost).startswith(f"{name}: ")
    assert cost(campaign, lost) > 0
    seen = known_to_the_policy(campaign_config, campaign, lost)
    assert (seen.x, seen.y, seen.cost) == (None, None, cost(campaign, lost))
    assert next_trial(campaign, "RECORDED")["trial"] > lost


def test_fault_48_a_failed_outcome_sensor_costs_one_trial(sim, campaign, campaign_config):
    """The outcome cannot be measured in one trial: FAILED, its inputs kept, its cost charged; the campaign goes on."""
    sim.control({"fault": "sensor", "name": "camera", "mode": "nan"})
    lost = next_trial(campaign, "FAILED")["trial"]
    sim.control({"clear": True})
    assert because(campaign, lost).startswith("growth: ")
    seen = known_to_the_policy(campaign_config, campaign, lost)
    assert seen.y is None
    assert seen.x is not None
    assert seen.cost == cost(campaign, lost) > 0
    assert campaign.alarms(source="growth", severity="MAJOR")
    assert next_trial(campaign, "RECORDED")["trial"] > lost


def test_fault_40_a_counter_that_starts_anew_is_estimated(sim, campaign, campaign_config):
    """The energy counter is reset in a trial: its line is estimated and marked, never negative; the next is metered."""
    campaign.until(lambda: campaign.count("ARMED") or campaign.count("RUNNING"), "a trial under way")
    sim.control({"fault": "energy_reset"})
    (line,) = campaign.until(
        lambda: campaign.rows("SELECT * FROM ledger WHERE estimated AND note LIKE '%fell from%'"), "an estimate"
    )
    assert (line["meter"], line["quantity"]) == ("electricity", None)
    assert line["amount_micros"] > 0
    after = next_trial(campaign, "RECORDED", after=line["trial"])["trial"]
    (next_line,) = campaign.rows("SELECT * FROM ledger WHERE trial = ? AND meter = 'electricity'", after)
    assert not next_line["estimated"]
    assert next_line["quantity"] > 0
