"""Sensors that lie, in a campaign that is under way: the trial is lost and paid for, the model never hears of it."""

from __future__ import annotations

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.config.load import load
from tests.simulated import start_sim
from tests.system.stack import Stack, because, cost, greenhouse, next_trial

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def campaign_config(tmp_path_factory):
    """Valves only."""
    return greenhouse(tmp_path_factory.mktemp("config") / "rig.yaml")


def known_to_the_policy(campaign_config, campaign, trial):
    """A trial as the model is given it."""
    with open_reader(campaign.state) as reader:
        return reader.history(load(campaign_config).problem.space).observations[trial - 1]


@pytest.mark.parametrize("mode", ["nan", "zero", "fullscale"])
@pytest.mark.parametrize(("sensor", "name"), [("b_probe", "b"), ("k_probe", "k"), ("ph_probe", "ph")])
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
    assert campaign.alarms("growth", severity="MAJOR")
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


def electricity(campaign, trial):
    """The trial's line of the energy meter."""
    (line,) = campaign.rows("SELECT * FROM ledger WHERE trial = ? AND meter = 'electricity'", trial)
    return line


def test_fault_69_a_counter_that_jumps_is_estimated_and_teaches_nothing(sim, campaign, campaign_config):
    """A million kilowatt-hours in one trial: charged about what such a trial costs, marked, and no evidence."""
    campaign.until(lambda: campaign.count("RUNNING"), "a trial under way")
    usual = campaign.rows("SELECT max(amount_micros) AS amount FROM ledger WHERE meter = 'electricity'")[0]["amount"]
    sim.control({"fault": "jump_kwh", "kwh": 1e6})
    (line, *_) = campaign.until(
        lambda: campaign.rows("SELECT * FROM ledger WHERE estimated AND note LIKE 'rose by%'"), "an estimate"
    )
    assert line["meter"] == "electricity"
    assert "power times time" in line["note"]
    assert 0 < line["amount_micros"] < 3 * usual
    assert not known_to_the_policy(campaign_config, campaign, line["trial"]).cost_known
    assert campaign.rows("SELECT state FROM trials WHERE trial = ?", line["trial"])[0]["state"] == "RECORDED"
    sim.control({"fault": "jump_kwh", "kwh": -1e6})
    fallen = campaign.until(
        lambda: campaign.rows("SELECT * FROM ledger WHERE trial > ? AND note LIKE 'fell%'", line["trial"]), "its return"
    )[0]
    metered = "SELECT 1 FROM ledger WHERE meter = 'electricity' AND trial > ? AND NOT estimated"
    campaign.until(lambda: campaign.rows(metered, fallen["trial"]), "a trial that is metered again")


def test_fault_41_a_counter_switched_to_mwh_stops_the_campaign(sim, campaign, shared, campaign_config):
    """From kWh to MWh: no trial is recorded at a thousandth of its cost, MAJOR alarms say why, before and after."""
    (usual,) = campaign.rows("SELECT max(amount_micros) AS amount FROM ledger WHERE meter = 'electricity'")
    sim.control({"fault": "jump_kwh", "kwh": 2e4})  # an old meter: no thousandfold of what it was
    next_trial(campaign, "RECORDED", after=next_trial(campaign, "RECORDED")["trial"])
    sim.control({"fault": "energy_unit", "as": "MWh"})
    assert campaign.wait() == 1
    (told,) = campaign.alarms("meter electricity", "its unit was switched", severity="MAJOR")
    assert "look at its unit" in told
    assert campaign.rows("SELECT safe FROM starts ORDER BY id DESC LIMIT 1")[0]["safe"] == 1
    known = campaign.rows("SELECT max(trial) AS last FROM trials")[0]["last"]

    again = shared.run(campaign_config, campaign.state)  # nobody has looked: now it counts in MWh from the start
    assert again.wait() == 1
    assert again.alarms("meter electricity", "two trials in a row", "power times time", severity="MAJOR")
    lines = again.rows("SELECT * FROM ledger WHERE meter = 'electricity' AND trial > ? ORDER BY trial", known)
    assert [line["estimated"] for line in lines] == [1, 1]
    assert all(usual["amount"] / 4 < line["amount_micros"] < 4 * usual["amount"] for line in lines)


SLOW = 10.0
"""Rig seconds per wall second at which the power is sampled often enough to be a measurement."""


def test_fault_69_in_a_first_trial_power_times_time_is_charged(tmp_path):
    """Nothing has been learned yet: the counter jumps, and the line is what its power reading adds up to."""
    sim = start_sim("greenhouse", tmp_path / "rig", speed=SLOW, seed=5)
    config = greenhouse(tmp_path / "rig.yaml", prepare="60 s", edit=lambda rig: rig["clock"].update(speedup=SLOW))
    stack = Stack(sim, tmp_path)
    try:
        run = stack.run(config, tmp_path / "state", "--max-trials", "1")
        run.until(lambda: run.count("RUNNING"), "a trial under way")
        sim.control({"fault": "jump_kwh", "kwh": 1e6})
        assert run.wait() == 0
        taken_kwh = sim.state()["metered"]["energy_kwh"]
    finally:
        stack.end()
        sim.stop()
    line = electricity(run, 1)
    (before,) = run.rows("SELECT value FROM meter_readings WHERE meter = 'electricity' AND phase = 'before'")
    assert line["estimated"]
    assert "; power times time" in line["note"]
    assert 0.5 < line["quantity"] / (taken_kwh - before["value"]) < 1.3  # what was taken, but for the end of the run
