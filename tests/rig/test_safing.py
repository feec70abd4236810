import asyncio
import threading
from dataclasses import replace

import pytest

from rigctl.errors import DeviceTimeout, PortUnavailable
from rigctl.rig import safing
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.protocols import ActuatorState, Severity

RELEASED = ActuatorState(controlled=False, setpoint=None)
ALL = {"ca_doser", "b_valve", "softener", "refill"}


async def test_everything_goes_to_its_safe_state(bench, rig):
    """Pumps stop, valves and treatments are released, and each is confirmed by its read-back."""
    bench.pump.run_alone()
    report = await rig.safe()
    assert report.ok
    assert set(report.reached) == ALL
    assert [a.state for a in (bench.valve, bench.softener, bench.refill)] == [RELEASED] * 3
    assert not bench.pump._status.running


async def test_a_numeric_safe_state_is_imposed_and_confirmed(bench, make_rig):
    """An actuator whose safe state is a number is sent there."""
    spec = bench.spec()
    spec = replace(spec, limits={**spec.limits, "b_valve": ActuatorLimits(low=5.0, high=60.0, safe_state=12.0)})
    report = await make_rig(spec).safe()
    assert report.ok
    assert bench.valve.state == ActuatorState(controlled=True, setpoint=12.0)


async def test_what_cannot_be_confirmed_is_named(bench, rig, golden):
    """An actuator that does not move is reported with what it reads back; the others are safe."""
    bench.valve.deaf = True
    report = await rig.safe()
    assert set(report.failed) == {"b_valve"}
    golden(report.failed)
    assert set(report.reached) == ALL - {"b_valve"}
    assert [(a.severity, a.source) for a in bench.alarms] == [(Severity.MAJOR, "b_valve")]


async def test_a_lost_command_is_repeated_after_the_read_back_denied_it(bench, rig):
    """A command to the safe state that got lost is sent again once the read-back has shown it."""
    await rig.open()
    bench.valve.fail("safe", DeviceTimeout("lost"))
    report = await rig.safe()
    assert report.ok
    assert bench.plc.log.count("b_valve safe") == 2
    assert bench.plc.log.count("softener safe") == 1


async def test_a_missing_port_does_not_keep_the_others_from_safety(bench, rig):
    """Fault 16: with one line gone, what is left goes to its safe state, and the rest is named."""
    bench.pump_line.open_errors.extend([PortUnavailable("unplugged")] * 10)
    report = await rig.safe()
    assert set(report.failed) == {"ca_doser"}
    assert "unplugged" in report.failed["ca_doser"]
    assert set(report.reached) == ALL - {"ca_doser"}


async def test_a_bug_in_a_driver_does_not_keep_the_others_from_safety(bench, rig):
    """Whatever a driver raises, the others are made safe and nothing is raised."""
    bench.valve.fail("safe", *[ZeroDivisionError("bug")] * 5)
    report = await rig.safe()
    assert set(report.failed) == {"b_valve"}
    assert set(report.reached) == ALL - {"b_valve"}


async def test_it_is_over_in_time_whatever_hangs(bench, rig, monkeypatch):
    """Fault 2, 29: a device that hangs costs its bus the time there is, no more; the other buses are safe."""
    monkeypatch.setattr(safing, "LEAST_S", 0.1)
    let_go, back = threading.Event(), []
    bench.pump.stop = lambda deadline: back.append(let_go.wait(60.0))
    report = await rig.safe()
    assert back == []
    let_go.set()
    assert set(report.failed) == {"ca_doser"}
    assert set(report.reached) == ALL - {"ca_doser"}


async def test_safety_goes_before_what_waits(bench, rig):
    """Commands to the safe state overtake a queue of readings."""
    await rig.open()
    entered, let_go = threading.Event(), threading.Event()
    bench.t_probe.source = lambda: (entered.set(), let_go.wait(10.0), 21.0)[2]
    slow = asyncio.create_task(rig._wiring.probes[2].read())
    await asyncio.to_thread(entered.wait)
    readings = [asyncio.create_task(rig._wiring.probes[1].read()) for _ in range(5)]
    await asyncio.sleep(0)
    begun, stop = threading.Event(), bench.pump.stop
    bench.pump.stop = lambda deadline: (stop(deadline), begun.set())  # the other bus shows that safing has begun
    safe = asyncio.create_task(rig.safe())
    await asyncio.to_thread(begun.wait)
    let_go.set()
    assert (await safe).ok
    await asyncio.gather(slow, *readings)
    log = [e for e in bench.plc.log if not e.endswith("identify")]
    assert log.index("softener safe") < log.index("b_probe read")


async def test_a_trip_latches_and_makes_safe(bench, rig):
    """Tripping goes to the safe state, is told, and stays."""
    report = await rig.trip("acid spill")
    assert report.ok
    assert rig.tripped == "acid spill"
    assert [a.kind for a in bench.alarms if a.severity is Severity.MAJOR] == ["tripped"]


@pytest.mark.parametrize("times", [1, 2])
async def test_going_safe_again_is_harmless(bench, rig, times):
    """Safe may be called as often as anybody likes."""
    reports = [await rig.safe() for _ in range(times)]
    assert all(r.ok for r in reports)


async def test_commands_held_up_by_an_exchange_go_out_all_the_same(bench, rig, monkeypatch):
    """Fault 2, 29: when the time is up while the bus is busy, commands stay in its queue and leave before it closes."""
    monkeypatch.setattr(safing, "LEAST_S", 0.05)
    let_go, begun = threading.Event(), threading.Event()
    bench.valve.state = ActuatorState(controlled=True, setpoint=30.0)

    def slow(_deadline):
        begun.set()
        let_go.wait(5.0)

    exchange = asyncio.create_task(rig._wiring.actuators["b_valve"].ask(slow, "a slow read"))
    await asyncio.to_thread(begun.wait, 5.0)
    report = await rig.safe()
    assert "b_valve" in report.failed
    assert bench.valve.state.controlled
    let_go.set()
    await asyncio.gather(exchange, return_exceptions=True)
    await rig.close()
    assert bench.valve.state == RELEASED


@pytest.mark.parametrize("twice", [False, True])
async def test_nothing_of_a_broken_off_control_leaves_after_the_safe_commands(bench, rig, twice):
    """One command is in the bus's thread and one waits for it: the first leaves before, the second never."""
    await rig.open()
    entered, go_on = threading.Event(), threading.Event()

    def hold(state, deadline, apply=bench.softener.apply):
        entered.set()
        go_on.wait(10.0)
        apply(state, deadline)

    bench.softener.apply = hold
    control = asyncio.create_task(rig.control({"ca": 3.0, "b": 30.0}))
    await asyncio.to_thread(entered.wait, 10.0)
    control.cancel()
    await asyncio.wait({control})
    going = [asyncio.create_task(rig.safe()) for _ in range(1 + twice)]
    await asyncio.sleep(0)
    go_on.set()
    reports = await asyncio.gather(*going)
    assert control.cancelled()
    assert all(report.ok for report in reports)
    log = [entry for entry in bench.plc.log if entry.split()[-1] in {"apply", "safe"}]
    assert log[0] == "softener apply"
    assert not any("apply" in entry for entry in log[1:])
    assert rig.driven == {}
