"""A port that is another one since it was last used: whoever answers there now is asked first who it is."""

import asyncio
import threading

import pytest

from rigctl.errors import DeviceTimeout, IdentityMismatch
from rigctl.rig import safing
from tests.drivers.circuits import Pump
from tests.drivers.peers import ModbusUnit, PtyPeer, TcpPeer, cut_lines, cut_mbap, cut_rtu, peers
from tests.rig.boards import reading, relay, rig_of
from tests.rig.fakes import FakeDoseLog

END = b"\r"
IDENTITY = {"identity": {"register": "holding", "at": 9, "value": 77}}
WAITS_S = 20.0
"""How long an answer is waited for that does come."""


@pytest.fixture
def socket(tmp_path, peer):
    """A socket of this machine: `plug(peer)` puts another adapter into it, under the same name."""
    port = tmp_path / "by-path"
    plugged = []

    def plug(cut, answer):
        if plugged:
            plugged[-1].stop_thread()
            plugged.pop().unplug()
            port.unlink()
        plugged.append(peer(PtyPeer, cut, answer))
        port.symlink_to(plugged[-1].path)
        return port

    return plug


@pytest.fixture
def peer():
    with peers() as make:
        yield make


@pytest.fixture
def patient(monkeypatch):
    """Whoever is silent for long is told to go safe unasked; nobody here is, however busy the machine."""
    for least in ("LEAST_PATIENCE_S", "LITTLE_PATIENCE_S"):
        monkeypatch.setattr(safing, least, WAITS_S)


async def test_another_board_on_the_port_is_told_nothing(socket, patient, golden):
    """Swapped while nothing was asked of it; the answer to who it is is not that of the board that was there."""
    ours, other = ModbusUnit(words={(3, 9): 77}), ModbusUnit(words={(3, 9): 88})
    port = socket(cut_rtu, ours.rtu)
    url = f"modbus_rtu://{port}?quiet=0.1&echo=no"
    rig = rig_of({"valve": relay(url, 0, timeout_s=WAITS_S, **IDENTITY)}, reading(url), FakeDoseLog())
    await rig.open()
    await rig.control({"valve": 1.0})
    assert ours.coils == {0: True}
    await rig.safe()
    socket(cut_rtu, other.rtu)
    with golden.raises(IdentityMismatch):
        await rig.control({"valve": 1.0})
    assert not (await rig.safe()).ok
    await rig.close()
    assert other.coils == {}


@pytest.fixture
def adapters(tmp_path, peer):
    """A hub that comes back with its adapters swapped, once ours is asked by a function, which it does not answer."""

    def make(ours, other, function):
        port, asked = tmp_path / "by-id", threading.Event()

        def answer(request):
            if request[1] != function:
                return ours.rtu(request)
            asked.set()
            return []

        first, second = peer(PtyPeer, cut_rtu, answer), peer(PtyPeer, cut_rtu, other.rtu)
        port.symlink_to(first.path)

        def swap():
            assert asked.wait(60)
            port.unlink()
            port.symlink_to(second.path)
            first.stop_thread()
            first.unplug()

        return f"modbus_rtu://{port}?quiet=0.1&echo=no", asyncio.ensure_future(asyncio.to_thread(swap))

    return make


async def test_another_board_that_comes_in_mid_command_is_told_nothing_more(adapters, golden):
    """Between setpoint and enable; the other holds the same setpoint."""
    ours, other = (ModbusUnit(words={(3, 9): who, (3, 3): held}) for who, held in ((77, 0), (88, 1)))
    url, swapping = adapters(ours, other, 6)
    drive = "modbus", url, {"unit": "mM", "write": {"at": 3}, "enable": {"coil": 0}, **IDENTITY}, 5.0
    rig = rig_of({"drive": drive}, reading(url), FakeDoseLog())
    await rig.open()
    with golden.raises(IdentityMismatch):
        await rig.control({"drive": 1.0})
    await swapping
    await rig.close()
    assert other.coils == {}


async def test_another_board_that_comes_while_everything_is_made_safe_is_told_nothing(adapters, patient):
    """Ours does not say who it is, and would be told all the same; but it is the other that is there by then."""
    ours, other = ModbusUnit(words={(3, 9): 77}), ModbusUnit(words={(3, 9): 88}, coils={0: True})
    url, swapping = adapters(ours, other, 3)
    rig = rig_of({"valve": relay(url, 0, timeout_s=WAITS_S, **IDENTITY)}, reading(url), FakeDoseLog())
    report = await rig.safe()
    await swapping
    await rig.close()
    assert "88" in report.failed["valve"]
    assert other.coils == {0: True}


async def test_another_unit_behind_a_gateway_is_told_nothing(peer, golden):
    """A gateway that heard nothing (exception 0B) is a silence: who answers there afterwards may be another."""
    unit = ModbusUnit(words={(3, 9): 77})
    url = f"modbus_tcp://127.0.0.1:{peer(TcpPeer, cut_mbap, unit.tcp).port}"
    rig = rig_of({"valve": relay(url, 0, **IDENTITY)}, reading(url), FakeDoseLog())
    await rig.open()
    unit.faults = [lambda reply: [reply[:4] + bytes([0, 3, reply[6], reply[7] | 0x80, 0x0B])]] * 2
    with golden.raises(DeviceTimeout):
        await rig.hands.read("sensor")
    unit.words[(3, 9)] = 88
    with golden.raises(IdentityMismatch):
        await rig.control({"valve": 1.0})
    await rig.close()
    assert unit.coils == {}


async def test_another_pump_on_the_port_doses_nothing(socket, golden):
    """Two circuits of one model, told apart by their names; the one that is there now is not asked to dose."""
    pumps = {name: Pump() for name in ("acid", "base")}

    def answering(name):
        pumps[name].override["Name,?"] = [f"?NAME,{name}", "*OK"]
        return lambda request: ["".join(f"{text}\r" for text in pumps[name](request[:-1].decode())).encode()]

    url = f"serial://{socket(cut_lines(END), answering('acid'))}?quiet=0.1"
    rig = rig_of({}, reading("modbus_tcp://127.0.0.1:1"), FakeDoseLog(), pumps={"doser": ("ezo-pmp", url, {}, 1.0)})
    doser = rig._wiring.dosers["doser"]
    assert (await doser.identify()).serial == "acid"
    socket(cut_lines(END), answering("base"))
    with golden.raises(IdentityMismatch):
        await rig.hands.dose("doser", 5.0)
    await rig.close()
    assert not pumps["base"].running


async def test_a_circuit_that_comes_back_on_the_port_is_told_its_temperature_again(socket):
    """Without power it has forgotten it, and nobody heard that it restarted: it would read for 25 degC then."""

    def circuit():
        knows = {"i": "?I,EC,2.14", "O,?": "?O,EC", "Name,?": "?NAME,", "R": "1258", "C,0": ""}

        def answer(request):
            if (command := request[:-1].decode()) == "T,19.50":
                knows.update({command: "", "R": "1413"})
            said = knows[command]
            return [f"{said}\r*OK\r".encode() if said else b"*OK\r"]

        return answer

    url = f"serial://{socket(cut_lines(END), circuit())}?quiet=0.1"
    rig = rig_of({}, ("ezo", url, {"model": "EC", "temperature_c": 19.5}, 5.0), FakeDoseLog())
    assert (await rig.hands.read("sensor")).value == 1413
    socket(cut_lines(END), circuit())
    assert (await rig.hands.read("sensor")).value == 1413
    await rig.close()
