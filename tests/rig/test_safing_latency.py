"""Going safe at the speed of real instruments (speed 1); what counts is when the instrument saw the command."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from tests.drivers.peers import PtyPeer, TcpPeer, cut_lines, cut_mbap
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
