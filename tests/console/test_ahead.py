"""The answer is worked out beside a campaign, for whoever asks first."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rigctl import system
from rigctl.campaign import answered, learned
from rigctl.console import ahead
from rigctl.console.ahead import answering_ahead
from tests.console.conftest import BENCH, TRIALS

PATIENCE_S = 60.0
FOREVER = [sys.executable, "-c", "import time; time.sleep(1000)"]


@pytest.fixture
def started(monkeypatch):
    """Each process that was to work it out; all of them take for ever."""
    processes, came = [], threading.Semaphore(0)

    def asking(_):
        processes.append(subprocess.Popen(FOREVER))
        came.release()
        return processes[-1]

    monkeypatch.setattr(ahead, "_asking", asking)
    return processes, came


def test_what_is_under_way_when_a_campaign_ends_is_ended_with_it(tmp_path, started):
    """Nobody waits for it, and one answer at a time is worked out, however many trials come meanwhile."""
    processes, came = started
    with answering_ahead(tmp_path) as renew:
        for _ in range(5):
            renew()
        assert came.acquire(timeout=PATIENCE_S)
        renew()
    assert [process.poll() is not None for process in processes] == [True]


def test_where_no_process_can_be_had_the_campaign_goes_on(tmp_path, monkeypatch):
    """It is tried again after the next trial."""
    tried = threading.Semaphore(0)

    def refused(_):
        tried.release()
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(ahead, "_asking", refused)
    with answering_ahead(tmp_path) as renew:
        renew()
        assert tried.acquire(timeout=PATIENCE_S)
        renew()
        assert tried.acquire(timeout=PATIENCE_S)


def test_where_memory_runs_out_the_process_is_ended_before_the_campaign():
    """Linux ends what has the highest score; and it runs when nobody else does."""
    process = subprocess.Popen(FOREVER)
    system.step_back(process.pid)
    adjusted = Path(f"/proc/{process.pid}/oom_score_adj").read_text(encoding="ascii")
    assert (os.getpriority(os.PRIO_PROCESS, process.pid), adjusted) == (15, "1000\n")
    process.kill()
    process.wait()


@pytest.mark.slow
def test_whoever_asks_first_finds_the_answer(bench):
    """`recommend` and `status` find it beside the journal, and it is what they would have said without."""
    bench.write("bench.yaml", BENCH.replace("fixed", "learned"))
    bench.write("trials.csv", TRIALS)
    bench.rigctl("ingest", "bench.yaml", "trials.csv")
    place = bench.folder / "state" / "bench"
    asked = "recommend", "--state", str(place), "--json"
    alone = bench.rigctl(*asked).out
    (place / learned.FILE_NAME).unlink()
    (place / answered.FILE_NAME).unlink()
    end_s = time.monotonic() + PATIENCE_S
    with answering_ahead(place) as renew:
        renew()
        while not (place / learned.FILE_NAME).exists():
            assert time.monotonic() < end_s
            time.sleep(0.05)
    assert (place / answered.FILE_NAME).exists()
    written = (place / learned.FILE_NAME).read_bytes()
    assert bench.rigctl(*asked).out == alone
    assert (place / learned.FILE_NAME).read_bytes() == written
