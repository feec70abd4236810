"""A small rig in memory, opened and closed around a test."""

import pytest

from rigctl.rig.bus import BusTiming
from rigctl.rig.rig import Rig
from tests.rig.fakes import Bench, Heard

QUICK = BusTiming(grace_s=0.05, busy_pauses_s=(0.0, 0.0), reopen_first_s=0.0)


@pytest.fixture
async def bench():
    bench = Bench()
    yield bench
    for rig in bench.rigs:
        await rig.close()


@pytest.fixture
def make_rig(bench):
    """Makes rigs over the bench, from its own spec or a changed one."""

    def make(spec=None):
        rig = Rig(
            spec or bench.spec(),
            bench.registry,
            bench.clock,
            bench.doses,
            Heard(bench.alarms),
            bus_timing=QUICK,
        )
        bench.rigs.append(rig)
        return rig

    return make


@pytest.fixture
def rig(make_rig):
    return make_rig()
