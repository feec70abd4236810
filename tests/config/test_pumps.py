"""Two pumps for one variable, pumps in a ratio, and volumes that are variables, from the file to the rig."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from rigctl.core.marginals.families import Empirical
from tests.config.conftest import ROOT, loaded, loaded_to_run
from tests.config.texts import BOTH_WAYS, PROBED, RATIO, VOLUME


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
    assert any("only lowers ph" in w for w in loaded_to_run(PROBED).warnings)
    assert not any("ph" in w and "lowers" in w for w in loaded_to_run(BOTH_WAYS).warnings)


def test_pumps_in_a_ratio():
    """The partner needs caps, goes safe as a pump, and needs no entry of its own."""
    rig = loaded_to_run(RATIO).rig
    assert rig.dosing["doser"].partners == {"feed_b": 1.5}
    assert rig.pumps == ("doser", "feed_b")
    assert (rig.limits["feed_b"].safe_state, rig.limits["feed_b"].per_day_ml) == ("off", 200.0)


def test_a_volume_is_a_variable():
    """In mL, on its steps, 0 while it is left alone, and read by no sensor."""
    config = loaded_to_run(VOLUME)
    feed, wired = config.problem.space.variables[-1], config.rig.variables[-1]
    assert (feed.name, feed.steps, feed.marginal) == ("feed", 4, Empirical((0.0,)))
    assert (wired.sensor, wired.actuators) == ("", ("feed_a",))
    assert (config.rig.volumes["feed_a"].mix_s, config.rig.volumes["feed_a"].partners) == (60.0, {"feed_b": 2.0})
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
