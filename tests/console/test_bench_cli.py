"""The bench's verbs, called as a person calls them."""

import contextlib
import os
import signal
import subprocess
import sys

import psutil
import pytest

from rigctl.bench.running.store import code_version
from tests.bench.players import RAISES, install_policy
from tests.system.stack import WITHIN_S, wait_until

RUN = ["bench", "run", "--problem", "hartmann3", "--model", "fixed", "--budget", "0.4"]
LONG = ["bench", "run", "--problem", "hartmann6+6", "--policy", "default", "--budget", "40", "--seeds", "4"]
HEARS_CTRL_C = """
import signal
from rigctl.console.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
"""`rigctl`, also where the tests themselves were started with `&`, which has SIGINT ignored."""
QUICK = [*RUN, "--policy", "default"]


@pytest.mark.slow
def test_a_grid_runs_resumes_and_is_summarised(bench, golden):
    """Lines as cells finish, nothing done twice, results of other code are said, and a table of what came out."""
    first = bench.rigctl(*QUICK, "--seeds", "1", "--out", "results", "--format", "csv")
    assert "1/1 " in first.out
    (cell,) = (bench.folder / "results" / "cells").glob("*.csv")
    cell.write_text(cell.read_text().replace(code_version(), "00000000"))
    again = bench.rigctl(*QUICK, "--seeds", "2", "--out", "results", "--json")
    assert again.json == {"cells": 2, "skipped": 1, "finished": 1, "failed": []}
    golden(again.err)
    assert "hartmann3" in bench.rigctl("bench", "summary", "results").out
    found = bench.rigctl("bench", "summary", "results", "--json").json
    assert [(row["policy"], row["seeds"]) for row in found["summary"]] == [("default", 2)]
    assert found["comparison"] is None


@pytest.mark.system
@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly)]
)
def test_a_stopped_grid_ends_its_workers(stop, code, tmp_path, golden):
    """Ctrl-C and SIGTERM: worker processes end with it, and what to do next is said."""
    command = [sys.executable, "-c", HEARS_CTRL_C, *LONG, "--jobs", "2", "--out", str(tmp_path / "results")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        workers = wait_for_workers(process)
        process.send_signal(stop)
        _, error = process.communicate(timeout=WITHIN_S)
        assert process.returncode == code
        golden(error)
        _, alive = psutil.wait_procs(workers, timeout=WITHIN_S)
        assert not alive
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.nightly
def test_a_stopped_grid_ends_without_workers_too(tmp_path, golden):
    """SIGTERM in the middle of a cell of this process: it is no failure of that cell, and the others do not run."""
    command = [sys.executable, "-m", "rigctl", *LONG, "--out", str(tmp_path / "results")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            at_work = psutil.Process(process.pid)
            wait_until(lambda: at_work.cpu_times().user > 4.0, "it to come to work")
            process.terminate()
            _, error = process.communicate(timeout=WITHIN_S)
        finally:
            process.kill()
    assert process.returncode == 143
    golden(error)
    assert not (tmp_path / "results" / "failed").exists()


def wait_for_workers(process):
    """The worker processes, once there are two at work."""

    def at_work():
        workers = [p for p in psutil.Process(process.pid).children() if "LokyProcess" in " ".join(p.cmdline())]
        return workers if len(workers) == 2 and all(p.cpu_times().user > 1.0 for p in workers) else None

    return wait_until(at_work, "two worker processes at work")


@pytest.mark.slow
def test_figures_are_written(bench):
    """One file per figure and format, named on standard output."""
    bench.rigctl(*QUICK, "--seeds", "1", "--out", "results")
    files = bench.rigctl("bench", "figures", "results", "--image", "html", "--json").json["files"]
    assert files
    assert all((bench.folder / file).stat().st_size > 1000 for file in files)


PART = ("bench", "paper", "gittins", "--quick", "--seeds", "1", "--out", "results")


@pytest.mark.nightly
def test_a_part_of_a_paper_runs_and_is_judged(bench):
    """So many seeds and these problems of its quick form; every claim is listed."""
    ran = bench.rigctl(*PART, "--problem", "ackley4", "--image", "svg", "--json").json
    assert (ran["cells"], ran["failed"]) == (9, [])
    assert all(finding["reproduced"] == "undecided" for finding in ran["findings"])
    assert ran["files"]


@pytest.mark.slow
def test_policies_play_drawn_problems(bench):
    """What was drawn is shown by name; a policy plays until its budget is spent."""
    draw = ["bench", "draw", "--seed", "24", "--count", "1", "--play", "random", "--out", "results"]
    (row,) = bench.rigctl(*draw[:6], "--json").json
    assert row["problem"] == "drawn-24"
    assert (max(map(float, row["best"].values())), len(row["best"])) == (1.0, row["control_sets"])
    assert "random" in bench.rigctl(*draw).out
    told = bench.rigctl("bench", "summary", "results", "--json").json
    assert {row["policy"] for row in told["summary"]} == {"random"}


@pytest.mark.slow
def test_a_failing_policy_is_exit_1(bench, monkeypatch, golden):
    """The cell, the error and where the traceback is; other cells go on."""
    install_policy(bench.folder, "raises", RAISES)
    monkeypatch.syspath_prepend(bench.folder)
    answer = bench.rigctl(*QUICK, "--policy", "raises", "--seeds", "1", "--out", "results", "--json", code=1)
    assert (answer.json["finished"], len(answer.json["failed"])) == (1, 1)
    golden(answer.err)
