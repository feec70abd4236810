"""Going safe on a line that owes a long silence (`quiet`), because one of its instruments did not answer."""

from __future__ import annotations

import asyncio

import pytest

from rigctl.errors import DeviceTimeout
from rigctl.rig.safing import LEAST_PATIENCE_S
from tests.drivers.peers import ModbusUnit, PtyPeer, cut_lines, cut_rtu, peers
from tests.rig.boards import rig_of
from tests.rig.fakes import FakeDoseLog

pytestmark = pytest.mark.slow

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


def test_the_silence_that_a_line_may_owe_is_reckoned():
    """Before it is asked whether it is safe; and a unit that is recognised first is waited for before it is told."""
    short, long = (f"modbus_rtu://nowhere?quiet={quiet_s}" for quiet_s in (0.5, QUIET_S))
    identity = {"register": "holding", "at": 9, "value": 77}
    assert reckoned(long).told_s == reckoned(short).told_s
    assert reckoned(long).confirmed_s >= QUIET_S
    for url in (short, long):
        assert reckoned(url, identity=identity).told_s >= reckoned(url).told_s + LEAST_PATIENCE_S
    assert reckoned(long, identity=identity).told_s < QUIET_S
