"""Starts that end badly one after the other: the next holds everything safe until a person lets it go on (fault 31)."""

import json

import pytest

from rigctl.campaign import desk
from rigctl.campaign.starts import FILE_NAME, Starts, bad
from rigctl.campaign.trial import State
from rigctl.errors import DeviceError, JournalUnwritable, Tripped
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import StartsSpec, WatchSpec
from tests.campaign.fakes import make_rig_spec, make_spec
from tests.campaign.test_acts import ask, asks, once_paused

SPEC = StartsSpec(at_most=3, good_after_s=600.0)


def looping(**changes):
    """A campaign that is looked at a hundred times a second, and holds after three bad starts."""
    rig = make_rig_spec(watch=WatchSpec(every_s=0.01, clear_for_s=0.0), starts=SPEC)
    return make_spec(rig=rig, **changes)


async def held_then(stage, *acts):
    """Start it, and do what people do once it holds; return how it ended."""
    async with once_paused(stage, *acts):
        return await stage.run(looping(max_trials=1))


async def died(stage):
    """A process that dies in mid-recovery, as one that is killed: nobody takes anything back."""
    with pytest.raises(RuntimeError, match="died"):
        await stage.run(looping(), fail={"safe": RuntimeError("died")})


@pytest.mark.slow
async def test_fault_31_starts_that_die_hold_the_next_until_a_person_lets_it_go_on(stage, golden):
    """After three the fourth is ready, safe and paused, with an alarm; resumed it goes on, and the count is new."""
    for _ in range(3):
        await died(stage)
    assert bad(stage.state, 99) == 3
    stage.told.clear()
    seen = []

    async def look():
        seen.append((stage.world.count("control"), await ask(stage, "status"), bad(stage.state, 99)))

    result = await held_then(stage, look, asks(stage, "resume", who="anna", why="loose plug"))
    [(moved, status, counted)] = seen
    assert (moved, counted) == (0, 4)
    golden(status["paused"])
    (alarm,) = [a for a in stage.alarms() if a.source == "starts"]
    assert alarm.severity is Severity.MAJOR
    assert "`rigctl resume`" in alarm.message
    assert (result.ending, result.trials) == ("trials", 1)
    assert stage.acts()[-1].who == "anna"
    assert stage.trial(1).state is State.RECORDED
    assert bad(stage.state, 99) == 0


@pytest.mark.slow
async def test_fault_31_a_reboot_while_it_holds_lets_nothing_go_on(stage):
    """A held process that is ended in order leaves the count as it was: the next holds, too."""
    for _ in range(3):
        await died(stage)
    for _ in range(2):
        stage.told.clear()
        result = await held_then(stage, asks(stage, "safe", who="init"))
        assert (result.ending, stage.world.count("control"), bad(stage.state, 99)) == ("abandoned", 0, 3)


@pytest.mark.parametrize("fail", [{}, {"open": DeviceError("no answer")}, {"measure": Tripped("too warm")}])
async def test_an_end_in_order_does_not_count(stage, fail):
    """Nor does a start that was refused before anything moved, nor a trip, which a person must look at anyway."""
    await died(stage)
    try:
        await stage.run(looping(max_trials=1), fail=fail)
    except (DeviceError, Tripped):
        assert fail
    assert bad(stage.state, 99) == 1


async def test_an_end_with_an_error_counts(stage, golden):
    """A campaign that gives up has ended badly, though everything is safe."""
    with golden.raises(DeviceError):
        await stage.run(looping(max_failures=1), fail={"measure": DeviceError("scale: no answer")})
    assert bad(stage.state, 99) == 1


class Desk(desk.Desk):
    """Carries out at once what is to be kept."""

    def __init__(self, journal):
        self.journal = journal
        self.alarms = []

    def keep(self, what, work):
        work(self.journal)

    def alarm(self, alarm):
        self.alarms.append(alarm)


class Thread:
    """A journal's thread that is this one; its journal is a path."""

    def __init__(self, directory):
        self.path = directory / "journal.sqlite"

    async def call(self, work):
        return work(self)


def at(tmp_path, clock, spec=SPEC):
    thread = Thread(tmp_path)
    return Starts(spec, thread, Desk(thread), lambda: clock[0])


async def test_a_start_that_lasts_has_gone_well_and_makes_good_for_those_before(tmp_path, golden):
    """Not before its time, whatever the wall clock says; a held one never, however long it is safe."""
    for _ in range(2):
        await at(tmp_path, [0.0]).begin()
    clock = [1000.0]
    start = at(tmp_path, clock)
    assert await start.begin() == ""
    clock[0] += 599.0
    start.looked("")
    assert bad(tmp_path, 99) == 3
    clock[0] += 1.0
    start.looked("")
    assert bad(tmp_path, 99) == 0
    start.looked("")
    start.end(well=False)
    assert bad(tmp_path, 99) == 0
    (tmp_path / FILE_NAME).write_text(json.dumps({"version": 1, "bad": 3}), encoding="utf-8")
    held = at(tmp_path, clock)
    golden(await held.begin())
    clock[0] += 1e6
    held.looked("3 starts in a row ended badly")
    assert bad(tmp_path, 99) == 4
    held.looked("")  # a person has resumed it: now it has to show itself
    assert bad(tmp_path, 99) == 1
    clock[0] += 600.0
    held.looked("")
    assert bad(tmp_path, 99) == 0


async def test_a_count_that_cannot_be_read_holds(tmp_path):
    """Half a file is no reason to go on; no file is: nothing was ever counted."""
    (tmp_path / FILE_NAME).write_text('{"bad": ', encoding="utf-8")
    assert "3 starts" in await at(tmp_path, [0.0]).begin()
    (tmp_path / FILE_NAME).unlink()
    assert await at(tmp_path, [0.0]).begin() == ""


async def test_what_cannot_be_counted_moves_nothing(stage, monkeypatch):
    """A disk that takes no count: the start is refused before the first command."""

    def full(path, content):
        raise JournalUnwritable("no space left")

    monkeypatch.setattr("rigctl.campaign.starts.put", full)
    with pytest.raises(JournalUnwritable):
        await stage.run(looping())
    assert stage.world.count("safe") == stage.world.count("control") == 0


async def test_without_a_limit_nothing_is_counted(tmp_path):
    """A rig made by a program says for itself whether it is to be held."""
    assert await at(tmp_path, [0.0], spec=None).begin() == ""
    assert not (tmp_path / FILE_NAME).exists()
