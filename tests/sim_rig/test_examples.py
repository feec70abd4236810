"""The example configurations and the simulated rigs agree, though they share no code."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from sim_rig import economics
from sim_rig.plants import lathe, tank, tunnel

CONFIG = Path(__file__).parents[2] / "config"
CASES = {
    "greenhouse": (tank.VARIABLES, tank.CONTROL_SETS),
    "lathe": (lathe.VARIABLES, lathe.CONTROL_SETS),
    "wind-tunnel": (tunnel.VARIABLES, tunnel.CONTROL_SETS),
}


def example(name):
    return yaml.safe_load((CONFIG / f"{name}.yaml").read_text(encoding="utf-8"))


def amount(text):
    """The number of a quantity such as `0.31 EUR/kWh`."""
    return float(text.split()[0])


def seconds(text):
    value, unit = text.split()
    return float(value) * {"s": 1, "min": 60}[unit]


@pytest.mark.parametrize("name", CASES)
def test_variables_and_control_sets_are_the_rigs(name):
    """Ranges, units and natural variation that an operator would have measured are those of the simulated rig."""
    config = example(name)
    variables, control_sets = CASES[name]
    assert list(config["variables"]) == [v.name for v in variables]
    for v in variables:
        declared = config["variables"][v.name]
        assert declared["unit"] == v.unit
        assert declared["range"] == pytest.approx([v.low, v.high])
        natural = declared["natural"]["truncated_normal"]
        assert (natural["mean"], natural["sd"]) == pytest.approx((v.natural.mean, v.natural.sd))
    assert [tuple(s) for s in config["control_sets"]] == list(control_sets)


def until_the_last_sample(window):
    return seconds(window["for"]) - seconds(window["every"])


def nominal_trial(config):
    trial = config["trial"]
    look = trial.get("look")
    return {
        "look_s": seconds(look["after"]) + until_the_last_sample(look) if look else 0.0,
        "prepare_s": sum(seconds(step["wait"]) for step in trial["prepare"]),
        "settle_s": seconds(trial["settle"]),
        "measure_s": until_the_last_sample(trial["measure"]),
    }


@pytest.mark.parametrize(
    ("name", "nominal", "labour", "fixed"),
    [
        ("greenhouse", economics.GREENHOUSE, "labour", "water"),
        ("lathe", economics.LATHE, "machine", "stock"),
        ("wind-tunnel", economics.TUNNEL, "crew", "smoke"),
    ],
)
def test_nominal_prices_and_timing_are_those_of_the_example(name, nominal, labour, fixed):
    """What the truth believes of money and time is what the example configuration says."""
    config = example(name)
    meters = {m["name"]: amount(m["price"]) / (1000.0 if "/mL" in m["price"] else 1.0) for m in config["meters"]}
    believed = {"electricity": nominal.energy_per_kwh, labour: nominal.time_per_h, fixed: nominal.fixed}
    assert meters == pytest.approx({**believed, **nominal.consumables})
    for key, value in nominal_trial(config).items():
        assert getattr(nominal, key) == value


@pytest.mark.parametrize("name", CASES)
def test_a_trial_takes_a_third_of_a_second_and_sixty_fit(name):
    """At the example's speedup a trial is short enough, and the budget pays for 65 to 105 trials of mean cost."""
    config = example(name)
    variables, control_sets = CASES[name]
    cost = {
        "greenhouse": economics.greenhouse_cost,
        "lathe": economics.lathe_cost,
        "wind-tunnel": economics.tunnel_cost,
    }[name]
    assert sum(nominal_trial(config).values()) / config["clock"]["speedup"] <= 0.35
    natural = np.column_stack([v.natural.quantile((np.arange(200) + 0.5) / 200) for v in variables])
    mixed = np.random.default_rng(1).permuted(natural, axis=0)
    mean = np.mean([cost(members, mixed).mean() for members in control_sets])
    assert 65 <= amount(config["budget"]) / mean <= 105


def test_doses_fit_the_pumps_limits():
    """The largest dose a setpoint can ask for is within the example's limit per dose."""
    config = example("greenhouse")
    ca, ph = config["dosing"]["ca_doser"], config["dosing"]["ph_doser"]
    limits = config["safety"]["limits"]
    assert (6.0 - tank.SOFTENED_MM) / amount(ca["effect"]) <= amount(limits["ca_doser"]["per_dose"])
    assert (tank.ALKALISED_PH - 5.0) / -amount(ph["effect"]) <= amount(limits["ph_doser"]["per_dose"])
    assert amount(ca["effect"]) >= tank.CA_PER_ML
    assert -amount(ph["effect"]) >= -tank.PH_PER_ML * (1 + tank.BUFFERING)
