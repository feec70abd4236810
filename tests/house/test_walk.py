"""What the house says of the way of one thing is taken from a trial that runs."""

import pytest

from tests.house.walk import THINGS, walked

ENDS = {
    "setpoint": ("rigctl/core/experiment/space.py", "rigctl/rig/guard.py", "drivers/rigctl_drivers/wire.py"),
    "meter reading": ("drivers/rigctl_drivers/wire.py", "rigctl/rig/metering.py", "rigctl/campaign/ledger/charging.py"),
    "alarm": ("rigctl/campaign/watchman.py", "rigctl/campaign/desk.py", "rigctl/campaign/status.py"),
    "act": ("rigctl/campaign/control.py", "rigctl/campaign/requests.py", "rigctl/campaign/journal/people.py"),
    "key": ("rigctl/config/document.py", "rigctl/config/reading.py", "rigctl/rig/spec.py"),
}


@pytest.mark.slow
def test_each_thing_is_followed_from_where_it_comes_to_where_it_goes():
    """In this order, and through no more than two dozen files."""
    walks = walked()
    for thing, ends in ENDS.items():
        files = list(walks[thing].files)
        assert [file for file in files if file in ends] == list(ends)
        assert len(files) <= 24
    assert set(walks) == set(THINGS)
