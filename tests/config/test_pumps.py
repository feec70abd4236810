"""Pumps from the file to the rig: two for a variable, in a ratio, volumes, caps, and what wears out."""

import re
from pathlib import Path

import pytest
import yaml

from rigctl.config.forecast import forecast
from rigctl.console.checking import counted_of, held_back
from rigctl.core.experiment.marginals.families import Empirical
from rigctl.rig.limits import CapSpec
from rigctl.rig.slewing import Slew
from rigctl.rig.spec import CalibrationSpec, CareSpec, InventorySpec, TubingSpec
from tests.config.conftest import ROOT, loaded, loaded_to_run
from tests.config.texts import BOTH_WAYS, PROBED, RATIO, SMALL, VOLUME


def test_two_pumps_of_one_variable():
    """The first is the variable's actuator, the second moves it the other way; the range and caps hold for both."""
    rig = loaded_to_run(BOTH_WAYS).rig
    assert (rig.variables[0].actuator, rig.variables[0].second) == ("doser", "base")
    assert rig.variables[0].actuators == ("doser", "base")
    assert (rig.dosing["doser"].effect_per_ml, rig.dosing["base"].effect_per_ml) == (-0.04, 0.05)
    assert (rig.limits["base"].low, rig.limits["base"].high, rig.limits["base"].per_dose_ml) == (5.2, 6.8, 20.0)
    assert rig.pumps == ("doser", "base")


def test_with_both_ways_every_setpoint_can_be_reached():
    """No warning of setpoints on the wrong side, which one pump alone has."""
    assert any("dosing.doser.effect" in w for w in loaded_to_run(PROBED).warnings)
    assert not any("effect" in w for w in loaded_to_run(BOTH_WAYS).warnings)


def test_pumps_in_a_ratio():
    """The partner needs caps, goes safe as a pump, and needs no entry of its own."""
    rig = loaded_to_run(RATIO).rig
    assert rig.dosing["doser"].with_ == {"feed_b": 1.5}
    assert rig.pumps == ("doser", "feed_b")
    assert (rig.limits["feed_b"].safe_state, rig.limits["feed_b"].per_day_ml) == ("off", 200.0)


def test_a_volume_is_a_variable():
    """In mL, on its steps, 0 while it is left alone, and read by no sensor."""
    config = loaded_to_run(VOLUME)
    feed, wired = config.problem.space.variables[-1], config.rig.variables[-1]
    assert (feed.name, feed.steps, feed.marginal) == ("feed", 4, Empirical((0.0,)))
    assert (wired.sensor, wired.actuators) == ("", ("feed_a",))
    assert (config.rig.volumes["feed_a"].mix_s, config.rig.volumes["feed_a"].with_) == (60.0, {"feed_b": 2.0})
    assert config.rig.pumps == ("doser", "feed_a", "feed_b")
    assert "feed" not in config.rig.watch.rules


def test_a_volume_otherwise_is_its_natural_value():
    """Also where that is outside the range of setpoints."""
    for otherwise, at in (("5 mL", 0.5), ("0.02 L", 2.0)):
        text = VOLUME.replace("doses: {pump: feed_a", f"doses: {{pump: feed_a, otherwise: {otherwise}")
        config = loaded(text)
        assert config.problem.space.variables[-1].marginal == Empirical((at,))
        assert config.rig.volumes["feed_a"].otherwise_ml == 10 * at


def test_the_examples_of_the_page_hold():
    """Every `yaml` block about variables and dosing can be read as what it says it is."""
    page = Path(ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(b) for b in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if not b.startswith("#")]
    variables = [v for b in blocks for v in [b.get("variables", {}), b] if isinstance(v, dict)]
    named = {n: s for v in variables for n, s in v.items() if isinstance(s, dict) and "range" in s}
    assert {"stirrer", "ph", "feed"} <= set(named)
    for name, section in named.items():
        devices = {section.get("sensor"), *([a] if isinstance(a := section.get("actuator"), str) else a or [])} - {None}
        assert devices or "doses" in section, name
    dosing = {n: s for b in blocks for n, s in b.get("dosing", {}).items()}
    assert {"acid_pump", "base_pump", "feed_a"} <= set(dosing)


LIMITS = "limits: {doser: {per_dose: 20 mL, per_day: 200 mL}}"


def capped(own="", tank=""):
    text = SMALL.replace(LIMITS, f"limits: {{doser: {{per_dose: 20 mL, per_day: 200 mL{own}}}}}")
    return text + (f"  tanks: {{reservoir: {{{tank}}}}}\n" if tank else "")


def test_caps_are_of_pumps_and_tanks():
    """Both have the same keys, in mL whatever the file says."""
    rig = loaded(capped(", per_trial: 40 mL, per_campaign: 5 L", "pumps: [doser], per_hour: 50 mL")).rig
    assert rig.caps == (
        CapSpec(name="doser", pumps=("doser",), per_trial_ml=40.0, per_day_ml=200.0, per_campaign_ml=5000.0),
        CapSpec(name="reservoir", pumps=("doser",), per_hour_ml=50.0),
    )
    assert loaded(capped(", per_hour: 200 mL")).rig.caps[0].per_hour_ml == 200.0  # as much as in a day


def test_check_says_how_many_trials_the_caps_allow():
    """A hundred millilitres in all are soon given; the forecast of trials and days follows."""
    config = loaded(capped(", per_trial: 30 mL", "pumps: [doser], per_hour: 20 mL, per_campaign: 60 mL"))
    told, plain = forecast(config.rig, config.problem), loaded(SMALL)
    takes_ml = 200.0 / forecast(plain.rig, plain.problem).daily
    assert told.buys(told.likely) == told.capped["reservoir"].in_all == int(60.0 / takes_ml)
    assert told.capped["reservoir"].per_day == pytest.approx(24 * 20.0 / takes_ml)
    *_, own, tank = held_back(told, config)
    assert "30 mL" in own
    assert re.findall(r"\d+", tank) == ["20", "1", "60", "102", "12"]


@pytest.mark.parametrize(("per_day", "said"), [("60 mL", True), ("20 L", False)])
def test_a_cap_of_a_day_is_told_where_it_allows_fewer_trials_than_the_time(per_day, said):
    """With all others it always is; by itself it is there for every pump, and mostly ample."""
    config = loaded(SMALL.replace("per_day: 200 mL", f"per_day: {per_day}"))
    told = held_back(forecast(config.rig, config.problem), config)
    assert any(line.startswith("doser ") for line in told) == said


def test_a_setpoint_that_may_not_jump_takes_its_time():
    """The largest step and the fastest change are in the variable's unit; a trial is expected to take longer."""
    text = SMALL.replace("limits: {", "limits: {ca_valve: {max_step: 500 uM, max_rate: 0.1 mM/min}, ")
    config, plain = loaded(text), loaded(SMALL)
    assert config.rig.limits["ca_valve"].slew == Slew(0.5, 0.1 / 60)
    told, before = forecast(config.rig, config.problem), forecast(plain.rig, plain.problem)
    assert told.likely_s - before.likely_s == pytest.approx(7.7 / 3 / 0.1 * 60)
    *_, said = held_back(told, config)
    assert re.findall(r"\d+", said) == ["20", "1", "17"]


PUMP = "doser: {driver: ezo-pmp,"
PROBE = "probe: {driver: ezo,"
RIG = SMALL.replace("sensor: probe, actuator", "plausible: [3, 10], sensor: probe, actuator")


def with_care(pump="", probe=""):
    assert PUMP in RIG
    return RIG.replace(PUMP, f"{PUMP}{pump}").replace(PROBE, f"{PROBE}{probe}")


def test_what_is_counted_of_a_device():
    """Volumes and times in the rig's units; `20 doses` as well as 20; a probe's slopes have a usual band."""
    pump = "inventory: {volume: 0.5 L, warn_at: 30 doses}, tubing: {replace_after: 50 L},"
    care = loaded_to_run(with_care(pump, "calibration: {every: 30 d},")).rig.care
    assert care["doser"] == CareSpec(InventorySpec(500.0, 30), TubingSpec(50_000.0))
    assert care["probe"] == CareSpec(calibration=CalibrationSpec(30 * 86_400.0, (85.0, 105.0)))
    assert loaded_to_run(with_care("inventory: {volume: 1 L, warn_at: 3},")).rig.care["doser"].inventory.warn_at == 3
    assert loaded_to_run(RIG).rig.care == {}


def test_check_says_what_is_counted():
    """One phrase for each of a device, in units that people use."""
    care = CareSpec(InventorySpec(500.0, 1), TubingSpec(50_000.0), CalibrationSpec(30 * 86_400.0, (90.0, 105.0)))
    assert re.findall(r"[\d.]+ \S+", counted_of(care)) == ["500 mL,", "1 dose;", "50 L;", "30 days;", "90 to", "105 %"]
    assert re.findall(r"[\d.]+ \S+", counted_of(CareSpec(calibration=CalibrationSpec(3600.0)))) == ["1 h"]
