import json

import numpy as np
import pytest

from sim_rig.cli import main
from sim_rig.errors import CommandError
from sim_rig.scenarios import scenario
from sim_rig.truth import Truth


@pytest.fixture(scope="module", params=["greenhouse", "lathe"])
def truth(request):
    return Truth(scenario(request.param, None))


@pytest.fixture(scope="module")
def tank():
    return Truth(scenario("greenhouse", None))


@pytest.fixture
def told(capsys):
    """Ask the command line, in this process: exit code, standard output, standard error."""
    return lambda *arguments: (main(["truth", *arguments]), *capsys.readouterr())


@pytest.mark.slow
def test_the_value_of_a_setting_is_the_mean_over_nature():
    """Quasi-Monte-Carlo agrees with plain Monte-Carlo within its error."""
    greenhouse = scenario("greenhouse", None)
    rng = np.random.default_rng(11)
    x = np.array([[v.natural.sample(rng) for v in greenhouse.variables] for _ in range(8000)])
    x[:, [3, 4]] = [9.0, 5.7]
    outcomes = greenhouse.response(x)
    setting = Truth(greenhouse).setting({"k": 9.0, "ph": 5.7})
    assert setting.control_set == ("k", "ph")
    assert setting.outcome == pytest.approx(outcomes.mean(), abs=4 * outcomes.std() / np.sqrt(8000))


@pytest.mark.slow
def test_no_setting_beats_the_best(truth):
    """Settings drawn at random, and those around the best, are all worth less."""
    rng = np.random.default_rng(12)
    report = truth.report()
    for entry in report["control_sets"]:
        low, high = zip(
            *((v.low, v.high) for v in truth._scenario.variables if v.name in entry["setpoints"]), strict=True
        )
        best = np.array(list(entry["setpoints"].values()))
        near = np.clip(best + rng.normal(0, 0.02, (10, len(best))) * (np.array(high) - low), low, high)
        for values in [*rng.uniform(low, high, (10, len(best))), *near]:
            rival = truth.setting(dict(zip(entry["setpoints"], values.tolist(), strict=True)))
            assert rival.outcome <= entry["outcome"] * (1 + 1e-4)


def test_a_cheap_set_is_nearly_as_good_as_the_dearest(truth):
    """The scenario is worth deciding on: one cheap set is within 5 % of the best, most others are far from it."""
    sets = truth.report()["control_sets"]
    best = max(sets, key=lambda s: s["outcome"])
    good = [s for s in sets if s["share_of_best"] >= 0.95]
    cheapest = min(good, key=lambda s: s["cost"])
    assert best["cost"] == max(s["cost"] for s in sets)
    assert cheapest["cost"] < 2 / 3 * best["cost"]
    assert sum(s["share_of_best"] < 0.85 for s in sets) >= 3
    assert all(s["outcome"] > 0 for s in sets)


def test_unknown_variables_are_named(truth):
    """A setpoint for a variable that is not there is refused."""
    with pytest.raises(CommandError, match="luck"):
        truth.setting({"luck": 1.0})


def test_command_tells_the_whole_truth_as_json(told):
    """Without a setting every control set is reported, with the best of all."""
    code, out, _ = told("greenhouse", "--json")
    report = json.loads(out)
    assert code == 0
    assert [tuple(s["control_set"]) for s in report["control_sets"]] == list(scenario("greenhouse", None).control_sets)
    assert report["best"]["outcome"] == max(s["outcome"] for s in report["control_sets"])


@pytest.mark.parametrize("setpoints", ['{"k": 9.4, "ph": 5.6}', "ph=5.6,k=9.4"])
def test_command_judges_a_setting(told, setpoints):
    """A setting, as JSON or as name=value pairs, is told its true value and its share of the best."""
    code, out, _ = told("greenhouse", "--control-set", "k+ph", "--setpoints", setpoints, "--json")
    judged = json.loads(out)
    assert code == 0
    assert judged["setpoints"] == {"k": 9.4, "ph": 5.6}
    assert 0.95 < judged["share_of_best"] < 1.0
    assert judged["outcome"] < judged["best"]["outcome"]


def line(*when, **at):
    """A line of a rule: conditions as (reading, low, high), and where variables are set, slopes and all."""
    sets = [at[v] if isinstance(at[v], dict) else {"at": at[v]} for v in at]
    usual = {"slopes": [], "low": 0.0, "high": 99.0, "step": None}
    conditions = [{"reading": r, "low": low, "high": high} for r, low, high in when]
    return {"when": conditions, "set": [{"variable": v, **usual, **s} for v, s in zip(at, sets, strict=True)]}


def test_a_rule_is_worth_what_its_lines_are_on_the_days_they_hold(tank, golden):
    """A line that always holds is its setting; of two each holds on its own days; what is set follows what is read."""
    always = tank.rule([line(k=9.4, ph=5.6)])
    fixed = tank.setting({"k": 9.4, "ph": 5.6})
    assert (always["outcome"], always["cost"]) == pytest.approx((fixed.outcome, fixed.cost))
    sour, other = ("ph", None, 6.0), ("ph", 6.0, None)
    told = tank.rule([line(sour, k=9.4), line(other, k=9.4, ph=5.6)])
    assert sum(told["shares"]) == 1.0
    assert 0.0 < told["shares"][0] < 1.0
    assert tank.setting({"k": 9.4}).cost < told["cost"] < fixed.cost
    slope = {"at": 9.4, "slopes": [{"reading": "ca", "about": 2.6, "per_unit": 0.24}], "step": 0.1}
    assert tank.rule([line(k=slope, ph=5.6)])["outcome"] > always["outcome"]
    with golden.raises(CommandError):
        tank.rule([line(sour, k=9.4)])
    with golden.raises(CommandError):
        tank.rule([line(luck=1.0)])


def test_looking_is_worth_something_on_this_water(tank):
    """To leave the pH alone where it reads right is nearly as good as to control it always, and cheaper by a tenth."""
    right, below, above = ("ph", 5.42, 5.78), ("ph", None, 5.42), ("ph", 5.78, None)
    held = {"nh4": 1.74, "k": 9.5}
    rule = tank.rule([line(right, b=28.0, **held), *(line(other, ph=5.6, **held) for other in (below, above))])
    fixed = Truth(scenario("greenhouse", None), blind=True).setting({**held, "ph": 5.6})
    assert rule["outcome"] > 0.99 * fixed.outcome
    assert rule["cost"] < 0.9 * fixed.cost


def test_a_trial_that_does_not_look_drives_longer_and_ends_sooner(tank):
    """What it costs is another sum: valves are on while the tank is filled, and nobody waits for a treatment."""
    blind = Truth(scenario("greenhouse", None), blind=True)
    assert blind.setting({"ca": 2.8, "b": 28.0}).cost < tank.setting({"ca": 2.8, "b": 28.0}).cost
    assert blind.setting({"nh4": 1.7, "k": 9.4}).cost > tank.setting({"nh4": 1.7, "k": 9.4}).cost
    assert blind.setting({"k": 9.4}).outcome == tank.setting({"k": 9.4}).outcome


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("greenhouse", "--control-set", "k+luck"), "k+luck"),
        (("greenhouse", "--control-set", "k", "--setpoints", "ph=5.6"), "control-set"),
        (("greenhouse", "--setpoints", "ph:5.6"), "JSON"),
        (("greenhouse", "--rule", "[1]"), "JSON"),
        (("greenhouse", "--rule", '[{"when": []}]'), "lines with `when` and `set`"),
        (("wind-tunnel",), "airfoil.npz"),
    ],
)
def test_command_refuses_nonsense(told, arguments, complaint):
    """What cannot be answered is an error on standard error, and nothing on standard output."""
    code, out, error = told(*arguments)
    assert code != 0
    assert out == ""
    assert complaint in error


@pytest.mark.slow
def test_arrays_replace_the_response(told, data_directory):
    """With --data both array scenarios tell the truth of the arrays, as a table for people."""
    code, out, _ = told("wind-tunnel", "--data", str(data_directory))
    assert code == 0
    assert len(out.strip().splitlines()) == 8
    built_in, arrays = scenario("greenhouse", None), scenario("greenhouse", data_directory)
    x = np.array([[v.natural.mean for v in built_in.variables]])
    assert built_in.response(x) != pytest.approx(arrays.response(x))
