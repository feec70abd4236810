"""The controller's end: nobody who puts something in waits, whatever becomes of the process."""

import json
import threading
from contextlib import closing

import pytest

from rigctl.campaign.events import PhaseChanged, RigSeen
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.alarms import AlarmMinded
from rigctl.errors import Tripped, UsageError
from rigctl.notify import notifier as module
from rigctl.notify.notifier import MOST, Notifier, shelved_in, telling_people
from rigctl.notify.setup import Setup
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from rigctl.telling import NotifySpec, Secret, Telling
from tests.campaign.fakes import make_spec
from tests.campaign.records import SetClock

SETUP = Setup("tank", "EUR", "state", Telling(NotifySpec(urls=Secret(env="URLS"))))


class FakeChild:
    """Takes lines in, or does not."""

    def __init__(self, world):
        self.world = world
        world.started.append(self)

    def write(self, data, within_s):
        if self.world.stuck is not None:
            self.world.reached.set()
            self.world.stuck.wait(60)
        if self.world.deaths:
            self.world.deaths.pop()
            raise BrokenPipeError("it has ended")
        self.world.lines.append(json.loads(data))
        self.world.came.set()

    def end(self, within_s):
        self.world.ended += 1


class World:
    """What becomes of processes, and what reached them."""

    def __init__(self):
        self.started, self.lines, self.deaths = [], [], []
        self.stuck, self.hear, self.ended, self.now_s = None, None, 0, 0.0
        self.came, self.reached = threading.Event(), threading.Event()

    def start(self, setup, hear):
        self.hear = hear
        return FakeChild(self)

    def notifier(self):
        return Notifier(SETUP, SetClock(5.0), self.start, lambda: self.now_s)

    @property
    def events(self):
        return [line["event"] for line in self.lines if "event" in line]


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(module, "PAUSES_S", (0.0, 0.0, 0.0, 300.0))
    return World()


def alarm(number=0):
    return Alarm(Severity.MAJOR, "ph", f"low {number}", kind="low", state="stands", action="hold")


def test_what_is_for_people_is_handed_on_in_order(world):
    """The setup first; of the watch only that it looks, and that rarely; the rest is not told at all."""
    notifier = world.notifier()
    notifier.put(alarm())
    notifier.put(PhaseChanged("HOLDING", "low"))
    notifier.put(AlarmMinded("shelve", "low", "ph", 60.0, "Ada", "known"))
    for second in range(19):
        world.now_s = 100.0 + second
        notifier.put(RigSeen(float(second), {}))
    notifier.begin()
    notifier.close()
    assert world.lines[0]["rig"] == "tank"
    assert [event for event in world.events if event != "tick"] == ["alarm", "phase", "minded"]
    assert [line["at_s"] for line in world.lines if line.get("event") == "tick"] == [15.0]
    assert notifier.trouble() == ""
    assert world.ended == 1


def test_fault_46_a_process_that_takes_nothing_in_delays_nobody(world, golden):
    """What is more than the queue holds is lost, and said once it is; the rest arrives when it can."""
    world.stuck = threading.Event()
    notifier = world.notifier()
    notifier.begin()
    assert world.reached.wait(30)
    for number in range(MOST + 7):
        notifier.put(alarm(number))
    golden(notifier.trouble())
    world.stuck.set()
    notifier.close()
    assert world.events.count("alarm") == MOST
    world.now_s += 61.0
    assert notifier.trouble() == ""


def test_fault_46_a_process_that_dies_is_started_anew(world, golden):
    """What it had not taken in is handed to the next one; that it died is said for a while."""
    world.deaths = [1, 1]
    notifier = world.notifier()
    notifier.put(alarm())
    notifier.begin()
    assert world.came.wait(30)
    golden(notifier.trouble())
    notifier.close()
    assert len(world.started) == 3
    assert world.events == ["alarm"]
    assert world.ended == 3
    world.now_s += 301.0
    assert notifier.trouble() == ""


def test_what_the_process_says_is_wrong_is_trouble(world, golden):
    """Until it says that all is well again."""
    notifier = world.notifier()
    notifier.begin()
    assert world.came.wait(30)
    world.hear("mail: was not taken")
    golden(notifier.trouble())
    world.hear("")
    assert notifier.trouble() == ""
    notifier.close()


@pytest.mark.parametrize(
    ("error", "event"), [(Tripped("tripped"), "failed"), (UsageError("no such policy"), "refused")]
)
def test_an_error_that_ends_the_campaign_is_handed_on(world, error, event):
    """And goes on its way; what only the caller need know is told to nobody else."""
    with pytest.raises(type(error)), telling_people(SETUP, SetClock(), world.start):
        raise error
    assert world.events == [event]


def test_where_nobody_is_to_be_told_nothing_is_started(world):
    """No thread, no process."""
    with telling_people(Setup("tank", "EUR", "state", Telling()), SetClock(), world.start) as people:
        assert people is None
    assert world.started == []


def test_the_process_is_told_what_is_shelved(tmp_path):
    """As the journal has it, in rig time of this process; without a journal nothing is."""
    setup = Setup("tank", "EUR", str(tmp_path), SETUP.telling)
    assert shelved_in(setup, SetClock()) == setup
    with closing(Journal(tmp_path, SetClock(1000.0), "boot-1")) as journal:
        journal.begin(make_spec(), "0.0")
        journal.alarms.add(Alarm(Severity.MAJOR, "ph", "low 7", kind="low", state="stands"))
        journal.alarms.mind("shelve", 1, "Ada", "known", 600.0)
    (shelved,) = shelved_in(setup, SetClock(40.0)).shelved
    assert (shelved.kind, shelved.source) == ("low", "ph")
    assert (shelved.until_s, shelved.who) == (640.0, "Ada")
