from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOOP = Path(__file__).parent / "kill_loop.py"
KILLS = 50


@pytest.mark.system
def test_fault_27_the_daemon_survives_fifty_kills(tmp_path):
    """SIGKILL at commits and at random moments: the simulator saw no dose twice, every cost is kept, replay agrees."""
    command = [sys.executable, LOOP, "--kills", str(KILLS), "--keep", tmp_path / "lives"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    tally = json.loads(done.stdout)
    assert tally["disagreements"] == []
    assert tally["kills"] >= KILLS
    assert tally["doses_sent"] > 0
    assert tally["came_late"] > 0
    assert tally["decisions_replayed"] == tally["decided"] > 0
    # Kills that never hit a trial would show nothing.
    assert (
        sum(n for state, n in tally["killed_in"].items() if state.startswith(("LOOKING", "ARMED", "RUNNING")))
        >= KILLS // 4
    )
