"""What a campaign writes is its owner's alone."""

import os
import stat

import pytest

from rigctl.campaign.lock import open_to_others, state_lock, unseen_by_others
from tests.campaign.fakes import make_spec


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def generous():
    """A process that lets everybody read and write what it makes."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.slow
async def test_a_state_directory_and_all_in_it_are_the_owners_alone(stage, generous):
    """Directory 0700, every file 0600, while it runs and afterwards; the process is as generous as before."""
    seen = {}

    def look():
        seen.update({path.name: mode(path) for path in stage.state.iterdir()})

    with unseen_by_others():
        await stage.run(make_spec(max_trials=1), fail={"measure": look})
    assert seen.keys() >= {"journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "safe.json", "lock"}
    assert set(seen.values()) == {0o600}
    assert (mode(stage.state), open_to_others(stage.state)) == (0o700, ("", ""))
    (stage.directory / "another").touch()
    assert mode(stage.directory / "another") == 0o666


def test_a_directory_is_made_private_whatever_the_process_usually_does(tmp_path, generous):
    """Also by verbs that write without being a campaign."""
    with state_lock(tmp_path / "state"):
        assert mode(tmp_path / "state") == 0o700
        assert mode(tmp_path / "state" / "lock") == 0o600


@pytest.mark.parametrize(("mode", "may"), [(0o755, "read what is in it"), (0o770, "replace or delete its files")])
def test_a_wider_directory_is_told_and_left_as_it_is(tmp_path, mode, may):
    """It may be another's, or somebody's intention: what others may do, and the remedy."""
    tmp_path.chmod(mode)
    what, remedy = open_to_others(tmp_path)
    assert (may in what, f"{mode:o}" in what, remedy) == (True, True, f"`chmod 700 {tmp_path}`")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode
    assert open_to_others(tmp_path / "nowhere") == ("", "")
