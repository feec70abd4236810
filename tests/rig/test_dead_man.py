"""Watchdogs in devices: fed only while the watch looks, checked before anything is driven."""

import asyncio
import time
from dataclasses import replace

import pytest

from rigctl.errors import DeviceFault
from rigctl.rig.dead_man import unguarded
from rigctl.rig.protocols import ActuatorState
from rigctl.rig.spec import WatchSpec
from tests.config.conftest import loaded
from tests.config.texts import SMALL


class FakeHeart:
    """What feeds a watchdog, and how often it was asked to."""

    def __init__(self, every_s):
        self.every_s, self.beats, self.fault, self.refuses = every_s, 0, "", ""

    def beat(self, deadline):
        self.beats += 1
        if self.refuses:
            raise DeviceFault(self.refuses)

    def check(self, deadline):
        if self.fault:
            raise DeviceFault(self.fault)


@pytest.fixture
def heart(bench):
    """A watchdog that the valve's unit has."""
    bench.valve.heart = FakeHeart(0.02)
    return bench.valve.heart


@pytest.fixture
def fed(bench, heart, make_rig):
    """A rig that is looked at every hundredth of a second."""
    return make_rig(replace(bench.spec(), watch=WatchSpec(every_s=0.01)))


async def glanced(rig, until):
    """Look until it is so."""
    for _ in range(2000):
        rig.glance()
        if until():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


async def test_a_watchdog_is_fed_by_looks_alone(fed, heart):
    """As long as somebody looks it is fed, no more often than it wants to be; nobody looks, nothing feeds it."""
    await fed.open()
    began_s = time.monotonic()
    while heart.beats < 3:
        fed.glance()
        await asyncio.sleep(0.005)
    assert time.monotonic() - began_s >= 2 * 0.015  # a beat is early by half a round of the watch at most
    await asyncio.sleep(0.02)
    fed_so_far = heart.beats
    await asyncio.sleep(0.1)
    assert heart.beats == fed_so_far


async def test_nothing_is_driven_while_a_watchdog_is_off(bench, fed, heart, golden):
    """The setpoint is not sent; once it is on again, it is."""
    await fed.open()
    heart.fault = "its watchdog is off"
    with golden.raises(DeviceFault):
        await fed.control({"b": 30.0})
    assert bench.valve.applied == []
    heart.fault = ""
    await fed.control({"b": 30.0})
    assert bench.valve.applied == [30.0]


async def test_nothing_is_prepared_while_a_watchdog_is_off(bench, fed, heart):
    """Before a look, too: what prepares a rig drives it. Once it is on again, everything is let go first."""
    await fed.open()
    heart.fault = "its watchdog is off"
    said = len(bench.valve.line.log)
    with pytest.raises(DeviceFault, match="watchdog is off"):
        await fed.prepare()
    assert bench.valve.line.log[said:] == []
    heart.fault = ""
    await fed.prepare()
    assert bench.valve.line.log[said:]


async def test_fault_97_a_watchdog_that_stops_working_is_an_objection_to_what_is_driven(fed, heart):
    """It says so when it is fed: as long as something is driven, that is not where it should be."""
    await fed.open()
    await fed.control({"b": 30.0})
    heart.fault = heart.refuses = "its watchdog is off"
    await glanced(fed, lambda: fed.glance().astray)
    assert set(fed.glance().astray) == {"b_valve"}
    heart.refuses = ""
    await glanced(fed, lambda: not fed.glance().astray)
    heart.refuses = "its watchdog is off"
    await fed.safe()
    beats = heart.beats
    await glanced(fed, lambda: heart.beats >= beats + 2)
    assert fed.glance().astray == {}


async def test_fault_117_no_watchdog_is_fed_while_not_everything_is_confirmed_safe(bench, fed, heart, monkeypatch):
    """A device that does not go off when it is told may do so by itself; once all is confirmed it is fed again."""
    monkeypatch.setattr(bench.valve, "read_back", lambda deadline: ActuatorState(controlled=True, setpoint=30.0))
    await fed.open()
    assert set((await fed.safe()).failed) == {"b_valve"}
    beats = heart.beats
    for _ in range(10):
        fed.glance()
        await asyncio.sleep(0.005)
    assert heart.beats == beats
    monkeypatch.undo()
    assert (await fed.safe()).ok
    await glanced(fed, lambda: heart.beats > beats)


def test_actuators_without_one_are_known():
    """A unit's watchdog guards every actuator of that unit; a pump on a serial line has none."""
    fed = SMALL.replace("enable: {coil: 0}}", "enable: {coil: 0}, heartbeat: {at: 100}}")
    assert fed != SMALL
    assert set(unguarded(loaded(SMALL).rig)) == {"ca_valve", "doser"}
    assert unguarded(loaded(fed).rig) == ("doser",)
