from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rigctl.config.load import Overrides, load_text
from rigctl.config.units import Units
from rigctl.core.experiment.marginals.families import Empirical, TruncatedNormal, Uniform
from rigctl.core.experiment.natural import Learned
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.errors import ConfigError
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.spec import DosingSpec, FollowSpec, MeasureSpec, VariableWiring
from tests.config.conftest import loaded
from tests.config.texts import BY_HAND, SMALL


def changed(*changes):
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


VALVE = "actuator: ca_valve,"
CA_RANGE = "range: [0, 7.7]"
ENDS = np.array([[5.2, 0.0], [6.8, 7.7]])
HELD = ActuatorLimits(low=5.2, high=6.8, safe_state="off", per_dose_ml=20.0, per_day_ml=200.0)
CA_WIRING = FollowSpec(0.77, pytest.approx(0.231), "mM")
BY_SENSOR = {"ca_probe": (0.0, pytest.approx(9.0)), "camera": (0.0, 50.0)}
NO_VALVE = (("actuator: ca_valve, ", ""), (", ca_valve: off", ""), ("[[ph], [ca], [ph, ca]]", "all"))
PLAUSIBLE = (
    ("sensor: ca_probe,", "sensor: ca_probe, plausible: [0, 9000 uM],"),
    ("floor: 0", "floor: 0, plausible: [0, 50]"),
)


def labels(config):
    return [chosen.label for chosen in config.problem.space.control_sets]


@pytest.mark.parametrize(
    ("text", "seen", "is_"),
    [
        (SMALL, lambda c: c.rig.timing.settle_s, 1200.0),
        (SMALL, lambda c: c.rig.timing.measure, MeasureSpec(300.0, 10.0, "median", 1)),
        (SMALL, lambda c: [str(m.price) for m in c.rig.meters], ["0.31", "0.0042", "1.5", "0.05"]),
        (SMALL, lambda c: c.problem.budget, 12_000_000),
        (SMALL, lambda c: c.rig.dosing["doser"], DosingSpec("probe", -0.04, 0.04, 45.0, 6)),
        (SMALL, lambda c: c.rig.limits["ca_valve"], ActuatorLimits(low=0.0, high=7.7, safe_state="off")),
        (SMALL, lambda c: c.rig.limits["doser"], HELD),
        (
            SMALL,
            lambda c: c.rig.variables[1],
            VariableWiring("ca", "ca_probe", "ca_valve", pytest.approx(0.077), None, CA_WIRING),
        ),
        (SMALL, lambda c: (c.problem.cost_model, c.problem.model.prior), ("per-set", "dimension-scaled")),
        (SMALL, lambda c: c.problem.space.to_unit(ENDS), pytest.approx(np.array([[0, 0], [1, 1]]))),
        (
            changed(("driver: ezo-pmp", "timeout: 1500 ms, driver: ezo-pmp")),
            lambda c: {device.timeout_s for device in c.rig.devices.values()},
            {1.5, 2.0},
        ),
        (
            changed((VALVE, f"{VALVE} read_back_tolerance: 20 uM,")),
            lambda c: c.rig.variables[1].read_back_tolerance,
            pytest.approx(0.02),
        ),
        (
            changed((CA_RANGE, "range: [0 mM, 7700 uM]")),
            lambda c: c.problem.space.variables[1].high,
            pytest.approx(7.7),
        ),
        (
            changed((CA_RANGE, "range: [0, 1e3]"), ("rig: tank", "rig: no")),
            lambda c: (c.problem.space.variables[1].high, c.name, c.rig.limits["doser"].safe_state),
            (1000.0, "no", "off"),
        ),
        (changed(*PLAUSIBLE), lambda c: c.rig.plausible, BY_SENSOR),
        (changed(("4.2 EUR/L", "9.0 EUR/L")), lambda c: str(c.rig.meters[1].price), "0.009"),
        (changed(("4.2 EUR/L", "9 EUR/L")), lambda c: str(c.rig.meters[1].price), "0.009"),
        (BY_HAND + "costs: per-setting\n", lambda c: c.problem.cost_model, "per-setting"),
        (SMALL + "model: {prior: gamma}\n", lambda c: c.problem.model.prior, "gamma"),
        (BY_HAND, lambda c: (c.wired, c.rig.limits), (False, {})),
        (BY_HAND, labels, ["ph", "ca", "ph+ca"]),
        (changed(*NO_VALVE), labels, ["ph"]),
        *(
            (BY_HAND + f"known_costs: {text}\n", lambda c: c.problem.known_costs, costs)
            for text, costs in (
                ("{each: {ca: 0.1 EUR, ph: 0.2 EUR}}", (0.2, 0.1, 0.3)),
                ("{each: {trial: 1 EUR, ca: 0.1 EUR, ph: 0.2 EUR}, ph+ca: 1.25 EUR}", (1.2, 1.1, 1.25)),
                ("{ca: 3 EUR, each: {ph: 0.2 EUR}, ph+ca: 4 EUR}", (0.2, 3.0, 4.0)),
            )
        ),
    ],
)
def test_what_a_file_says_is_what_it_means(text, seen, is_):
    """Durations are seconds, prices exact per counted unit, money micro-units; what is left out is usual."""
    assert seen(loaded(text)) == is_


def test_how_far_a_variable_may_be_from_its_setpoint_comes_from_its_tolerances():
    """Three tolerances of doses or read-backs to a tenth of the range; what is declared; nothing without a sensor."""
    dosed = loaded(SMALL).rig.variables[0].follows
    assert (dosed.least, dosed.most, dosed.unit) == (pytest.approx(0.12), pytest.approx(0.16), "pH")
    coarse = SMALL.replace("tolerance: 0.04 pH,", "tolerance: 0.2 pH,")
    assert loaded(coarse).rig.variables[0].follows == FollowSpec(pytest.approx(0.6), pytest.approx(0.6), "pH")
    declared = SMALL.replace("actuator: ca_valve,", "actuator: ca_valve, follows: 50 uM,")
    assert loaded(declared).rig.variables[1].follows == FollowSpec(pytest.approx(0.05), pytest.approx(0.05), "mM")
    own = SMALL.replace("sensor: ca_probe", "sensor: ca_valve").replace(
        "write: {at: 2,", "read: {at: 0, type: float32}, write: {at: 2,"
    )
    assert loaded(own).rig.variables[1].follows is None
    assert (
        loaded(own.replace("actuator: ca_valve,", "actuator: ca_valve, follows: 0.3,")).rig.variables[1].follows.most
        == 0.3
    )
    measured = SMALL.replace(", actuator: ca_valve, natural", ", natural").replace(", [ca], [ph, ca]]", "]")
    assert loaded(measured.replace(", ca_valve: off}", "}")).rig.variables[1].follows is None


@pytest.mark.parametrize(
    ("unit", "given", "is_"), [("K", "2 degC", 2.0), ("degF", "1 degC", 1.8), ("degC", "2 K", 2.0)]
)
def test_a_difference_has_no_zero_point(unit, given, is_):
    """A tolerance of 2 degC is 2 K, not the 275 K within which every read-back is right; so are all differences."""
    text = SMALL.replace("mM", unit).replace("pH", unit).replace(f"model: {unit}", "model: pH")
    text = text.replace(
        "actuator: ca_valve,", f"actuator: ca_valve, read_back_tolerance: {given}, max_rate: {given}/s,"
    )
    text = text.replace(f"tolerance: 0.04 {unit}", f"tolerance: {given}").replace("sd: 0.3", f"sd: {given}")
    text = text.replace("range: [5.2, 6.8]", "range: [2, 12]").replace("mean: 6.1", "mean: 7")
    text = text.replace("limits: {", f"limits: {{ca_valve: {{max_step: {given}}}, ").replace("[0, 7.7]", "[0, 18]")
    text = text.replace("[0, 18],", f"[0, 18], step: {given},")
    config = loaded(text)
    rig, (ph, ca) = config.rig, config.problem.space.variables
    assert rig.variables[1].read_back_tolerance == pytest.approx(is_)
    assert rig.watch.rules["ca"].max_rate_per_s == pytest.approx(is_)
    assert rig.dosing["doser"].tolerance == pytest.approx(is_)
    assert rig.limits["ca_valve"].slew.max_step == pytest.approx(is_)
    assert ca.step == pytest.approx(is_)
    assert ph.marginal.scale == pytest.approx(TruncatedNormal.from_moments(0.5, is_ / 10).scale)


def test_marginals_are_on_the_unit_cube():
    """Declared in engineering units, kept on the unit cube."""
    first, second = (v.marginal for v in loaded(SMALL).problem.space.variables)
    assert isinstance(first, TruncatedNormal)
    assert first.mean == pytest.approx((6.1 - 5.2) / 1.6)
    same = TruncatedNormal.from_moments((6.1 - 5.2) / 1.6, 0.3 / 1.6)
    assert (first.loc, first.scale) == pytest.approx((same.loc, same.scale))
    assert second == Uniform()


def test_empirical_values_stand_in_the_file_or_in_a_csv_beside_it(tmp_path):
    """`empirical` takes a list, or a column of a CSV file found from the configuration's folder."""
    (tmp_path / "water.csv").write_text("day,ca\n1,0\n2,3.85\n3,7.7\n", encoding="utf-8")
    listed = SMALL.replace("natural: uniform", "natural: {empirical: [0, 3.85 mM, 7.7]}")
    filed = SMALL.replace("natural: uniform", "natural: {empirical: {file: water.csv, column: ca}}")
    expected = Empirical((0.0, 0.5, 1.0))
    for text in (listed, filed):
        config = load_text(text, tmp_path / "rig.yaml")
        assert config.problem.space.variables[1].marginal == expected


def test_a_marginal_may_be_learned():
    """By the word alone, or with the prior it begins with and how many readings end that."""
    word = loaded(SMALL.replace("natural: uniform", "natural: learned"))
    assert word.problem.space.variables[1].marginal == Learned(Uniform(), 8)
    prior = "{learned: {prior: {truncated_normal: {mean: 3.85 mM, sd: 0.77}}, at_least: 20}}"
    learned = loaded(SMALL.replace("natural: uniform", f"natural: {prior}")).problem.space.variables[1].marginal
    assert isinstance(learned, Learned)
    assert (learned.mean, learned.at_least) == (pytest.approx(0.5), 20)


def test_policy_options_come_from_its_dataclass():
    """Options given reach the policy, the others keep their defaults, all of them are listed."""
    config = loaded(SMALL + "policy: {name: explore-then-commit, tolerance: 0.02, explore: {plays: 3}}\n")
    assert isinstance(config.policy, ExploreThenCommit)
    assert config.policy.tolerance == config.tolerance == 0.02
    assert config.policy.explore.plays == 3
    assert config.policy.explore.share == 0.5
    assert config.policy_options["cost_bound"] == ExploreThenCommit().cost_bound


def test_the_model_can_be_pinned_per_variable():
    """Fixed hyper-parameters come in column order, one number serving all variables."""
    pinned = "model: {hyperparameters: fixed, lengthscales: LS, signal_sd: 1, noise_sd: 0.01, mean: 0, beta: 3}\n"
    per_variable = loaded(SMALL + pinned.replace("LS", "{ca: 0.4, ph: 0.2}")).problem.model
    assert per_variable.lengthscales == (0.2, 0.4)
    assert per_variable.beta == 3.0
    same = loaded(SMALL + pinned.replace("LS", "0.3")).problem.model
    assert same == replace(per_variable, lengthscales=(0.3, 0.3))


def test_known_costs_and_ceiling_are_in_the_order_of_the_sets():
    """Costs that are known beforehand are given by control set, in any order."""
    text = BY_HAND + "known_costs: {ca: 2 EUR, ca+ph: 2.5 EUR, ph: 0.5 EUR}\n"
    text = text.replace("budget: 12 EUR", "budget: {total: 12 EUR, max_per_trial: 3 EUR}")
    problem = loaded(text).problem
    assert problem.known_costs == (0.5, 2.0, 2.5)
    assert problem.cost_ceiling == 3.0
    assert problem.budget == 12_000_000


@pytest.mark.parametrize("written", ["{max_per_trial: 3 EUR}", "{total: 12 EUR, most: 3 EUR}", "[12 EUR]", "12"])
def test_a_budget_is_an_amount_or_a_total_and_what_a_trial_may_cost(written):
    """Anything else is refused at its line."""
    with pytest.raises(ConfigError) as refused:
        loaded(BY_HAND.replace("12 EUR", written))
    assert [(m.path, m.line) for m in refused.value.mistakes] == [(("budget",), 3)]


def test_the_command_line_changes_the_total_and_not_what_a_trial_may_cost():
    """`--budget 30` is the campaign's."""
    text = BY_HAND.replace("12 EUR", "{total: 12 EUR, max_per_trial: 3 EUR}")
    problem = load_text(text, Path("rig.yaml"), Overrides(budget="30")).problem
    assert (problem.budget, problem.cost_ceiling) == (30_000_000, 3.0)


def test_a_look_counts_for_ten_times_as_long_as_it_takes():
    """Unless the file says for how long; its samples are reduced as those of the outcome are."""
    text = SMALL.replace("  settle:", "  look: {after: 1 min, for: 1 min, every: 15 s}\n  settle:")
    timing = loaded(text.replace("every: 10 s}", "every: 10 s, statistic: mean, min_count: 31}")).rig.timing
    assert timing.look.counts_for_s == 1200.0
    assert timing.look_window == MeasureSpec(60.0, 15.0, "mean", 1)
    assert loaded(text.replace("every: 15 s}", "every: 15 s, valid_for: 5 min}")).rig.timing.look.counts_for_s == 300.0


def test_a_unit_is_written_as_people_and_spreadsheets_do():
    """With raised digits, and a dot for a product."""
    assert Units("EUR").to("0.1 m2/day", "cm2/day", "a growth") == pytest.approx(1000.0)
    assert Units("EUR").to("0.1 m²·day⁻¹", "cm²/day", "a growth") == pytest.approx(1000.0)


def test_overrides_replace_what_the_file_says():
    """Buses by name (or an inline one by device), budget, seed, trials and speed can come from the command line."""
    buses = {"plc": "modbus_tcp://10.0.0.9:502", "probe": "tcp://10.0.0.8:5000"}
    config = load_text(SMALL, Path("rig.yaml"), Overrides(buses, "7 EUR", 5, 9, 100.0))
    assert config.rig.devices["ca_probe"].url == "modbus_tcp://10.0.0.9:502"
    assert config.rig.devices["probe"].url == "tcp://10.0.0.8:5000"
    assert (config.problem.budget, config.seed, config.max_trials) == (7_000_000, 5, 9)
    assert config.rig.speedup == 100.0


def test_an_override_is_blamed_on_its_option(golden):
    """An error in what the command line gave names the option, not a line of the file."""
    with pytest.raises(ConfigError) as caught:
        load_text(SMALL, Path("rig.yaml"), Overrides({"plk": "tcp://x:1"}, budget="5 USD"))
    golden({p.where for p in caught.value.mistakes})
