"""For all tests: the same bits as the command line makes, the same examples every time, the same signals."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rigctl.threads import keep_to_one_thread

keep_to_one_thread()  # before anything loads numpy, as in `rigctl.console.cli.main`

# Some machines set it. Then each of the hundreds of processes that tests start would compile all that it imports anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import pytest  # noqa: E402 - after the line above
import typer.testing  # noqa: E402 - after the line above
from hypothesis import HealthCheck, settings  # noqa: E402 - after the line above

from tests import forked  # noqa: E402 - after the line above
from tests.golden import golden, said_here  # noqa: E402, F401 - after the line above; fixtures of all tests

# made of the program's verbs once for all tests that call them, not for each call: that takes longer than most verbs
vars(typer.testing)["_get_command"] = cache(typer.main.get_command)

ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", ANY_SPEED, max_examples=15, stateful_step_count=15, derandomize=True)
settings.register_profile("ci", ANY_SPEED, max_examples=100, stateful_step_count=25, derandomize=True)
settings.register_profile("nightly", ANY_SPEED, max_examples=2000, stateful_step_count=50, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# A shell starts what it puts in the background with two of these ignored, nohup with the third, and rigctl leaves
# ignored what it finds ignored.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture
def twins() -> Iterator[None]:
    """Have those that decide forked from this process: their imports take longer than what most tests ask of them."""
    begin = forked.decide_in_twins()
    yield
    subprocess.Popen._execute_child = begin  # type: ignore[attr-defined]


def pytest_xdist_auto_num_workers() -> int:
    """Have two workers more than processors: nearly half the time they wait, for processes and clocks."""
    return (os.cpu_count() or 1) + 2


def pytest_unconfigure() -> None:
    """End what was started for all tests of this process."""
    forked.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: begun last, a file of one long test is waited for by all other workers."""
    longest = ("browser", "system", "slow")
    items.sort(key=lambda item: next((i for i, mark in enumerate(longest) if item.get_closest_marker(mark)), 3))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Search for no garbage while modules load, and never again in what they loaded: all of it stays.

    One worker loads first, the others wait for it: what it has compiled need not be compiled by each of them.
    """
    gc.disable()
    with Path(__file__).open(encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield
        gc.freeze()
        gc.set_threshold(20_000)  # the usual 700 makes some tests four times as dear: most of what is searched is alive
        gc.enable()
