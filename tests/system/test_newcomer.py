"""A newcomer gets from the demo to a report by what the program itself says."""

import sys

import pytest

from tests.forked import Forked
from tests.system.newcomer import Newcomer, path, readme_demo

pytestmark = pytest.mark.system


def test_each_step_names_the_next(tmp_path):
    """Demo, init, check, two trials by hand, 24 of the past, recommend, report; all but the first were printed."""
    newcomer = Newcomer(tmp_path, (sys.executable, "-m", "rigctl"), Forked)
    demo = readme_demo()[-1].replace(".venv/bin/", "")
    path(newcomer, demo=f"{demo} --max-trials 2", by_hand=2, before=24)
    commands = [said.splitlines()[0] for said in newcomer.said]
    assert sum(" ingest " in command for command in commands) == 2
    assert (tmp_path / "rig.yaml").exists()
