"""Two pumps for one variable, pumps in a ratio, and volumes that are variables, from the file to the rig."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rigctl.core.marginals.families import Empirical
from rigctl.errors import ConfigError, dotted
from tests.config.conftest import ROOT, SMALL, loaded, loaded_to_run

PUMP = '  doser: {driver: ezo-pmp, bus: "serial:///dev/ttyUSB2"}\n'
MORE = PUMP + "".join(f'  {n}: {{driver: ezo-pmp, bus: "serial:///dev/{n}"}}\n' for n in ("base", "feed_a", "feed_b"))
DOSING = "dosing:\n  doser: {sensor: probe, effect: -0.04 pH/mL, tolerance: 0.04 pH, mix: 45 s, max_doses: 6}\n"
CAPS = "limits: {doser: {per_dose: 20 mL, per_day: 200 mL}"
CAP = "{per_dose: 20 mL, per_day: 200 mL}"

PROBED = SMALL.replace(PUMP, MORE).replace("sensor: probe, actuator", "plausible: [3, 10], sensor: probe, actuator")
BOTH_WAYS = (
    PROBED.replace("actuator: doser", "actuator: [doser, base]")
    .replace(
        DOSING, DOSING + "  base: {sensor: probe, effect: 0.05 pH/mL, tolerance: 0.04 pH, mix: 1 min, max_doses: 4}\n"
    )
    .replace(CAPS, f"{CAPS}, base: {CAP}")
)
RATIO = PROBED.replace("max_doses: 6}", "max_doses: 6, with: {feed_b: 1.5}}").replace(CAPS, f"{CAPS}, feed_b: {CAP}")
VOLUME = PROBED.replace(
    "control_sets: [[ph]",
    "  feed: {unit: mL, range: [0, 10], step: 2.5, doses: {pump: feed_a, mix: 1 min, with: {feed_b: 2}}}\n"
    "control_sets: [[feed], [ph]",
).replace(CAPS, f"{CAPS}, feed_a: {CAP}, feed_b: {CAP}")


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


MISTAKES = {
    "one way twice": (BOTH_WAYS, "effect: 0.05", "effect: -0.05", "variables.ph.actuator", "which both lower ph"),
    "one pump twice": (BOTH_WAYS, "[doser, base]", "[doser, doser]", "variables.ph.actuator", "must be two pumps"),
    "no entry of its own": (PROBED, "actuator: doser", "actuator: [doser, base]", "variables.ph.actuator",
                            "describe each under dosing"),
    "three pumps": (BOTH_WAYS, "[doser, base]", "[doser, base, feed_a]", "variables.ph.actuator", "two pumps that"),
    "second without caps": (BOTH_WAYS, f", base: {CAP}", "", "safety.limits.base.per_dose", "must cap what base"),
    "partner unknown": (RATIO, "{feed_b: 1.5}", "{feed_c: 1.5}", "dosing.doser.with.feed_c", 'mean "feed_'),
    "partner is no pump": (RATIO, "{feed_b: 1.5}", "{mains: 1}", "dosing.doser.with.mains", "which is no pump"),
    "partner without caps": (RATIO, f", feed_b: {CAP}", "", "safety.limits.feed_b.per_day", "must cap what feed_b"),
    "partner by itself": (BOTH_WAYS, "max_doses: 6}", "max_doses: 6, with: {base: 1}}", "dosing.doser.with.base",
                          "which doses for ph"),
    "ratio": (RATIO, "{feed_b: 1.5}", "{feed_b: 0}", "dosing.doser.with.feed_b", "mL of feed_b per mL of doser"),
    "above a cap": (VOLUME, "range: [0, 10]", "range: [0, 25]", "variables.feed.range", "must be at most 10 mL"),
    "partner above a cap": (VOLUME, "range: [0, 10]", "range: [0, 15]", "variables.feed.range",
                            "must be at most 10 mL: feed_b gives 2 mL per mL of feed_a"),
    "otherwise above a cap": (VOLUME, "mix: 1 min,", "otherwise: 30 mL,",
                              "variables.feed.doses.otherwise", "must be at most 10 mL"),
    "too little": (VOLUME, "range: [0, 10], step: 2.5", "range: [0.2, 10]", "variables.feed.range",
                   "begin at 0.5 mL, or at 0"),
    "all from nothing": (VOLUME, "range: [0, 10], step: 2.5", "range: [0, 10]", "variables.feed.range", "with a step"),
    "volume in grams": (VOLUME, "unit: mL", "unit: g", "variables.feed.unit", "must be mL"),
    "volume with a sensor": (VOLUME, "step: 2.5", "step: 2.5, sensor: probe", "variables.feed.sensor", "left out"),
    "volume with a nature": (VOLUME, "step: 2.5", "step: 2.5, natural: uniform", "variables.feed.natural",
                             "see doses.otherwise"),
    "volume and dosing": (VOLUME, "dosing:\n", "dosing:\n  feed_a: {sensor: probe, effect: 1 pH/mL, tolerance: 1 pH, "
                          "mix: 1 s, max_doses: 1}\n", "dosing.feed_a", "which no sensor judges"),
    "pump unknown": (VOLUME, "pump: feed_a", "pump: feed_x", "variables.feed.doses.pump", "must be a device"),
    "volume without nature": (VOLUME, ", doses: {pump: feed_a, mix: 1 min, with: {feed_b: 2}}", "",
                              "variables.feed.natural", "is missing, must be given"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told_where_they_stand(case):
    """Each with what it must be."""
    text, old, new, path, said = MISTAKES[case]
    assert old in text
    with pytest.raises(ConfigError) as caught:
        loaded_to_run(text.replace(old, new))
    told = {dotted(p.path): p.what for p in caught.value.mistakes}
    assert path in told, told
    assert said in told[path], told


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
