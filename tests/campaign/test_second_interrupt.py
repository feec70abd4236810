import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.fakes import World

INTERRUPTED = """
import asyncio, os, signal, sys
from pathlib import Path
from rigctl.campaign import daemon
from tests.campaign.fakes import Stage, make_spec
from tests.campaign.test_daemon import signalling

daemon.SAFE_WITHIN_S = float(sys.argv[2])

async def interrupts():
    if stage.rig.calls.count("safe") == 2:
        for _ in range(2):  # the second and the third
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if sys.argv[3] == "hangs":
            await asyncio.Event().wait()

stage = Stage(Path(sys.argv[1]))
asyncio.run(stage.run(make_spec(), fail={"measure": signalling(signal.SIGINT), "safe": interrupts}))
"""


def interrupted(directory, within_s, safe):
    """Interrupted in mid-trial, then twice more on the way to the safe state: what was written, and how often safe."""
    root, command = Path(__file__).parents[2], [sys.executable, "-c", INTERRUPTED, directory, str(within_s), safe]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert (done.stdout + done.stderr).count("going safe") == 1
    with World(directory / "world.jsonl") as world:
        return world.count("safe")


@pytest.mark.slow
def test_a_second_interrupt_ends_the_process_once_the_safe_commands_are_out(tmp_path):
    """Somebody who presses Ctrl-C twice does not wait for the trial to be closed, but for the safe commands."""
    assert interrupted(tmp_path, 60.0, "returns") == 2


@pytest.mark.slow
def test_a_second_interrupt_does_not_wait_for_a_rig_that_never_answers(tmp_path):
    """The way to the safe state has a bound, whatever a driver does."""
    assert interrupted(tmp_path, 0.05, "hangs") == 1
