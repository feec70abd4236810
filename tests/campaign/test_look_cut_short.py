"""Looks that are cut short: by the watch, by people, by caps, by a start on another boot."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from rigctl.campaign.closing import DIED
from rigctl.campaign.events import PhaseChanged
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.journal.recovering import told
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import Event, State
from rigctl.errors import CapReached, DeviceTimeout, Tripped
from rigctl.rig.spec import InterlockSpec, WatchSpec
from tests.campaign.fakes import SETTLE_S, FakeClock, Stage, ThreadDecider, charged, metered, open_journal
from tests.campaign.looking import looking_spec
from tests.campaign.records import give
from tests.campaign.test_acts import ask
from tests.campaign.test_awaiting import BY_HAND
from tests.campaign.test_holding import ACID, reads, soon
from tests.campaign.test_looking import left_behind, sound
from tests.campaign.test_recover import copied, recovered
from tests.campaign.test_verify import doctored
from tests.profiles import slow_beyond

pytestmark = pytest.mark.usefixtures("quick_roll_calls")


def watched(then="hold", **changes):
    spec = looking_spec(**changes)
    interlock = InterlockSpec("acid", ACID.when, then)
    return replace(spec, rig=replace(spec.rig, watch=WatchSpec(every_s=0.01, clear_for_s=0.0, interlocks=(interlock,))))


@dataclass(frozen=True)
class Cut:
    """What cuts a look short, where, and what comes of it."""

    what: str
    at: str
    """The rig's operation: `prepare` before anything moved, `look` while sensors are read, `verify` thereafter."""
    state: State
    ending: str = "trials"
    """How the campaign ends, asked for two trials."""


F, A, R = State.FAILED, State.ABANDONED, State.RECORDED
CUTS = [
    Cut("hold", "prepare", F),
    Cut("hold", "verify", F),
    Cut("fail", "look", F),
    Cut("safe", "prepare end", F, "interlock"),
    Cut("trip", "look", F, "tripped"),
    Cut("rig trips", "prepare", F, "tripped"),
    Cut("cap", "prepare", A),
    Cut("cap", "verify", A),
    Cut("pause", "look", R),
    Cut("pause now", "look", A),
    Cut("stop", "prepare", R, "stopped"),
    Cut("abort", "look", A, "abandoned"),
]


class Cutting:
    """Does to a campaign what a `Cut` says, once; what was wrong is over when everything was made safe."""

    def __init__(self, stage, cut):
        self.stage, self.cut, self.done, self.resuming = stage, cut, False, None

    @property
    def faults(self):
        return {self.cut.at: self.strike, "safe": self.mend}

    async def strike(self):
        if self.done or self.stage.world.count("prepare") + (self.cut.at == "prepare") != 1:
            return
        self.done, what = True, self.cut.what
        if what in ("hold", "fail", "safe", "trip"):
            self.stage.rig.shows = reads(0.5)
        elif what == "cap":
            raise CapReached("pump: over its cap of an hour", "pump", 5.0)
        elif what == "rig trips":
            raise Tripped("the float switch opened")
        else:
            verb, _, now = what.partition(" ")
            asked = asyncio.create_task(ask(self.stage, "safe" if verb == "abort" else verb, now=bool(now)))
            self.resuming = asyncio.create_task(self.resume()) if verb == "pause" else asked
            if what in ("pause", "stop"):  # after the trial under way
                await asked
                return
        await asyncio.Event().wait()

    def mend(self):
        if self.done:
            self.stage.rig.shows = reads(3.0)

    async def resume(self):
        await soon(lambda: [e.phase for e in self.stage.told if isinstance(e, PhaseChanged)][-1:] == ["PAUSED"])
        await ask(self.stage, "resume")


@pytest.mark.parametrize("cut", slow_beyond(1, CUTS), ids=lambda cut: f"{cut.what} in {cut.at}".replace(" ", "-"))
async def test_a_look_that_is_cut_short_is_charged_and_never_repeated(stage, cut):
    """Closed once everything is safe, at what was metered; the next trial is prepared and read for itself."""
    spec, cutting = (
        watched(cut.what if cut.what in ("fail", "safe", "trip") else "hold", max_trials=2),
        Cutting(stage, cut),
    )
    run = stage.run(spec, fail=cutting.faults, shows=reads(3.0))
    if cut.ending == "tripped":
        with pytest.raises(Tripped):
            await run
    else:
        assert (await run).ending == cut.ending
    if cutting.resuming is not None:
        await cutting.resuming
    with stage.journal() as journal:
        rows, count = journal.trials(), stage.world.count
        assert [row.state for row in rows] == [cut.state, *[R] * (cut.ending == "trials")]
        assert rows[0].cost > 0
        assert (rows[0].control_set == ()) is (cut.state is not R)
        for meter in ("power", "acid"):
            assert charged(journal, meter) == pytest.approx(metered(journal, meter))
        assert count("control") == sum(row.state is R for row in rows)
        assert count("prepare") == len(rows) - (cut.at == "prepare" and cut.state is not R)
        assert journal.events(1)[0].event is Event.LOOK
    sound(stage, spec)


@pytest.mark.parametrize("last", ["begin", "propose"])
async def test_nothing_that_was_read_before_a_boot_counts_after_it(stage, last, golden):
    """However young it looks: a clock without a battery goes on where it was. The next trial is prepared and read."""
    spec = looking_spec(max_trials=2)
    left_behind(stage, last, spec)
    await stage.run(spec, journal=lambda directory, clock: Journal(directory, clock, "boot-2"))
    with stage.journal() as journal:
        old, new = journal.trials()
        assert (old.state, new.state) == (State.LOST if last == "begin" else A, R)
        assert old.cost > 0
        golden(old.because)
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
    assert [stage.world.count(what) for what in ("prepare", "control")] == [2, 1]
    sound(stage, spec)


@pytest.mark.parametrize("last", ["begin", "propose"])
async def test_the_night_a_machine_was_off_is_not_a_trial_s_that_had_looked(stage, last):
    """Its hours are idle, and so is what was used in them, however the trial that was under way is closed."""
    spec = looking_spec(max_trials=1)
    stage.clock = lambda: FakeClock(stage.world, speedup=1e4)
    left_behind(stage, last, spec)
    stage.world.do("energy", kwh=2.0)
    with closing(sqlite3.connect(stage.state / "journal.sqlite")) as journal:
        (seen_utc,) = journal.execute("SELECT seen_utc FROM starts").fetchone()
    morning = datetime.fromisoformat(seen_utc) + timedelta(hours=8) / 1e4
    await stage.run(spec, journal=lambda directory, clock: Journal(directory, clock, "boot-2", lambda: morning))
    with stage.journal() as journal:
        own = {line.meter: line.quantity for line in journal.ledger() if line.trial == 1}
        idle = {line.meter: line for line in journal.idle.rows() if line.before_trial == 1}
        assert own["labour"] < 0.5
        assert idle["labour"].quantity == pytest.approx(8.0, abs=0.1)
        assert own["power"] + idle["power"].quantity == pytest.approx(3.0)
        assert own["power"] < idle["power"].quantity
        assert DIED in idle["power"].note
    sound(stage, spec)


LOOKS_LOST = "DELETE FROM looks WHERE trial = 3"
DAMAGES = [
    ("", ["nothing is lost"], [3, 4]),
    (LOOKS_LOST, ["rows lost: at least 1 of looks"], [3, 4]),
    ("DELETE FROM awaited WHERE trial = 3", ["rows lost: at least 1 of awaited"], [4]),  # due at once
    (
        "DELETE FROM events WHERE trial = 2 AND event <> 'LOOK'",
        ["rows lost: at least 1 of events", "trials whose end was lost, closed: 2"],
        [3, 4],
    ),
    (
        "DELETE FROM trials WHERE trial = 2",
        ["rows lost: at least 1 of trials", "trials whose record was lost: 2"],
        [3, 4],
    ),
    ("DELETE FROM trials WHERE trial = 3", ["rows lost: at least 1 of trials", "trials whose record was lost: 3"], [4]),
    ("DELETE FROM measurements WHERE trial = 3", ["rows lost: at least 1 of measurements"], [4]),
]


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """The state of a campaign of three looks: one whose outcome came, one that failed, one that awaits its outcome."""
    stage, spec = Stage(tmp_path_factory.mktemp("waiting")), looking_spec(max_trials=3)
    spec = replace(spec, rig=replace(spec.rig, outcomes=(BY_HAND,)))

    def second():
        if stage.rig.calls.count("look") == 2:
            raise DeviceTimeout("a_probe: no answer")

    asyncio.run(stage.run(spec, fail={"look": second}))
    with closing(open_journal(stage.state, stage.clock())) as journal:
        give(journal, 1, {"y": 1.5}, "Ada")
    return stage, spec


@pytest.mark.parametrize(
    ("sql", "says", "awaited"),
    [pytest.param(*of, marks=() if n in (1, 5) else pytest.mark.slow) for n, of in enumerate(DAMAGES)],
)
def test_looks_and_awaited_outcomes_are_recovered_as_far_as_they_can_be_read(waiting, tmp_path, sql, says, awaited):
    """What is made of them holds, the campaign goes on from it, and takes what is still awaited."""
    before, spec = waiting
    stage = Stage(tmp_path)
    stage.world.log = list(before.world.log)
    path = copied(before.state / "journal.sqlite", tmp_path)
    if sql:
        doctored(path, sql)
    assert told(recovered(path, stage.state)) == says
    asyncio.run(stage.run(replace(spec, max_trials=4)))
    with closing(open_journal(stage.state, stage.clock())) as journal:
        trials = journal.read.trials()
        assert [row.trial for row in trials if row.state is State.AWAITING] == awaited
        assert len({line.trial for line in journal.read.ledger()}) == len(trials) == 4
        for trial in awaited:
            give(journal, trial, {"y": 2.5}, "Ada")
        assert violations(journal.read) == ()
        if not sql:
            assert [found.differences for found in replay(journal.read, spec) if not found.agrees] == []


@pytest.mark.parametrize(("at", "settle_s"), [("look", SETTLE_S), ("decision", SETTLE_S), ("decision", 7200.0)])
async def test_nothing_is_dosed_by_what_was_read_before_the_machine_slept(stage, at, settle_s, golden):
    """Charged, and given up before anything is controlled, however long a trial settles; the next is read anew."""

    def sleeps():
        if not stage.world.count("asleep"):
            stage.world.do("asleep", s=1800.0)
            stage.world.do("time", s=1800.0)

    class Slow(ThreadDecider):
        async def decide(self, question, limit_s):
            if at == "decision" and not question.looks:
                sleeps()
            return await super().decide(question, limit_s)

    spec = looking_spec(max_trials=2)
    spec = replace(spec, rig=replace(spec.rig, timing=replace(spec.rig.timing, settle_s=settle_s)))
    await stage.run(spec, decider=Slow(), fail={"look": sleeps} if at == "look" else {})
    with stage.journal() as journal:
        first, second = journal.trials()
        assert (first.state, second.state) == (State.ABANDONED, State.RECORDED)
        golden(first.because)
        assert [e["setpoints"] for e in stage.world.log if e["what"] == "control"] == [second.setpoints]
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
