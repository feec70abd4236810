"""Caps of pumps and tanks in a configuration, and the trials that they allow."""

from __future__ import annotations

import pytest

from rigctl.config.forecast import forecast
from rigctl.console.checking import held_back
from rigctl.rig.slewing import Slew
from rigctl.rig.spec import CapSpec
from tests.config.conftest import loaded
from tests.config.texts import SMALL

LIMITS = "limits: {doser: {per_dose: 20 mL, per_day: 200 mL}}"


def capped(own="", tank=""):
    """The small rig with more caps of its pump, and of the tank it draws from."""
    text = SMALL.replace(LIMITS, f"limits: {{doser: {{per_dose: 20 mL, per_day: 200 mL{own}}}}}")
    return text + (f"  tanks: {{reservoir: {{{tank}}}}}\n" if tank else "")


def test_caps_are_of_pumps_and_tanks():
    """Both have the same keys, in mL whatever the file says."""
    rig = loaded(capped(", per_trial: 40 mL, per_campaign: 5 L", "pumps: [doser], per_hour: 50 mL")).rig
    assert rig.caps == (
        CapSpec(name="doser", pumps=("doser",), per_trial_ml=40.0, per_campaign_ml=5000.0),
        CapSpec(name="reservoir", pumps=("doser",), per_hour_ml=50.0),
    )
    assert [cap.per_day_ml for cap in rig.capped] == [200.0, None, None]


def test_check_says_how_many_trials_the_caps_allow():
    """A hundred millilitres in all are soon given; the forecast of trials and days follows."""
    config = loaded(capped(", per_trial: 30 mL", "pumps: [doser], per_hour: 20 mL, per_campaign: 60 mL"))
    told, plain = forecast(config.rig, config.problem), loaded(SMALL)
    takes_ml = 200.0 / forecast(plain.rig, plain.problem).daily
    assert told.buys(told.likely) == told.capped["reservoir"].in_all == int(60.0 / takes_ml)
    assert told.capped["reservoir"].per_day == pytest.approx(24 * 20.0 / takes_ml)
    alone, *_, own, tank = held_back(told, config)
    assert alone == "Should this computer die, doser and ca_valve stay as they are: no watchdog in the device is fed."
    assert own == "doser gives at most 30 mL in a trial."
    most = "reservoir (doser) gives at most 20 mL in 1 h and 60 mL in the campaign"
    assert tank == f"{most}: that allows about 102 trials a day and about 12 trials in all."


def test_a_setpoint_that_may_not_jump_takes_its_time():
    """The largest step and the fastest change are in the variable's unit; a trial is expected to take longer."""
    text = SMALL.replace("limits: {", "limits: {ca_valve: {max_step: 500 uM, max_rate: 0.1 mM/min}, ")
    config, plain = loaded(text), loaded(SMALL)
    assert config.rig.limits["ca_valve"].slew == Slew(0.5, 0.1 / 60)
    told, before = forecast(config.rig, config.problem), forecast(plain.rig, plain.problem)
    assert told.likely_s - before.likely_s == pytest.approx(7.7 / 3 / 0.1 * 60)
    *_, said = held_back(told, config)
    assert said == "ca_valve moves in steps: at most 20 steps, 1 h 17 min from end to end."
