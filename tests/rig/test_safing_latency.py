"""How soon real drivers are safe over real lines, also with something silent on them."""

import asyncio
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from rigctl.errors import DeviceTimeout
from rigctl.rig.safing import LEAST_PATIENCE_S, together_s
from tests.drivers.peers import ModbusUnit, PtyPeer, TcpPeer, cut_lines, cut_mbap, cut_rtu, peers
from tests.rig.boards import SlowPump, distant_plc, reading, relay, rig_of, rtu_board
from tests.rig.fakes import FakeDoseLog

pytestmark = pytest.mark.slow

MARGIN_S = 4.0
"""For a busy machine; what a rig needs by itself is in `time_to_safe`, and asserted apart."""


@asynccontextmanager
async def closing(rig):
    try:
        yield rig
    finally:
        await rig.close()


def off_after_s(witness, coils, began_s):
    """When the last of so many coils was switched off, as the server saw it."""
    assert witness.on(coils) == []
    return max(witness.offs[i] for i in range(coils)) - began_s


@pytest.mark.parametrize("multiple", [True, False], ids=["together", "one by one"])
@pytest.mark.parametrize(("channels", "turnaround_s"), [(16, 0.03), (8, 0.05)])
async def test_every_channel_of_a_slow_board_is_told_in_time(channels, turnaround_s, multiple):
    """Fault 51: all channels of a 9600-baud board are off and confirmed, within what was reckoned beforehand."""
    with rtu_board(turnaround_s, multiple=multiple) as (url, board):
        relays = {f"relay_{i}": relay(url, i, latency_s=turnaround_s) for i in range(channels)}
        async with closing(rig_of(relays, reading(url), FakeDoseLog())) as rig:
            began_s = time.monotonic()
            report = await rig.safe()
            confirmed_after_s = time.monotonic() - began_s
            after_s = off_after_s(board, channels, began_s)
            assert report.ok, report.failed
            times = rig.time_to_safe()
            assert times.told_s <= 2.0
            assert after_s <= times.told_s + MARGIN_S
            assert confirmed_after_s <= times.confirmed_s + MARGIN_S


async def test_a_distant_plc_is_used_and_made_safe():
    """Fault 52: six actuators 100 ms away are opened, driven, told to go safe and confirmed."""
    with distant_plc(0.1) as (url, plc):
        relays = {f"relay_{i}": relay(url, i, timeout_s=2.0) for i in range(6)}
        async with closing(rig_of(relays, reading(url, timeout_s=2.0), FakeDoseLog())) as rig:
            began_s = time.monotonic()
            assert (await rig.safe()).ok
            assert off_after_s(plc, 6, began_s) <= rig.time_to_safe().told_s + MARGIN_S
            await rig.open()
            await rig.control(dict.fromkeys(relays, 1.0))
            assert plc.on(6) == list(range(6))
            began_s = time.monotonic()
            report = await rig.safe()
            assert report.ok, report.failed
            assert off_after_s(plc, 6, began_s) <= rig.time_to_safe().told_s + MARGIN_S
            assert rig.time_to_safe().told_s <= 2.0


async def test_a_pump_never_met_before_is_stopped_and_confirmed():
    """Fault 53: an EZO-PMP that takes 300 ms over each answer is stopped and confirmed without any earlier contact."""
    pump = SlowPump()
    peer = PtyPeer(cut_lines(b"\r"), pump.answer)
    try:
        pumps = {"acid": ("ezo-pmp", f"serial://{peer.path}", {}, 2.0)}
        with distant_plc(0.0) as (url, _):
            async with closing(rig_of({}, reading(url), FakeDoseLog(), pumps=pumps)) as rig:
                began_s = time.monotonic()
                report = await rig.safe()
                assert not pump.running
                assert report.ok, report.failed
                assert pump.stopped_s - began_s <= 2.0 + MARGIN_S
    finally:
        peer.stop()


async def test_one_silent_device_holds_up_nobody():
    """Fault 51, 2: with one of 16 channels on a dead unit, the other 15 are told in time and only it is named."""
    with rtu_board(0.03) as (url, board):
        relays = {"dead": relay(url, 0, unit=9, timeout_s=2.0)}
        relays |= {f"relay_{i}": relay(url, i, timeout_s=2.0, latency_s=0.03) for i in range(15)}
        async with closing(rig_of(relays, reading(url), FakeDoseLog())) as rig:
            began_s = time.monotonic()
            report = await rig.safe()
            assert off_after_s(board, 15, began_s) <= rig.time_to_safe().told_s + MARGIN_S
            assert set(report.failed) == {"dead"}
            assert any(request[0] == 9 and request[1] in {0x05, 0x0F} for request in board.requests)


async def test_a_question_to_a_dead_device_is_cut_short():
    """Fault 51, 2: while a sensor that is dead is being waited for, going safe does not wait with it."""
    with rtu_board(0.03) as (url, board):
        relays = {f"relay_{i}": relay(url, i, latency_s=0.03) for i in range(4)}
        sensor = reading(url, unit=9, timeout_s=30.0)
        async with closing(rig_of(relays, sensor, FakeDoseLog())) as rig:
            reading_it = asyncio.create_task(rig.snapshot())
            assert await asyncio.to_thread(board.dead_asked.wait, 10.0)
            began_s = time.monotonic()
            report = await rig.safe()
            assert off_after_s(board, 4, began_s) <= rig.time_to_safe().told_s + MARGIN_S
            assert report.ok, report.failed
            reading_it.cancel()


async def test_a_dead_bus_holds_up_no_other():
    """Fault 2, 16: beside a gateway that accepts and never answers, a healthy board is told at once and confirmed."""
    gateway = TcpPeer(cut_mbap, lambda _: [])
    try:
        with rtu_board(0.03) as (url, board):
            dead_url = f"modbus_tcp://127.0.0.1:{gateway.port}"
            relays = {f"dead_{i}": relay(dead_url, i, timeout_s=2.0) for i in range(6)}
            relays |= {f"relay_{i}": relay(url, i, latency_s=0.03) for i in range(8)}
            async with closing(rig_of(relays, reading(url), FakeDoseLog())) as rig:
                began_s = time.monotonic()
                report = await rig.safe()
                took_s = time.monotonic() - began_s
                assert off_after_s(board, 8, began_s) <= rig.time_to_safe().by_bus[url][0] + MARGIN_S
                assert set(report.failed) == {f"dead_{i}" for i in range(6)}
                bound_s = max(1.8, 2 * rig.time_to_safe().by_bus[dead_url][1] + 2.0)
                assert took_s <= bound_s + MARGIN_S
    finally:
        gateway.stop()


QUIET_S = 6.0
"""Longer than a command to the safe state is waited for."""


@pytest.fixture
def supply():
    """A power supply that never answers what it measures; `on` tells whether its output is."""
    said = {"*IDN?": "ACME,PSU,1,1", "SYST:ERR?": '0,"No error"', "OUTP?": "0"}

    def answer(request):
        question = request.decode().strip()
        if question.startswith("OUTP "):
            said["OUTP?"] = str(int(question == "OUTP ON"))
        return [f"{said[question]}\n".encode()] if question in said else []

    enable = {"on": "OUTP ON", "off": "OUTP OFF", "state": "OUTP?"}
    with peers() as make:
        peer = make(PtyPeer, cut_lines(b"\n"), answer)
        url = f"serial://{peer.path}?quiet={QUIET_S}"
        drive, sensor = (("scpi", url, options, 0.5) for options in ({"enable": enable}, {"query": "MEAS?"}))
        yield rig_of({"drive": drive}, sensor, FakeDoseLog()), lambda: said["OUTP?"] == "1"


@pytest.fixture
def board():
    """A relay on a line with another unit that is dead."""
    unit = ModbusUnit()
    with peers() as make:
        peer = make(PtyPeer, cut_rtu, lambda request: unit.rtu(request) if request[0] == 1 else [])
        url = f"modbus_rtu://{peer.path}?quiet={QUIET_S}&echo=no"
        drive, sensor = (
            ("modbus", url, {"enable": {"coil": 0}}, 0.5),
            ("modbus", url, {"address": 2, "read": {"at": 0}}, 0.5),
        )
        yield rig_of({"drive": drive}, sensor, FakeDoseLog()), lambda: unit.coils.get(0) is True


@pytest.mark.parametrize("kind", ["supply", "board"])
@pytest.mark.parametrize("silence", ["owed", "kept"])
async def test_an_output_is_switched_off_before_the_silence_is_over(request, kind, silence):
    """Owed after a question without an answer; kept, where the next question waits for its end already."""
    rig, is_on = request.getfixturevalue(kind)
    await rig.control({"drive": 1.0})
    assert is_on()
    with pytest.raises(DeviceTimeout):
        await rig.hands.read("sensor")
    waiting = [asyncio.create_task(rig.hands.read("sensor"))] if silence == "kept" else []
    await asyncio.sleep(0.3)  # it is under way
    assert (await rig.safe()).ok  # healthy as it is, it is not given up before the silence is over
    assert not is_on()
    await asyncio.gather(*waiting, return_exceptions=True)
    await rig.close()


def reckoned(url, **more):
    """With one relay there that nobody has met."""
    drive, sensor = (
        ("modbus", url, options, 0.5) for options in ({"enable": {"coil": 0}, **more}, {"read": {"at": 0}})
    )
    return rig_of({"drive": drive}, sensor, FakeDoseLog()).time_to_safe()


@pytest.mark.parametrize(("takes", "together"), [(lambda devices: 0.1 * len(devices), 0.1), (None, 2.0)])
def test_one_instrument_alone_goes_safe_in_its_own_time(takes, together):
    """What its driver says; of one that cannot say its timeout."""
    assert together_s([SimpleNamespace(device=SimpleNamespace(safe_all_s=takes), timeout_s=2.0)]) == together


def test_the_silence_that_a_line_may_owe_is_reckoned():
    """Before it is asked whether it is safe; and a unit that is recognised first is waited for before it is told."""
    short, long = (f"modbus_rtu://nowhere?quiet={quiet_s}" for quiet_s in (0.5, QUIET_S))
    identity = {"register": "holding", "at": 9, "value": 77}
    assert reckoned(long).told_s == reckoned(short).told_s
    assert reckoned(long).confirmed_s >= QUIET_S
    for url in (short, long):
        assert reckoned(url, identity=identity).told_s >= reckoned(url).told_s + LEAST_PATIENCE_S
    assert reckoned(long, identity=identity).told_s < QUIET_S
