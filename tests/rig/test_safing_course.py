"""One bus on its way to safety, exchange by exchange: what is said, how long it is waited for, what is reported.

Nothing waits and no thread runs here: a turn that answers at once, and time that passes when somebody sleeps.
"""

import asyncio
from types import SimpleNamespace

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout, PortUnavailable
from rigctl.rig import safing
from rigctl.rig.bus import Contact
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.protocols import ActuatorState, Deadline, DoseStatus
from rigctl.rig.safing import _Course, _question
from tests.rig.fakes import FakeClock, FakeDoseLog, FakeLine, FakePump
from tests.rig.test_safing_order import RELEASED, Channel

OFF = ActuatorLimits(low=0.0, high=99.0, safe_state="off")


class Table:
    """A bus whose turns run at once and are written down; also the clock of its world."""

    url = "fake://table"

    def __init__(self):
        self.line = FakeLine(self.url, FakeClock())
        self.now_s = 100.0
        self.slept = []
        self.turns = []
        self.said = []
        self.told_s = {}
        """Patience with each answer to a command, by device; `asked_s`: to a question, on a settled line."""
        self.asked_s = {}
        self.errors = []
        self.opened = 1

    def monotonic(self):
        return self.now_s

    async def sleep(self, seconds):
        assert len(self.slept) < 20, "for ever"
        self.slept.append(seconds)
        self.now_s += seconds

    async def take_turn(self, work, doing):
        self.turns.append(doing)
        if self.errors:
            raise self.errors.pop(0)
        return work(self)

    def reach(self):
        return Contact(self.opened)

    def exchange(self, work, patience_s, doing, *, settled=False):
        self.said.append((doing, "settled") if settled is True else doing)
        patience = self.asked_s if settled is True else self.told_s
        patience.setdefault(doing.partition(":")[0], []).append(patience_s)
        return work(Deadline.after(patience_s))

    def channels(self, *boards, **how):
        return [Channel(f"c{i}", self.line, board, **how) for i, board in enumerate(boards)]

    def course(self, devices, *, once_s=0.1, timeout_s=5.0, **states):
        handles = [Handle(d.name, d, self, timeout_s) for d in devices]
        limits = {d.name: ActuatorLimits(low=0.0, high=99.0, safe_state=states.get(d.name, "off")) for d in devices}
        return _Course(self, handles, Guard(limits, FakeDoseLog(), FakeClock()), limits, once_s)


@pytest.fixture
def table(monkeypatch):
    table = Table()
    monkeypatch.setattr(safing, "time", table)
    monkeypatch.setattr(safing, "asyncio", SimpleNamespace(sleep=table.sleep, timeout=asyncio.timeout))
    return table


@pytest.mark.parametrize(
    ("once_s", "timeout_s", "within"), [(0.1, 0.5, "1.8"), (3.0, 0.7, "6.7"), (0.5, 0.75, "1.8"), (0.5, 0.9, "1.9")]
)
def test_a_bus_has_twice_what_it_needs_and_one_answer_more(table, once_s, timeout_s, within):
    """But never less than 1.8 s; what was never told says how long was tried."""
    course = table.course(table.channels(None, None), once_s=once_s, timeout_s=timeout_s)
    assert set(course.left) == {"c0", "c1"}
    assert all(f" {within} s" in why for why in course.left.values())


async def test_every_exchange_says_what_it_is_and_only_questions_wait_for_a_settled_line(table, golden):
    """Commands leave at once, each in words that name the device; recognising before a question is one."""
    course = table.course(table.channels(1, 1, None, anonymous=False))
    await course.until_safe()
    assert course.left == {}
    golden(table.turns)
    golden(table.said)
    told, asked = ({name: len(waited) for name, waited in by.items()} for by in (table.told_s, table.asked_s))
    assert (told, asked) == ({"c0": 2, "c2": 2}, {"c0": 1, "c1": 2, "c2": 1})


async def test_what_is_denied_is_told_five_times_with_pauses_that_double(table, golden):
    """Only what denied it, for 1.5 s in all; then it is reported as it reads back."""
    deaf, fine = table.channels(None, None)
    deaf.deaf = True
    course = table.course([deaf, fine])
    await course.until_safe()
    assert set(course.left) == {"c0"}
    golden(course.left)
    assert table.slept == [0.1, 0.2, 0.4, 0.8]
    assert {name: len(waited) for name, waited in table.told_s.items()} == {"c0": 5, "c1": 1}


async def test_a_line_that_is_away_is_tried_for_1_8_seconds(table):
    """As often as doubling pauses allow within that, though there would be more time; the reason is reported whole."""
    table.errors = [PortUnavailable("unplugged")] * 99
    course = table.course(table.channels(None, None), once_s=30.0)
    await course.until_safe()
    assert table.slept == [0.1, 0.2, 0.4, 0.8]
    assert course.left == dict.fromkeys(("c0", "c1"), "unplugged")


async def test_the_last_pause_may_end_when_the_time_does(table, monkeypatch):
    """An attempt that begins exactly at the end still counts as within it."""
    monkeypatch.setattr(safing, "LEAST_S", 0.75)
    monkeypatch.setattr(safing, "FIRST_PAUSE_S", 0.25)
    table.errors = [PortUnavailable("unplugged")] * 99
    await table.course(table.channels(None), once_s=30.0).until_safe()
    assert table.slept == [0.25, 0.5]


async def test_attempts_in_vain_to_reach_the_line_do_not_count(table):
    """Once it is there, all five attempts are left."""
    (deaf,) = table.channels(None)
    deaf.deaf = True
    table.errors = [PortUnavailable("unplugged")] * 2
    await table.course([deaf], once_s=30.0).until_safe()
    assert len(table.told_s["c0"]) == 5


async def test_a_bug_in_the_turn_itself_is_reported_and_not_tried_again(table, golden):
    """What is not a device's trouble will not go away."""
    table.errors = [ZeroDivisionError("bug")]
    course = table.course(table.channels(None, None))
    await course.until_safe()
    golden(table.turns)
    assert table.slept == []
    assert [why.partition(":")[0] for why in course.left.values()] == ["ZeroDivisionError"] * 2


def test_when_the_time_is_over_everything_is_told_and_nothing_asked(table, golden):
    """Nobody waits for the answers any more; what was told says so, what was not keeps its reason."""
    course = table.course(table.channels(None, 1, 1))
    table.now_s += 5.2
    course._attempt(table)
    golden(table.said)
    assert set(course.left) == {"c0", "c1", "c2"}
    assert table.asked_s == {}
    golden(course.left)


def test_a_moment_before_the_time_is_over_the_first_is_still_asked(table, golden):
    """The end itself is over."""
    course = table.course(table.channels(None))
    table.now_s += 5.2
    course._attempt(table)
    assert table.asked_s == {}
    table.now_s -= 0.001
    course._attempt(table)
    assert list(table.asked_s) == ["c0"]
    golden(table.said)


def test_a_board_that_refuses_leaves_the_others_as_they_stand(table, golden):
    """Each of its channels is told alone, with its own reason; what denies stays on the list."""
    first, second, other = table.channels(1, 1, None)
    first.fail("together", DeviceFault("exception 01"))
    other.deaf = True
    second.fail("safe", ZeroDivisionError("bug"))
    second.deaf = True
    course = table.course([first, second, other])
    course._tell_all(table, course._handles)
    assert course.left["c0"] == course.left["c2"] != course.left["c1"]
    golden(course.left)
    course._attempt(table)
    assert set(course.left) == {"c2"}
    golden(course.left)


def test_a_refusal_says_its_kind_until_each_was_told(table, golden):
    """Nobody could be told: the reasons of the refusal, not of a command that was never sent."""
    first, second, other = table.channels(1, 1, None)
    first.fail("together", DeviceFault("exception 01"))
    course = table.course([first, second, other])
    course._tell = lambda *_: None
    course._tell_all(table, course._handles)
    assert course.left["c0"] == course.left["c1"] != course.left["c2"]
    golden(course.left)


def test_telling_a_board_leaves_the_reasons_of_the_others(table, golden):
    """What was not told yet is still on the list when the board was."""
    channels = table.channels(1, 1, None)
    course = table.course(channels)
    course._tell_group(table, course._handles[:2])
    assert course.left["c0"] == course.left["c1"] != course.left["c2"]
    golden(course.left)


@pytest.mark.parametrize(("boards", "fails"), [((1, 1, None), "together"), ((None, None, None), "safe")])
def test_after_a_silence_commands_have_a_tenth_of_a_second(table, boards, fails):
    """Before it, four times what the device needs, at least half a second; then twice, at least a tenth."""
    channels = table.channels(*boards)
    channels[0].fail(fails, DeviceTimeout("silent"))
    channels[2].pace_s = 0.15
    course = table.course(channels)
    course._attempt(table)
    assert (table.told_s["c0"][0], table.told_s["c1"], table.told_s["c2"]) == (0.5, [0.1], [0.3])


def test_a_board_has_four_times_what_going_together_takes(table):
    """Its own estimate for the group, not of one channel."""
    channels = table.channels(*[1] * 6)
    table.course(channels)._attempt(table)
    assert table.told_s == {"c0": [pytest.approx(4 * 6 * 0.05)]}
    assert table.asked_s == {f"c{i}": [5.0] for i in range(6)}


def test_a_stranger_s_silence_shortens_the_patience_with_the_others(table, golden):
    """It did not say who it is: it waits, and those after it are given less time; the next attempt begins afresh."""
    stranger, other = table.channels(None, None, anonymous=False)
    other.anonymous = True
    stranger.fail("identify", *[DeviceTimeout("silent")] * 9)
    course = table.course([stranger, other])
    course._attempt(table)
    assert table.asked_s["c0"] == [5.0]  # before it is asked; it had half a second before it was told
    assert table.told_s["c1"] == [0.1]
    golden(course.left)
    course.left["c1"] = "again"
    other.patience_s.clear()
    stranger.anonymous = True
    course._attempt(table)
    assert table.told_s["c1"][-1] == 0.5


def test_who_answers_on_a_line_that_was_opened_anew_is_recognised_before_it_is_told(table):
    """The board refused to go together and its cable was swapped then: another instrument gets no command."""
    channels = table.channels(1, 1, anonymous=False)
    course = table.course(channels)
    for handle in course._handles:
        handle.identity = handle.device.identity  # as the rig has recognised it

    def refuse(*_):
        table.opened += 1
        for channel in channels:
            channel.identity = "a stranger"
        raise DeviceFault("exception 01")

    channels[0].safe_all = refuse
    course._tell_all(table, course._handles)
    assert all("a stranger" in why for why in course.left.values())
    assert [entry for entry in table.line.log if "safe" in entry] == []


def test_patience_ends_at_the_device_s_own_timeout(table):
    """However slow it says it is."""
    (slow,) = table.channels(None)
    slow.pace_s = 9.0
    table.course([slow], timeout_s=0.7)._attempt(table)
    assert table.told_s["c0"] == [0.7]


def test_who_was_silent_is_told_and_asked_last(table):
    """In the order of the handles otherwise; one that has answered since is asked in its turn."""
    channels = table.channels(None, None, None)
    channels[0].fail("safe", DeviceTimeout("silent"))
    course = table.course(channels)
    course._handles[1].silent = True
    course._attempt(table)
    assert (list(table.told_s), list(table.asked_s)) == (["c0", "c2", "c1"], ["c1", "c2", "c0"])


@pytest.mark.parametrize(
    ("safe_state", "state", "denied"),
    [
        (12.0, ActuatorState(controlled=True, setpoint=12.12), ""),
        (12.0, ActuatorState(controlled=True, setpoint=11.88), ""),
        (12.0, ActuatorState(controlled=True, setpoint=12.1201), "reads back 12.1201 mM"),
        (0.5, ActuatorState(controlled=True, setpoint=0.509), ""),
        (0.5, ActuatorState(controlled=True, setpoint=0.5101), "reads back 0.5101 mM"),
        (-12.0, ActuatorState(controlled=True, setpoint=-12.1), ""),
        ("off", RELEASED, ""),
        ("off", ActuatorState(controlled=True, setpoint=0.0), "reads back 0 mM"),
        ("off", ActuatorState(controlled=True, setpoint=None), "reads back switched on"),
    ],
)
def test_only_the_rounding_of_a_coarse_register_is_forgiven(table, safe_state, state, denied):
    """One hundredth of the safe value, or of 1 where it is smaller; off is off."""
    (channel,) = table.channels(None)
    seen = []
    channel.read_back = lambda deadline: seen.append(type(deadline)) or state
    limits = ActuatorLimits(low=-99.0, high=99.0, safe_state=safe_state)
    assert _question(Handle("c0", channel, table, 1.0), limits)(Deadline.after(1.0)) == denied
    assert seen == [Deadline]


@pytest.mark.parametrize(("running", "denied"), [(True, "it still runs"), (False, "")])
def test_a_pump_is_safe_when_it_does_not_run(table, running, denied):
    """It is asked for its status, whatever its limits say."""
    pump, seen = FakePump("pump", table.line), []
    pump.dose_status = lambda deadline: seen.append(type(deadline)) or DoseStatus(running, 0.0)
    assert _question(Handle("pump", pump, table, 1.0), OFF)(Deadline.after(1.0)) == denied
    assert seen == [Deadline]


async def test_a_pump_that_cannot_be_stopped_is_reported(table):
    """Told again and again, and named as running."""
    pump = FakePump("pump", table.line)
    pump.run_alone()
    pump.unstoppable = True
    course = table.course([pump])
    await course.until_safe()
    assert set(course.left) == {"pump"}
    assert table.line.log.count("pump stop") == 5
