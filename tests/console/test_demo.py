"""`rigctl demo` refuses what it cannot do before it starts anything."""

import io
import os
from dataclasses import replace

import pytest
from rich.console import Console

from rigctl.campaign.events import CampaignResult
from rigctl.config.load import Overrides
from rigctl.console import demo as demonstration
from rigctl.console.demo import ARRAYS, NAMES, NEED_ARRAYS, Demo, check_scenario, compared
from rigctl.console.run import Ended
from rigctl.console.serving import linger
from rigctl.errors import UsageError
from rigctl.rig.values import SafeReport
from rigctl.signals import Signals
from sim_rig import scenarios
from tests.console.test_golden import loaded


def test_what_the_simulator_reads_is_what_is_checked_for(tmp_path):
    """Names and files are written down twice, as the programs share no code: they agree."""
    assert NAMES == scenarios.NAMES
    assert ARRAYS == {"greenhouse": scenarios.GROWTH_ARRAYS, "wind-tunnel": scenarios.AIRFOIL_ARRAYS}
    for name in set(NAMES) - set(NEED_ARRAYS):
        scenarios.scenario(name, None)


def test_data_that_is_there_is_taken(tmp_path):
    """Each scenario is content with its file, those with a response of their own also without."""
    for name, file in ARRAYS.items():
        (tmp_path / file).touch()
        check_scenario(name, tmp_path)
    check_scenario("greenhouse", None)
    check_scenario("lathe", None)
    with pytest.raises(UsageError):
        check_scenario("wind-tunnel", None)


def set_truth(outcome, cost, *names):
    return {"outcome": outcome, "cost": cost, "control_set": list(names)}


def test_the_last_lines_say_what_looking_was_worth_by_the_simulators_truth(golden):
    """What both measured and paid; what is true of what they recommend; and the cheapest fixed setting as good."""
    result = CampaignResult("budget", "", 10, 8_000_000, 9_000_000, SafeReport(("x",)), 0.01, 9, None)
    ended, best = Ended(result, None, 8_000_000), {"best": set_truth(14.0, 1.3, "k", "ph"), "share_of_best": 0.9}
    sets = [set_truth(12.0, 0.5, "k"), set_truth(13.5, 0.9, "ph"), set_truth(14.0, 1.3, "k", "ph")]
    fixed = {**set_truth(12.5, 0.75, "ph"), **best, "sets": sets}
    blind = Demo("greenhouse", None, loaded(), ended, fixed, "", 1.0, 9.5)
    seeing = replace(blind, average=10.0, rule_truth={"outcome": 13.0, "cost": 0.7}, blind=blind)
    golden([line.replace("cm2/day ", "") for line in compared(seeing)])
    better = list(compared(replace(seeing, rule_truth={"outcome": 14.5, "cost": 0.8})))
    dear = list(compared(replace(seeing, rule_truth={"outcome": 11.0, "cost": 0.8})))
    golden(dear[-2:])
    golden(better[-1])
    assert list(compared(blind)) == []
    stopped = replace(blind, outcome=replace(ended, result=replace(result, ending="abandoned", reason="SIGINT")))
    assert (seeing.exit_code, replace(seeing, blind=stopped).exit_code) == (0, 130)


@pytest.mark.parametrize(("pressed", "heard"), [(b"\n", []), (b"", ["SIGINT"])])
def test_the_page_stays_until_a_person_closes_it(monkeypatch, pressed, heard):
    """At a terminal: it says where the page is, and asks; a signal that came before ends it unasked."""
    terminal, shell = os.openpty()
    said, signals = io.StringIO(), Signals()
    signals.heard[:] = heard
    with os.fdopen(shell, "r") as keys:
        monkeypatch.setattr("sys.stdin", keys)
        os.write(terminal, pressed)
        linger(lambda: "http://127.0.0.1:8765/", signals, Console(file=said))
    os.close(terminal)
    assert ("http://127.0.0.1:8765/" in said.getvalue()) is not bool(heard)


def test_a_demo_tells_what_came_of_it_before_the_page_is_closed(monkeypatch, tmp_path):
    """Whoever looks at the page has the verdict beside it."""
    order = []
    played = Demo("greenhouse", None, None, None, None, "", 0.0)
    monkeypatch.setattr(demonstration, "_played", lambda *a, **k: played)
    monkeypatch.setattr(demonstration, "linger", lambda *_: order.append("asks"))
    changes, out = Overrides(max_trials=1), Console(file=io.StringIO())
    demonstration.demo("greenhouse", changes, out, None, data=None, keep=tmp_path, tell=lambda _: order.append("tells"))
    assert order == ["tells", "asks"]
