from contextlib import closing
from pathlib import Path

import pytest

from rigctl.campaign.journal import Journal
from rigctl.campaign.lock import state_lock
from rigctl.rig.clocks import RealClock, boot_id

STATE = Path("state/bench")


def trips():
    with closing(Journal(STATE, RealClock(), boot_id())) as journal:
        return journal._connection.execute("SELECT reason, reset_utc FROM trips").fetchall()


def latch(reason):
    with closing(Journal(STATE, RealClock(), boot_id())) as journal:
        journal.trips.latch(reason)


@pytest.mark.slow
def test_a_trip_is_reset_once_and_kept_with_the_time(ingested, golden):
    """The reason is told and stays in the journal; a second reset finds nothing."""
    latch("ca_doser runs on")
    answer = ingested.rigctl("reset-trip", "bench.yaml", "--json").json
    golden(answer["reset"]["reason"])
    ((reason, reset_utc),) = trips()
    golden(reason)
    assert reset_utc >= answer["reset"]["tripped"]
    assert ingested.rigctl("reset-trip", "--state", str(STATE), "--json").json == {"reset": None}
    golden(ingested.rigctl("reset-trip").out)


def test_a_trip_is_not_reset_behind_a_running_campaign_s_back(ingested, golden):
    """Exit 4, and the latch stays."""
    latch("ca_doser runs on")
    with state_lock(STATE):
        golden(ingested.rigctl("reset-trip", code=4).err)
    golden(trips())
