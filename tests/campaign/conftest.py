"""A stage for every test that runs a campaign."""

from __future__ import annotations

import pytest

from tests.campaign.fakes import Stage


@pytest.fixture
def stage(tmp_path):
    """A campaign on the fake rig."""
    made = Stage(tmp_path)
    with made.world:
        yield made
