"""What `alarms`, `ack`, `shelve` and `unshelve` answer where no campaign runs, and what `status` says of them."""

import io
import json
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from rigctl.campaign.journal import Journal
from rigctl.console import alarms as listing
from rigctl.rig.clocks import RealClock, boot_id
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from tests.profiles import slow_beyond

STATE = Path("state/bench")


@pytest.fixture
def alarmed(ingested):
    """Three alarms, one of them twice, and one of them no more than a note; and a trip."""
    with closing(Journal(STATE, RealClock(), boot_id())) as journal:
        for severity, source, kind, message, state in (
            (Severity.MINOR, "pump", "restarted", "it restarted", "once"),
            (Severity.MAJOR, "ph_probe", "acid", "acid: ph < 4.5 pH: ph reads 4.2 pH", "stands"),
            (Severity.MINOR, "disk", "disk", "150 MiB left", "stands"),
            (Severity.MAJOR, "ph_probe", "acid", "acid: ph < 4.5 pH: ph reads 4.1 pH", "stands"),
        ):
            journal.alarms.add(Alarm(severity, source, message, kind=kind, state=state))
        journal.trips.latch("ca_doser runs on")
    return ingested


@pytest.mark.parametrize("width", slow_beyond(1, [60, 200]))
def test_the_list_is_whole_at_any_width(alarmed, width):
    """What an alarm says is never cut short."""
    out = io.StringIO()
    listing.show(listing.alarms(STATE), Console(file=out, width=width), every=True)
    text = " ".join(out.getvalue().split())
    assert "acid: ph < 4.5 pH: ph reads 4.1 pH" in text
    assert max(map(len, out.getvalue().splitlines())) <= width


@pytest.mark.slow
def test_following_shows_every_change_once(alarmed, monkeypatch):
    """A line of JSON when it begins and one when something has changed, until Ctrl-C."""
    looks = []

    def sleep(_):
        looks.append(1)
        if len(looks) == 2:
            with closing(Journal(STATE, RealClock(), boot_id())) as journal:
                journal.alarms.add(Alarm(Severity.MAJOR, "ec_probe", "no answer", kind="missing", state="stands"))
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("rigctl.console.alarms.time.sleep", sleep)
    answer = alarmed.rigctl("alarms", "--follow", "--json", code=130)
    first, second = map(json.loads, answer.out.splitlines())
    assert [a["alarm"] for a in first["alarms"]] == [2, 3]
    assert [a["alarm"] for a in second["alarms"]] == [5, 2, 3]
