import asyncio
import resource
import sqlite3
from contextlib import closing

import pytest

from rigctl.campaign import loop, obstacles, safe_file
from rigctl.campaign.desk import Desk, StopRequest
from rigctl.campaign.events import PhaseChanged, TrialEnded
from rigctl.campaign.journal import Journal, JournalDoseLog, JournalThread
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import Event, State
from rigctl.campaign.watchman import Surroundings, Watchman
from rigctl.errors import DeviceTimeout, JournalUnwritable, Tripped
from rigctl.rig.spec import InterlockSpec
from tests.campaign.fakes import ThreadDecider, charged, make_spec, open_journal
from tests.campaign.records import SetClock
from tests.campaign.test_acts import soon
from tests.campaign.test_holding import ACID, phases, reads, watching
from tests.profiles import slow_beyond


class Disk:
    """A disk that is full from one moment to another: no file may grow beyond the journal's log as it is then."""

    def __init__(self, stage):
        self.log = stage.state / "journal.sqlite-wal"
        self.limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.filled = 0

    def fill(self):
        if not self.filled:
            self.filled = 1
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.log.stat().st_size, self.limits[1]))

    def free(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.limits)


@pytest.fixture
def disk(stage, monkeypatch):
    monkeypatch.setattr(obstacles, "RETRY_UNWRITABLE_S", 0.0)
    made = Disk(stage)
    yield made
    made.free()


def full_from(disk, operation, stage):
    """The disk fills up when the rig is asked for `operation`, and has room again once everything went safe."""

    def safe():
        if disk.filled == 1:
            stage.moved_while_full = stage.world.count("control"), stage.world.count("dose")
            disk.filled += 1
            disk.free()

    return {operation: disk.fill, "safe": safe}


def journal_alarms(stage):
    return [alarm.state for alarm in stage.alarms() if (alarm.kind, alarm.source) == ("unwritable", "journal")]


@pytest.mark.slow
async def test_fault_32_without_a_journal_nothing_moves_and_the_proposal_waits(stage, disk):
    """The disk is full before the trial is armed: no actuator is told anything; with room again the same trial runs."""
    result = await stage.run(make_spec(max_trials=2), fail=full_from(disk, "meters", stage))
    assert stage.moved_while_full == (0, 0)
    assert [row.state for row in stage.trials()] == [State.RECORDED] * 2
    assert result.trials == 2
    assert journal_alarms(stage) == ["stands", "over"]


async def test_fault_32_no_dose_is_sent_without_its_intent_on_disk(stage, disk):
    """The disk is full when a dose is due: it is not sent, the trial is abandoned and charged, the next one runs."""
    await stage.run(make_spec(max_trials=2), fail=full_from(disk, "control", stage))
    assert stage.moved_while_full == (1, 0)
    with stage.journal() as journal:
        first, second = journal.trials()
        assert (first.state, second.state) == (State.ABANDONED, State.RECORDED)
        assert first.cost == 50_000  # the fixed part; nothing else was used
        assert journal.doses.rows() == ()


@pytest.mark.slow
async def test_fault_32_what_was_measured_on_a_full_disk_is_charged_not_recorded(stage, disk):
    """The disk is full when the results are due: what was used is charged once there is room."""
    spec = make_spec(max_trials=2)
    result = await stage.run(spec, fail=full_from(disk, "measure", stage))
    with stage.journal() as journal:
        first, second = journal.trials()
        assert (first.state, second.state) == (State.ABANDONED, State.RECORDED)
        acid = sum(line.quantity for line in journal.ledger() if line.meter == "acid")
        assert acid == pytest.approx(stage.world.total("dose", "ml"))
        assert all(trial.agrees for trial in replay(journal, spec))
    assert result.spent == first.cost + second.cost


@pytest.mark.parametrize("at", ["between", "again"])
async def test_fault_32_a_disk_that_fails_after_a_trial_is_waited_for_too(stage, monkeypatch, at):
    """What cannot even be read, between a trial's end and the next one, or once the journal can be written again."""
    monkeypatch.setattr(obstacles, "RETRY_UNWRITABLE_S", 0.0)
    told, failed = Desk.tell_of_end, []

    async def unreadable(desk, row):
        failed.append(row.trial)
        if len(failed) == 1:
            raise JournalUnwritable("disk I/O error")
        await told(desk, row)

    def measured():
        if at == "again" and not failed:
            raise JournalUnwritable("no room")

    monkeypatch.setattr(Desk, "tell_of_end", unreadable)
    result = await stage.run(make_spec(max_trials=2), fail={"measure": measured})
    first, second = stage.trials()
    assert (first.state, second.state) == (State.ABANDONED if at == "again" else State.RECORDED, State.RECORDED)
    assert (result.ending, failed[-1]) == ("trials", 2)
    assert [journal_alarms(stage)[n] for n in (0, -1)] == ["stands", "over"]


async def test_fault_32_what_does_not_go_safe_holds_the_campaign_up_after_the_disk_has_room(
    stage, disk, monkeypatch, golden
):
    """The disk is full in mid-trial and an actuator is not confirmed safe: both must be over before the next trial.

    Whoever looks is told that it holds as long as it does.
    """
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.0)
    unsafe = [{}, *[{"valve": "no answer"}] * 3]
    result = await stage.run(make_spec(max_trials=2), fail=full_from(disk, "measure", stage), unsafe=unsafe)
    assert (result.trials, result.safe.ok) == (2, True)
    first = stage.rig.calls.index("measure")
    second = stage.rig.calls.index("control", first)
    assert stage.rig.calls[first:second].count("safe") == 4
    alarms = [(alarm.kind, alarm.source, alarm.state) for alarm in stage.alarms()]
    assert alarms.count(("unconfirmed", "safe state", "stands")) == 1
    told = [(event.phase, event.why) for event in stage.told if isinstance(event, PhaseChanged)]
    golden(told[:-1])  # either look may be the one that notices that it is over
    assert (told[-2][0], told[-1][0]) == ("HOLDING", "RUNNING")


def held(stage):
    """Whether the journal has a hold."""
    with closing(sqlite3.connect(f"file:{stage.state / 'journal.sqlite'}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT 1 FROM phases WHERE phase = 'HOLDING'").fetchone() is not None


@pytest.mark.parametrize("at", slow_beyond(1, ["between", "within", "unsafe"]))
async def test_hours_in_which_everything_is_held_are_paid_as_idle(stage, disk, monkeypatch, at):
    """On a full disk between trials or in one, and while something is not confirmed safe; none is paid twice."""
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.01)

    def measured():
        if stage.rig.calls.count("measure") == 2 and at == "within":
            disk.fill()
        elif stage.rig.calls.count("measure") == 2 and at == "unsafe":
            stage.rig.unsafe[:] = [{"valve": "no answer"}] * 2000
            raise DeviceTimeout("a_probe: no answer")

    class Told(list):
        def append(self, event):
            super().append(event)
            if isinstance(event, TrialEnded) and event.row.trial == 2 and at == "between":
                disk.fill()

    async def two_hours():
        await soon(lambda: any(isinstance(e, PhaseChanged) and e.phase == "HOLDING" for e in stage.told))
        if at == "unsafe":  # from when it is in the journal it counts
            await soon(lambda: held(stage))
        await asyncio.sleep(0.005)
        stage.world.do("time", s=7200.0)
        stage.rig.unsafe.clear()
        disk.free()

    stage.told = Told()
    passing = asyncio.create_task(two_hours())
    await stage.run(make_spec(max_trials=4), fail={"measure": measured})
    await passing
    with stage.journal() as journal:
        assert violations(journal) == ()
        steps = [e.at_s for row in journal.trials() for e in journal.events(row.trial) if e.event is not Event.PROPOSE]
        assert charged(journal, "labour") == pytest.approx((steps[-1] - steps[0]) / 3600)
        idle = [line.quantity for line in journal.idle.rows() if line.meter == "labour"]
        assert sum(idle) == pytest.approx(2.0)


def test_fault_32_a_journal_that_could_not_be_written_is_told_until_it_is(stage, disk, golden):
    """Even if nobody waited for what was to be written: a long settling on a dead disk is not sat out."""
    stage.state.mkdir()
    with JournalThread(lambda: open_journal(stage.state, stage.clock())) as thread:
        thread.submit(lambda j: j.begin(make_spec(), "0.0")).result()
        disk.fill()
        assert isinstance(thread.submit(lambda j: j.beat()).exception(), JournalUnwritable)
        thread.submit(lambda j: j.read.campaign()).result()
        golden(thread.still_there())
        disk.free()
        thread.submit(lambda j: j.beat()).result()
        assert thread.still_there() == ""


async def test_fault_32_a_campaign_does_not_start_on_a_full_disk(stage, disk):
    """If not even the start can be noted, the rig is not opened."""
    stage.state.mkdir()

    def full(directory, clock):
        journal = Journal(directory, clock, "boot-1")
        disk.fill()
        return journal

    with pytest.raises(JournalUnwritable):
        await stage.run(make_spec(), journal=full)
    assert stage.rig.calls == ["close"]
    disk.free()
    assert (await stage.run(make_spec(max_trials=1), journal=open_journal)).trials == 1


async def test_a_campaign_that_waits_for_room_can_be_stopped(stage, disk):
    """A stop ends the wait; the trial in flight is settled by the next start."""
    spec, stop = make_spec(), StopRequest()
    stage.state.mkdir()
    with JournalThread(lambda: open_journal(stage.state, stage.clock())) as thread:
        await thread.call(lambda j: j.begin(spec, "0.0"))
        desk = Desk(thread, stage.told.append)
        rig = stage.make_rig(fail={"measure": disk.fill, "safe": lambda: setattr(stop, "finish", "enough")})
        made = rig(JournalDoseLog(thread), desk)
        watchman = Watchman(
            rules=(),
            clock=stage.clock(),
            desk=desk,
            surroundings=Surroundings(stage.state, lambda: ""),
            journal_s=lambda: 0.0,
            alive=lambda: None,
            beat=lambda: None,
        )
        shared = (spec, made, thread, stage.clock(), desk, stop)
        ended = await loop.Runner(*shared, watchman, ThreadDecider()).run()
    assert ended == ("stopped", "enough")
    disk.free()
    await stage.run(make_spec(max_trials=1))
    assert stage.trial(1).state is State.LOST


def test_fault_32_a_journal_without_a_first_word_is_sound(tmp_path):
    """That a process runs was not kept while the disk was full, that it holds was: `verify` asked for a backup."""
    with closing(open_journal(tmp_path, SetClock())) as journal:
        journal.begin(make_spec(), "0.0")
        journal.phase("HOLDING", "no room")
        assert violations(journal.read) == ()


@pytest.mark.slow
async def test_a_trip_found_on_a_full_disk_trips_at_once_and_is_latched_when_there_is_room(stage, disk):
    """Nothing may be driven meanwhile; the process stays until the trip is kept, so the next start finds it."""
    spec, tripped = watching(InterlockSpec("acid", ACID.when, "trip"), max_trials=2), []

    async def too_acid():
        disk.fill()
        stage.rig.shows = reads(0.5)
        await asyncio.Event().wait()

    async def make_room():
        await soon(lambda: phases(stage)[-1:] == ["HOLDING"])
        tripped.append(stage.rig.tripped)
        disk.free()

    room = asyncio.create_task(make_room())
    with pytest.raises(Tripped):
        await stage.run(spec, shows=reads(3.0), fail={"measure": too_acid})
    disk.free()
    await room
    assert tripped[0] is not None
    with pytest.raises(Tripped):
        await stage.run(spec)
