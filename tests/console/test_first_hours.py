"""First hours with a sheet of forty old trials, which end in an answer that is worth money."""

import numpy as np
import pytest

from tests.console.spreadsheets import Percent, xlsx

pytestmark = pytest.mark.slow


def written(values):
    return ",".join(f"{name}={value:.4g}" for name, value in values.items())


SHEET = """\
rig: bakery
currency: EUR
budget: 60 EUR
variables:
  water: {unit: "%", range: [60, 85], natural: {uniform: {low: 66, high: 78}}}
  warmth: {unit: degC, range: [20, 40], natural: {uniform: {low: 22, high: 32}}}
  rest: {unit: h, range: [1, 24], natural: {uniform: {low: 2, high: 12}}}
  salt: {unit: "%", range: [1, 3], natural: {uniform: {low: 1.5, high: 2.5}}}
control_sets: [[water], [water, warmth], [water, warmth, rest, salt]]
outcome: {name: volume, unit: mL, worth: 0.05 EUR/mL}
known_costs: {each: {water: 1 EUR, warmth: 2 EUR, rest: 3 EUR, salt: 4 EUR}}
"""
PRICES = {"water": 1.0, "warmth": 2.0, "rest": 3.0, "salt": 4.0}


def baked(values, rng):
    """The volume in mL of a loaf: water and warmth count, rest and salt do not."""
    return 900 - 0.8 * (values["water"] - 77) ** 2 - 0.5 * (values["warmth"] - 31) ** 2 + rng.normal(0.0, 4.0)


def test_forty_old_trials_become_an_answer_worth_money(bench):
    """What a sheet leaves open is asked once; what all old trials overpaid for is named, tried and then recommended."""
    rng = np.random.default_rng(20261128)
    bench.write("bakery.yaml", SHEET)
    ranges = {"water": (60, 85), "warmth": (20, 40), "rest": (1, 24), "salt": (1, 3)}
    rows = [{name: float(rng.uniform(*ends)) for name, ends in ranges.items()} for _ in range(40)]
    table = [[round(v["water"], 1) / 100, v["warmth"], v["rest"], v["salt"], baked(v, rng)] for v in rows]
    cells = [[Percent(w), round(a, 1), round(b, 1), round(c, 2), round(y)] for w, a, b, c, y in table]
    cells[3][2], cells[7][2], cells[11][4] = "~6", "<2", "n/a"
    mean = ["Mean", "", "", "", 800]
    head = [["Loaves of spring"], [], ["Wasser", "warmth", "rest", "salt", "volume"], ["", "degC", "h", "%", "mL"]]
    (bench.folder / "old.xlsx").write_bytes(xlsx({"loaves": [*head, *cells, mean]}))
    everything = ("--controlled", "water+warmth+rest+salt", "--map", "Wasser=water")
    swapped = bench.rigctl("import", "old.xlsx", "bakery.yaml", "--json", code=2).json["error"]
    assert swapped["remedy"].endswith("bakery.yaml old.xlsx")
    answers = ()
    for row, answer in (("row 45", "totals=skip"), ("C8", "inexact=number"), ("E16", "no-outcome=failed")):
        asked = bench.rigctl("import", "bakery.yaml", "old.xlsx", *everything, *answers, code=2).err
        assert (row in asked, f"--answer {answer}" in asked) == (True, True), asked
        answers = (*answers, "--answer", answer)
    taken = bench.rigctl("import", "bakery.yaml", "old.xlsx", *everything, *answers, "--json").json
    assert (len(taken["trials"]), taken["failed"], taken["spent"]) == (40, 1, 0.0)
    before = bench.rigctl("recommend", "bakery.yaml", "--json").json["answer"]
    assert (before["ways"][0]["cost"], before["ways"][0]["trials"]) == (10.0, 40)
    assert before["try_next"]["other"]["trials"] == 0
    assert before["try_next"]["other"]["net"] > before["ways"][0]["net"]
    assert before["certainty"]["kind"] == "try next"
    spent = 0.0
    for _ in range(3):
        todo = bench.rigctl("suggest", "bakery.yaml", "--json").json
        values = {name: float(rng.uniform(*ends)) for name, ends in ranges.items()} | todo["setpoints"]
        done = ("--control-set", "+".join(todo["control_set"]), "--values", written(values))
        spent += sum(PRICES[name] for name in todo["control_set"])
        told = bench.rigctl("ingest", "bakery.yaml", *done, "--outcome", f"{baked(values, rng):.3f}", "--json").json
        assert told["spent"] == spent  # nobody has typed a cost
    after = bench.rigctl("recommend", "bakery.yaml", "--json").json["answer"]
    assert after["ways"][0]["cost"] <= 3.0
    assert after["ways"][0]["net"] - next(w for w in after["ways"] if len(w["control_set"]) == 4)["net"] > 5
    assert (after["try_next"], after["ways"][0]["trials"] > 0) == (None, True)
