"""The dose protocol: once, whatever is lost, refused, restarted or silent."""

import asyncio
import math
from dataclasses import replace

import pytest

from rigctl.errors import (
    DeviceFault,
    DeviceTimeout,
    GarbledReply,
    GuardRefused,
    JournalUnwritable,
    PortUnavailable,
    Tripped,
)
from rigctl.rig.bus import Contact
from rigctl.rig.protocols import DoseStatus, Identity, Reading, Severity
from tests.drivers.circuits import Pump
from tests.drivers.peers import PtyPeer, cut_lines, peers
from tests.rig.boards import reading, rig_of
from tests.rig.fakes import FakeDoseLog
from tests.rig.pumps import Pumps

END = b"\r"


@pytest.fixture
async def world():
    world = Pumps()
    yield world
    await world.close()


async def test_the_protocol_in_order(world):
    """Intent with the total before, one command, sent, done with the actual volume."""
    assert await world.dispense(20.0) == pytest.approx(20.0)
    assert world.doses.records == [("intend", "pump", 20.0, 100.0), ("sent", 1), ("done", 1, 20.0)]
    assert world.pump.started == [20.0]
    assert world.alarms == []


async def test_the_intent_is_on_record_before_anything_is_sent(world):
    """Fault 32: when the intent cannot be recorded, nothing is sent."""

    async def full(*_):
        raise JournalUnwritable("disk full")

    world.doses.intend = full
    with pytest.raises(JournalUnwritable):
        await world.dispense()
    assert world.pump.started == []


async def test_a_dose_over_a_cap_leaves_no_trace(world):
    """A dose the guard refuses is neither recorded nor sent."""
    with pytest.raises(GuardRefused):
        await world.dispense(51.0)
    assert world.doses.records == []
    assert world.line.log == []


@pytest.mark.parametrize(
    ("hinder", "error"),
    [
        (lambda pump: pump.fail("ready", DeviceFault("Dstart is 5.00, must be 0")), DeviceFault),
        (lambda pump: pump.run_alone(), DeviceFault),
        (lambda pump: setattr(pump, "total_ml", math.nan), GarbledReply),
    ],
    ids=["not ready", "begun by somebody else", "without a total"],
)
async def test_a_pump_that_is_not_ready_gets_no_dose(world, hinder, error, golden):
    """Fault 26: nor one that runs already, which the watch stops, nor one whose total could not testify later."""
    hinder(world.pump)
    with golden.raises(error):
        await world.dispense()
    assert (world.pump.started, world.doses.steps) == ([], [])


@pytest.mark.parametrize("lost", [DeviceTimeout("lost"), GarbledReply("crc"), OSError("reset")])
async def test_a_lost_reply_is_not_answered_with_a_second_dose(world, lost):
    """Fault 1, 13: when the reply is lost the dose is not repeated; the pump's total tells what came out."""
    world.pump.fail_after("start_dose", lost)
    assert await world.dispense(20.0) == pytest.approx(20.0)
    assert world.pump.started == [20.0]
    assert world.doses.steps == ["intend", "sent", "done"]
    assert world.severities == [Severity.MINOR]


async def test_a_lost_command_is_not_repeated_either(world):
    """Fault 1: when the command itself was lost, the total shows that nothing came out, and nothing is booked."""
    world.pump.fail("start_dose", DeviceTimeout("lost"))
    assert await world.dispense(20.0) == 0.0
    assert world.pump.started == []
    assert world.doses.records[-1] == ("done", 1, 0.0)


async def test_a_lost_command_is_not_taken_for_the_dose_before(world):
    """Fault 4: a pump that still shows its last dose does not make a lost command look carried out."""
    await world.dispense(20.0)
    world.pump.fail("start_dose", DeviceTimeout("lost"))
    assert await world.dispense(20.0) == 0.0
    assert world.pump.started == [20.0]


async def test_a_refused_dose_counts_nothing(world):
    """Fault 22: a dose the pump refuses at once is recorded as 0 mL."""
    world.pump.fail("start_dose", DeviceFault("*ER"))
    with pytest.raises(DeviceFault, match="refused"):
        await world.dispense()
    assert world.doses.records[-1] == ("done", 1, 0.0)


async def test_a_dose_refused_afterwards_counts_nothing(world):
    """Fault 22: a dose the pump accepts and then refuses (`*TOOFAST`, `*MINVOL`) is recorded as 0 mL."""
    world.pump.fault_after_start = "*TOOFAST"
    with pytest.raises(DeviceFault, match="TOOFAST"):
        await world.dispense()
    assert world.doses.records[-1] == ("done", 1, 0.0)


async def test_another_pump_on_the_port_gets_no_dose(world):
    """Fault 18: if another instrument answers by the time of the command, nothing is sent and nothing is booked."""
    intend = world.doses.intend

    async def swapped(*record):
        world.pump.identity = Identity("fake", "1.0", "another")
        world.buses["pump"]._link.contact = Contact(opened=99)
        return await intend(*record)

    world.doses.intend = swapped
    with pytest.raises(DeviceFault, match="refused"):
        await world.dispense()
    assert world.pump.started == []
    assert world.doses.records[-1] == ("done", 1, 0.0)


async def test_a_restart_in_mid_dose_is_booked_in_full(world):
    """Fault 21: a pump that restarted cannot testify: unknown, full volume, major alarm, no second dose."""
    world.pump.reset_after_start = True
    with pytest.raises(DeviceFault, match="restarted"):
        await world.dispense(20.0)
    assert world.doses.records[-1] == ("unknown", 1, 20.0)
    assert world.severities == [Severity.MAJOR]
    assert world.pump.started == [20.0]


async def test_a_restart_whose_notice_was_lost_shows_in_the_total(world):
    """Fault 21: what a short dose shows may be what the pump did since it restarted."""
    world.pump.short, totals_ml = 0.8, iter((100.0, 16.0))
    world.pump.total_volume_ml = lambda _: Reading(next(totals_ml), "mL", 0.0)
    with pytest.raises(DeviceFault, match="restarted"):
        await world.dispense(20.0)
    assert world.doses.records[-1] == ("unknown", 1, 20.0)


async def test_a_restart_is_noticed_long_before_the_dose_is_due(world):
    """Fault 21: at speed 1 a pump that restarted at once is noticed after 2 s, not at the end of a dose of 50 s."""
    world.pump.reset_after_start = True
    with pytest.raises(DeviceFault, match="restarted"):
        await world.dispense(50.0)
    assert world.clock.now_s() == pytest.approx(1000.0 + 2.0)


async def test_a_pump_that_accepts_and_never_begins_is_noticed_and_booked_as_nothing(world):
    """A pump that stands still 2 s after it accepted is asked for its total: what it shows is the dose before."""
    await world.dispense(20.0)
    world.pump.start_dose = lambda volume_ml, deadline: None
    began_s = world.clock.now_s()
    assert await world.dispense(20.0) == 0.0
    assert world.clock.now_s() == pytest.approx(began_s + 2.0)
    assert world.doses.records[-1] == ("done", 2, 0.0)
    assert world.severities == [Severity.MINOR]


async def test_beside_a_fast_rig_a_pump_has_two_seconds_of_the_wall_to_answer(world):
    """Its deadline in rig time may be over sooner; it is stopped once both are."""
    ask, rest, wall_s = world.pump.dose_status, world.clock.rest, [0.0]

    def silent(deadline):
        if world.pump.started:
            raise DeviceFault("gateway: no answer")
        return ask(deadline)

    async def an_eighth(seconds):
        wall_s[0] += 0.125
        await rest(seconds)

    world.pump.dose_status, world.clock.rest, world.dispenser._wall = silent, an_eighth, lambda: wall_s[0]
    world.clock.speedup = 2400.0
    with pytest.raises(DeviceTimeout):
        await world.dispense(20.0)
    assert (wall_s, world.doses.records[-1][:1]) == ([2.125], ("unknown",))


@pytest.mark.parametrize(("speedup", "questions"), [(1.0, 25), (2400.0, 1)])
async def test_a_long_dose_is_asked_about_every_two_seconds(world, speedup, questions):
    """Of the wall, the last time when it is due: a seventh of what a pump can answer; beside a fast rig once."""
    world.clock.speedup = speedup
    await world.dispense(50.0)
    assert world.line.log.count("pump dose_status") == 1 + questions
    assert world.clock.now_s() == pytest.approx(1000.0 + 50.0)


@pytest.mark.parametrize(("volume_ml", "every_s"), [(20.0, 1.0), (50.0, 1.0), (200.0, 4.0)])
async def test_a_dose_that_is_due_is_asked_about_every_second_or_fiftieth_of_it(volume_ml, every_s):
    """So much longer at most a pump runs on that does not end by itself."""
    world = Pumps(per_dose_ml=volume_ml)
    world.clock.speedup, world.pump.short = 2400.0, 1.04
    rest, waited = world.clock.rest, []

    async def noted(seconds):
        waited.append(seconds)
        await rest(seconds)

    world.clock.rest = noted
    await world.dispense(volume_ml)
    assert waited[0] == pytest.approx(volume_ml)
    assert set(waited[1:]) == {every_s}
    await world.close()


@pytest.mark.parametrize("times", [1, 2])
async def test_a_stop_without_a_sign_is_settled_by_asking(world, times, golden):
    """Fault 25: when nothing shows that the stop arrived, the pump is asked, and stopped again if it runs."""
    world.pump.endless = True
    fail = world.pump.fail if times == 2 else world.pump.fail_after
    fail("stop", DeviceTimeout("no sign"))
    with golden.raises(Tripped):
        await world.dispense(20.0)
    assert world.line.log.count("pump stop") == times


async def test_a_short_dose_is_metered_as_it_was(world):
    """Fault 24: a dose that ends short is recorded with its actual volume and an alarm."""
    world.pump.short = 0.6
    assert await world.dispense(20.0) == pytest.approx(12.0)
    assert world.doses.records[-1] == ("done", 1, 12.0)
    assert world.severities == [Severity.MINOR]


async def test_115_a_pump_that_gives_more_than_was_asked_for_is_stopped_before_its_deadline(world, golden):
    """It took in another volume than it was sent: what shows that is what it shows, asked twice."""
    world.pump.short = 3.0
    with golden.raises(Tripped):
        await world.dispense(20.0)
    given_ml = world.pump.total_ml - 100.0
    assert 21.1 < given_ml < 25.0  # 30 mL by its deadline
    assert world.doses.records[-1] == ("done", 1, pytest.approx(given_ml))
    assert len(world.trips) == 1


async def test_115_one_spoilt_answer_is_no_overrun(world):
    """A digit that was lost on the line stops nobody."""
    asked = world.pump.dose_status
    spoilt = iter([False, True])

    def dose_status(deadline):
        told = asked(deadline)
        return replace(told, dispensed_ml=90.0) if told.running and next(spoilt, False) else told

    world.pump.dose_status = dose_status
    assert await world.dispense(20.0) == pytest.approx(20.0)
    assert world.trips == []


async def test_a_pump_past_its_deadline_is_stopped_and_trips(world, golden):
    """Fault 25: a pump that runs past its deadline is stopped, asked, booked by its total, and the rig trips."""
    world.pump.endless = True
    with golden.raises(Tripped):
        await world.dispense(20.0)
    kind, dose, volume_ml = world.doses.records[-1]
    assert (kind, dose) == ("done", 1)
    assert volume_ml > 20.0
    assert world.line.log.index("pump stop") < len(world.line.log) - 1
    assert len(world.trips) == 1
    assert Severity.MAJOR in world.severities


async def test_a_pump_that_does_not_stop_is_booked_in_full_and_trips(world, golden):
    """Fault 25: if the stop cannot be verified, the dose is unknown, what it shows is booked, and the rig trips."""
    world.pump.endless = world.pump.unstoppable = True
    with golden.raises(Tripped):
        await world.dispense(20.0)
    assert world.doses.records[-1] == ("unknown", 1, pytest.approx(world.pump.total_ml - 100.0))
    assert world.pump.total_ml > 120.0
    assert len(world.trips) == 1


async def test_a_pump_that_runs_and_cannot_be_asked_after_its_stop_is_booked_in_full_and_trips(world, golden):
    """Fault 2, 25: nobody knows whether the stop arrived, so it counts as running, and the rig trips."""
    ask = world.pump.dose_status

    def dose_status(deadline):
        if "pump stop" in world.line.log:
            raise DeviceFault("gateway: no answer")
        return ask(deadline)

    world.pump.endless, world.pump.dose_status = True, dose_status
    with golden.raises(Tripped):
        await world.dispense(20.0)
    kind, dose, volume_ml = world.doses.records[-1]
    assert (kind, dose) == ("unknown", 1)
    assert volume_ml > 21.1
    assert len(world.trips) == 1


async def test_a_pump_may_take_all_the_time_to_its_deadline(world):
    """One that still runs at the deadline itself, and is done at the next question, was no overrun."""
    due_s = world.clock.now_s() + 1.25 * 20.0 + 5.0

    def dose_status(deadline):
        over = world.clock.now_s() > due_s or not world.pump.started
        return DoseStatus(running=not over, dispensed_ml=20.0 if over else 10.0)

    world.pump.dose_status = dose_status
    assert await world.dispense(20.0) == 20.0
    assert (world.clock.now_s(), world.trips) == (due_s + 1.0, [])


async def test_a_pump_that_falls_silent_is_booked_in_full(world, golden):
    """Fault 2, 16: a pump that cannot be asked any more leaves an unknown dose, and no second one."""
    intend = world.doses.intend

    async def cut(*record):
        world.pump.fail("dose_status", *[DeviceFault("gateway: no answer")] * 10_000)
        world.pump.fail("stop", DeviceTimeout("silent"))
        return await intend(*record)

    world.doses.intend = cut
    with golden.raises(DeviceTimeout):
        await world.dispense(20.0)
    assert world.doses.records[-1] == ("unknown", 1, 20.0)
    assert world.pump.started == [20.0]


def found_running(pump, *, unstoppable=False, stops_lost=0, silent_again=False):
    """Nothing is heard of a dose that never ends before somebody stops it, or tries to."""
    ask, answers = pump.dose_status, iter([False, silent_again])
    pump.endless, pump.unstoppable = True, unstoppable
    pump.fail("stop", *[DeviceTimeout("lost")] * stops_lost)

    def dose_status(deadline):
        if pump.started and ("pump stop" not in pump.line.log or next(answers, False)):
            raise DeviceFault("gateway: no answer")
        return ask(deadline)

    pump.dose_status = dose_status


@pytest.mark.parametrize("how", [{"unstoppable": True}, {"stops_lost": 1}, {}])
async def test_a_pump_found_running_after_a_silence_is_an_overrun(world, how, golden):
    """Fault 2, 25: a pump silent up to its deadline that then still runs is stopped, booked by what it shows, trips."""
    found_running(world.pump, **how)
    with golden.raises(Tripped):
        await world.dispense(20.0)
    given_ml = pytest.approx(world.pump.total_ml - 100.0)
    assert world.doses.records[-1] == ("unknown" if how.get("unstoppable") else "done", 1, given_ml)
    assert world.pump.total_ml > 121.1
    assert len(world.trips) == 1
    assert Severity.MAJOR in world.severities


async def test_a_pump_found_running_that_falls_silent_again_trips(world, golden):
    """Fault 2, 25: if the last thing known of it is that it runs, it has not stopped."""
    found_running(world.pump, unstoppable=True, silent_again=True)
    with golden.raises(Tripped):
        await world.dispense(20.0)
    assert world.doses.records[-1][0] == "unknown"
    assert world.doses.records[-1][2] > 20.0
    assert len(world.trips) == 1


async def test_a_pump_that_was_only_silent_is_believed_by_its_total(world):
    """Fault 2: a dose of which nothing was heard before its deadline may still be complete."""
    found_running(world.pump)
    world.pump.endless = False
    assert await world.dispense(20.0) == pytest.approx(20.0)
    assert world.trips == []


async def test_a_pump_silent_for_a_while_is_asked_until_it_answers(world):
    """Answers lost while the dose runs do not matter as long as one comes before the deadline."""
    intend = world.doses.intend

    async def cut(*record):
        world.pump.fail("dose_status", DeviceFault("busy"), DeviceFault("busy"))
        return await intend(*record)

    world.doses.intend = cut
    assert await world.dispense(20.0) == pytest.approx(20.0)
    assert world.alarms == []


async def test_a_trip_before_the_command_leaves_sends_nothing(world):
    """A trip between intent and command: nothing is sent, nothing is booked."""
    intend = world.doses.intend

    async def tripped(*record):
        world.guard.trip("e-stop")
        return await intend(*record)

    world.doses.intend = tripped
    with pytest.raises(Tripped):
        await world.dispense()
    assert world.pump.started == []
    assert world.doses.records[-1] == ("done", 1, 0.0)


async def test_a_cancelled_dose_stays_open_and_is_settled_by_the_total(world):
    """Fault 45: a dose broken off stays open in the log; once the pump was stopped its total settles it."""
    resting = asyncio.Event()

    async def rest(seconds):
        world.clock.time_s += 5.0
        resting.set()
        await asyncio.Event().wait()

    world.clock.rest = rest
    task = asyncio.create_task(world.dispense(20.0))
    await resting.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert world.doses.steps == ["intend", "sent"]
    await world.settle(before_ml=100.0, volume_ml=20.0)
    assert world.doses.records[-1] == ("done", 1, 5.0)
    assert world.pump.started == [20.0]
    assert "pump stop" in world.line.log


# settling after a crash -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before_ml", "total_ml", "booked"),
    [
        (100.0, 100.0, ("done", 1, 0.0)),
        (100.0, 107.5, ("done", 1, 7.5)),
        (100.0, 120.0, ("done", 1, 20.0)),
        (0.0, 20.0, ("done", 1, 20.0)),  # all of the dose, from zero: there was no restart
        (100.0, 0.0, ("unknown", 1, 20.0)),
        (0.0, 0.0, ("unknown", 1, 20.0)),
        (12.0, 20.0, ("unknown", 1, 20.0)),  # it may have begun at zero just before the dose
    ],
)
async def test_an_open_dose_is_settled_from_a_continuous_total(world, before_ml, total_ml, booked):
    """A total that a restarted pump could show, too, proves nothing: booked in full, with a major alarm."""
    world.pump.total_ml = total_ml
    await world.settle(before_ml=before_ml)
    assert (world.doses.records, world.pump.started) == ([booked], [])
    assert (Severity.MAJOR in world.severities) is (booked[0] == "unknown")


async def test_an_open_dose_is_not_taken_for_the_one_before(world):
    """A pump that shows its last dose, and a total that has not risen since the next was meant, gave nothing of it."""
    await world.dispense(20.0)
    await world.settle(before_ml=120.0, volume_ml=20.0)
    assert world.doses.records[-1] == ("done", 1, 0.0)


async def test_an_open_dose_of_a_silent_pump_is_booked_in_full(world):
    """A pump that cannot be asked after a crash leaves the full volume booked."""
    world.pump.fail("dose_status", DeviceTimeout("silent"))
    await world.settle()
    assert world.doses.records == [("unknown", 1, 20.0)]
    assert world.severities == [Severity.MAJOR]


async def test_a_pump_that_runs_on_after_a_crash_and_does_not_stop_trips(world):
    """A pump found running that cannot be stopped trips the rig."""
    world.pump.run_alone()
    world.pump.unstoppable = True
    await world.settle()
    assert world.doses.records == [("unknown", 1, 20.0)]
    assert len(world.trips) == 1


# what a pump says of a refusal, and whether it was the dose that it refused ----------------------------------------


async def test_a_refusal_of_something_else_is_none_of_the_dose(world):
    """A pump that hears noise while it runs says `*ER` to it; its total tells that the dose was given."""
    asked = world.pump.dose_status
    world.pump.dose_status = lambda deadline: replace(asked(deadline), fault="*ER")
    assert await world.dispense(20.0) == pytest.approx(20.0)
    assert world.doses.records[-1] == ("done", 1, 20.0)
    world.pump.fault_after_start = "*ER"
    with pytest.raises(DeviceFault, match="refused"):
        await world.dispense()


async def test_a_refusal_counts_in_full_where_the_total_cannot_be_asked(world, golden):
    """A pump that refuses and whose total cannot be read may have taken the dose and refused noise: booked in full."""
    world.pump.fault_after_start = "*ER"
    start = world.pump.start_dose

    def then_silent(volume_ml, deadline):
        start(volume_ml, deadline)
        world.pump.fail("total_volume_ml", *[DeviceTimeout("silent")] * 9)

    world.pump.start_dose = then_silent
    with golden.raises(DeviceFault):
        await world.dispense()
    assert world.doses.records[-1] == ("unknown", 1, 20.0)


@pytest.mark.parametrize("before", ["D,", "D, and over", "D,?"], ids=["as it begins", "over soon", "meanwhile"])
async def test_noise_that_an_ezo_pump_refuses_is_no_refusal_of_the_dose(before):
    """The motor's own noise on the wire, ended by a carriage return: `*ER`, and the dose goes on to its end."""
    pump, doses, asked = Pump(), FakeDoseLog(), []

    def answer(request):
        command, told = request[:-1].decode(), pump(request[:-1].decode())
        if command == "D,?" and pump.running:
            asked.append(command)
            told = [*told, *(["*ER"] if before == "D,?" else []), *([pump.finish().decode()] if asked[1:] else [])]
        elif command.startswith("D,1") and before != "D,?":
            told = ["*ER", *told, *([pump.finish().decode()] if "over" in before else [])]
        return ["".join(f"{line}\r" for line in told).encode()]

    with peers() as make:
        url = f"serial://{make(PtyPeer, cut_lines(END), answer).path}?quiet=0.1"
        rig = rig_of({}, reading("modbus_tcp://127.0.0.1:1"), doses, pumps={"doser": ("ezo-pmp", url, {}, 2.0)})
        assert await rig.hands.dose("doser", 1.0) == pytest.approx(1.0)
        await rig.close()
    assert doses.records[-1] == ("done", 1, 1.0)


# a line that breaks in mid-dose and is opened again ------------------------------------------------------------


def breaks(world, *, restarts):
    """The motor's start pulls down the supply of the port, and of the pump too if that `restarts`."""
    start = world.pump.start_dose

    def start_dose(volume_ml, deadline):
        start(volume_ml, deadline)
        if restarts:
            world.pump.restart()
        world.pump.fail("dose_status", PortUnavailable("the port is gone"))

    world.pump.start_dose = start_dose


@pytest.mark.parametrize("total_ml", [0.0, 3.0])
async def test_a_restart_from_which_the_total_begins_anew_is_booked_in_full(world, total_ml, golden):
    """Fault 21: a total that one dose can reach does not deny it, above all after a first restart."""
    world.pump.total_ml = total_ml
    breaks(world, restarts=True)
    with golden.raises(DeviceFault):
        await world.dispense(20.0)
    assert world.doses.records[-1] == ("unknown", 1, 20.0)
    assert world.pump.started == [20.0]


@pytest.mark.parametrize(("total_ml", "short"), [(100.0, 0.5), (0.0, 1.0)])
async def test_a_pump_that_went_on_is_believed(world, total_ml, short):
    """Its total goes on beyond what one dose can reach, or shows all of the dose."""
    world.pump.total_ml, world.pump.short = total_ml, short
    breaks(world, restarts=False)
    assert await world.dispense(20.0) == pytest.approx(20.0 * short)
    assert world.doses.steps == ["intend", "sent", "done"]
