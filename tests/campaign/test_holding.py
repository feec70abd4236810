import asyncio
import math
import threading
from itertools import count

import pytest

from rigctl.campaign import carry, closing, control, watch, watchman
from rigctl.campaign.trial import State
from rigctl.errors import CapReached, DeviceError, DeviceTimeout, Tripped
from rigctl.rig.conditions import Compare
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import InterlockSpec
from rigctl.rig.values import Measurement, RigGlance, SeenReading
from tests.campaign.records import rows
from tests.campaign.test_acts import phases, soon, watched

pytestmark = pytest.mark.usefixtures("quick_roll_calls")

ACID = InterlockSpec("acid", Compare("a", "<", 1.0, "mM"), "hold")


def watching(*interlocks, **changes):
    return watched(interlocks=interlocks, **changes)


def reads(value):
    return RigGlance({"a": SeenReading(value, "mM", 0.0, stale_after_s=5.0)})


def alarmed(stage, kind, source=None):
    return any(alarm.kind == kind and source in (None, alarm.source) for alarm in stage.alarms())


class Acid:
    """Too acid from the moment the first trial settles until everything has been made safe."""

    def __init__(self, stage, **glances):
        self.stage = stage
        self.seen = 0
        self.glances = {"bad": reads(0.5), "good": reads(3.0), **glances}

    def __call__(self):
        bad = "measure" in self.stage.rig.calls and self.stage.rig.calls[-1] != "control" and not self.over
        self.seen += bad
        return self.glances["bad" if bad else "good"]

    @property
    def over(self):
        calls = self.stage.rig.calls
        return "measure" in calls and calls.count("safe") >= 2 and self.seen > 8


def first_only(stage):
    async def fault():
        if stage.rig.calls.count("measure") == 1:
            await asyncio.Event().wait()

    return fault


@pytest.mark.slow
async def test_an_interlock_ends_the_trial_and_holds_the_campaign_until_it_is_over(stage, golden):
    """Safe at once, the trial FAILED and charged; HOLDING, then RUNNING again with the next trial."""
    result = await stage.run(watching(ACID, max_trials=2), shows=Acid(stage), fail={"measure": first_only(stage)})
    assert (result.ending, result.trials) == ("trials", 2)
    first, second = stage.trials()
    assert (first.state, second.state) == (State.FAILED, State.RECORDED)
    golden(first.because)
    assert first.cost > 0
    calls = stage.rig.calls
    assert calls[calls.index("measure") + 1] == "safe"
    assert phases(stage)[:2] == ["HOLDING", "RUNNING"]


@pytest.mark.parametrize("then", ["fail", "hold", "trip"])
async def test_no_trial_begins_before_every_interlock_has_been_judged(stage, then):
    """A start after a hold does not impose anything for as long as the first readings take; then it goes on."""
    looks, moved = count(), []

    def glance():
        if next(looks) < 8:
            moved.append("control" in stage.rig.calls)
            return reads(None)
        return reads(3.0)

    result = await stage.run(watching(InterlockSpec("acid", ACID.when, then), max_trials=1), shows=glance)
    assert (result.recorded, len(moved), any(moved)) == (1, 8, False)


@pytest.mark.parametrize("then", ["safe", "trip"])
async def test_an_interlock_may_end_the_campaign(stage, then, golden):
    """`safe` ends it in good order; `trip` stays latched for the next process."""
    spec = watching(InterlockSpec("acid", ACID.when, then), max_trials=5)
    run = stage.run(spec, shows=Acid(stage), fail={"measure": first_only(stage)})
    if then == "safe":
        result = await run
        assert (result.ending, result.trials, result.recorded) == ("interlock", 1, 0)
        return
    with golden.raises(Tripped):
        await run
    with golden.raises(Tripped):
        await stage.run(spec)
    assert stage.world.count("control") == 1


async def test_a_warning_disturbs_nothing(stage):
    """`warn` is an alarm, and the trial goes on."""
    spec = watching(InterlockSpec("acid", ACID.when, "warn"), max_trials=2)
    warned = {"measure": lambda: soon(lambda: alarmed(stage, "interlock acid"))}
    assert (await stage.run(spec, shows=reads(0.5), fail=warned)).recorded == 2
    assert alarmed(stage, "interlock acid")


async def test_fault_61_what_another_hand_switched_off_is_never_recorded(stage, golden):
    """An actuator that does not hold at the end of the window fails the trial, however good the numbers look."""
    result = await stage.run(watching(max_trials=1), astray={"valve": "reads back released, wanted 0.5 V"})
    assert (stage.trial(1).state, result.recorded) == (State.FAILED, 0)
    golden(stage.trial(1).because)


@pytest.mark.slow
async def test_fault_71_a_missing_instrument_holds_the_campaign_until_it_is_back(stage):
    """A meter away for a while costs one trial at most: the campaign waits for it instead of giving up."""
    away = {"power": lambda r: Reading(math.nan, r.unit, r.time_s, Severity.INVALID, "no answer")}

    def back():
        if stage.rig.calls.count("roll_call") >= 8:
            stage.rig.counters.clear()

    result = await stage.run(
        watching(max_trials=3), counters=away, missing=[{"mains": "no answer"}] * 7, fail={"roll_call": back}
    )
    assert (result.ending, result.recorded) == ("trials", 2)
    assert phases(stage).count("HOLDING") == 1
    assert alarmed(stage, "missing", "mains")


async def test_a_hold_can_be_ended_by_a_person(stage):
    """`stop` does not wait for what never comes back."""

    async def stop():
        if stage.rig.calls.count("roll_call") == 3:
            await asyncio.to_thread(control.ask, stage.state, "stop")

    faults = {"measure": DeviceTimeout("scale: no answer"), "roll_call": stop}
    result = await stage.run(watching(max_trials=9), missing=[{"scale": "no answer"}] * 99, fail=faults)
    assert (result.ending, result.trials, result.safe.ok) == ("stopped", 1, True)


async def test_fault_75_a_plug_in_s_mistake_costs_one_trial_and_its_traceback_is_kept(stage):
    """A KeyError in a driver: FAILED, alarm with where it happened, and on with the next trial."""
    once = [KeyError("gain")]

    def fault():
        if once:
            raise once.pop()

    result = await stage.run(watching(max_trials=2), fail={"measure": fault})
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.FAILED, State.RECORDED]
        (kept,) = [alarm.detail for alarm in journal.alarms.rows() if "KeyError" in alarm.message]
    assert "Traceback" in kept
    assert result.recorded == 1


@pytest.mark.slow
async def test_fault_72_a_cap_reached_in_mid_trial_is_no_failure(stage):
    """The trial is closed and charged, not FAILED; five of them do not end the campaign."""

    def capped():
        if stage.rig.calls.count("control") <= 6:
            raise CapReached("pump: over its cap of 24 h", "pump", 5.0)

    result = await stage.run(watching(max_trials=8), fail={"control": capped})
    states = [row.state for row in stage.trials()]
    assert (states, result.recorded) == ([State.ABANDONED] * 6 + [State.RECORDED] * 2, 2)


@pytest.mark.slow
async def test_fault_64_a_frozen_outcome_fails_the_trial_and_holds(stage):
    """The third trial with the very same reading while all else changes is no result; the sensor must move first."""
    frozen = {"y": Measurement(3.25, 0.0, 5)}
    moved = []

    def moves():
        moved.append(1)
        if len(moved) == 4:
            stage.rig.reads["y"] = 3.5
            stage.rig.measured.clear()

    result = await stage.run(watching(max_trials=4), measured=frozen, reads={"y": 3.25}, fail={"roll_call": moves})
    rows = stage.trials()
    assert [row.state for row in rows] == [State.RECORDED, State.RECORDED, State.FAILED, State.RECORDED]
    assert "frozen" in rows[2].because
    assert "HOLDING" in phases(stage)
    assert result.recorded == 3


@pytest.mark.slow
async def test_failures_of_one_device_count_though_good_trials_lie_between(stage):
    """Three of the last trials make an alarm, five a hold, which ends when the device answers steadily."""

    def every_other():
        if stage.rig.calls.count("measure") % 2:
            raise DeviceTimeout("no answer", device="pump")

    spec = watching(max_trials=10)
    assert (await stage.run(spec, fail={"measure": every_other})).recorded == 5
    assert alarmed(stage, "fails often", "pump")
    assert alarmed(stage, "unreliable", "pump")


async def test_what_holds_and_why_is_in_the_journal(stage):
    """Phases outlive the process that went through them."""
    await stage.run(watching(ACID, max_trials=2), shows=Acid(stage), fail={"measure": first_only(stage)})
    with stage.journal() as journal:
        kept = rows(journal, "phases")
    assert [row["phase"] for row in kept] == ["RUNNING", "HOLDING", "RUNNING", "ENDED"]
    assert "interlock acid" in kept[1]["why"]


async def test_a_disk_that_does_not_answer_does_not_stop_the_watch(tmp_path):
    """Files are looked at beside the loop: a look that hangs leaves the last one standing."""
    around = watchman.Surroundings(tmp_path / "gone", lambda: "")
    around.known()
    await soon(lambda: around.known().missing)
    assert "gone" in around.known().missing


async def test_fault_74_a_commit_that_does_not_return_is_noticed_and_everything_goes_safe(stage, monkeypatch):
    """While the journal's thread hangs the trial is broken off and the rig made safe; nothing waits for the disk."""
    returns, hung = threading.Event(), []

    async def hang():
        if not hung:
            monkeypatch.setattr(watch, "JOURNAL_S", 0.05)
            hung.append(stage.rig.doses._thread.submit(lambda _: returns.wait(30.0)))
            await asyncio.Event().wait()

    def safe_while_it_hangs():
        if hung and not returns.is_set():
            stage.made_safe_meanwhile = not hung[0].done()
            monkeypatch.setattr(watch, "JOURNAL_S", 60.0)  # a busy disk is not what this is about
            returns.set()

    result = await stage.run(watching(max_trials=2), fail={"measure": hang, "safe": safe_while_it_hangs})
    assert stage.made_safe_meanwhile
    assert alarmed(stage, "journal")
    assert [row.state for row in stage.trials()] == [State.FAILED, State.RECORDED]
    assert result.recorded == 1


class Brief:
    """Good again after two looks from the moment it was made bad."""

    def __init__(self):
        self.looks = -1

    def begin(self):
        self.looks = 0

    def __call__(self):
        if self.looks < 0:
            return reads(3.0)
        self.looks += 1
        return reads(0.5 if self.looks <= 2 else 3.0)

    async def over(self):
        await soon(lambda: self.looks > 4)


@pytest.mark.parametrize("then", ["hold", "safe", "trip"])
async def test_what_was_found_is_owed_though_it_is_over_before_anybody_can_act_upon_it(stage, then, golden):
    """While everything goes safe and the trial is closed the cause may end; hold, end and trip follow all the same."""
    brief = Brief()

    async def measure():
        if stage.rig.calls.count("measure") == 1:
            brief.begin()
            await asyncio.Event().wait()

    async def safe():
        if brief.looks >= 0:
            await brief.over()

    spec = watching(InterlockSpec("acid", ACID.when, then), max_trials=2)
    run = stage.run(spec, shows=brief, fail={"measure": measure, "safe": safe})
    if then == "trip":
        with golden.raises(Tripped):
            await run
        return
    result = await run
    assert (result.ending, result.trials) == {"hold": ("trials", 2), "safe": ("interlock", 1)}[then]
    assert phases(stage)[:1] == (["HOLDING"] if then == "hold" else [])


@pytest.mark.parametrize("then", ["hold", "trip"])
async def test_between_two_trials_it_goes_safe_at_once_and_the_next_does_not_begin(stage, then, golden):
    """The meters keep the next trial waiting when the interlock fires: safe before they answer, and no trial on it."""
    await stage.run(watching(max_trials=1))
    brief, safe_meanwhile = Brief(), []

    async def meters():
        if brief.looks < 0:
            before = stage.rig.calls.count("safe")
            brief.begin()
            await brief.over()
            safe_meanwhile.append(stage.rig.calls.count("safe") > before)

    spec = watching(InterlockSpec("acid", ACID.when, then), max_trials=2)
    run = stage.run(spec, shows=brief, fail={"meters": meters})
    if then == "trip":
        with golden.raises(Tripped):
            await run
        assert stage.world.count("control") == 1
    else:
        assert (await run).recorded == 2
        assert phases(stage)[:2] == ["HOLDING", "RUNNING"]
    assert safe_meanwhile == [True]


@pytest.mark.slow
async def test_a_trip_that_was_found_before_the_first_trial_outlives_the_process(stage, golden):
    """The start fails for another reason, and the next one finds the latch all the same."""
    brief = Brief()

    async def safe():
        if stage.rig.calls.count("safe") == 1:
            brief.begin()
            await brief.over()
            raise DeviceError("valve: no answer")

    spec = watching(InterlockSpec("acid", ACID.when, "trip"))
    with golden.raises(DeviceError):
        await stage.run(spec, shows=brief, fail={"safe": safe})
    with golden.raises(Tripped):
        await stage.run(spec)


@pytest.mark.slow
async def test_holds_of_the_watch_are_no_failures_in_a_row(stage):
    """However often an interlock holds the campaign, it goes on: nothing is broken."""
    tries = iter(range(100))

    async def broken_off():
        if next(tries) < 7:
            stage.rig.shows = reads(0.5)
            await asyncio.Event().wait()

    def fine_again():
        stage.rig.shows = reads(3.0)

    spec = watching(ACID, max_trials=8, max_failures=2)
    result = await stage.run(spec, shows=reads(3.0), fail={"measure": broken_off, "safe": fine_again})
    assert (result.ending, result.recorded) == ("trials", 1)


@pytest.mark.slow
async def test_a_trial_whose_record_is_on_its_way_when_the_watch_strikes_is_not_forgotten(stage, monkeypatch):
    """The finding comes while the journal's thread records: the trial counts, and the next has the next number."""
    entered, release = threading.Event(), threading.Event()

    def slowly(journal, *about):
        entered.set()
        assert release.wait(20.0)
        return closing.record(journal, *about)

    monkeypatch.setattr(carry, "record", slowly)

    def glance():
        return reads(0.5 if entered.is_set() and not release.is_set() else 3.0)

    def safe():
        if entered.is_set():
            release.set()

    result = await stage.run(watching(ACID, max_trials=3), shows=glance, fail={"safe": safe})
    assert [row.state for row in stage.trials()] == [State.RECORDED] * 3
    assert (result.ending, result.recorded) == ("trials", 3)
    assert "HOLDING" in phases(stage)


async def test_a_failure_blames_the_devices_it_carries_not_the_words_it_says(stage):
    """A variable called `a` is not let down by a mistake whose text has that word; its sensor by its own reading is."""

    def mistaken():
        raise KeyError("a mistake in a driver")

    await stage.run(watching(max_trials=1), fail={"measure": mistaken})
    (failed,) = [a for a in stage.alarms() if a.kind == "trial failed"]
    assert failed.source == "trial"
    assert not [a for a in stage.alarms() if a.kind == "fails often"]
