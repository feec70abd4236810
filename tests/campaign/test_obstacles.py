"""What is in the way of the next trial: each row of the table alone, and its rank against all others."""

from itertools import combinations
from math import inf

import pytest

from rigctl.campaign.obstacles import ROWS, Scene, Wait, obstacles
from rigctl.campaign.watch import Finding
from rigctl.rig.clocks import ROUNDING_S


def found(then):
    return (Finding("acid", "tank", then, "too acid"),)


ALONE = {
    "trip": ({"findings": found("trip")}, ("acid", "tank"), "trip"),
    "asked to end": ({"finish": "asked to stop"}, ("asked to end", ""), "end"),
    "unwritable": ({"unwritable": "disk full"}, ("unwritable", "journal"), "hold"),
    "missing": ({"missing": {"pump": "no answer"}}, ("missing", "pump"), "hold"),
    "unsteady": ({"unsteady": "pump"}, ("unreliable", "pump"), "hold"),
    "paused": ({"paused": "paused by anna"}, ("paused", ""), "pause"),
    "watched": ({"findings": found("hold")}, ("watch", ""), "hold"),
    "over": ({"over": ("budget", "all of it is spent")}, ("budget", ""), "end"),
    "unplayable": ({"unplayable": "pump is empty"}, ("nothing playable", "campaign"), "hold"),
    "awaited": ({"awaited": "trial 1", "due_s": 50.0}, ("outcomes", ""), "wait"),
    "waits": ({"waits": (Wait("hours", 50.0, "from 8:00"),)}, ("hours", ""), "wait"),
}
"""Each row of the table, in its order: what makes it, its key, and its kind."""
TOGETHER = [pair for pair in combinations(ALONE, 2) if pair not in (("trip", "unwritable"), ("over", "awaited"))]


def seen(*names):
    """What is in the way where all of these are."""
    what = [ALONE[name][0] for name in names]
    findings = tuple(finding for part in what for finding in part.get("findings", ()))
    together = {name: value for part in what for name, value in part.items()}
    return seen_with(**together | {"findings": findings})


def seen_with(**what):
    return obstacles(Scene(**what))


def test_nothing_is_in_the_way_of_a_trial_that_nothing_is_seen_against():
    """And the table has no row that is not tested here."""
    assert obstacles(Scene()) == []
    assert len(ALONE) == len(ROWS)


@pytest.mark.parametrize("name", ALONE)
def test_each_row_stands_alone(name):
    """What makes it makes no other."""
    _, key, kind = ALONE[name]
    (only,) = seen(name)
    assert (only.key, only.kind) == (key, kind)
    assert (only.ending is None) is (kind != "end")


def test_of_two_the_one_that_stands_higher_in_the_table_comes_first():
    """Whatever order they were seen in."""
    for pair in TOGETHER:
        assert [o.key for o in seen(*reversed(pair))] == [ALONE[name][1] for name in pair], pair


def test_a_trip_waits_for_a_journal_that_can_keep_it_and_an_end_for_awaited_outcomes():
    """The rig has tripped by then; and a campaign that is over still waits for what comes."""
    assert [o.kind for o in seen("trip", "unwritable")] == ["hold"]
    assert [o.kind for o in seen("over", "awaited")] == ["wait"]


def test_what_the_watch_ends_is_no_stop():
    """What a person asked for ends otherwise than what an interlock demands."""
    assert seen_with(findings=found("safe"))[0].ending == "interlock"
    assert seen("asked to end")[0].ending == "stopped"


def test_an_interlock_without_a_first_reading_is_waited_for_without_a_word():
    """And one that was over is held for a while longer, aloud."""
    (unjudged,), (lingers,) = seen_with(unjudged=True), seen_with(unjudged=True, lingers=True)
    assert (unjudged.key, unjudged.silent) == (("unjudged", ""), True)
    assert (lingers.key, lingers.silent) == (("watch", ""), False)


def test_what_hours_keep_is_waited_for_and_the_rest_held_for():
    """Hours end by themselves; nobody need mend anything."""
    (waits,) = seen_with(unplayable="pump may be driven at night only", reopens_s=50.0)
    assert (waits.key, waits.kind, waits.until_s) == (("hours", ""), "wait", 50.0)


@pytest.mark.parametrize("late_s", [0.0, ROUNDING_S])
def test_a_time_that_has_come_but_for_rounding_is_no_obstacle(late_s):
    """Rig time, civil time and campaign time differ by so little."""
    now_s = 100.0
    waits = (Wait("rest", now_s + late_s, "2 failed in a row"), Wait("hours", now_s - 1.0, "from 8:00"))
    assert obstacles(Scene(now_s=now_s, waits=waits)) == []


def test_alarms_stand_for_what_a_person_must_mend():
    """Not for waits, pauses, or what the watch has told of by itself; each missing instrument has its own."""
    alarmed = {name for name in ALONE if any(o.told for o in seen(name))}
    assert alarmed == {"unwritable", "missing", "unsteady", "unplayable"}
    assert [o.key[1] for o in seen_with(missing={"a": "", "b": ""})] == ["a", "b"]
    assert [o.kept for name in ALONE for o in seen(name) if not o.kept] == [False]
    assert seen_with(awaited="trial 1")[0].due_s == inf
