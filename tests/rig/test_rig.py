from dataclasses import replace
from decimal import Decimal

import pytest

from rigctl.errors import (
    ConfigError,
    DeviceFault,
    DeviceTimeout,
    GuardRefused,
    IdentityMismatch,
    PortUnavailable,
    ReadBackMismatch,
    Tripped,
)
from rigctl.rig.imposing import holds
from rigctl.rig.protocols import ActuatorState, Severity
from rigctl.rig.spec import MeterSpec, OutcomeSpec
from rigctl.rig.values import OpenDose
from tests.rig.fakes import FakePump

RELEASED = ActuatorState(controlled=False, setpoint=None)
WRITES = ("apply", "release", "safe", "start_dose", "stop")


def written(bench):
    log = [entry for line in bench.lines.values() for entry in line.log]
    return [entry for entry in log if entry.rpartition(" ")[2] in WRITES]


def controlled(*setpoints):
    return [ActuatorState(controlled=True, setpoint=s) for s in setpoints]


@pytest.mark.parametrize(("held", "confirmed"), [(4.0, True), (6.0, True), (3.5, False), (6.5, False)])
def test_what_is_read_back_may_be_off_by_the_whole_tolerance(held, confirmed):
    """And by no more, to either side."""
    assert holds(*controlled(held), 5.0, 1.0) is confirmed


# open -------------------------------------------------------------------------------------------------------------


async def test_opening_identifies_every_device_and_writes_nothing(bench, rig):
    """After opening everybody has said who they are, and nothing has moved."""
    identities = await rig.open()
    assert {n: i.serial for n, i in identities.items()} == {n: n for n in bench.devices}
    assert written(bench) == []
    assert [line.log[0] for line in bench.lines.values()] == ["open"] * 3


async def test_everything_wrong_at_opening_is_told_together(bench, rig):
    """Fault 18, 19: wrong, silent and unreachable devices are all named at once; nothing is written."""
    bench.valve.fail("identify", IdentityMismatch("b_valve: a pump answers"))
    bench.ca_probe.fail("identify", DeviceTimeout("ca_probe: silent"))
    bench.pump_line.open_errors.append(PortUnavailable("/dev/ttyUSB3: held by process 42"))
    with pytest.raises(PortUnavailable) as caught:
        await rig.open()
    for part in ("ttyUSB3", "a pump answers", "ca_probe: silent"):
        assert part in str(caught.value)
    assert written(bench) == []


async def test_a_rig_that_could_not_be_opened_can_still_be_made_safe(bench, rig):
    """One missing instrument leaves the buses open, so that everything that answers goes to its safe state."""
    bench.ca_probe.fail("identify", DeviceTimeout("ca_probe: silent"))
    with pytest.raises(DeviceTimeout):
        await rig.open()
    assert "close" not in bench.plc.log
    report = await rig.safe()
    assert report.ok
    assert "b_valve safe" in bench.plc.log


async def test_what_stays_unsafe_raises_one_alarm(bench, rig):
    """However often safety is tried; once it was confirmed, the next loss is news again."""
    bench.pump.fail("stop", *[ZeroDivisionError("bug")] * 99)
    bench.pump.fail("dose_status", *[ZeroDivisionError("bug")] * 99)
    for _ in range(3):
        assert set((await rig.safe()).failed) == {"ca_doser"}
    assert [a.source for a in bench.alarms] == ["ca_doser"]


async def test_a_register_that_does_not_exist_is_named(bench, rig, golden):
    """Fault 9: an illegal address at opening is reported as it is, without a retry."""
    bench.b_probe.fail("identify", DeviceFault("b_probe: unit 1 input register 2: exception 02"))
    with golden.raises(DeviceFault):
        await rig.open()
    assert bench.plc.log.count("b_probe identify") == 1


async def test_a_probe_only_reads(bench, rig, golden):
    """Probing tells identity and a reading of every device, or what is wrong with it, and writes nothing."""
    bench.t_probe.fail("identify", DeviceTimeout("silent"))
    found = await rig.probe()
    assert [name for name, (well, _) in found.items() if not well] == ["t_probe"]
    texts = {name: text for name, (_, text) in found.items()}
    assert set(texts) == set(bench.devices)
    golden(texts["b_probe"])
    golden(texts["ca_doser"])
    assert texts["mains_meter"].endswith("12.5 kWh")
    assert texts["b_valve"].endswith("99 uM")
    golden(texts["t_probe"])
    assert written(bench) == []


# control ----------------------------------------------------------------------------------------------------------


async def test_what_is_not_chosen_is_released(bench, rig):
    """With nothing chosen, every actuator left on by somebody is released and reads back so."""
    states = await rig.control({})
    assert states == {"ca": RELEASED, "b": RELEASED}
    assert [a.state for a in (bench.valve, bench.softener, bench.refill)] == [RELEASED] * 3
    assert bench.pump.started == []
    assert "ca_doser stop" not in bench.pump_line.log


async def test_a_valve_is_set_and_the_rest_released(bench, rig):
    """A chosen register actuator holds its setpoint; the dosed variable's treatment is off."""
    states = await rig.control({"b": 30.0})
    assert states == {"ca": RELEASED, "b": ActuatorState(controlled=True, setpoint=30.0)}
    assert bench.valve.applied == [30.0]
    assert bench.softener.state == RELEASED


async def test_a_dosed_variable_is_brought_to_its_setpoint(bench, rig):
    """A chosen dosed variable is treated, then dosed until its probe reads the setpoint."""
    states = await rig.control({"ca": 2.2, "b": 30.0})
    assert [states["ca"], states["b"]] == controlled(2.2, 30.0)
    assert bench.ca_probe.source() == pytest.approx(2.2, abs=0.08)
    assert bench.softener.state.controlled
    assert bench.pump.started == [pytest.approx(40.0)]
    assert bench.doses.steps == ["intend", "sent", "done"]


async def test_the_order_of_control(bench, rig):
    """Release first, then impose, then prepare (for its time, then released), then dose, then read back."""
    before_s = bench.clock.now_s()
    await rig.control({"ca": 2.2, "b": 30.0})
    log = [e for e in bench.plc.log if e.split()[-1] in {"apply", "release", "read", "read_back"}]
    assert set(log[:1]) == {"refill release"}
    assert set(log[1:3]) == {"b_valve apply", "softener apply"}
    assert log[3:5] == ["refill apply", "refill release"]
    assert log[5:7] == ["ca_probe read", "ca_probe read"]
    assert set(log[7:]) == {"b_valve read_back", "softener read_back", "refill read_back"}
    assert bench.clock.now_s() - before_s == pytest.approx(120.0 + 40.0 + 45.0)


async def test_what_was_prepared_before_a_look_is_not_prepared_again(bench, rig):
    """The tank would be refilled twice, and what was read of it would be old."""
    await rig.prepare()
    await rig.control({"b": 30.0}, prepared=True)
    assert [e for e in bench.plc.log if e.startswith("refill") and e.endswith("apply")] == ["refill apply"]


async def test_nothing_moves_when_one_setpoint_is_refused(bench, rig):
    """Fault 42: a setpoint out of range, or for a variable without actuator, is refused before anything moves."""
    for setpoints in ({"b": 30.0, "ca": 7.0}, {"b": float("nan")}, {"b": 30.0, "t": 20.0}, {"nobody": 1.0}):
        with pytest.raises(GuardRefused):
            await rig.control(setpoints)
    assert written(bench) == []


async def test_a_setpoint_that_is_not_held_is_a_mismatch(bench, rig, golden):
    """Fault 4: an actuator that does not hold what it was sent is named with variable, got and wanted."""
    bench.valve.deaf = True
    with golden.raises(ReadBackMismatch):
        await rig.control({"b": 30.0})
    assert ("read-back", "b_valve", Severity.MAJOR) in [(a.kind, a.source, a.severity) for a in bench.alarms]


async def test_an_actuator_that_does_not_let_go_is_a_mismatch(bench, rig, golden):
    """Only what is controlled is driven: an actuator that stays on although released is a mismatch."""
    bench.valve.deaf = True
    with golden.raises(ReadBackMismatch):
        await rig.control({})


async def test_a_lost_reply_to_a_write_is_settled_by_reading_back(bench, rig):
    """Fault 1: the write arrived, its reply did not: sent once, the line resynced, the read-back says it holds."""
    await rig.open()
    bench.valve.lose_reply("apply")
    states = await rig.control({"b": 30.0})
    assert states["b"] == ActuatorState(controlled=True, setpoint=30.0)
    assert bench.valve.applied == [30.0]
    assert "resync" in bench.plc.log
    assert [a.severity for a in bench.alarms] == [Severity.MINOR]


async def test_a_lost_write_is_found_by_reading_back(bench, rig):
    """Fault 1: the write never arrived: it is not sent again, and the read-back shows the mismatch."""
    await rig.open()
    bench.valve.fail("apply", DeviceTimeout("lost"))
    with pytest.raises(ReadBackMismatch, match="b: b_valve"):
        await rig.control({"b": 30.0})
    assert bench.valve.applied == []
    assert bench.plc.log.count("b_valve apply") == 1
    assert "refill apply" not in bench.plc.log  # found before anything else is done


async def test_a_device_that_never_answers_is_a_timeout(bench, rig):
    """Fault 2: when neither the write nor its read-back is answered, the caller gets the timeout."""
    await rig.open()
    bench.valve.fail("apply", DeviceTimeout("silent"))
    bench.valve.fail("read_back", *[DeviceTimeout("silent")] * 5)
    with pytest.raises(DeviceTimeout):
        await rig.control({"b": 30.0})
    assert bench.plc.log.count("b_valve apply") == 1


async def test_a_refused_write_is_not_repeated(bench, rig):
    """Fault 9: a write the device refuses is a configuration fault, reported at once."""
    bench.valve.fail("apply", DeviceFault("b_valve: holding register 2: exception 03"))
    with pytest.raises(DeviceFault, match="register 2"):
        await rig.control({"b": 30.0})
    assert bench.plc.log.count("b_valve apply") == 1


async def test_a_pump_that_runs_unasked_is_stopped(bench, rig):
    """A pump that is not chosen and runs all the same is stopped, with an alarm."""
    bench.pump.run_alone()
    await rig.control({"b": 30.0})
    assert bench.pump_line.log.count("ca_doser stop") == 1
    assert [a.kind for a in bench.alarms if a.severity is Severity.MAJOR] == ["unasked run"]


async def test_a_pump_that_runs_unasked_and_does_not_stop_is_a_mismatch(bench, rig):
    """It is asked again after it was told to stop, and no trial begins beside it."""
    bench.pump.run_alone()
    bench.pump.unstoppable = True
    with pytest.raises(ReadBackMismatch) as denied:
        await rig.control({"b": 30.0})
    assert set(denied.value.devices) == {"ca_doser"}


async def test_a_runaway_pump_trips_the_rig_and_everything_goes_safe(bench, make_rig, golden):
    """Fault 25: a pump past its deadline trips; all actuators are safe, and nothing can be imposed any more."""
    rig = make_rig()
    rig._dispenser._wall = bench.clock.now_s
    bench.pump.endless = True
    with pytest.raises(Tripped):
        await rig.control({"ca": 2.2, "b": 30.0})
    assert [a.state for a in (bench.valve, bench.softener, bench.refill)] == [RELEASED] * 3
    golden(rig.tripped or "")
    with pytest.raises(Tripped):
        await rig.control({"b": 30.0})


@pytest.mark.parametrize(("tank_ca", "gives", "doses_ml"), [(0.2, 0, [20.0]), (5.0, 1, [30.0, 10.0])])
async def test_a_variable_with_two_pumps_is_dosed_by_the_one_that_moves_it_there(
    bench, make_rig, tank_ca, gives, doses_ml
):
    """The first adds 0.05 mM per mL, the second takes 0.1 away; each has a cap of its own."""
    spec = bench.spec()
    diluter = FakePump("diluter", bench.pump_line)
    bench.devices["diluter"], pumps = diluter, (bench.pump, diluter)
    bench.ca_probe.source = lambda: (
        tank_ca + sum(by * (p.total_ml - 100.0) for by, p in zip((0.05, -0.1), pumps, strict=True))
    )
    own = replace(spec.dosing["ca_doser"], treatment=None)
    ca = replace(spec.variables[0], second="diluter")
    rig = make_rig(
        replace(
            spec,
            devices=spec.devices | {"diluter": replace(spec.devices["ca_doser"], name="diluter", driver="diluter")},
            variables=(ca, *spec.variables[1:]),
            limits=spec.limits | {"diluter": replace(spec.limits["ca_doser"], per_dose_ml=30.0)},
            dosing={"ca_doser": own, "diluter": replace(own, effect_per_ml=-0.1)},
        )
    )
    await rig.open()
    await rig.control({"ca": 1.2 if gives == 0 else 1.0})
    assert pumps[gives].started == pytest.approx(doses_ml)
    assert pumps[1 - gives].started == []


async def test_a_cap_stops_the_dosing(bench, rig):
    """The cap of the day holds in the dosing loop as everywhere."""
    bench.doses.booked_ml = 390.0
    with pytest.raises(GuardRefused, match="in 24 h"):
        await rig.control({"ca": 2.2})
    assert bench.pump.started == []


# measuring --------------------------------------------------------------------------------------------------------


async def test_every_variable_and_the_outcome_are_measured(bench, rig):
    """A measurement for each variable, controlled or not, and for the outcome, from enough samples."""
    found = await rig.measure()
    assert set(found) == {"ca", "b", "t", "growth"}
    assert {n: m.value for n, m in found.items()} == {"ca": 0.2, "b": 28.0, "t": 21.0, "growth": 7.0}
    assert all(m.count >= 3 and m.severity is Severity.NONE for m in found.values())
    assert bench.alarms == []


async def test_further_outcomes_are_measured_in_the_same_window(bench, make_rig, golden):
    """Each under its own name from its own sensor; a sensor that is none is told with its place."""
    warmth, boron = (OutcomeSpec(name=n, unit="1", sensor=s) for n, s in (("warmth", "t_probe"), ("boron", "b_probe")))
    first = bench.spec().outcomes
    found = await make_rig(replace(bench.spec(), outcomes=(*first, warmth, boron))).measure()
    assert {n: m.value for n, m in found.items()} == {
        "ca": 0.2, "b": 28.0, "t": 21.0, "growth": 7.0, "warmth": 21.0, "boron": 28.0,
    }  # fmt: skip
    assert found["warmth"].count == found["growth"].count
    with golden.raises(ConfigError):
        make_rig(replace(bench.spec(), outcomes=(*first, warmth, replace(boron, sensor="no_probe"))))


async def test_outcomes_that_come_later_are_no_part_of_the_window(bench, make_rig):
    """A sensor's is read by itself when it is asked for; what a person says needs no sensor at all."""
    first = bench.spec().outcomes[0]
    late = make_rig(replace(bench.spec(), outcomes=(replace(first, within_s=200.0, after_s=100.0),)))
    assert set(await late.measure()) == {"ca", "b", "t"}
    assert {n: m.value for n, m in (await late.measure(late=True)).items()} == {"growth": 7.0}
    said = make_rig(replace(bench.spec(), outcomes=(replace(first, sensor=None, by="hand", within_s=200.0),)))
    assert set(await said.measure()) == set(await said.snapshot()) == {"ca", "b", "t"}


async def test_an_implausible_sensor_is_excluded_and_told(bench, rig):
    """Fault 37, 48: a sensor that only reads nonsense gives an INVALID measurement and an alarm; the others go on."""
    bench.b_probe.source = lambda: 1e9
    found = await rig.measure()
    assert found["b"].severity is Severity.INVALID
    assert found["b"].count == 0
    assert found["growth"].value == 7.0
    assert [(a.severity, a.source) for a in bench.alarms] == [(Severity.MAJOR, "b")]


async def test_a_snapshot_is_one_reading_each(bench, rig):
    """A snapshot reads every sensor once; one that fails is INVALID."""
    bench.t_probe.fail("read", DeviceTimeout("silent"))
    found = await rig.snapshot()
    assert {n: r.valid for n, r in found.items()} == {"ca": True, "b": True, "t": False, "growth": True}
    assert bench.plc.log.count("b_probe read") == 1


def metered(bench):
    return replace(
        bench.spec(),
        meters=(
            MeterSpec("energy", Decimal("0.31"), "mains_meter", "electricity"),
            MeterSpec("volume", Decimal("0.0042"), "ca_doser", "calcium"),
            MeterSpec("time", Decimal("0.5"), name="labour"),
            MeterSpec("fixed", Decimal("0.05"), name="water"),
        ),
    )


async def test_meters_are_read_by_name(bench, make_rig):
    """Energy and volume counters are read in the units they are priced in; time and fixed cost have none."""
    found = await make_rig(metered(bench)).meters()
    assert {n: (r.value, r.unit) for n, r in found.items()} == {
        "electricity": (12.5, "kWh"),
        "calcium": (100.0, "mL"),
    }


@pytest.mark.parametrize("failure", ["silent", "nan"])
async def test_a_meter_that_cannot_be_read_is_invalid(bench, make_rig, failure):
    """A counter that cannot be read, or reads no number, is INVALID with an alarm; never an old value."""
    if failure == "silent":
        bench.meter.fail("total", DeviceTimeout("silent"))
    bench.meter.value = float("nan")
    found = await make_rig(metered(bench)).meters()
    assert not found["electricity"].valid
    assert found["calcium"].valid
    assert [a.source for a in bench.alarms] == ["mains_meter"]


async def test_a_meter_that_stays_silent_is_told_of_once(bench, make_rig, golden):
    """However often it is asked, and whatever its line says of its next attempt; once more when it can be read."""
    bench.meter.fail("total", *(DeviceTimeout(f"silent; next attempt in {n} s") for n in (1, 2, 4)))
    rig = make_rig(metered(bench))
    read = [(await rig.meters())["electricity"].valid for _ in range(5)]
    assert read == [False, False, False, True, True]
    golden([(a.kind, a.state) for a in bench.alarms])


async def test_a_silent_meter_that_is_taken_out_of_service_is_no_alarm_any_more(bench, make_rig):
    """Nobody asks it again, so nothing else could end what stands."""
    bench.meter.fail("total", *[DeviceTimeout("silent")] * 3)
    rig = make_rig(metered(bench))
    await rig.meters()
    rig.hands.set_aside(frozenset({"mains_meter"}))
    await rig.meters()
    await rig.meters()
    assert [a.state for a in bench.alarms] == ["stands", "over"]
    assert {a.source for a in bench.alarms} == {"mains_meter"}


# doses after a crash ----------------------------------------------------------------------------------------------


async def test_open_doses_are_settled_and_never_sent(bench, rig):
    """After a restart open doses are settled from the pump's total, or booked in full; none is sent."""
    bench.pump.total_ml = 112.0
    await rig.settle_doses([OpenDose(7, "ca_doser", 20.0, 100.0), OpenDose(8, "old_pump", 5.0, 1.0)])
    assert bench.doses.records == [("done", 7, 12.0), ("unknown", 8, 5.0)]
    assert bench.pump.started == []
    assert [a.source for a in bench.alarms if a.severity is Severity.MAJOR] == ["old_pump"]


async def test_a_driver_s_mistake_does_not_keep_a_dose_from_being_settled(bench, rig):
    """A pump whose driver raises anything cannot testify: booked in full, and named by the roll call."""
    bench.pump.fail("identify", KeyError("gain"))
    assert "KeyError" in (await rig.roll_call())["ca_doser"]
    bench.pump.fail("dose_status", KeyError("gain"))
    await rig.settle_doses([OpenDose(1, "ca_doser", 20.0, 100.0)])
    assert bench.doses.records == [("unknown", 1, 20.0)]
