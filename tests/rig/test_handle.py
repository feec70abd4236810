"""A device on its bus, and several at once."""

import asyncio
import time

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch, PortUnavailable, Tripped
from rigctl.rig.bus import Bus, BusTiming
from rigctl.rig.handle import Handle, combined, together
from rigctl.rig.protocols import Identity
from rigctl.rig.values import News
from tests.rig.fakes import FakeActuator, FakeClock, FakeLine


class World:
    """One valve on its bus."""

    def __init__(self):
        self.line = FakeLine("fake://plc", FakeClock())
        self.valve = FakeActuator("valve", self.line)
        self.bus = Bus(self.line, News(), BusTiming(reopen_first_s=0.0))
        self.handle = Handle("valve", self.valve, self.bus, 0.5)

    async def apply(self, value):
        await self.handle.tell(lambda deadline: self.valve.apply(value, deadline), f"apply {value}")


def raised(error):
    raise error


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.bus.close()


async def test_a_device_is_recognised_before_the_first_command(world):
    """Nothing is said to a device before it has said who it is, and it is asked only once."""
    await world.apply(1.0)
    await world.apply(2.0)
    assert world.line.log == ["open", "valve identify", "valve apply", "valve apply"]


async def test_each_answer_that_tells_who_is_there_has_its_time(world):
    """A meter that is asked five times for its identity may take five timeouts."""
    until = []
    world.valve.identified_by = 5
    world.valve.identify = lambda deadline: until.append(deadline) or Identity("valve")
    before_s = time.monotonic()
    await world.handle.identify()
    assert until[0].at_s >= before_s + 5 * world.handle.timeout_s


async def test_an_error_names_its_device_by_a_field_whatever_the_bus_is_called(world, golden):
    """Fault 9: device `ph` is named although the URL of its bus, `/dev/phone`, has the same letters."""
    line = FakeLine("serial:///dev/phone", FakeClock())
    bus, probe = Bus(line, News()), FakeActuator("ph", line)
    handle = Handle("ph", probe, bus, 0.5)
    probe.fail("read_back", DeviceTimeout("no complete line in time", bus="serial:///dev/phone"))
    with pytest.raises(DeviceTimeout) as raised:
        await handle.ask(probe.read_back, "read back")
    await bus.close()
    error = raised.value
    golden(error.what)
    assert (error.device, error.bus) == ("ph", "serial:///dev/phone")
    golden(str(error))


async def test_another_instrument_after_a_replug_is_not_written_to(world, golden):
    """Faults 17, 18: if another one answers once the line is back, all commands to it are refused; the same goes on."""
    await world.handle.identify()
    world.valve.fail("apply", OSError("unplugged"))
    with pytest.raises(PortUnavailable):
        await world.apply(1.0)
    await world.apply(2.0)
    world.valve.fail("apply", OSError("unplugged"))
    with pytest.raises(PortUnavailable):
        await world.apply(1.0)
    world.valve.identity = Identity("fake", "1.0", "somebody else")
    for _ in range(2):
        with golden.raises(IdentityMismatch):
            await world.apply(3.0)
    assert world.valve.applied == [2.0]


async def test_a_device_is_recognised_anew_after_a_silence(world):
    """After an exchange without an answer the device is asked again who it is before it is told anything."""
    await world.apply(1.0)
    world.valve.lose_reply("apply")
    with pytest.raises(DeviceTimeout):
        await world.apply(2.0)
    await world.apply(3.0)
    assert world.line.log[-3:] == ["resync", "valve identify", "valve apply"]


@pytest.mark.parametrize("problem", [DeviceTimeout("silent"), GarbledReply("noise"), ZeroDivisionError("bug")])
@pytest.mark.parametrize("met", [False, True])
async def test_a_silent_device_is_made_safe_all_the_same(world, met, problem):
    """Fault 2: one that does not say who it is is told to go safe, whether it was met before or not."""
    if met:
        await world.apply(1.0)
        world.valve.lose_reply("apply")
        with pytest.raises(DeviceTimeout):
            await world.apply(2.0)
    world.valve.fail("identify", problem)
    await world.handle.tell_at_all_costs(world.valve.safe, "safe", 1.0)
    assert world.line.log[-1] == "valve safe"


async def test_one_that_refuses_to_say_who_it_is_must_have_been_met(world):
    """Fault 18: an instrument that does not know the question is told nothing unless it was recognised before."""
    world.valve.fail("identify", DeviceFault("exception 02"))
    with pytest.raises(DeviceFault):
        await world.handle.tell_at_all_costs(world.valve.safe, "safe", 1.0)
    assert "valve safe" not in world.line.log
    await world.handle.identify()
    world.valve.fail("read_back", DeviceTimeout("lost"))
    with pytest.raises(DeviceTimeout):
        await world.handle.ask(world.valve.read_back, "read back")
    world.valve.fail("identify", DeviceFault("exception 04"))
    await world.handle.tell_at_all_costs(world.valve.safe, "safe", 1.0)
    assert world.line.log[-1] == "valve safe"


async def test_who_is_known_is_not_asked_again_because_another_was_silent(world):
    """On the way to safety only a new line and a device's own silence call for an identification."""
    await world.handle.identify()
    with pytest.raises(DeviceTimeout):
        await world.bus.call(lambda _: raised(DeviceTimeout("another one")), timeout_s=0.5, doing="ask another")
    await world.handle.tell_at_all_costs(world.valve.safe, "safe", 1.0)
    assert world.line.log == ["open", "valve identify", "press on", "valve safe"]


async def test_who_cannot_be_recognised_is_not_asked(world):
    """A device that cannot be told from another is made safe without an identification that tells nothing."""
    world.valve.anonymous = True
    await world.handle.tell_at_all_costs(world.valve.safe, "safe", 1.0)
    assert world.line.log == ["open", "valve safe"]


async def test_a_stranger_is_told_nothing_at_any_cost(world):
    """Fault 18: not even the command to go safe is sent to an instrument that answers as another."""
    await world.handle.identify()
    world.valve.fail("apply", DeviceTimeout("lost"))
    with pytest.raises(DeviceTimeout):
        await world.apply(1.0)
    world.valve.identity = Identity("fake", "1.0", "somebody else")
    with pytest.raises(IdentityMismatch):
        await world.handle.tell_at_all_costs(world.valve.safe, "safe", 1.0)
    assert "valve safe" not in world.line.log


async def give(value):
    return value


async def fail(error):
    raise error


async def test_results_come_in_order():
    """What was asked for comes back in the order it was asked for."""
    assert await together(give(1), give(2)) == [1, 2]


async def test_the_others_finish_before_the_error_is_raised():
    """One failure does not break off the others."""
    finished = []

    async def slow():
        for _ in range(3):
            await asyncio.sleep(0)
        finished.append(True)

    with pytest.raises(DeviceTimeout):
        await together(fail(DeviceTimeout("silent")), slow())
    assert finished == [True]


def test_several_errors_become_one_of_the_worst_kind_with_all_messages(golden):
    """The kind of the worst decides, and every message is told once."""
    errors = [
        DeviceTimeout("a silent"),
        PortUnavailable("b held"),
        IdentityMismatch("c wrong"),
        DeviceTimeout("a silent"),
    ]
    error = combined(errors)
    assert isinstance(error, PortUnavailable)
    golden(str(error))
    assert isinstance(error.__cause__, BaseExceptionGroup)
    assert error.__cause__.exceptions == tuple(errors)


def test_a_trip_outranks_what_follows_from_it():
    """A trip is what the caller gets to see first."""
    assert isinstance(combined([DeviceTimeout("a"), Tripped("b")]), Tripped)


def test_a_bug_is_not_dressed_up_as_a_device_error():
    """An error that is none of ours is raised as it is."""
    bug = ZeroDivisionError("bug")
    assert combined([DeviceTimeout("a"), bug]) is bug
