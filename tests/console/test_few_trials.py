"""`rigctl suggest` and `rigctl recommend` on next to nothing, and when the budget is spent."""

import pytest

from tests.console.conftest import BENCH

HEADER = "ph,ca,control_set,growth,cost\n"
NOTHING_LEARNED = {"no trial": "", "only failed": ",,ph,,0.5\n6.0,,ca,,0.5\n6.0,3.0,ph+ca,,0.5\n"}
LITTLE_LEARNED = {
    "one outcome": "6.0,3.3,ph,1.2,0.5\n",
    "one outcome among failures": ",,ph,,0.5\n6.0,3.3,ca,1.2,0.5\n",
    "fewer than variables and one": "6.0,3.3,ph,1.2,0.5\n6.1,3.1,ca,1.1,0.4\n",
}
ALL = {**NOTHING_LEARNED, **LITTLE_LEARNED}
MODELS = {
    "fixed": BENCH,
    "learned": "\n".join(
        "model: {hyperparameters: learned}" if s.startswith("model") else s for s in BENCH.split("\n")
    ),
    "committing": BENCH.replace("tolerance: 0.05", "tolerance: 0.05, explore: {share: 0}"),
}


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("rows", ALL.values(), ids=ALL)
def test_a_trial_is_suggested_however_little_is_known(bench, rows, config):
    """The next trial's number, a playable set, and the spending so far."""
    bench.write("few.yaml", config)
    bench.write("few.csv", HEADER + rows)
    answer = bench.rigctl("suggest", "few.yaml", "--history", "few.csv", "--json").json
    assert answer["trial"] == rows.count("\n") + 1
    assert answer["control_set"] in (["ph"], ["ca"], ["ph", "ca"])
    assert list(answer["setpoints"]) == answer["control_set"]
    assert answer["budget"]["spent"] == pytest.approx(sum(float(r.rsplit(",", 1)[1]) for r in rows.splitlines()))


@pytest.mark.parametrize("rows", LITTLE_LEARNED.values(), ids=LITTLE_LEARNED)
def test_one_outcome_is_enough_for_a_recommendation(bench, rows):
    """The recommended set has been tried, and its interval is there."""
    bench.write("few.csv", HEADER + rows)
    answer = bench.rigctl("recommend", "bench.yaml", "--history", "few.csv", "--json").json
    assert answer["control_set"] in (["ph"], ["ca"])
    assert answer["low"] < answer["expected"] < answer["high"]
