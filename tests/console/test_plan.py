"""`rigctl check` as a plan: who is wired to whom, how long a trial takes, and what the budget buys."""

from pathlib import Path

import pytest

from rigctl.config.load import LoadedConfig, load, load_text
from rigctl.console.checking import lines, plan
from rigctl.rig.protocols import Reading
from tests.config.broken.cases import base
from tests.config.conftest import EXAMPLES, ROOT, loaded_to_run
from tests.config.texts import BOTH_WAYS, BY_HAND, PROBED, VOLUME


def rig(*pairs: tuple[str, str], name: str = "rig") -> LoadedConfig:
    text = base(name)
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return load_text(text, Path("rig.yaml"), to_run=True)


def shown(loaded: LoadedConfig, width: int = 80) -> str:
    return "\n".join(lines(plan(loaded), loaded, width))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("path", [*EXAMPLES, ROOT / "tests/config/broken/rig.yaml"], ids=lambda path: path.stem)
def test_no_width_costs_a_name(path, width):
    """Every variable, outcome, meter, device that serves one, and bus stands there in full."""
    loaded = load(path, to_run=True)
    found = plan(loaded)
    told = lines(found, loaded, width)
    words = " ".join(told).split()
    for wire in (*found.wires, *found.meters):
        named = {wire.name, wire.sensor, wire.sensor_bus, wire.actuator, wire.actuator_bus} - {""}
        assert named <= {word.rstrip(":;") for word in words}
    tables = told[: told.index("") if path in EXAMPLES else 0]
    assert all(len(line) <= width for line in tables)


def test_where_there_is_room_it_is_a_table(golden):
    """One row per variable and outcome under its heads; else some lines each."""
    loaded = load(ROOT / "config/greenhouse.yaml")
    wide, narrow = shown(loaded).splitlines(), shown(loaded, 30).splitlines()
    assert wide[0].split() == ["variable", "unit", "sensor", "bus", "actuator", "bus"]
    assert wide[5].split() == ["ph", "pH", "ph_probe", "ph", "ph_doser", "acid"]
    golden(narrow[:3])
    golden(narrow)


def test_readings_stand_beside_their_sensors(golden):
    """With unit, or why there is none; nothing where nobody was asked."""
    loaded = rig()
    readings = {"ph": Reading(6.2, "pH", 0.0), "ca": Reading.invalid("mM", 0.0, "no answer")}
    told = "\n".join(lines(plan(loaded, readings), loaded, 200))
    assert "6.2 pH" in told
    golden(told)
    assert "reads" not in shown(loaded)


def test_the_cost_of_a_trial_is_told_by_what_is_known_of_it():
    """1.5 EUR/h for 25 min, and 3 kW at 0.31 EUR/kWh: 0.625 EUR for sure, 1.01 EUR without a dose."""
    undosed = rig(("[[ph], [ca], [ph, ca]]", "[[ca]]"))
    found = plan(undosed).forecast
    assert found.least == pytest.approx(1.5 * 25 / 60)
    assert found.likely == pytest.approx(1.5 * 25 / 60 + 3 * 0.31 * 25 / 60)
    assert found.buys(found.least) == 96


def test_doses_are_counted_from_where_the_treatment_leaves_the_water():
    """On average half the range from its far end: 0.8 pH at -0.04 pH/mL are 20 mL, in two of three control sets."""
    found = plan(rig()).forecast
    acid = next(m for m in found.meters if m.name == "acid_pump")
    assert acid.likely == pytest.approx(2 / 3 * 20 * 0.009, rel=1e-3)
    assert 0 < found.likely_s - found.least_s < 2 * 45


def test_pumps_in_pairs_ratios_and_volumes_are_counted_and_named(golden):
    """A pair splits the ways between up and down; a partner gives its ratio; a volume is half its range on average."""
    pair = load_text(BOTH_WAYS, Path("rig.yaml"), to_run=True)
    wire = plan(pair).wires[0]
    golden((wire.actuator, wire.actuator_bus))
    forecasts = [plan(loaded_to_run(text)).forecast for text in (PROBED, BOTH_WAYS)]
    per_l = [next(m.likely for m in f.meters if m.name == "doser") for f in forecasts]
    assert per_l[0] == pytest.approx(per_l[1])
    assert per_l[0] is not None
    assert 0 < per_l[0] < 4.2e-3 * 1.6 / 0.04
    priced = VOLUME.replace("device: doser, price: 4.2 EUR/L", "device: feed_b, price: 1 EUR/L")
    charged = {m.name: m.likely for m in plan(loaded_to_run(priced)).forecast.meters}
    assert charged["feed_b"] == pytest.approx(1 / 4 * 5 * 2 * 1e-3)
    assert plan(loaded_to_run(VOLUME)).wires[2].sensor == ""


def test_the_caps_of_a_pump_stretch_a_campaign():
    """13.3 mL a trial on average, 15 mL a day: little more than one trial a day."""
    capped = plan(rig(("per_dose: 20 mL, per_day: 200 mL", "per_dose: 15 mL, per_day: 15 mL"))).forecast
    trials = capped.buys(capped.likely)
    assert trials is not None
    assert capped.days == pytest.approx(trials * 2 / 3 * 20 / 15, rel=1e-3)


def test_programs_are_given_the_plan(bench):
    """Wiring, length, costs and what they buy, in plain numbers."""
    path = bench.write("rig.yaml", base("rig"))
    answer = bench.rigctl("check", path, "--json").json
    assert answer["wiring"][0] == {
        "name": "ph",
        "unit": "pH",
        "sensor": "ph_probe",
        "sensor_bus": "probe",
        "actuator": "acid_pump",
        "actuator_bus": "pump",
        "reading": None,
    }
    assert answer["trial"]["least_s"] == 1500.0
    assert answer["cost"]["least"] == pytest.approx(0.625)
    assert answer["buys"]["trials_at_most"] == 96


def test_what_a_control_set_costs_is_forecast_where_every_meter_can_be_foretold():
    """Hours and rated energy for all, acid for those that dose it; nothing where a counter has no rating."""
    found = rig().problem
    ph, ca, both = found.forecast_costs
    assert ca == pytest.approx(1.5 * 25 / 60 + 3 * 0.31 * 25 / 60)
    assert ph > ca
    assert both == pytest.approx(ph)
    assert found.space.control_sets[2].names == ("ph", "ca")
    assert rig((", rated: 3 kW", "")).problem.forecast_costs is None
    assert loaded_to_run(BY_HAND).problem.forecast_costs is None


def test_what_ends_the_campaign_early_is_told(golden):
    """As a price of the outcome's unit; nothing where only the budget ends it."""
    text = BY_HAND.replace("currency: EUR", "currency: EUR\nstop: {worth: 12 EUR/(cm2/day)}")
    with_rule, without = (plan_of(load_text(t, Path("rig.yaml"))) for t in (text, BY_HAND))
    (told,) = set(with_rule) - set(without)
    assert "12 EUR" in told
    golden(told)


def plan_of(loaded: LoadedConfig) -> list[str]:
    return shown(loaded, 120).splitlines()
