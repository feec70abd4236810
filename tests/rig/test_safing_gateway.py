"""Going safe where commands are answered by exceptions: of a gateway that hears no unit, and of a unit that is busy."""

import pytest

from tests.drivers.peers import ModbusUnit, TcpPeer, cut_mbap
from tests.rig.boards import reading, relay, rig_of
from tests.rig.fakes import FakeDoseLog

IDENTITY = {"identity": {"register": "holding", "at": 9, "value": 77}}


@pytest.fixture
def gateway():
    """A gateway on whose line commands arrive and answers do not; it makes exception 0B of each."""
    unit = ModbusUnit(words={(3, 9): 77}, coils={0: True})

    def answer(request):
        unit.faults = [lambda reply: [reply[:4] + bytes([0, 3, reply[6], reply[7] | 0x80, 0x0B])]]
        return unit.tcp(request)

    peer = TcpPeer(cut_mbap, answer)
    yield peer, unit
    peer.stop()


async def test_a_unit_never_met_that_a_gateway_cannot_hear_is_told_all_the_same(gateway):
    """As one that is silent on a line of its own; it is reported, for nothing confirms it."""
    peer, unit = gateway
    url = f"modbus_tcp://127.0.0.1:{peer.port}"
    rig = rig_of({"valve": relay(url, 0, **IDENTITY)}, reading(url), FakeDoseLog())
    report = await rig.safe()
    await rig.close()
    assert not unit.coils[0]
    assert set(report.failed) == {"valve"}


async def test_a_unit_that_takes_no_command_for_a_while_is_told_again(gateway):
    """A controller that stores its parameters refuses three writes, and says all the same what it holds."""
    peer, unit = gateway
    refused = []

    def answer(request):
        if request[7] == 5 and len(refused) < 3:
            refused.append(request)
            return [request[:4] + bytes([0, 3, request[6], request[7] | 0x80, 0x06])]
        return unit.tcp(request)

    peer._answer = answer
    url = f"modbus_tcp://127.0.0.1:{peer.port}"
    rig = rig_of({"valve": relay(url, 0, **IDENTITY)}, reading(url), FakeDoseLog())
    report = await rig.safe()
    await rig.close()
    assert (report.failed, unit.coils[0]) == ({}, False)
