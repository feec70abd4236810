"""Signals in the phases of a campaign."""

import pytest

from tests.simulated import start_sim
from tests.system.signal_matrix import Bench, tried
from tests.system.stack import Stack

pytestmark = pytest.mark.system

CELLS = (
    ("before open", "SIGTERM"),
    ("opening", "SIGQUIT"),
    ("recovery", "SIGTERM"),
    ("deciding", "SIGHUP"),
    ("dosing", "SIGQUIT"),
    pytest.param("settling", "SIGHUP", marks=pytest.mark.nightly),
    ("settling", "SIGKILL"),
    ("closing", "SIGHUP"),
)


@pytest.mark.parametrize(("phase", "name"), CELLS)
def test_faults_54_55_a_signal_leaves_everything_safe(sim, stack, phase, name):
    """Whatever the phase, HUP and QUIT as TERM: coils off and pumps at rest, says the rig; exit 0."""
    cell = tried(Bench(sim, stack), phase, name)
    assert cell.exit_code == 0


@pytest.fixture(scope="module")
def slow_sim(tmp_path_factory):
    """A greenhouse at the pace of real instruments."""
    handle = start_sim("greenhouse", tmp_path_factory.mktemp("slow"), speed=1.0, seed=5)
    yield handle
    handle.stop()


@pytest.mark.parametrize("phase", ["before open", "settling"])
def test_fault_29_sigterm_at_the_pace_of_real_instruments(slow_sim, tmp_path, phase):
    """At speed 1 a signal leads to the safe state, after a crash as well as in mid-trial."""
    stack = Stack(slow_sim, tmp_path)
    try:
        assert tried(Bench(slow_sim, stack), phase, "SIGTERM").exit_code in (0, 1)  # 1: safe, but not confirmed in time
    finally:
        stack.end()
