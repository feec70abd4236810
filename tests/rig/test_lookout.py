import asyncio
from dataclasses import replace

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout, JournalUnwritable
from rigctl.rig import lookout
from rigctl.rig.protocols import ActuatorState, DoseStatus, Severity
from rigctl.rig.spec import SensorRules, WatchSpec

LET_GO = ActuatorState(controlled=False, setpoint=None)
PATIENT = 2000
"""Looks, a few milliseconds apart, after which what a test waits for is taken not to come."""


@pytest.fixture
def watched(bench, make_rig, monkeypatch):
    """The bench, looked at as often as can be."""
    monkeypatch.setattr(lookout, "PUMPS_EVERY_S", 0.0)
    rules = {"ca": SensorRules(watch_every_s=0.001), "t": SensorRules()}
    return make_rig(replace(bench.spec(), watch=WatchSpec(every_s=0.001, rules=rules)))


async def until(rig, shown):
    """The first glance at the rig that shows it."""
    for _ in range(PATIENT):
        glance = rig.glance()
        if shown(glance):
            return glance
        await asyncio.sleep(0.002)
    raise AssertionError(f"never seen; last: {glance}")


async def opened(rig):
    """Open it, and wait until the pumps' totals are known."""
    await rig.open()
    await until(rig, lambda _: rig._lookout._totals)


async def looks(rig, bench, *, times=5):
    """Look until the valve's bus has been through so many rounds."""
    start = bench.plc.log.count("ca_probe read")
    await until(rig, lambda _: bench.plc.log.count("ca_probe read") >= start + times)


async def test_a_sensor_is_read_at_its_own_period_without_a_trial(bench, watched):
    """What the watch goes by is read for it; what it does not go by is left to the trial."""
    bench.softener.state = LET_GO
    await watched.open()
    glance = await until(watched, lambda g: g.readings["ca"].value is not None)
    assert glance.readings["ca"].value == pytest.approx(2.6)
    assert "t_probe read" not in bench.plc.log


async def test_a_slow_bus_that_is_well_is_not_a_stale_one(bench, watched, monkeypatch):
    """Rounds further apart than were asked for give the reading two of them, beside the one answer it may await."""
    await watched.open()
    quick = await until(watched, lambda g: g.readings["ca"].value is not None)
    assert quick.readings["ca"].stale_after_s < 10.0
    monkeypatch.setattr(lookout, "BUS_SHARE", 1e-9)
    slow = await until(watched, lambda g: g.readings["ca"].stale_after_s > 100.0)
    assert slow.readings["ca"].age_s < slow.readings["ca"].stale_after_s


async def test_a_sensor_that_stops_answering_grows_old(bench, watched):
    """The last valid reading stays what it was and its age rises; why it is not newer is known."""
    await watched.open()
    await until(watched, lambda g: g.readings["ca"].value is not None)
    bench.ca_probe.fail("read", *[DeviceTimeout("ca_probe: silent")] * 9999)
    glance = await until(watched, lambda g: "silent" in g.readings["ca"].detail)
    later = await until(watched, lambda g: g.readings["ca"].age_s > glance.readings["ca"].age_s)
    assert later.readings["ca"].value == glance.readings["ca"].value


async def test_fault_61_a_driven_actuator_that_is_let_go_is_noticed(bench, watched, golden):
    """Switched off by another hand while it is driven: two reads that deny it, and it is known to be astray."""
    await watched.open()
    await watched.control({"b": 30.0})
    await looks(watched, bench)
    assert watched.glance().astray == {}
    bench.valve.state = LET_GO
    glance = await until(watched, lambda g: g.astray)
    golden(glance.astray["b_valve"])


async def test_what_is_not_driven_is_not_asked_about(bench, watched):
    """After going safe nothing is astray, and nobody's read-back is asked for."""
    await watched.open()
    await watched.control({"b": 30.0})
    await watched.safe()
    asked = bench.plc.log.count("b_valve read_back")
    await looks(watched, bench)
    assert watched.glance().astray == {}
    assert bench.plc.log.count("b_valve read_back") == asked


async def test_fault_62_a_pump_that_runs_by_itself_is_stopped_and_booked(bench, watched):
    """Its button was pressed: stopped, what it dispensed is in the dose book, and there is an alarm."""
    await opened(watched)
    before_ml = bench.pump.total_ml
    bench.pump.run_alone()
    bench.clock.sleep(3.0)
    await until(watched, lambda g: "ca_doser" in g.strays and bench.doses.steps == ["found"])
    assert not bench.pump.dose_status(None).running
    assert bench.pump.total_ml - before_ml == pytest.approx(3.0)
    assert bench.doses.records[-1][:3] == ("found", "ca_doser", pytest.approx(3.0))
    assert {"unasked run", "unasked volume"} <= {a.kind for a in bench.alarms if a.severity is Severity.MAJOR}


async def test_62_what_a_pump_gives_until_it_stands_still_is_booked_too(bench, watched, monkeypatch):
    """Its total before is not known, so what it shows counts: once it has been stopped, not before."""
    await opened(watched)
    watched._lookout._totals.clear()
    before_ml, stop = bench.pump.total_ml, bench.pump.stop
    monkeypatch.setattr(bench.pump, "stop", lambda deadline: (bench.clock.sleep(2.0), stop(deadline)))
    bench.pump.run_alone()
    await until(watched, lambda _: bench.doses.steps == ["found"])
    given_ml = bench.pump.total_ml - before_ml
    assert given_ml >= 2.0
    assert bench.doses.records[-1][:3] == ("found", "ca_doser", pytest.approx(given_ml))


@pytest.mark.parametrize("total_ml", [102.0, 2.0], ids=["risen", "begun anew"])
async def test_a_dose_by_another_hand_between_two_looks_is_booked_too(bench, watched, total_ml):
    """It stands still again, but its total has risen; from 0, if it restarted before: all of it was given since."""
    await opened(watched)
    bench.clock.sleep(3.0)
    bench.pump.total_ml = total_ml
    await until(watched, lambda g: "ca_doser" in g.strays and bench.doses.steps == ["found"])
    assert bench.doses.records[-1][:3] == ("found", "ca_doser", pytest.approx(2.0))


async def test_what_a_pump_gave_by_itself_right_before_a_dose_is_booked_too(bench, watched, monkeypatch):
    """Its button was pressed since the watch has looked last; the dose goes on with that against its caps."""
    await opened(watched)
    await watched._lookout.close()
    bench.clock.sleep(3.0)
    bench.pump.total_ml += 2.0
    assert await watched.hands.dose("ca_doser", 5.0) == 5.0
    assert bench.doses.records[:2] == [
        ("found", "ca_doser", pytest.approx(2.0), 100.0),
        ("intend", "ca_doser", 5.0, 102.0),
    ]
    assert any(a.kind == "unasked volume" and "2.00 mL" in a.message for a in bench.alarms)


async def test_what_a_pump_gave_by_itself_right_after_a_dose_is_booked_too(bench, watched):
    """Its button is pressed between the end of the dose and the next look of the watch."""
    await watched.open()
    await watched._lookout.close()
    assert await watched.hands.dose("ca_doser", 5.0) == 5.0
    bench.clock.sleep(3.0)
    bench.pump.total_ml += 2.0
    await until(watched, lambda g: "ca_doser" in g.strays and bench.doses.steps[-1] == "found")
    assert bench.doses.records[-1] == ("found", "ca_doser", pytest.approx(2.0), 105.0)


async def test_a_pump_that_drips_is_booked_in_the_end(bench, watched):
    """Less than the total's resolution tells from one look to the next adds up."""
    await opened(watched)
    for _ in range(4):
        bench.clock.sleep(3.0)
        bench.pump.total_ml += 0.03
        asked = bench.pump_line.log.count("ca_doser total_volume_ml")
        await until(watched, lambda _: bench.pump_line.log.count("ca_doser total_volume_ml") > asked)  # noqa: B023
    await until(watched, lambda _: bench.doses.steps[:1] == ["found"])
    assert bench.doses.records[0][:3] == ("found", "ca_doser", pytest.approx(0.06))


async def test_90_a_pump_s_total_that_jumps_between_doses_is_told_and_not_booked(bench, watched):
    """In 3 s a pump that gives 60 mL in a minute does not give 500 mL: an alarm, and no dose against its caps."""
    await opened(watched)
    bench.clock.sleep(3.0)
    bench.pump.total_ml += 500.0
    await until(watched, lambda _: bench.alarms)
    assert [(a.severity, a.source, a.kind) for a in bench.alarms] == [(Severity.MAJOR, "ca_doser", "total jumped")]
    await looks(watched, bench, times=10)
    assert (bench.doses.records, len(bench.alarms)) == ([], 1)


async def test_a_restart_that_the_watch_is_told_of_is_told_on(bench, watched, golden):
    """A pump says it once; one that restarts between doses is about to do so in one."""
    await watched.open()
    bench.pump._status = DoseStatus(running=False, dispensed_ml=0.0, reset=True)
    await until(watched, lambda _: bench.messages())
    assert [(alarm.kind, alarm.source) for alarm in bench.alarms] == [("restarted", "ca_doser")]
    golden(bench.messages(Severity.MINOR))


@pytest.mark.slow
async def test_our_own_doses_are_nobody_else_s(bench, watched):
    """While we dose, and afterwards, the pump is not taken for one that runs by itself."""
    await watched.open()
    dosing = asyncio.create_task(watched.control({"ca": 3.0}))
    while not dosing.done():
        watched.glance()
        await asyncio.sleep(0)
    await dosing
    await looks(watched, bench, times=10)
    assert watched.glance().strays == {}
    assert "stop" not in [entry.rpartition(" ")[2] for entry in bench.pump_line.log]
    assert len(bench.pump.started) > 0


async def test_fault_38_a_step_beyond_the_plausible_rate_is_not_believed_before_it_is_confirmed(
    bench, make_rig, golden
):
    """One reading that jumps is INVALID; when others agree with it the value is real, and the watch is told."""
    bench.softener.state = LET_GO
    rules = {"ca": SensorRules(max_rate_per_s=0.01)}
    rig = make_rig(replace(bench.spec(), watch=WatchSpec(rules=rules)))
    await rig.open()

    async def read():
        return (await rig.snapshot())["ca"]

    assert (await read()).value == pytest.approx(2.6)
    bench.tank_ca = 4.0
    jumped = await read()
    assert not jumped.valid
    assert "believed" in jumped.detail
    bench.tank_ca = 2.6
    assert (await read()).valid
    assert rig.glance().steps == {}
    bench.tank_ca = 4.0
    assert [(await read()).valid for _ in range(3)] == [False, False, True]
    golden(rig.glance().steps["ca"])


async def test_a_driver_s_mistake_does_not_end_the_watch(bench, watched):
    """A plug-in that raises anything is told once; the other buses are looked at all the same."""
    bench.ca_probe.fail("read", *[KeyError("gain")] * 50)
    await watched.open()
    await until(watched, lambda _: "ca_doser total_volume_ml" in bench.pump_line.log and bench.alarms)
    told = [a for a in bench.alarms if "KeyError" in a.message]
    assert len(told) == 1


async def test_a_silent_actuator_is_named_and_keeps_no_other_from_being_asked(bench, watched, monkeypatch, golden):
    """One that does not answer any more does not hold as far as is known; its neighbours on the line do."""
    monkeypatch.setattr(lookout, "SILENT_S", 0.05)
    await watched.open()
    await watched.control({"ca": 3.0, "b": 30.0})
    bench.softener.fail("read_back", *[DeviceTimeout("softener: silent")] * 9999)
    glance = await until(watched, lambda g: "softener" in g.astray)
    golden(glance.astray["softener"])
    await looks(watched, bench)
    assert set(watched.glance().astray) == {"softener"}


async def test_a_stray_pump_that_cannot_be_stopped_is_an_objection_too(bench, watched, golden):
    """It runs by itself and refuses to stop: one alarm, and the watch knows."""
    await opened(watched)
    bench.pump.fail("stop", *[DeviceFault("not now")] * 9999)
    bench.pump.run_alone()
    glance = await until(watched, lambda g: g.strays)
    await until(watched, lambda _: bench.pump_line.log.count("ca_doser stop") > 3)
    golden(glance.strays["ca_doser"])
    assert [a.kind for a in bench.alarms if a.severity is Severity.MAJOR].count("unasked run") == 1


async def test_a_slow_round_is_not_taken_for_a_silent_actuator(bench, watched, monkeypatch):
    """Only what was asked and did not answer is silent, however long ago its turn was."""
    monkeypatch.setattr(lookout, "SILENT_S", 0.0)
    await watched.open()
    await watched.control({"b": 30.0})
    await until(watched, lambda _: bench.plc.log.count("b_valve read_back") > 3)
    for bus_round in [b.round for b in watched._lookout._beats.values()]:
        await bus_round
    assert watched.glance().astray == {}


async def test_a_dose_broken_off_at_its_intent_leaves_the_pump_watched(bench, watched):
    """Nothing was sent, and there may be nothing on record to settle: it is not taken for a dose under way."""
    asked = asyncio.Event()

    async def hang(*_):
        asked.set()
        await asyncio.Event().wait()

    intend = bench.doses.intend
    bench.doses.intend = hang
    await watched.open()
    task = asyncio.create_task(watched.control({"ca": 3.0}))
    await asked.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    bench.doses.intend = intend
    await watched.safe()
    bench.pump.run_alone()
    glance = await until(watched, lambda g: g.strays)
    assert "ca_doser" in glance.strays


async def test_a_dose_that_cannot_be_recorded_as_sent_is_ours_until_it_is_settled(bench, watched):
    """The disk is full when the pump runs already: nobody else's dose, and stopped by whoever goes safe."""

    async def full(*_):
        raise JournalUnwritable("disk full")

    bench.doses.sent = full
    await watched.open()
    with pytest.raises(JournalUnwritable):
        await watched.control({"ca": 3.0})
    await looks(watched, bench, times=10)
    assert watched.glance().strays == {}
    assert bench.doses.steps == ["intend"]
