"""What the policy remembers of trials done by hand, in the journal and from a list."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rigctl.campaign.decide import Question, decide
from rigctl.campaign.journal import open_reader
from rigctl.config.load import load
from rigctl.console.benches.by_hand import memory
from rigctl.core.experiment.history import History, Observation
from tests.campaign.fakes import SoonContent
from tests.console.conftest import BENCH, TRIALS

HALVING = BENCH.replace("tolerance: 0.05", "tolerance: 0.05, tolerance_decay: halving, explore: {share: 0}")


def by_hand(bench, config: str, answer, *, control_set=None) -> None:
    """Do the suggested trial, or one with another control set."""
    done = answer["control_set"] if control_set is None else control_set
    row = {"control_set": done, "values": {"ph": 6.0, "ca": 3.3}, "outcome": 1.2, "cost": 0.1}
    bench.rigctl("ingest", config, "-", stdin=json.dumps(row))


def suggested(bench, config: str):
    return bench.rigctl("suggest", config, "--json").json


def states(config: str = "state/bench"):
    """Per trial, what was stored of the policy's memory."""
    with open_reader(Path(config)) as reader:
        return [row.policy_state for row in reader.trials()]


@pytest.mark.slow
def test_the_tolerance_halves_on_a_bench_by_hand(bench):
    """With `halving` two commitments (two variables) that a person carried out halve the tolerance of the third."""
    bench.write("halving.yaml", HALVING)
    reasons = []
    for _ in range(3):
        answer = suggested(bench, "halving.yaml")
        reasons.append(answer["technical"].split(" of the best")[0].split()[-1])
        by_hand(bench, "halving.yaml", answer)
    assert reasons == ["0.05", "0.05", "0.025"]


@pytest.mark.slow
def test_a_list_is_remembered_like_its_rows_one_by_one(bench):
    """Whether rows come in one ingest or in several makes no difference to the memory."""
    bench.rigctl("ingest", "bench.yaml", "trials.csv", "--state", "whole")
    header, *rows = TRIALS.splitlines()
    for row in rows:
        bench.rigctl("ingest", "bench.yaml", bench.write("row.csv", f"{header}\n{row}\n"), "--state", "single")
    assert states("whole") == states("single")
    assert None not in states("whole")


@pytest.mark.slow
def test_a_csv_history_is_folded_into_the_memory_that_its_journal_would_have(bench):
    """`suggest --history` says what the journal of the same trials says, with halving and a trial that broke off."""
    bench.write("halving.yaml", HALVING)
    rows = "6.0,3.3,ca+ph,1.2,0.5\n,,ca+ph,,0.1\n5.5,2.2,ca,0.7,0.3\n6.1,4.4,ca+ph,1.9,0.4\n"
    bench.write("some.csv", TRIALS.splitlines()[0] + "\n" + rows)
    bench.rigctl("ingest", "halving.yaml", "some.csv")
    journal = suggested(bench, "halving.yaml")
    csv = bench.rigctl("suggest", "halving.yaml", "--history", "some.csv", "--json").json
    assert "0.025" in csv["technical"]
    assert {**journal, "decision_s": 0} == {**csv, "decision_s": 0}


@pytest.mark.slow
def test_bounds_of_the_next_trial_are_the_models_not_the_memorys(bench):
    """The numbers per set are of the trials alone, whether or not earlier decisions are remembered."""
    bench.rigctl("ingest", "bench.yaml", "trials.csv")
    kept = suggested(bench, "bench.yaml")
    loaded = load(Path("bench.yaml"))
    with open_reader(Path("state/bench")) as reader:
        history = reader.history(loaded.problem.space)
    fresh = decide(Question(loaded.policy, loaded.problem, loaded.seed, history, None)).proposal
    assert fresh is not None
    for name in ("upper", "lower", "mean", "sd"):
        ours, theirs = [s[name] for s in kept["control_sets"]], [getattr(s, name) for s in fresh.sets]
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-6)


def test_a_long_list_is_not_folded(bench):
    """Beyond the limit a list leaves the memory as it was, rather than take minutes."""
    loaded = load(bench.folder / "bench.yaml")
    rows = [Observation(n, 0, (0.5, 0.5), 1.0, 1000) for n in range(1, 202)]
    assert memory(loaded, History.of(rows)) is None
    assert memory(loaded, History.of(rows[:1])) is not None


def test_trials_after_the_stopping_rule_leave_the_memory_as_it_was(bench):
    """A person who goes on although the policy would have stopped is free to; it remembers its last own decision."""
    loaded = replace(load(bench.folder / "bench.yaml"), policy=SoonContent())
    rows = [Observation(n, (n - 1) % 3, (0.5, 0.5), 1.0, 1000) for n in range(1, 5)]
    assert memory(loaded, History.of(rows)) == memory(loaded, History.of(rows[:2]))
    assert memory(loaded, History.of(rows))["asked"] == 2
