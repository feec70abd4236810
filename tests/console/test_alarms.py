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
from rigctl.text import told_utc
from tests.profiles import slow_beyond

STATE = Path("state/bench")


@pytest.fixture
def alarmed(ingested):
    """Three alarms, one of them twice, and one of them no more than a note."""
    with closing(Journal(STATE, RealClock(), boot_id())) as journal:
        for severity, source, kind, message, state in (
            (Severity.MINOR, "pump", "restarted", "it restarted", "once"),
            (Severity.MAJOR, "ph_probe", "acid", "acid: ph < 4.5 pH: ph reads 4.2 pH", "stands"),
            (Severity.MINOR, "disk", "disk", "150 MiB left", "stands"),
            (Severity.MAJOR, "ph_probe", "acid", "acid: ph < 4.5 pH: ph reads 4.1 pH", "stands"),
        ):
            journal.alarms.add(Alarm(severity, source, message, kind=kind, state=state))
    return ingested


def listed(bench, *options, code):
    answer = bench.rigctl("alarms", "bench.yaml", "--json", *options, code=code).json
    return answer["unheeded"], [(a["alarm"], a["condition"], a["count"]) for a in answer["alarms"]]


@pytest.mark.slow
def test_alarms_are_listed_the_worst_first(alarmed):
    """One row for what says the same, with a count; exit 1 as long as nobody has seen a warning that stands."""
    assert listed(alarmed, code=1) == (True, [(2, "active", 2), (3, "active", 1)])
    assert listed(alarmed, "--all", code=1)[1][-1] == (1, "settled", 1)
    text = alarmed.rigctl("alarms", code=1).out
    assert text.index("ph reads 4.1 pH") < text.index("150 MiB left")
    assert "restarted" not in text


@pytest.mark.slow
def test_an_acknowledged_alarm_stands_but_is_heeded(alarmed, golden):
    """Who has seen it, and why, is kept; nobody need have started a process for that. Twice is refused."""
    assert alarmed.rigctl("ack", "2", "--why", "on my way", "--json").json["alarm"] == 2
    assert listed(alarmed, code=0) == (False, [(3, "active", 1), (2, "acknowledged", 2)])
    found = alarmed.rigctl("alarms", "--json").json["alarms"][1]["acknowledged"]
    golden(found["why"])
    assert "(uid " in found["who"]
    golden(alarmed.rigctl("ack", "2", code=2).err)
    assert found["who"] in alarmed.rigctl("alarms").out


@pytest.mark.slow
def test_a_shelved_alarm_is_shown_as_such(alarmed, golden):
    """With its end, after those that are not; `unshelve` ends that at once, and all of it is in the audit."""
    alarmed.rigctl("shelve", "2", "--for", "2", "h", "--why", "new probe is on order")
    assert listed(alarmed, code=0) == (False, [(3, "active", 1), (2, "active", 2)])
    shelved = alarmed.rigctl("alarms", "--json").json["alarms"][1]["shelved"]
    golden(shelved["why"])
    assert "shelved" in alarmed.rigctl("alarms").out
    alarmed.rigctl("unshelve", "bench.yaml", "2")
    assert listed(alarmed, code=1)[0]
    acts = alarmed.rigctl("status", "--json").json["acts"]
    golden([(a["verb"], a["argument"]) for a in acts])
    (line,) = (line for line in alarmed.rigctl("status").out.splitlines() if line.startswith("acts: "))
    for act in acts:
        assert f"{told_utc(act['utc'])} {act['who']}: {act['verb']} {act['argument']}" in line


@pytest.mark.slow
def test_status_names_the_worst_that_stands(alarmed, golden):
    """In one line, with the number by which it is acknowledged."""
    answer = alarmed.rigctl("status", "--json").json
    assert answer["active_alarms"] == 2
    golden(answer["worst_alarm"])


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
