"""Every mistake is refused with its place, what was got and what is allowed; all of them at once (fault 43)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field, ValidationError

from rigctl.config.load import load
from rigctl.config.shape import problems_of
from rigctl.errors import ConfigError
from rigctl.rig.protocols import DeviceOptions
from tests.config.conftest import BY_HAND, SMALL, problems

MISTAKES = {
    "unknown key": ("settle: 20 min", "setle: 20 min", "10: trial.setle", 'did you mean "settle"?'),
    "missing key": ("settle: 20 min", "", "9: trial.settle", "is missing"),
    "no unit": ("settle: 20 min", "settle: 20", "10: trial.settle", 'got 20, must be a duration such as "20 min"'),
    "wrong unit": ("settle: 20 min", "settle: 5 mM", "10: trial.settle", 'got "5 mM", must be a duration'),
    "frequency": ("every: 10 s", "every: 10 Hz", "11: trial.measure.every", 'got "10 Hz", must be a duration'),
    "negative": ("settle: 20 min", "settle: -20 min", "10: trial.settle", "must not be negative"),
    "window": ("every: 10 s", "every: 10 min", "11: trial.measure.every", "must be at most the window"),
    "no interval": ("every: 10 s", "every: 0 s", "11: trial.measure.every", "must be more than nothing"),
    "other currency": ("0.31 EUR/kWh", "0.31 USD/kWh", "13: meters[0].price", "must be in the rig's currency EUR"),
    "price per what": ("0.31 EUR/kWh", "0.31 EUR/h", "13: meters[0].price", 'such as "0.31 EUR/kWh"'),
    "price of nothing": ("0.31 EUR/kWh", "0.31 EUR", "13: meters[0].price", "a price per energy"),
    "budget": ("budget: 12 EUR", "budget: 12 USD", "3: budget", "must be in the rig's currency EUR"),
    "no limit": ("budget: 12 EUR", "budget: {total: 9 EUR, max_per_trial: 0 EUR}", "3: budget.max_per_trial", "more"),
    "empty budget": ("budget: 12 EUR", "budget: 0 EUR", "3: budget", "must be more than nothing"),
    "currency": ("currency: EUR", "currency: euro", "2: currency", "must be a three-letter code such as EUR"),
    "sensor": ("sensor: camera", "sensor: camra", "8: outcome.sensor", 'did you mean "camera"?'),
    "no sensor": ("sensor: camera, ", "", "8: outcome.sensor", "is missing"),
    "actuator": ("actuator: ca_valve", "actuator: ca_vale", "6: variables.ca.actuator", 'did you mean "ca_valve"?'),
    "bus": ("bus: plc, unit: mM, read", "bus: plk, unit: mM, read", "23: devices.ca_probe.bus", 'did you mean "plc"?'),
    "bus scheme": ('"tcp://127.0.0.1:5025"', '"modbus_tcp://x:1"', "25: devices.camera.bus", "one of serial, tcp"),
    "bus URL": ("modbus_tcp://127.0.0.1:5020", "modbus://", "18: buses.plc", "must be a URL such as"),
    "driver": ("driver: sdm120", "driver: sdm12", "20: devices.mains.driver", 'did you mean "sdm120"?'),
    "driver option": ("address: 1}", "adress: 1}", "20: devices.mains.adress", 'did you mean "address"?'),
    "driver value": ("write: {at: 2,", "write: {at: -2,", "24: devices.ca_valve.write.at", "got -2, must be >= 0"),
    "meter device": ("device: mains,", "device: main,", "13: meters[0].device", 'did you mean "mains"?'),
    "range reversed": ("range: [0, 7.7]", "range: [7.7, 0]", "6: variables.ca.range", "must rise from low to high"),
    "range not finite": ("range: [0, 7.7]", "range: [0, .nan]", "6: variables.ca.range", "must be finite"),
    "plausible": ("actuator: ca_valve,", "actuator: ca_valve, plausible: [0, 5],", "6: variables.ca.plausible", "7.7]"),
    "range unit": ("range: [0, 7.7]", "range: [0, 7 min]", "6: variables.ca.range[1]", 'got "7 min", must be in mM'),
    "unit": ("unit: mM, range", "unit: mMol, range", "6: variables.ca.unit", "must be a known unit"),
    "sensor's unit": ("ca_probe: {driver: modbus, bus: plc, unit: mM", "ca_probe: {driver: modbus, bus: plc, unit: uM",
                      "6: variables.ca.sensor", "speaks uM; must speak mM"),
    "mean outside": ("mean: 6.1", "mean: 7.1", "5: variables.ph.natural.truncated_normal.mean",
                     "got 7.1 pH, must lie within the range, 5.2 to 6.8 pH"),
    "mean elsewhere": ("mean: 6.1", "mean: 7.8", "5: variables.ph.natural.truncated_normal.mean",
                       "natural_range: [low"),
    "step": ("range: [0, 7.7]", "range: [0, 7.7], step: 0.5", "6: variables.ca.step", "end the range at 7.5, or"),
    "step of nothing": ("range: [0, 7.7]", "range: [0, 7.7], step: 0", "6: variables.ca.step", "at least 7.7e-09 mM"),
    "one step": ("range: [0, 7.7]", "range: [0, 7.7], step: 8", "6: variables.ca.step", "at most the range, 7.7 mM"),
    "step unit": ("range: [0, 7.7]", "range: [0, 7.7], step: 1 min", "6: variables.ca.step", "must be in mM"),
    "natural range": ("range: [0, 7.7]", "range: [0, 7.7], natural_range: [9, 8]",
                      "6: variables.ca.natural_range", "must rise from low to high"),
    "natural range unit": ("range: [0, 7.7]", "range: [0, 7.7], natural_range: [9, 10 min]",
                           "6: variables.ca.natural_range[1]", 'got "10 min", must be in mM'),
    "natural plausible": ("range: [0, 7.7]", "range: [0, 7.7], natural_range: [9, 10], plausible: [0, 8]",
                          "6: variables.ca.plausible", "must hold the natural_range [9, 10]"),
    "prior": ("natural: uniform", "natural: {learned: {prior: learned}}",
              "6: variables.ca.natural.learned.prior.learned", "must be one of empirical, truncated_normal, uniform"),
    "prior outside": ("natural: uniform", "natural: {learned: {prior: {truncated_normal: {mean: 9, sd: 1}}}}",
                      "6: variables.ca.natural.learned.prior.truncated_normal.mean", "within the range, 0 to 7.7 mM"),
    "one reading": ("natural: uniform", "natural: {learned: {at_least: 1}}",
                    "6: variables.ca.natural.learned.at_least", "got 1, must be >= 2"),
    "costs": ("currency: EUR", "currency: EUR\ncosts: per-trial", "3: costs", "must be per-set or per-setting"),
    "costs known": ("currency: EUR", "currency: EUR\nknown_costs: {ph: 1 EUR, ca: 1 EUR, ph+ca: 1 EUR}\n"
                    "costs: per-setting", "4: costs", "beside known_costs, which are per set"),
    "half a normal": ("{mean: 6.1, sd: 0.3}", "{mean: 6.1}", "5: variables.ph.natural.truncated_normal", "mean and sd"),
    "set": ("[ph, ca]]", "[ph, cas]]", "7: control_sets[2]", 'did you mean "ca"?'),
    "set twice": ("[ph, ca]]", "[ca]]", "7: control_sets[2]", "is the same as control_sets[1]"),
    "set without actuator": ("actuator: ca_valve, ", "", "7: control_sets[1]", "which has no actuator"),
    "safe state": (", ca_valve: off", "", "29: safety.safe_state.ca_valve", "is missing"),
    "pump held on": ("doser: off,", "doser: 1,", "29: safety.safe_state.doser", "must be off"),
    "safe state of nothing": ("doser: off,", "doser: off, mains: off,", "29: safety.safe_state.mains", "an actuator"),
    "caps": ("per_dose: 20 mL", "per_dose: 2 L", "30: safety.limits.doser.per_dose", "must be at most per_day"),
    "no cap": ("per_dose: 20 mL, ", "", "30: safety.limits.doser.per_dose", "must cap what doser may give"),
    "rated": ("price: 1.5 EUR/h", "price: 1.5 EUR/h, rated: 3 kW", "15: meters[2].rated", "only for energy and volume"),
    "rated unit": ("0.31 EUR/kWh", "0.31 EUR/kWh, rated: 3 kWh", "13: meters[0].rated", "a power such as"),
    "rated nothing": ("4.2 EUR/L", "4.2 EUR/L, rated: 0 mL/min", "14: meters[1].rated", "more than nothing"),
    "dosing effect": ("-0.04 pH/mL", "-0.04 pH", "27: dosing.doser.effect", "such as 0.05 pH/mL"),
    "dosing sensor": ("{sensor: probe, effect", "{sensor: camera, effect", "27: dosing.doser.sensor", "must be probe"),
    "name": ("rig: tank", "rig: a tank", "1: rig", '_ or -; write "a-tank"'),
    "tag": ("rig: tank", "rig: !!python/name:os.system x", "1: rig", "must be written without one"),
    "policy": ("rig: tank", "rig: tank\npolicy: {name: etc}", "2: policy.name", "an installed policy"),
    "policy option": ("rig: tank", "rig: tank\npolicy: {tolerence: 0.1}", "2: policy.tolerence", '"tolerance"'),
    "policy value": ("rig: tank", "rig: tank\npolicy: {tolerance: 1.5}", "2: policy.tolerance", "got 1.5"),
    "nested option": ("rig: tank", "rig: tank\npolicy: {explore: {frist: 1}}", "2: policy.explore.frist", '"first"'),
    "fixed model": ("rig: tank", "rig: tank\nmodel: {hyperparameters: fixed}", "2: model.signal_sd", "is missing"),
    "lengthscales": ("rig: tank", "rig: tank\nmodel: {lengthscales: {ph: 0.2}}", "2: model.lengthscales", "for ca"),
    "speedup": ("rig: tank", "rig: tank\nclock: {speedup: 0}", "2: clock.speedup", "got 0, must be > 0"),
    "seed": ("rig: tank", "rig: tank\nseed: 1.5", "2: seed", "must be a whole number"),
    "type": ("rig: tank", "rig: tank\nmax_trials: yes", "2: max_trials", 'got "yes", must be a whole number'),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "where", "what"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_named_with_file_line_and_remedy(broken, old, new, where, what):
    """One mistake gives a problem at its line and key that says what would be right."""
    found = broken(old, new)
    assert f"rig.yaml:{where}" in found, found
    assert what in found[f"rig.yaml:{where}"]


def test_one_mistake_is_told_once():
    """What follows from a mistake is no second problem."""
    assert list(problems(SMALL.replace("currency: EUR", "currency: euro"))) == ["rig.yaml:2: currency"]
    assert list(problems(SMALL.replace("unit: mM, range", "unit: 3, range"))) == ["rig.yaml:6: variables.ca.unit"]
    assert list(problems(SMALL.replace("driver: sdm120", "driver: 7"))) == ["rig.yaml:20: devices.mains.driver"]
    assert list(problems(SMALL.replace("kind: time", "kind: tme"))) == ["rig.yaml:15: meters[2].kind"]


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [("range: [0, 7.7]", "range: [0, 7,7]", "variables.ca.range"), ("ca: 2 EUR", "ca: 2,5 EUR", "known_costs.ca")],
)
def test_what_follows_from_a_mistake_is_no_second_one(old, new, where):
    """A variable that does not hold takes no control set with it, a cost that does not hold is not missing besides."""
    text = BY_HAND + "known_costs: {ph: 1 EUR, ca: 2 EUR, ph+ca: 3 EUR}\n"
    assert old in text
    (told,) = problems(text.replace(old, new))
    assert told.endswith(where)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file():
    """Mistakes of every kind, shape and meaning alike, come in one error."""
    text = (
        SMALL.replace("budget: 12 EUR", "budget: 12 USD")
        .replace("settle: 20 min", "setle: 5 mM")
        .replace("sensor: camera", "sensor: camra")
        .replace("driver: sdm120", "driver: sdm12")
        .replace("  limits:", "  safe_state: {}\n  limits:")
    )
    found = list(problems(text))
    lines = [int(where.split(":")[1]) for where in found]
    assert lines == sorted(lines)
    assert lines == [3, 8, 10, 20, 30]


def test_a_duplicate_key_names_both_lines():
    """The second of two equal keys is refused, and says where the first is."""
    found = problems(SMALL + "budget: 100 EUR\n")
    assert found == {"rig.yaml:31: budget": "duplicate key; it stands already on line 3; remove one of them"}


def test_too_many_control_sets_are_refused():
    """`all` of many variables says how many sets that would be."""
    more = "".join(f"  v{i}: {{unit: mM, range: [0, 1], natural: uniform}}\n" for i in range(8))
    found = problems(BY_HAND.replace("control_sets: all", more + "control_sets: all"))
    assert "1023 control sets, must be at most 127" in next(iter(found.values()))


def test_a_floor_above_what_is_plausible_is_refused():
    """The worst value there can be is below every plausible one; above it when minimising."""
    high = BY_HAND.replace("floor: 0", "floor: 9, plausible: [0, 8]")
    assert "must be below" in problems(high)["rig.yaml:8: outcome.floor"]
    low = BY_HAND.replace("floor: 0", "floor: 0, plausible: [0, 8], direction: minimise")
    assert "must be above" in problems(low)["rig.yaml:8: outcome.floor"]


NO_MAPPINGS = ["", "- a\n- b\n", "a: [1\n", "a: &x 1\nb: *x\n", "a: " + "[" * 100, "a: \x00", "--- a\n--- b\n"]


@pytest.mark.parametrize("text", NO_MAPPINGS)
def test_what_is_no_yaml_mapping_is_refused(text):
    """Broken YAML, aliases, bottomless nesting and lists at the top are refused with a line."""
    found = problems(text)
    assert len(found) == 1
    assert next(iter(found)).startswith("rig.yaml:")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    """A missing file, a folder and a file that is no text each give one problem with the file's name."""
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"rig: \xff\xfe")
    for path in (tmp_path / "none.yaml", tmp_path, binary):
        with pytest.raises(ConfigError) as caught:
            load(Path(path))
        assert str(path) in str(caught.value)


def test_what_somebody_elses_driver_asks_for_is_said_as_the_rest():
    """Also of kinds that no option of ours has: no sentence is the parser's own."""

    class Options(DeviceOptions):
        serial: str = Field(default="x", min_length=1)
        ends: list[float] = Field(default=[1, 2], min_length=2)
        step: float = Field(default=5, multiple_of=5)

    with pytest.raises(ValidationError) as refused:
        Options.model_validate({"serial": "", "ends": [1], "step": 3})
    assert [what for _, what in problems_of(refused.value, Options)[0]] == [
        'got "", must have at least 1 character',
        "got [1], must have at least 2 items",
        "got 3, must be a multiple of 5",
    ]
