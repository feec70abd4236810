from __future__ import annotations

from contextlib import closing
from pathlib import Path

from rigctl.campaign.clock import RealClock, boot_id
from rigctl.campaign.journal import Journal
from rigctl.campaign.lock import state_lock

STATE = Path("state/bench")


def trips():
    with closing(Journal(STATE, RealClock(), boot_id())) as journal:
        return journal._connection.execute("SELECT reason, reset_utc FROM trips").fetchall()


def latch(reason):
    with closing(Journal(STATE, RealClock(), boot_id())) as journal:
        journal.trips.latch(reason)


def test_a_trip_is_reset_once_and_kept_with_the_time(ingested):
    """The reason is told and stays in the journal; a second reset finds nothing."""
    latch("ca_doser runs on")
    answer = ingested.rigctl("reset-trip", "bench.yaml", "--json").json
    assert answer["reset"]["reason"] == "ca_doser runs on"
    ((reason, reset_utc),) = trips()
    assert reason == "ca_doser runs on"
    assert reset_utc >= answer["reset"]["tripped"]
    assert ingested.rigctl("reset-trip", "--state", str(STATE), "--json").json == {"reset": None}
    assert "nothing had tripped" in ingested.rigctl("reset-trip").out


def test_a_trip_is_not_reset_behind_a_running_campaign_s_back(ingested):
    """Exit 4, and the latch stays."""
    latch("ca_doser runs on")
    with state_lock(STATE):
        assert "runs this campaign" in ingested.rigctl("reset-trip", code=4).err
    assert trips() == [("ca_doser runs on", None)]
