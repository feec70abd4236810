"""In which order a bus is told and asked on the way to safety, and what one device's trouble means for the others."""

import time

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout, IdentityMismatch, PortUnavailable
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.protocols import ActuatorState, DeviceOptions, Pace
from rigctl.rig.rig import Rig
from rigctl.rig.spec import DeviceSpec, MeasureSpec, OutcomeSpec, RigSpec, TrialTiming
from rigctl.rig.values import News
from tests.rig.conftest import QUICK
from tests.rig.fakes import FakeActuator, FakeClock, FakeDoseLog, FakeLine, FakeRegistry, FakeSensor

RELEASED = ActuatorState(controlled=False, setpoint=None)
LONG_S = 5.0


class Channel(FakeActuator):
    """A channel of a relay board that knows its pace and can go together with its neighbours."""

    def __init__(self, name, line, board, *, anonymous=True):
        super().__init__(name, line)
        self.board = board
        self.anonymous = anonymous
        self.identity = f"board {board}"
        self.pace_s = 0.05
        self.patience_s = []

    def pace(self):
        return Pace(self.pace_s, self.pace_s)

    def safe_group(self):
        return self.board

    def safe_all(self, group, deadline):
        self.begin("together")
        for channel in group:
            channel.state = RELEASED
        self.end("together")

    def safe_all_s(self, group):
        return 0.05 * len(group)

    def safe(self, deadline):
        self.patience_s.append(deadline.remaining_s)
        super().safe(deadline)


def silent(deadline):
    """Driver code that waits in vain."""
    time.sleep(min(deadline.remaining_s, 0.3))
    raise DeviceTimeout("silent")


class World:
    """Some channels on one line, by the board they belong to (None: alone)."""

    def __init__(self):
        self.clock = FakeClock()
        self.line = FakeLine("fake://boards", self.clock)
        self.rigs = []

    def channels(self, *boards, **how):
        return [Channel(f"c{i}", self.line, board, **how) for i, board in enumerate(boards)]

    def rig(self, channels, *, timeout_s=LONG_S, **states):
        other = FakeLine("fake://else", self.clock)
        devices = {d.name: d for d in (*channels, FakeSensor("sensor", other, lambda: 1.0))}
        spec = RigSpec(
            name="boards",
            devices={n: DeviceSpec(n, n, d.line.url, DeviceOptions(), timeout_s) for n, d in devices.items()},
            variables=(),
            outcomes=(OutcomeSpec(name="level", unit="1", sensor="sensor"),),
            timing=TrialTiming(0.0, MeasureSpec(0.0, 1.0)),
            meters=(),
            limits={c.name: ActuatorLimits(low=0.0, high=99.0, safe_state=states.get(c.name, "off")) for c in channels},
        )
        lines = {line.url: line for line in (self.line, other)}
        rig = Rig(spec, FakeRegistry(lines, devices), self.clock, FakeDoseLog(), News(), bus_timing=QUICK)
        self.rigs.append(rig)
        return rig

    def log(self):
        """What was said on the line since this was last asked."""
        said, self.line.log[:] = list(self.line.log), []
        return said


@pytest.fixture
async def world():
    world = World()
    yield world
    for rig in world.rigs:
        await rig.close()


async def test_everything_is_told_before_anything_is_asked(world):
    """All commands of a bus leave before the first question."""
    report = await world.rig(world.channels(None, None, None)).safe()
    assert world.log() == ["open", "c0 safe", "c1 safe", "c2 safe", "c0 read_back", "c1 read_back", "c2 read_back"]
    assert report.ok


async def test_neighbours_go_together(world, golden):
    """Actuators of one instrument that can go in one exchange do, each board by itself."""
    assert (await world.rig(world.channels(1, 2, 1, 2, None)).safe()).ok
    golden(world.log()[:4])


async def test_a_number_as_safe_state_goes_alone(world):
    """Going together leads to the device's own safe state: one that is sent to a value is told by itself."""
    channels = world.channels(1, 1, 1)
    assert (await world.rig(channels, c1=12.0).safe()).ok
    assert world.log()[:3] == ["open", "c0 together", "c1 apply"]
    assert channels[1].state == ActuatorState(controlled=True, setpoint=12.0)


@pytest.mark.parametrize("refusal", [DeviceFault("exception 01"), ZeroDivisionError("bug")])
async def test_who_refuses_to_go_together_is_told_alone(world, refusal):
    """A board without such a command is told channel by channel, at once."""
    channels = world.channels(1, 1, 2)
    channels[0].fail("together", refusal)
    assert (await world.rig(channels).safe()).ok
    said = [entry for entry in world.log() if entry != "press on"]
    assert said[:5] == ["open", "c0 together", "c0 safe", "c1 safe", "c2 safe"]


async def test_a_silent_board_waits_until_the_others_are_told(world):
    """Fault 2: a board that does not answer is told channel by channel once everybody else has been told."""
    channels = world.channels(1, 1, 2)
    channels[0].fail("together", DeviceTimeout("silent"))
    assert (await world.rig(channels).safe()).ok
    assert world.log()[:6] == ["open", "c0 together", "press on", "c2 safe", "c0 safe", "c1 safe"]


async def test_after_a_silence_the_next_command_leaves_at_once(world):
    """Fault 2, 3: the silence owed after a lost answer is kept before the first question, not between commands."""
    channels = world.channels(None, None, None)
    channels[0].lose_reply("safe")
    channels[1].lose_reply("safe")
    assert (await world.rig(channels).safe()).ok
    told = ["open", "c0 safe", "press on", "c1 safe", "press on", "c2 safe"]
    assert world.log() == [*told, "resync", "c2 read_back", "c0 read_back", "c1 read_back"]


async def test_who_was_silent_goes_last(world):
    """Fault 2: a device whose last exchange timed out is told after the others."""
    channels = world.channels(None, None)
    rig = world.rig(channels)
    with pytest.raises(DeviceTimeout):
        await rig._wiring.actuators["c0"].ask(silent, "read back")
    world.log()
    assert (await rig.safe()).ok
    assert world.log()[:4] == ["press on", "c1 safe", "c0 safe", "resync"]


async def test_a_command_has_the_time_a_healthy_device_needs(world):
    """A command waits for its answer as long as its pace asks for, never longer than the device's timeout."""
    slow, quick, limited = channels = world.channels(None, None, None)
    slow.pace_s = 0.9
    await world.rig(channels).safe()
    assert 2.0 < slow.patience_s[0] <= 3.6
    assert quick.patience_s[0] <= 0.5
    await world.rig([limited], timeout_s=0.2).safe()
    assert limited.patience_s[-1] <= 0.2


async def test_after_a_silence_commands_matter_more_than_answers(world):
    """Fault 2: on a bus where something is silent every further command waits for its answer less long."""
    channels = world.channels(None, None)
    channels[0].lose_reply("safe")
    await world.rig(channels).safe()
    assert channels[1].patience_s[0] <= 0.1


async def test_one_of_a_board_is_recognised_for_all(world):
    """On a new line one channel of each board says who it is before the board is told, and each before it is asked."""
    assert (await world.rig(world.channels(1, 1, anonymous=False)).safe()).ok
    told = ["open", "c0 identify", "c0 together"]
    assert world.log() == [*told, "c0 read_back", "c1 identify", "c1 read_back"]


async def test_nothing_is_told_to_another_board(world, golden):
    """Fault 18: if another instrument answers, none of its channels is told; the other boards are."""
    channels = world.channels(1, 1, 2, anonymous=False)
    channels[0].fail("identify", *[IdentityMismatch("c0: a pump answers")] * 15)
    channels[1].fail("identify", *[IdentityMismatch("c1: a pump answers")] * 15)
    report = await world.rig(channels).safe()
    golden(report.failed)
    assert [e for e in world.log() if e.endswith(("safe", "together"))] == ["c2 safe"]


async def test_a_silent_stranger_is_told_last_and_not_confirmed(world):
    """Fault 2, 18: one that does not say who it is is told all the same, but its answers confirm nothing."""
    channels = world.channels(None, None, anonymous=False)
    channels[0].fail("identify", *[DeviceTimeout("silent")] * 99)
    report = await world.rig(channels).safe()
    assert set(report.failed) == {"c0"}
    assert channels[0].state == RELEASED
    log = world.log()
    assert log.index("c1 safe") < log.index("c0 safe")
    assert "c0 read_back" not in log


async def test_a_line_that_comes_back_is_used(world):
    """Fault 16: a line that cannot be opened is tried again for a while."""
    world.line.open_errors.extend([PortUnavailable("unplugged")] * 2)
    report = await world.rig(world.channels(1, 1)).safe()
    assert report.ok


async def test_a_line_that_stays_away_is_reported_for_all(world):
    """Fault 16: when a line cannot be opened each of its devices is named with the reason."""
    world.line.open_errors.extend([PortUnavailable("unplugged")] * 999)
    report = await world.rig(world.channels(1, None)).safe()
    assert {n: "unplugged" in why for n, why in report.failed.items()} == {"c0": True, "c1": True}


async def test_a_line_that_breaks_for_one_is_opened_for_the_next(world):
    """Fault 16: a device that breaks the line each time keeps nobody else from being told."""
    channels = world.channels(None, None)
    channels[0].fail("safe", *[OSError("broken pipe")] * 99)
    report = await world.rig(channels).safe()
    assert (report.reached, set(report.failed)) == (("c1",), {"c0"})
    assert channels[1].state == RELEASED


async def test_a_driver_that_does_not_know_its_pace_is_made_safe(world):
    """Whatever a driver raises when it is asked for its pace or its group, its devices and the others go safe."""

    def bug(*_):
        raise ZeroDivisionError("bug")

    channels = world.channels(1, 1, 2)
    for channel in channels[:2]:
        channel.pace = channel.safe_group = channel.safe_all_s = bug
    assert (await world.rig(channels).safe()).ok


async def test_nothing_to_make_safe_is_safe(world):
    """A rig without actuators is safe at once."""
    rig = world.rig([])
    report = await rig.safe()
    assert report.ok
    assert (rig.time_to_safe().told_s, rig.time_to_safe().by_bus) == (0.0, {})


async def test_how_long_it_takes_is_reckoned(world):
    """The worst case counts a question cut short, each command, the silence, each question, and no unpaced shortcut."""
    channels = world.channels(1, 1, None)
    times = world.rig(channels).time_to_safe()
    assert times.told_s == pytest.approx(0.3 + 0.1 + 3 * 0.05)  # cut short, together in vain, one by one
    assert times.confirmed_s == pytest.approx(times.told_s + 0.5 + 3 * 0.05)
    assert times.by_bus == {"fake://boards": (times.told_s, times.confirmed_s)}


async def test_who_must_be_recognised_takes_longer(world):
    """Each board is recognised once before it is told, and each of its channels before it is asked."""
    times = world.rig(world.channels(1, 1, anonymous=False)).time_to_safe()
    assert times.told_s == pytest.approx(0.3 + 0.05 + 0.1 + 2 * 0.05)
    assert times.confirmed_s == pytest.approx(times.told_s + 0.5 + 0.05 + 2 * 0.05)


async def test_without_a_pace_the_timeout_is_assumed(world):
    """A device that does not say how long it takes is reckoned with its timeout for each exchange."""
    plain = FakeActuator("c0", world.line)
    plain.anonymous = True
    times = world.rig([plain], timeout_s=1.5).time_to_safe()
    assert times.told_s == pytest.approx(0.3 + 1.5)
    assert times.confirmed_s == pytest.approx(times.told_s + 0.5 + 1.5)


@pytest.mark.slow
async def test_the_bound_holds_for_silent_devices(world):
    """Fault 2: with every device silent for as long as it may be, the report comes by the deadline of the bus."""
    channels = world.channels(*[None] * 30)
    for channel in channels:
        channel.safe = channel.read_back = silent
        channel.pace_s = 0.01
    rig = world.rig(channels, timeout_s=0.3)
    began_s = time.monotonic()
    report = await rig.safe()
    took_s = time.monotonic() - began_s
    assert set(report.failed) == {c.name for c in channels}
    assert took_s <= 2 * rig.time_to_safe().confirmed_s + 0.3 + 4.0
