"""Every command of the tutorial works, in order, on the simulated tank."""

import json
import re
from pathlib import Path

import pytest

from tests import forked
from tests.simulated import start_sim

pytestmark = pytest.mark.system

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")


def blocks(label: str) -> list[str]:
    """The code blocks of the page that stand below `<!-- label -->`."""
    return re.findall(rf"<!-- {re.escape(label)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)


def test_the_tutorial_ends_in_a_find_worth_money(tmp_path):
    """In a directory that holds nothing but the page's own file."""
    (config,) = blocks("tank.yaml")
    started, *commands = [line for block in blocks("tutorial") for line in block.splitlines()]
    assert started.split()[:4] == ["python", "-m", "sim_rig", "greenhouse"]
    sim = start_sim("greenhouse", tmp_path, speed=1200.0, port=0)
    try:
        (tmp_path / "tank.yaml").write_text(
            config.replace("127.0.0.1:5020", "{}:{}".format(*sim.plc)), encoding="utf-8"
        )
        said = {}
        for command in [*commands, "rigctl recommend --json"]:
            ran = forked.run(command.split(), cwd=tmp_path)
            assert ran.returncode == 0, f"{command}: {ran.stderr}"
            said[command.split(" tank.yaml")[0]] = ran.stdout + ran.stderr
    finally:
        sim.stop()
    assert "ph_probe" in said["rigctl check"]
    assert said["rigctl run"].count("recorded: growth") >= 5
    assert "ph" in said["rigctl trial explain"]
    ways = {(w["kind"], *w["control_set"]): w for w in json.loads(said["rigctl recommend --json"])["answer"]["ways"]}
    best = next(iter(ways.values()))
    assert best["control_set"] == ["k", "ph"]
    assert best["net"] - ways["today", "ph"]["net"] > 0.5
    assert best["low"] > ways["nothing",]["expected"]
    assert "acid" in said["rigctl journal export"]
