"""One bit flipped anywhere in what a real campaign has left: told with the advice of a corrupt journal, or harmless."""

from __future__ import annotations

import pytest

from rigctl.campaign.journal import Journal
from tests.campaign.flips import held
from tests.campaign.records import SetClock
from tests.fixtures import LEFT, unpacked

FLIPS = 160


@pytest.mark.timeout(240)
@pytest.mark.parametrize("campaign", [pytest.param("finished", marks=pytest.mark.slow), "unfinished"])
def test_fault_33_a_flipped_bit_of_todays_journal_is_told_or_harmless(tmp_path, campaign):
    """Never a traceback, never another value; the file is kept as it was found. Most of a file is read by nobody."""
    state = unpacked(LEFT / campaign, tmp_path / "state")
    Journal(state, SetClock(), "boot-1").close()
    assert held(state, FLIPS, seed=34) > 20
