"""`rigctl status --watch` beside a campaign that answers a few times and then ends."""

import io
import json
import re

import pytest
from rich.console import Console

from rigctl.campaign import control
from rigctl.campaign.events import RigSeen
from rigctl.console import watch
from rigctl.errors import UsageError
from rigctl.printable import printable
from tests.console.conftest import assert_golden
from tests.console.test_golden import PLAIN, board


def answer(now_s: float, **changes: object) -> dict[str, object]:
    """What a campaign on the bench answers at this rig time, in mid-trial."""
    following = board(6)
    following.follow(RigSeen(now_s, {}))
    facts = {"pid": 1, "rig": "bench", "currency": "EUR", "alarms": 0, "phase": "running", "trials": 5, "ok": True}
    readings = {"ca": {"value": 3.01, "unit": "mM", "age_s": 2.0, "detail": ""}}
    told = {**facts, "speedup": 10.0, "spent": 2.1, "budget": 20.0, "readings": readings}
    return {**told, "trial": following.now.to_json()["trial"], **changes}


@pytest.fixture
def answers(monkeypatch):
    """Answers in order; then nobody runs the campaign any more."""
    given: list[dict[str, object]] = []

    def ask(directory, verb, within_s=0.0):
        if not given:
            raise UsageError(f"{directory}: no campaign is running here")
        return given.pop(0)

    monkeypatch.setattr(control, "ask", ask)
    monkeypatch.setattr(watch, "EVERY_S", 0.0)
    return given


@pytest.mark.slow
def test_a_pipe_gets_a_line_for_every_step_and_the_end(ingested, answers):
    """Nothing while nothing changes; what is done, for how long yet, doses and readings when it does."""
    answers += [answer(400.0), answer(401.0), answer(7600.0), answer(7600.0, phase="holding", why="probe is silent")]
    assert_golden("watch-pipe", ingested.rigctl("status", "--watch").out)


@pytest.mark.slow
def test_a_look_has_units_and_leaves_out_what_there_is_none_of(ingested, answers, golden):
    """A setpoint has its variable's unit; nobody has paused it, and nothing stands."""
    answers += [answer(400.0, paused="", standing=[])]
    said = ingested.rigctl("status").out
    assert re.search(r"ca\+ph .*\d mM, ", said)
    assert ("paused" in said, "standing" in said) == (False, False)
    answers += [answer(400.0, paused="by Anna")]
    golden(ingested.rigctl("status").out)


@pytest.mark.slow
def test_programs_get_a_document_per_look(ingested, answers):
    """One per line, as they come."""
    answers += [answer(400.0), answer(7600.0)]
    found = [json.loads(line) for line in ingested.rigctl("status", "--watch", "--json").out.splitlines()]
    assert [told["trial"]["step"] for told in found] == ["settle", "measure"]


@pytest.mark.slow
def test_a_terminal_gets_the_display_of_the_run(ingested, answers):
    """Drawn again in its place, with the trials that the journal knows."""
    answers += [answer(400.0)]
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=True, width=80, color_system=None, _environ={"TERM": "xterm"}, **PLAIN
    )
    watch.watch(ingested.folder / "state/bench", console)
    assert_golden("watch-terminal", printable(stream.getvalue().rpartition("rigctl: bench")[2]))


def test_nothing_to_watch_is_refused(ingested, answers, golden):
    """It says what to do instead."""
    golden(ingested.rigctl("status", "--watch", code=2).err)
