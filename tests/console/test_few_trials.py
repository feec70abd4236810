"""`rigctl suggest` and `rigctl recommend` on next to nothing, and when the budget is spent."""

import pytest

from tests.console.conftest import BENCH, TRIALS

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


@pytest.mark.parametrize("rows", NOTHING_LEARNED.values(), ids=NOTHING_LEARNED)
def test_nothing_is_recommended_before_the_first_outcome(bench, rows, golden):
    """From a list as from the journal: one message and exit 1."""
    bench.write("few.csv", HEADER + rows)
    bench.rigctl("ingest", "bench.yaml", "few.csv")
    for more in (("--history", "few.csv"), ()):
        answer = bench.rigctl("recommend", "bench.yaml", *more, code=1)
        golden(answer.err)
        assert answer.out == ""


@pytest.mark.parametrize("rows", LITTLE_LEARNED.values(), ids=LITTLE_LEARNED)
def test_one_outcome_is_enough_for_a_recommendation(bench, rows):
    """The recommended set has been tried, and its interval is there."""
    bench.write("few.csv", HEADER + rows)
    answer = bench.rigctl("recommend", "bench.yaml", "--history", "few.csv", "--json").json
    assert answer["control_set"] in (["ph"], ["ca"])
    assert answer["low"] < answer["expected"] < answer["high"]


CSV = ("--history", "trials.csv")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "source"),
    [("2.2 EUR", CSV), ("2.1 EUR", ()), ("1 EUR", CSV)],
    ids=["too little left", "spent, in a journal", "overspent"],
)
def test_when_nothing_fits_the_budget_it_says_so(bench, budget, source, golden):
    """No trial is suggested: one message, exit 1, for programs as JSON; a recommendation is still given."""
    bench.write("trials.csv", TRIALS)
    bench.write("poor.yaml", BENCH.replace("20 EUR", budget))
    bench.rigctl("ingest", "poor.yaml", "trials.csv")
    answer = bench.rigctl("suggest", "poor.yaml", *source, "--json", code=1)
    assert answer.json["error"]["what"] == answer.err.removeprefix("rigctl: ").rstrip()
    golden(answer.err)
    assert bench.rigctl("suggest", "poor.yaml", *source, "--budget", "20 EUR", "--json").json["trial"] == 6
    assert bench.rigctl("recommend", "poor.yaml", *source, "--json").json["control_set"]
