"""`rigctl demo`: a whole campaign from one command, and nothing left behind however it ends."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import psutil
import pytest

from sim_rig.scenarios import scenario
from sim_rig.truth import Truth
from tests.forked import Forked
from tests.profiles import nightly_beyond
from tests.simulated import keep_clear
from tests.system.stack import Process, rows, wait_until

pytestmark = pytest.mark.system

DEMO = [sys.executable, "-m", "rigctl", "demo", "--json"]
STOPPED_S = 0.01
PLAYED = (
    "SELECT trial, state, control_set, setpoints, origin, proposal, policy_state, seed, budget_micros FROM trials",
    "SELECT trial, meter, quantity, amount_micros, estimated, note FROM ledger ORDER BY trial, meter",
    "SELECT trial, name, value, spread, count, severity, detail FROM measurements ORDER BY trial, name",
    "SELECT trial, actuator, volume_ml, dispensed_ml, at_s, settled_s FROM doses ORDER BY trial, actuator, at_s",
    "SELECT trial, event, at_s, detail FROM events ORDER BY id",
)
"""What a campaign decided, paid, saw and did; all but the wall clock's stamps."""
PAID = (
    "SELECT setpoints, sum(amount_micros) AS paid FROM trials JOIN ledger USING (trial)"
    " WHERE state = 'RECORDED' GROUP BY trial ORDER BY trial"
)


def at_work_in(directory) -> list[str]:
    """The processes whose command line names this directory."""
    lines = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(directory) in line]


@pytest.fixture
def demo(tmp_path):
    """Starts a demo that keeps its state in `tmp_path/demo` or another folder; ended after the test."""
    started = []

    def start(*options: object, keep: str = "demo", from_nothing: bool = False) -> Process:
        keep_clear()
        command = [*DEMO, "--keep", tmp_path / keep, *options]
        out, err = tmp_path / f"{keep}.json", tmp_path / f"{keep}.jsonl"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            begin = subprocess.Popen if from_nothing else Forked
            process = begin([*map(str, command)], cwd=tmp_path, stdout=stdout, stderr=stderr)
        started.append(Process(process, out, err, tmp_path / keep / "state"))
        return started[-1]

    yield start
    for process in started:
        process.end()


@pytest.mark.nightly
def test_a_whole_campaign_adds_up_and_recommends_well(demo, tmp_path):
    """The ledger is what such trials truly cost, and near the best is recommended; the short form is the console's.

    Within 10 % of it, and the costs within 2 %: prices and powers are known to the simulator's truth alone.
    """
    run = demo("--scenario", "greenhouse", "--budget", "22 EUR", "--speed", 48000)
    assert run.wait() == 0, run.said
    answer = run.answer
    assert answer["ending"] == "budget"
    assert answer["trials"] >= 15
    (booked,) = rows(run.state, "SELECT sum(amount_micros) AS amount, count(DISTINCT trial) AS trials FROM ledger")
    assert booked["trials"] == answer["trials"]
    assert answer["spent"] == answer["ledger_sum"] == pytest.approx(booked["amount"] / 1e6, abs=1e-9)
    assert answer["spent"] <= answer["budget"] == 22.0
    assert answer["safe"]["ok"]
    # the last look may find that nothing fits the budget any more
    undecided = [row["trial"] for row in rows(run.state, "SELECT trial FROM trials WHERE proposal IS NULL")]
    assert undecided in ([], [answer["trials"]])
    recorded = rows(run.state, "SELECT 1 FROM trials WHERE state = 'RECORDED'")
    assert len(recorded) == answer["trials"] - len(undecided)
    assert answer["simulators_truth"]["control_set"] == answer["recommendation"]["control_set"]
    assert answer["simulators_truth"]["share_of_best"] >= 0.9
    paid = [row["paid"] / 1e6 for row in rows(run.state, PAID)]
    truth = Truth(scenario("greenhouse", None))
    true = [truth.setting(json.loads(row["setpoints"])).cost for row in rows(run.state, PAID)]
    assert sum(paid) == pytest.approx(sum(true), rel=0.02)
    assert paid == pytest.approx(true, abs=0.05)  # EUR: whether it took one dose or two
    assert at_work_in(tmp_path) == []


@pytest.mark.nightly
def test_a_demo_is_run_once_more_without_looking_to_be_compared(demo):
    """The same seed and supply, blind; both are kept, and the truth of what both recommend is told."""
    run = demo("--compare", "--max-trials", 3, "--speed", 48000)
    assert run.wait() == 0, run.said
    seeing, blind = run.answer, run.answer["blind"]
    assert (seeing["trials"], blind["trials"], seeing["seed"]) == (3, 3, blind["seed"])
    assert {"outcome", "cost"} <= blind["simulators_truth"].keys() & seeing["simulators_truth"].keys()
    looked = "SELECT count(*) AS looked FROM events WHERE event = 'LOOK'"
    assert [rows(state, looked)[0]["looked"] for state in (run.state, run.state.parent / "blind/state")] == [3, 0]


@contextmanager
def stuttering(process):
    """Stop it and all its children half of the time, now these, now those, as a busy machine does."""
    over, draw = threading.Event(), random.Random(1)

    def stutter():
        whole = psutil.Process(process.pid)
        while not over.is_set():
            some = []
            with suppress(psutil.NoSuchProcess):
                some = [p for p in (whole, *whole.children(recursive=True)) if draw.random() < 0.7]
            for what in (psutil.Process.suspend, psutil.Process.resume):
                for one in some:
                    with suppress(psutil.NoSuchProcess):
                        what(one)
                over.wait(STOPPED_S)

    thread = threading.Thread(target=stutter)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_the_result_does_not_depend_on_how_fast_the_computer_is(demo):
    """With one seed, a machine that halts again and again plays the same settings for the same costs."""
    options = ("--scenario", "greenhouse", "--max-trials", 4, "--seed", 3, "--speed", 48000)
    idle = demo(*options, keep="idle")
    assert idle.wait() == 0, idle.said
    busy = demo(*options, keep="busy")
    with stuttering(busy.process):
        assert busy.wait() == 0, busy.said
    for question in PLAYED:
        first, second = ([tuple(row) for row in run.rows(question)] for run in (idle, busy))
        assert len(first) >= 3
        assert first == second
    told = ("trials", "spent", "recommendation", "simulators_truth")
    assert {key: idle.answer[key] for key in told} == {key: busy.answer[key] for key in told}


@pytest.mark.parametrize("number", nightly_beyond(1, [signal.SIGINT, signal.SIGTERM]))
def test_interrupted_it_ends_safe_and_takes_the_simulator_along(demo, tmp_path, number):
    """Ctrl-C or SIGTERM in mid-demo: everything safe, the trial closed, no simulator left behind."""
    run = demo("--speed", 1200, from_nothing=True)  # so that its command line is its own
    run.until(lambda: run.count("RUNNING"), "a trial under way")
    assert len(at_work_in(tmp_path)) == 2
    run.process.send_signal(number)
    assert run.wait() == (130 if number == signal.SIGINT else 0), run.said
    assert at_work_in(tmp_path) == []
    assert (run.answer["ending"], run.answer["reason"]) == ("abandoned", number.name)
    assert run.answer["safe"]["ok"]
    assert run.answer["safe_after_s"] < 10.0  # 2 s, and a margin for a busy machine
    assert run.rows("SELECT 1 FROM trials WHERE state NOT IN ('RECORDED', 'ABANDONED')") == []


def test_killed_it_takes_the_simulator_along(demo, tmp_path):
    """After a kill -9 nobody is left to clean up: the simulator notices and goes by itself."""
    run = demo()
    run.until(lambda: run.count("ARMED") or run.count("RUNNING"), "a trial under way")
    os.kill(run.process.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    wait_until(lambda: at_work_in(tmp_path) == [], "the simulator's end")
