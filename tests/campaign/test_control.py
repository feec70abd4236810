from __future__ import annotations

from rigctl.campaign.control import serving


async def test_a_socket_that_cannot_be_removed_is_left_behind(tmp_path):
    """As on a disk that has become read-only: the campaign's own end is what its caller hears of."""
    async with serving(tmp_path, {}):
        (tmp_path / "control.sock").unlink()
        (tmp_path / "control.sock").mkdir()
    assert (tmp_path / "control.sock").is_dir()
