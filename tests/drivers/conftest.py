"""Peers and lines that are cleaned up after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rigctl.campaign.clock import RealClock
from rigctl.rig.registry import Registry
from tests.drivers.peers import peers


@pytest.fixture
def clock() -> RealClock:
    """Rig time that runs as fast as beside a simulated rig."""
    return RealClock(2400.0)


@pytest.fixture
def peer() -> Iterator:
    """Makes peers: `peer(PtyPeer, cut, answer)`; they are stopped after the test."""
    with peers() as make:
        yield make


@pytest.fixture
def line(clock) -> Iterator:
    """Opens lines by URL; they are closed after the test."""
    made = []

    def make(url):
        made.append(Registry.installed().open_line(url, clock))
        return made[-1]

    yield make
    for one in made:
        one.close()
