import asyncio
import os
import signal
import sqlite3
from contextlib import closing

import pytest

from rigctl.campaign import safe_file
from rigctl.campaign.events import CampaignStarted
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import Event, State
from rigctl.errors import DeviceTimeout, Tripped, UsageError
from rigctl.rig.protocols import Reading
from rigctl.rig.values import Measurement
from tests.campaign.fakes import INVALID, make_spec, open_journal
from tests.campaign.records import STATES, STEPS, make_decision
from tests.campaign.test_acts import ask, phases

MEASURED = {"a": Measurement(5.0, 0.0, 5), "b": Measurement(0.25, 0.0, 5), "y": Measurement(1.5, 0.1, 5)}
DAY_S = 86_400.0


def left_behind(stage, last, measured=MEASURED, beat_after_s=None):
    """The journal of a process that died after the trial's event `last`; a dose and a kilowatt-hour were used."""
    stage.state.mkdir()
    journal = open_journal(stage.state, stage.clock())
    journal.begin(make_spec(), "0.0")

    def readings():
        return {
            "power": Reading(stage.world.total("energy", "kwh"), "kWh", stage.world.now_s),
            "acid": Reading(stage.world.total("dose", "ml"), "mL", stage.world.now_s),
        }

    for event in list(STEPS)[: list(STEPS).index(last) + 1]:
        if event is Event.PROPOSE:
            journal.propose(make_decision(1))
        elif event is Event.ARM:
            journal.arm(1, readings())
            dose = journal.doses.intend("pump", 10.0, 0.0)
            stage.world.do("time", s=360.0)
            journal.doses.sent(dose)
            stage.world.do("dose", ml=8.0, intent=dose)
            stage.world.do("energy", kwh=1.0)
        elif event is Event.RUN:
            journal.doses.settle(dose, "DONE", 8.0, "")
            journal.run(1, STATES)
        elif event is Event.MEASURE:
            stage.world.do("time", s=360.0)
            journal.measure(1, measured, ("y",), readings())
    if beat_after_s is not None:
        stage.world.do("time", s=beat_after_s)
        journal.beat()
    journal.close()


def lines_of(stage, trial):
    with stage.journal() as journal:
        return {line.meter: line for line in journal.ledger(trial)}


async def test_a_proposal_that_moved_nothing_is_carried_out_unchanged(stage):
    """PROPOSED: the same control set and setpoints, one trial, nothing lost."""
    left_behind(stage, Event.PROPOSE)
    await stage.run(make_spec(max_trials=1))
    row = stage.trial(1)
    assert (row.state, row.setpoints) == (State.RECORDED, {"a": 5.0})
    assert [e["setpoints"] for e in stage.world.log if e["what"] == "control"] == [{"a": 5.0}]


@pytest.mark.parametrize("last", [Event.ARM, Event.RUN])
async def test_a_trial_in_flight_is_lost_charged_and_never_repeated(stage, last, golden):
    """ARMED and RUNNING: charged up to the last record, energy by its share of the time; the rest is idle."""
    left_behind(stage, last)
    stage.world.do("time", s=DAY_S)
    await stage.run(make_spec(max_trials=1))
    row = stage.trial(1)
    lines = lines_of(stage, 1)
    golden(row.because)
    assert row.state == State.LOST
    assert stage.world.count("control") == 0
    took_s = 360.0 if last is Event.RUN else 0.0
    assert lines["power"].quantity == pytest.approx(took_s / (360.0 + DAY_S))
    assert lines["power"].estimated
    assert (lines["acid"].quantity, lines["water"].quantity) == (8.0, 1.0)
    assert lines["labour"].quantity == pytest.approx(took_s / 3600.0)
    with stage.journal() as journal:
        idle = {i.meter: i for i in journal.idle.rows()}
        assert stage.told[0] == CampaignStarted("fake", 1, journal.campaign().spent, 100_000_000, lost=1)
        assert journal.campaign().spent == row.cost + sum(i.amount for i in idle.values())
    assert lines["power"].amount + idle["power"].amount == 300_000
    assert idle["labour"].quantity == 24.0


async def test_a_heartbeat_shows_how_long_a_lost_trial_had_gone_on(stage):
    """The time charged reaches to the last heartbeat, not to the step before it."""
    left_behind(stage, Event.RUN, beat_after_s=720.0)
    stage.world.do("time", s=DAY_S)
    await stage.run(make_spec(max_trials=1))
    assert lines_of(stage, 1)["labour"].quantity == pytest.approx(0.3)


async def test_an_open_dose_is_settled_from_the_pump_and_not_sent_again(stage):
    """Eight of ten millilitres were dispensed when the process died; eight are booked."""
    left_behind(stage, Event.ARM)
    await stage.run(make_spec(max_trials=1))
    with stage.journal() as journal:
        (dose,) = journal.doses.rows()
    assert (dose.state, dose.dispensed_ml) == ("DONE", 8.0)
    assert stage.world.count("dose") == 1
    assert stage.rig.calls[:3] == ["open", "safe", "settle_doses"]


@pytest.mark.parametrize(("y", "state"), [(MEASURED["y"], State.RECORDED), (INVALID, State.FAILED)])
async def test_a_measured_trial_is_recorded_from_what_is_on_disk(stage, y, state):
    """MEASURED: the same record and cost as if the process had lived; the rig is not asked again."""
    left_behind(stage, Event.MEASURE, {**MEASURED, "y": y})
    stage.world.do("energy", kwh=50.0)
    stage.world.do("time", s=DAY_S)
    await stage.run(make_spec(max_trials=1))
    row = stage.trial(1)
    lines = lines_of(stage, 1)
    assert (row.state, row.outcome) == (state, 1.5 if state is State.RECORDED else None)
    assert (lines["power"].quantity, lines["acid"].quantity, lines["labour"].quantity) == (1.0, 8.0, 0.2)
    assert "meters" not in stage.rig.calls


async def test_a_counter_that_restarted_with_the_crash_is_estimated(stage):
    """A meter that lost its memory cannot say what the lost trial used."""
    left_behind(stage, Event.RUN)
    reset = {"power": lambda r: Reading(-1.0 + 0.5 * r.value, r.unit, r.time_s)}
    await stage.run(make_spec(max_trials=1), counters=reset)
    line = lines_of(stage, 1)["power"]
    assert (line.estimated, line.amount) == (True, 1_500_000)
    assert line.note.startswith("fell ")


@pytest.mark.slow
async def test_recovering_twice_is_recovering_once(stage):
    """A process that dies while it settles the past leaves it to the next, which charges it once, and the same."""
    left_behind(stage, Event.ARM)
    stage.world.do("time", s=DAY_S)
    with pytest.raises(ZeroDivisionError):
        await stage.run(make_spec(max_trials=2), fail={"meters": ZeroDivisionError()})
    stage.world.do("time", s=DAY_S)
    result = await stage.run(make_spec(max_trials=2))
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.LOST, State.RECORDED]
        assert result.spent == sum(line.amount for line in (*journal.ledger(), *journal.idle.rows()))
        assert len(journal.starts()) == 3
        assert lines_of(stage, 1)["labour"].quantity == 0.0
        assert [t.differences for t in replay(journal, make_spec()) if t.trial == 2] == [()]


@pytest.mark.parametrize("where", ["open", "safe", "meters"])
async def test_a_signal_before_the_past_is_settled_leaves_it_to_the_next_start(stage, where):
    """SIGTERM while the rig is opened or the lost trial is charged: it is charged by the next start, as lost."""
    left_behind(stage, Event.RUN)
    stage.world.do("time", s=DAY_S)

    async def hang_once():
        if stage.rig.calls.count(where) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    result = await stage.run(make_spec(max_trials=1), fail={where: hang_once})
    assert (result.ending, result.trials) == ("abandoned", 0)
    await stage.run(make_spec(max_trials=1))
    assert stage.trial(1).state is State.LOST
    assert lines_of(stage, 1)["labour"].quantity == 0.1


# A start that fails -------------------------------------------------------------------------------------------------

SILENT = DeviceTimeout("mains_meter: silent")


@pytest.fixture
def at_once(monkeypatch):
    """What cannot be confirmed safe is tried again at once."""
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.0)


@pytest.mark.parametrize("opens", [True, False], ids=["opens", "opens only when it is safe"])
async def test_fault_116_a_start_goes_on_once_what_was_left_driven_is_confirmed_safe(stage, at_once, opens):
    """It holds until then, with one alarm that ends; only then what was in flight is settled, and trials begin."""
    left_behind(stage, Event.RUN)
    failing = {} if opens else {"open": lambda: stage.rig.calls.count("safe") or answers_not()}
    result = await stage.run(make_spec(max_trials=2), fail=failing, unsafe=[{"valve": "stuck"}] * 3)
    assert (result.ending, result.safe.ok) == ("trials", True)
    assert [row.state for row in stage.trials()] == [State.LOST, State.RECORDED]
    tries = ["open", *["safe"] * 4, *(() if opens else ("open", "safe")), "meters"]
    assert stage.rig.calls[: len(tries)] == tries
    assert [a.state for a in stage.alarms() if a.kind == "unconfirmed"] == ["stands", "over"]
    assert phases(stage)[:2] == ["HOLDING", "RUNNING"]


def answers_not():
    raise SILENT


@pytest.mark.parametrize("more", [3, 9], ids=["safe at the end", "safe later"])
async def test_fault_116_a_signal_ends_a_start_that_holds(stage, at_once, more):
    """What was in flight is left to the next start, and no trial begins."""
    left_behind(stage, Event.RUN)

    def third():
        if stage.rig.calls.count("safe") == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    result = await stage.run(fail={"safe": third}, unsafe=[{"valve": "stuck"}] * more)
    assert (result.ending, result.safe.ok) == ("abandoned", True)
    assert [a.state for a in stage.alarms() if a.kind == "unconfirmed"][-1] == "over"
    assert [row.state for row in stage.trials()] == [State.RUNNING]
    assert stage.world.count("control") == 0


async def test_fault_116_stopped_while_a_start_holds_it_settles_the_past_and_ends(stage, at_once):
    """Asked to end, it begins no trial, and stays until everything is confirmed safe."""
    left_behind(stage, Event.RUN)

    async def third():
        if stage.rig.calls.count("safe") == 3:
            await ask(stage, "stop")

    result = await stage.run(fail={"safe": third}, unsafe=[{"valve": "stuck"}] * 9)
    assert (result.ending, result.safe.ok) == ("stopped", True)
    assert [row.state for row in stage.trials()] == [State.LOST]
    assert stage.rig.calls.count("safe") == 10


@pytest.mark.parametrize("last", [Event.ARM, Event.RUN, Event.MEASURE])
async def test_a_missing_instrument_does_not_keep_the_others_unsafe_after_a_crash(stage, last, golden, at_once):
    """The rig cannot be opened: what answers goes safe all the same, the rest is named, the error stays what it was."""
    left_behind(stage, last)
    with golden.raises(DeviceTimeout):
        await stage.run(fail={"open": SILENT}, unsafe=[{"valve": "no answer"}])
    assert stage.rig.calls == ["open", "safe", "safe", "open", "safe", "close"]
    golden([a.message for a in stage.alarms()])


@pytest.mark.parametrize("changed", [{"seed": 8}, {"budget": 1}])
async def test_a_configuration_that_is_refused_after_a_crash_still_makes_safe(stage, changed):
    """Whatever keeps the campaign from starting, what the dead process left running is stopped."""
    left_behind(stage, Event.RUN)
    with pytest.raises(UsageError):
        await stage.run(make_spec(**changed))
    assert stage.rig.calls == ["safe", "close"]


async def test_an_unsettled_past_stays_unsettled_until_the_rig_could_be_opened(stage):
    """Every start that fails makes safe again, whatever the one before it could confirm."""
    left_behind(stage, Event.MEASURE)
    for _ in range(2):
        with pytest.raises(DeviceTimeout):
            await stage.run(fail={"open": DeviceTimeout("mains_meter: silent")})
        assert stage.rig.calls == ["open", "safe", "open", "safe", "close"]


async def test_a_rig_that_was_left_safe_is_not_touched_by_a_start_that_fails(stage):
    """After a clean end nothing is written before all instruments have answered; an ingest changes nothing."""
    await stage.run(make_spec(max_trials=1))
    journal = open_journal(stage.state, stage.clock())
    journal.begin(make_spec(), "0.0")
    journal.beat(ended="ingest")
    journal.close()
    for _ in range(2):
        with pytest.raises(DeviceTimeout):
            await stage.run(fail={"open": DeviceTimeout("mains_meter: silent")})
        assert stage.rig.calls == ["open", "close"]


async def test_a_signal_while_the_rig_is_opened_after_a_crash_makes_safe(stage):
    """SIGTERM before all devices are identified: what the dead process left running is stopped."""
    left_behind(stage, Event.RUN)

    async def hang():
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    result = await stage.run(fail={"open": hang}, unsafe=[{"valve": "no answer"}])
    assert (result.ending, result.safe.ok) == ("abandoned", True)
    assert stage.rig.calls == ["open", "safe", "safe", "close"]


# The trip -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_trip_stays_latched_for_the_next_process_until_it_is_reset(stage, golden):
    """The campaign does not start, says why and what to do; once reset, it goes on."""
    with golden.raises(Tripped):
        await stage.run(fail={"control end": Tripped("pump runs on")})
    for _ in range(2):
        with golden.raises(Tripped):
            await stage.run()
        assert stage.rig.calls == ["close"]
    journal = open_journal(stage.state, stage.clock())
    was = journal.trips.reset()
    assert (was.reason, journal.trips.latched(), journal.trips.reset()) == ("pump runs on", None, None)
    journal.close()
    assert (await stage.run(make_spec(max_trials=2))).trials == 2


async def test_a_trip_is_on_disk_before_its_trial_is_closed(stage):
    """A process that is killed right after a trip leaves it latched."""
    seen = []

    def look():
        with closing(sqlite3.connect(stage.state / "journal.sqlite")) as file:
            sql = "SELECT reason, (SELECT state FROM trials) FROM trips WHERE reset_utc IS NULL"
            seen.append(file.execute(sql).fetchone())

    with pytest.raises(Tripped):
        await stage.run(fail={"control": Tripped("pump runs on"), "meters": look})
    assert seen == [None, ("pump runs on", "ARMED")]


async def test_a_trip_that_was_not_raised_is_latched_at_the_end_all_the_same(stage, golden):
    """A pump that could not be stopped while the past was settled trips the rig without ending anything by itself."""

    def trip():
        stage.rig.tripped = "pump does not stop"

    await stage.run(make_spec(max_trials=1), fail={"measure": trip})
    with golden.raises(Tripped):
        await stage.run()


async def test_a_latched_trip_after_a_crash_still_makes_safe(stage, golden):
    """Refused, but what the dead process left running is stopped."""
    left_behind(stage, Event.RUN)
    journal = open_journal(stage.state, stage.clock())
    journal.trips.latch("pump runs on")
    journal.trips.latch("and another")
    journal.close()
    with golden.raises(Tripped):
        await stage.run()
    assert stage.rig.calls == ["safe", "close"]
