import asyncio
import contextlib
import threading
from itertools import pairwise

import pytest

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault, DeviceTimeout, GarbledReply, PortUnavailable
from rigctl.rig.bus import Bus, BusTiming
from rigctl.rig.protocols import PEEK_S, Severity
from tests.rig.fakes import FakeClock, FakeLine, Heard

QUICK = BusTiming(grace_s=0.01, prepare_s=0.5, busy_pauses_s=(0.0, 0.0))


class Script:
    """Driver code that raises what it was given, then answers."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, deadline):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.calls


class Gate:
    """Driver code that holds the line until it is let go."""

    def __init__(self):
        self.entered = threading.Event()
        self.released = threading.Event()

    def __call__(self, deadline):
        self.entered.set()
        self.released.wait(10.0)


class World:
    """A bus over a line in memory, with a clock for its back-off."""

    def __init__(self):
        self.now_s = 0.0
        self.alarms = []
        self.line = FakeLine("fake://plc", FakeClock())
        self.bus = Bus(self.line, Heard(self.alarms), QUICK, lambda: self.now_s)

    async def read(self, work, **options):
        return await self.bus.call(work, timeout_s=0.5, doing="read", repeatable=True, **options)

    async def write(self, work, **options):
        return await self.bus.call(work, timeout_s=0.5, doing="write", **options)


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.bus.close()


async def test_driver_code_runs_in_the_bus_thread_with_a_deadline(world):
    """Driver code runs in the one thread named after the bus and is given the time it was promised."""
    name, left_s = await world.read(lambda deadline: (threading.current_thread().name, deadline.remaining_s))
    assert name == "bus:fake://plc"
    assert 0.0 < left_s <= 0.5
    assert world.line.log == ["open"]


@pytest.mark.parametrize("error", [DeviceTimeout("silent"), GarbledReply("crc")])
async def test_a_failed_exchange_is_followed_by_a_resync(world, error):
    """After a lost or garbled answer the line is silenced and flushed before the next exchange, and only then."""
    with pytest.raises(type(error)):
        await world.write(Script(error))
    assert world.line.log == ["open"]
    await world.write(Script())
    await world.write(Script())
    assert world.line.log == ["open", "resync"]


async def test_a_garbled_read_is_repeated_once_and_counted(world):
    """Fault 5: a read is asked again after a garbled answer, once, and the repetition is counted."""
    assert await world.read(Script(GarbledReply("crc"))) == 2
    assert (world.bus.repeated_reads, world.bus.failed_exchanges) == (1, 1)
    with pytest.raises(GarbledReply):
        await world.read(Script(GarbledReply("crc"), GarbledReply("crc")))


async def test_a_busy_device_is_asked_again_a_few_times(world):
    """Fault 10: busy answers to a read are retried after pauses, a bounded number of times."""
    assert await world.read(Script(DeviceBusy("06"), DeviceBusy("06"))) == 3
    stubborn = Script(*[DeviceBusy("06")] * 10)
    with pytest.raises(DeviceBusy):
        await world.read(stubborn)
    assert stubborn.calls == 3


@pytest.mark.parametrize("error", [GarbledReply("crc"), DeviceBusy("06"), DeviceTimeout("silent"), DeviceFault("02")])
async def test_a_write_is_sent_once(world, error):
    """Fault 1: whatever a write raises, it is not sent again."""
    script = Script(error)
    with pytest.raises(type(error)):
        await world.write(script)
    assert script.calls == 1


async def test_a_lost_line_is_reopened_ever_less_often(world):
    """Fault 15: a broken line is tried again after pauses that double up to 10 s, and told of once."""
    await world.read(Script())
    with pytest.raises(PortUnavailable, match="unplugged"):
        await world.read(Script(OSError("unplugged")))
    world.line.open_errors.extend([PortUnavailable("gone")] * 20)
    tries_at = []
    for tick in range(240):
        world.now_s = tick / 4
        opened = world.line.log.count("open")
        with pytest.raises(PortUnavailable):
            await world.read(Script())
        if world.line.log.count("open") > opened:
            tries_at.append(world.now_s)
    gaps = [later - earlier for earlier, later in pairwise(tries_at)]
    assert gaps == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0][: len(gaps)]
    assert len(gaps) >= 8
    assert [a.severity for a in world.alarms] == [Severity.MAJOR]


async def test_what_is_urgent_does_not_wait_for_the_next_attempt(world, golden):
    """A command to the safe state tries a broken line at once, whatever its back-off says."""
    with pytest.raises(PortUnavailable):
        await world.read(Script(OSError("unplugged")))
    with golden.raises(PortUnavailable):
        await world.write(Script())
    assert await world.write(Script(), urgent=True) == 1


async def test_a_line_that_returns_is_used_again(world):
    """Fault 16: once the port is back, exchanges work and the end of the trouble is told."""
    with pytest.raises(PortUnavailable):
        await world.read(Script(OSError("unplugged")))
    world.now_s = 1.0
    assert await world.read(Script()) == 1
    assert [a.severity for a in world.alarms] == [Severity.MAJOR, Severity.MINOR]


async def test_a_connection_that_stays_silent_is_renewed(world):
    """Fault 14: after several exchanges without an answer the connection itself is opened anew, and silenced.

    Over a serial port that is opened again a late answer comes all the same.
    """
    for _ in range(3):
        with pytest.raises(DeviceTimeout):
            await world.write(Script(DeviceTimeout("half open")))
    await world.write(Script())
    assert world.line.log[-3:] == ["close", "open", "resync"]
    assert world.line.log.count("open") == 2
    assert world.alarms == []


async def test_a_driver_that_ignores_its_deadline_does_not_hold_its_caller(world, golden):
    """The caller of a hanging driver gets a timeout, later calls fail at once, and the bus recovers with the driver."""
    gate = Gate()
    with pytest.raises(DeviceTimeout, match="overran"):
        await world.bus.call(gate, timeout_s=0.01, doing="hang")
    after = Script()
    with golden.raises(DeviceTimeout):
        await world.write(after)
    assert after.calls == 0
    assert [a.severity for a in world.alarms] == [Severity.MAJOR]
    gate.released.set()
    for _ in range(5000):
        with contextlib.suppress(DeviceTimeout):
            await world.write(after)
            break
        await asyncio.sleep(0.001)
    assert after.calls == 1
    assert world.alarms[-1].severity is Severity.MINOR


async def test_what_waits_behind_a_hanging_driver_fails_too(world):
    """A call already queued behind a driver that overruns is given up and never runs."""
    gate, waiting = Gate(), Script()
    hanging = asyncio.create_task(world.bus.call(gate, timeout_s=0.01, doing="hang"))
    queued = asyncio.create_task(world.write(waiting))
    results = await asyncio.gather(hanging, queued, return_exceptions=True)
    gate.released.set()
    await world.bus.close()
    assert [type(r) for r in results] == [DeviceTimeout, DeviceTimeout]
    assert waiting.calls == 0


async def test_cancelling_a_caller_leaves_the_bus_in_order(world):
    """A cancelled exchange ends in its thread before the next begins; a cancelled one in the queue never runs."""
    gate, dropped, after = Gate(), Script(), Script()
    running = asyncio.create_task(world.write(gate))
    await asyncio.to_thread(gate.entered.wait)
    waiting = asyncio.create_task(world.write(dropped))
    await asyncio.sleep(0)
    running.cancel()
    waiting.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    follower = asyncio.create_task(world.write(after))
    await asyncio.sleep(0)
    assert after.calls == 0
    gate.released.set()
    assert await follower == 1
    assert dropped.calls == 0


async def test_urgent_calls_overtake(world):
    """What is urgent goes before all that waits."""
    gate, order = Gate(), []
    running = asyncio.create_task(world.write(gate))
    await asyncio.to_thread(gate.entered.wait)
    slow = [asyncio.create_task(world.write(lambda _, i=i: order.append(i))) for i in range(3)]
    await asyncio.sleep(0)
    stop = asyncio.create_task(world.write(lambda _: order.append("stop"), urgent=True))
    await asyncio.sleep(0)
    gate.released.set()
    await asyncio.gather(running, *slow, stop)
    assert order == ["stop", 0, 1, 2]


class Question:
    """Driver code that waits for an answer that never comes, up to its deadline."""

    def __init__(self):
        self.entered = threading.Event()

    def __call__(self, deadline):
        self.entered.set()
        while deadline.remaining_s > 0:
            threading.Event().wait(min(deadline.remaining_s, PEEK_S))
        raise DeviceTimeout("no answer")


@pytest.mark.parametrize("urgently", ["call", "turn", "close"])
async def test_a_question_is_cut_short_for_what_is_urgent(world, urgently):
    """Fault 2: a read that waits for a silent device is over soon once something urgent, or the end, waits."""
    question = Question()
    reading = asyncio.create_task(world.bus.call(question, timeout_s=600.0, doing="read", repeatable=True))
    await asyncio.to_thread(question.entered.wait)
    if urgently == "call":
        assert await world.write(Script(), urgent=True) == 1
    elif urgently == "turn":
        assert await world.bus.take_turn(lambda turn: turn.exchange(Script(), 0.5, "stop"), "stop") == 1
    else:
        await world.bus.close()
    with pytest.raises(DeviceTimeout):
        await reading


@pytest.mark.parametrize("how", [{"repeatable": False}, {"repeatable": True, "urgent": True}])
async def test_what_is_no_question_in_no_hurry_is_never_cut_short(world, how):
    """Fault 1: a write under way, and a question that is itself urgent, have all their time whatever waits."""
    left_s, gate = [], Gate()

    def work(deadline):
        gate(deadline)
        left_s.append(deadline.remaining_s)

    under_way = asyncio.create_task(world.bus.call(work, timeout_s=600.0, doing="write", **how))
    await asyncio.to_thread(gate.entered.wait)
    urgent = asyncio.create_task(world.write(Script(), urgent=True))
    await asyncio.sleep(0)
    gate.released.set()
    await asyncio.gather(under_way, urgent)
    assert left_s[0] > 300.0


async def test_a_question_after_the_hurry_has_its_time(world):
    """Once what was urgent has had its turn, questions have all their time again."""
    await world.write(Script(), urgent=True)
    assert await world.bus.call(lambda d: d.remaining_s, timeout_s=600.0, doing="read", repeatable=True) > 300.0


async def test_a_turn_lets_nobody_in_between(world):
    """In a turn exchange follows exchange, however each ends, and what else waits comes after it."""
    order, gate = [], Gate()

    def in_a_row(turn):
        gate(None)
        with pytest.raises(DeviceTimeout):
            turn.exchange(Script(DeviceTimeout("silent")), 0.5, "first")
        turn.exchange(lambda _: order.append("second"), 0.5, "second")
        turn.exchange(lambda _: order.append("third"), 0.5, "third", settled=True)

    taking = asyncio.create_task(world.bus.take_turn(in_a_row, "in a row"))
    await asyncio.to_thread(gate.entered.wait)
    waiting = asyncio.create_task(world.write(lambda _: order.append("urgent"), urgent=True))
    await asyncio.sleep(0)
    gate.released.set()
    await asyncio.gather(taking, waiting)
    assert order == ["second", "third", "urgent"]
    assert world.line.log == ["open", "press on", "resync"]


async def test_a_turn_behind_a_hanging_driver_is_kept(world, golden):
    """What makes safe fails for its caller while a driver hangs, but is done once the driver returns; twice is once."""
    gate, stops = Gate(), []
    with pytest.raises(DeviceTimeout, match="overran"):
        await world.bus.call(gate, timeout_s=0.01, doing="hang")
    for _ in range(3):
        with golden.raises(DeviceTimeout):
            await world.bus.take_turn(lambda turn: stops.append(turn.reach()), "stop")
    gate.released.set()
    await world.bus.close()
    assert len(stops) == 1


async def test_a_bug_in_a_driver_reaches_the_caller_and_the_line_is_flushed(world):
    """An unexpected error is handed to the caller as it is, and the line is not trusted after it."""
    with pytest.raises(ZeroDivisionError):
        await world.read(lambda _: 1 / 0)
    await world.read(Script())
    assert world.line.log == ["open", "resync"]


async def test_a_closed_bus_refuses(world):
    """Closing closes the line and ends the thread; later calls are refused, and closing again is harmless."""
    await world.read(Script())
    thread = world.bus._thread
    await world.bus.close()
    await world.bus.close()
    thread.join(120.0)
    assert not thread.is_alive()
    assert world.line.log == ["open", "close"]
    with pytest.raises(DeviceError, match="closed"):
        await world.read(Script())


async def test_what_waits_when_the_bus_closes_is_dropped_with_an_error(world):
    """Closing lets the exchange under way end and drops the others."""
    gate, waiting = Gate(), Script()
    running = asyncio.create_task(world.write(gate))
    await asyncio.to_thread(gate.entered.wait)
    queued = asyncio.create_task(world.write(waiting))
    await asyncio.sleep(0)
    closing = asyncio.create_task(world.bus.close())
    await asyncio.sleep(0)
    gate.released.set()
    await closing
    with pytest.raises(DeviceError, match="closed"):
        await queued
    await running
    assert waiting.calls == 0


async def test_opening_names_the_port_that_is_missing(world):
    """Fault 19: a port that cannot be opened is reported by name."""
    world.line.open_errors.append(PortUnavailable("/dev/ttyUSB0: held by process 42"))
    with pytest.raises(PortUnavailable, match="ttyUSB0"):
        await world.bus.open()
