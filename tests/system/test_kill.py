import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rigctl.campaign.trial import Event
from tests.system.kill.witness import overtaken

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
    # Kills that never hit a trial would show nothing; on a busy machine more of them fall between trials.
    assert (
        sum(n for state, n in tally["killed_in"].items() if state.startswith(("LOOKING", "ARMED", "RUNNING")))
        >= KILLS // 10
    )


@pytest.mark.parametrize(
    ("later_due_s", "ended_s", "rightly"), [(20.0, 30.0, True), (20.0, 15.0, False), (5.0, 30.0, False)]
)
def test_the_witness_knows_who_was_overtaken(later_due_s, ended_s, rightly):
    """A reading is one trial's: of two that were due it is the later one's, not of one that was not due yet."""
    why = "its time was 39.5 min ago, and what its sensor reads now is trial 2's"
    row = SimpleNamespace(trial=1, because=why, awaited=SimpleNamespace(due_s=10.0))
    journal = SimpleNamespace(
        trial={2: SimpleNamespace(awaited=SimpleNamespace(due_s=later_due_s))}.get,
        events=lambda trial: [SimpleNamespace(event=Event.FAIL, at_s=ended_s)],
    )
    assert overtaken(journal, row) is rightly
    assert not overtaken(journal, SimpleNamespace(**{**vars(row), "because": "pump stuck"}))
