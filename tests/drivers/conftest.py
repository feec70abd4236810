"""Peers and lines that are cleaned up after each test."""

from collections.abc import Iterator

import pytest

from rigctl.rig.clocks import RealClock
from rigctl.rig.registry import Registry
from tests.drivers.peers import ModbusUnit, PtyPeer, cut_rtu, peers


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


@pytest.fixture
def unit() -> ModbusUnit:
    """A Modbus unit with a few words and coils."""
    return ModbusUnit(words={(3, 7): 700, (4, 2): 42, (4, 3): 43}, coils={1: False, 2: True, 5: True})


@pytest.fixture
def slow_rtu(peer, line, unit):
    """An RTU line to `unit` whose late answers are waited for."""
    return line(f"modbus_rtu://{peer(PtyPeer, cut_rtu, unit.rtu).path}?baud=115200&quiet=0.4&echo=no")


@pytest.fixture
def broker(tmp_path):
    """A broker that anybody may use; the test is skipped where there is no mosquitto."""
    from tests.drivers.brokers import Broker

    made = Broker(tmp_path)
    yield made
    made.close()
