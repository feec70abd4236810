"""What a campaign says is wrong is over when it says so: both ends of each pair find each other in the journal."""

import math

import pytest

from rigctl.campaign.journal.alarms import Alarms
from rigctl.campaign.status import StatusFold
from rigctl.campaign.watch import Snapshot, Standing, judge, rules_of
from rigctl.errors import DeviceTimeout
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import WatchSpec
from tests.campaign.test_acts import watched

AWAY = {"power": lambda r: Reading(math.nan, r.unit, r.time_s, Severity.INVALID, "no answer")}


def shown(stage):
    with stage.journal() as journal:
        return Alarms().taken(journal.alarms.events()).shown(0.0, "2026-03-01T00:00:00+00:00")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "source", "kind"),
    [
        ({"counters": AWAY, "missing": [{"mains": "no answer"}] * 2}, "mains", "missing"),
        ({"unsafe": [{}, {"valve": "no answer"}, {"valve": "no answer"}]}, "safe state", "unconfirmed"),
    ],
)
async def test_what_is_mended_stands_no_more(stage, faults, source, kind):
    """While it holds it stands, whoever has seen it; then it is over, and nobody has to say so."""
    once = [DeviceTimeout("scale: no answer")]

    def fail():
        stage.rig.counters.clear()
        if once:
            raise once.pop()

    await stage.run(watched(max_trials=2), fail={"measure": fail}, **faults)
    (found,) = [a for a in shown(stage) if (a.source, a.kind) == (source, kind)]
    assert (found.condition, bool(found.until)) == ("over", True)


def test_people_who_cannot_be_told_are_an_alarm_that_ends():
    """A warning, which holds nothing."""
    rules = rules_of(WatchSpec())
    found = judge(rules, Standing(), Snapshot(0.0, untold="mail: was not taken"))
    assert [(f.rule, f.then) for f in found.new] == [("telling", "warn")]
    assert [f.rule for f in judge(rules, found.standing, Snapshot(1.0)).over] == ["telling"]


@pytest.mark.slow
async def test_a_running_campaign_says_how_its_watch_and_its_buses_do(stage):
    """How late the watch looked, how long ago; what went wrong on each bus; how long the last decision took."""
    await stage.run(watched(max_trials=1))
    status = StatusFold.of("tank", "EUR", 1.0)
    for event in (*stage.told, *stage.seen):
        status.follow(event)
    told = status.told(1000.0)
    assert set(told.watch) == {"late_s", "worst_late_s", "age_s"}
    assert 0.0 <= told.watch["late_s"] <= told.watch["worst_late_s"]
    assert told.decision_s >= 0.0
    assert told.buses == {}
