"""The stepped clock, beside a rig that only notes how far it was told to go."""

import asyncio

import pytest

from rigctl.errors import RigctlError
from rigctl.rig.clocks import RealClock, SteppedClock, boot_id, epoch
from rigctl.rig.handle import together

FAST = 1e9
"""Rig seconds per wall second: whatever is slept takes no time."""


@pytest.fixture
def told():
    """The rig times that the simulated rig was told to go to."""
    return []


@pytest.fixture
def clock(told):
    async def go_to(time_s):
        await asyncio.sleep(0)
        told.append(time_s)

    return SteppedClock(FAST, go_to)


async def fails():
    return 1 / 0


async def idle():
    """Let everything happen that can happen without rig time."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_time_passes_only_while_it_is_rested(clock, told):
    """Whatever is computed or waited for takes no rig time; a rest takes exactly what was asked for."""
    await idle()
    assert clock.now_s() == 0.0
    await clock.rest(420.0)
    await idle()
    assert clock.now_s() == 420.0
    await clock.rest(30.0)
    assert (clock.now_s(), told) == (450.0, [420.0, 450.0])


async def test_work_side_by_side_wakes_in_the_order_of_rig_time(clock, told):
    """Each goes on at its own instant, and time waits for whoever has something to do then."""
    reached, answered = asyncio.Event(), asyncio.Event()
    seen = []

    async def work(name, *rests):
        for seconds in rests:
            await clock.rest(seconds)
            seen.append((name, clock.now_s()))
            if (name, clock.now_s()) == ("a", 30.0):
                reached.set()
                await answered.wait()  # an instrument takes its time

    both = asyncio.ensure_future(together(*clock.beside([work("a", 30.0, 30.0), work("b", 20.0, 25.0)])))
    await reached.wait()
    await idle()
    assert clock.now_s() == 30.0
    answered.set()
    await both
    assert seen == [("b", 20.0), ("a", 30.0), ("b", 45.0), ("a", 60.0)]
    await idle()
    assert told == [20.0, 30.0, 45.0, 60.0]


async def test_what_goes_on_by_itself_neither_moves_time_nor_misses_it(clock):
    """Power is sampled at its own rig times, for as long as the campaign rests and no longer."""
    samples = []

    async def sample():
        while True:
            await clock.rest(100.0)
            samples.append(clock.now_s())

    task = clock.enlist(sample(), "power")
    await idle()
    assert samples == []
    await clock.rest(250.0)
    await idle()
    assert (samples, clock.now_s()) == ([100.0, 200.0], 250.0)
    task.cancel()
    await asyncio.wait([task])
    await clock.rest(500.0)
    assert (samples, clock.now_s()) == ([100.0, 200.0], 750.0)


async def test_a_rest_that_is_called_off_holds_nobody_up(clock):
    """A trial broken off in mid-rest is over: time stands still until the next rest, which ends when it should."""
    trial = asyncio.ensure_future(clock.rest(1e15))
    await idle()
    trial.cancel()
    await asyncio.wait([trial])
    await idle()
    assert clock.now_s() == 0.0
    await clock.rest(60.0)
    assert clock.now_s() == 60.0


async def test_work_broken_off_before_it_began_is_not_waited_for(clock):
    """Side by side, what never started does not keep rig time from passing afterwards."""
    both = asyncio.ensure_future(asyncio.gather(*clock.beside([clock.rest(1.0), clock.rest(2.0)])))
    both.cancel()
    with pytest.raises(asyncio.CancelledError):
        await both
    await asyncio.gather(*clock.beside([]))
    await clock.rest(5.0)
    assert clock.now_s() == 5.0


async def test_while_something_of_this_world_is_waited_for_time_goes_on():
    """A hold that only rig time can clear does not last for ever; what went wrong meanwhile is told."""
    gone_on = asyncio.Event()

    async def go_to(time_s):
        if time_s >= 300.0:
            gone_on.set()

    async def look():
        await gone_on.wait()
        return "clear"

    clock = SteppedClock(1000.0, go_to)
    assert await clock.meanwhile(look()) == "clear"
    assert clock.now_s() == 300.0
    with pytest.raises(ZeroDivisionError):
        await clock.meanwhile(fails())
    looking = asyncio.ensure_future(clock.meanwhile(asyncio.Event().wait()))
    await idle()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking


async def test_without_its_rig_the_clock_says_so():
    """If the simulated rig cannot be told of the time, everybody who rests hears of it, and nobody waits on."""

    async def go_to(time_s):
        raise RigctlError("gone")

    clock = SteppedClock(FAST, go_to)
    for _ in range(2):
        with pytest.raises(RigctlError, match="gone"):
            await together(*clock.beside([clock.rest(1.0), clock.rest(2.0)]))
    assert clock.now_s() == 0.0


async def test_it_goes_no_faster_than_it_is_to(told):
    """Who looks on sees rig time pass at the configured speed at most."""

    async def go_to(time_s):
        told.append((time_s, asyncio.get_running_loop().time()))

    clock = SteppedClock(1000.0, go_to)
    await clock.rest(1.0)
    await clock.rest(50.0)
    (_, first), (_, second) = told
    assert second - first >= 0.05


def test_its_times_are_its_own(clock):
    """A journal never takes the times of one stepped clock for those of another, or of this machine."""
    assert epoch(clock) == epoch(clock) != boot_id()
    assert epoch(SteppedClock(1.0, clock._go_to)) != epoch(clock)
    assert epoch(RealClock(2.0)) == boot_id()


async def test_a_clock_that_runs_by_itself_is_left_alone():
    """Beside a real rig nothing is counted: work is what it was, and a rest is a sleep."""
    clock = RealClock(FAST)
    work = [clock.rest(1.0)]
    assert clock.beside(work) == work
    assert await asyncio.gather(*work, clock.meanwhile(asyncio.sleep(0, "slept"))) == [None, "slept"]
    assert await clock.enlist(asyncio.sleep(0, "done"), "by itself") == "done"
