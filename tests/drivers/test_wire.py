"""What serial ports and sockets have in common: how long is waited, and how often is tried."""

import socket
import threading
from contextlib import suppress

import pytest

from rigctl.errors import DeviceError, DeviceTimeout, PortUnavailable
from rigctl.rig.protocols import Deadline, Hurry
from rigctl_drivers.wire import FLOOD, Wire
from tests.drivers.peers import ModbusUnit, PtyPeer, TcpPeer, cut_mbap, cut_rtu, over_once


@pytest.fixture
def hurry():
    return Hurry()


@pytest.mark.parametrize("kind", ["rtu", "tcp"])
def test_a_question_is_broken_off_when_something_urgent_waits(peer, line, hurry, kind):
    """A read that may be cut short ends soon after its deadline has come nearer, not when it was to end at first."""

    def urgent(_):
        threading.Timer(0.3, setattr, (hurry, "at_s", 0.0)).start()
        return []

    end = peer(PtyPeer, cut_rtu, urgent) if kind == "rtu" else peer(TcpPeer, cut_mbap, urgent)
    made = line(f"modbus_rtu://{end.path}" if kind == "rtu" else f"modbus_tcp://127.0.0.1:{end.port}")
    first = Deadline.after(60.0)
    with pytest.raises(DeviceTimeout):
        made.read_registers(1, "input", 2, 1, Deadline(first.at_s, hurry))
    assert first.remaining_s > 30.0
    assert len(end.requests) == 1


def test_the_silence_after_a_timeout_is_broken_off_too(peer, line, hurry):
    """A read that waits for the line's silence does not hold up what is urgent."""
    end = peer(PtyPeer, cut_rtu, lambda _: [])
    made = line(f"modbus_rtu://{end.path}?quiet=60")
    with pytest.raises(DeviceTimeout):
        made.read_registers(1, "input", 2, 1, over_once(lambda: bool(end.requests)))
    first = Deadline.after(60.0)
    threading.Timer(0.2, setattr, (hurry, "at_s", 0.0)).start()
    with pytest.raises(DeviceTimeout):
        made.read_registers(1, "input", 2, 1, Deadline(first.at_s, hurry))
    assert first.remaining_s > 30.0
    assert len(end.requests) == 1


class Doorman:
    """Accepts every connection and drops it; how many, is what it knows."""

    def __init__(self):
        self.accepted = 0
        self._counted = threading.Condition()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:  # the end
                return
            connection.close()
            with self._counted:
                self.accepted += 1
                self._counted.notify_all()

    def wait_for(self, connections):
        """Fail unless exactly so many have been accepted; it counts in a thread of its own, so it is waited for."""
        with self._counted:
            self._counted.wait_for(lambda: self.accepted >= connections, timeout=120.0)
            assert self.accepted == connections

    def stop(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join(120)
        self._server.close()
        assert not self._thread.is_alive()


@pytest.fixture
def doorman():
    made = Doorman()
    yield made
    made.stop()


@pytest.mark.slow
def test_76_a_gateway_that_accepts_and_drops_is_not_hammered(line, doorman):
    """Connections that are dropped before anything is heard come ever less often, counted by the server."""
    made = line(f"modbus_tcp://127.0.0.1:{doorman.port}")
    until = Deadline.after(4.0)
    while until.remaining_s > 0:
        try:
            made.read_registers(1, "input", 2, 1, until)
        except PortUnavailable:  # the next try is due after the deadline
            break
        except DeviceTimeout:
            continue
    assert 3 <= doorman.accepted <= 6  # at 0, 0.1, 0.3, 0.7, 1.5 and 3.1 s


def test_a_command_that_must_leave_does_not_wait_for_the_next_try(line, doorman, golden):
    """Whoever presses on connects at once, however long the pause that is due."""
    made = line(f"modbus_tcp://127.0.0.1:{doorman.port}")
    for attempt in range(1, 9):
        made.press_on()
        with pytest.raises(DeviceError):
            made.write_coils(1, 0, [False], Deadline.after(5.0))
        doorman.wait_for(attempt)
    with golden.raises(PortUnavailable):
        made.write_coils(1, 0, [False], Deadline.after(1.0))
    made.press_on()
    with pytest.raises(DeviceTimeout):
        made.write_coils(1, 0, [False], Deadline.after(5.0))
    doorman.wait_for(9)


def test_a_server_that_was_heard_is_connected_to_at_once(peer, line):
    """What answers and then drops the connection is no cause for a pause."""
    unit = ModbusUnit(words={(4, 2): 42})
    end = peer(TcpPeer, cut_mbap, unit.tcp)
    made = line(f"modbus_tcp://127.0.0.1:{end.port}")
    for _ in range(3):
        assert made.read_registers(1, "input", 2, 1, Deadline.after(10.0)) == [42]
        made.close()
    assert end.connections == 3


def test_who_floods_the_line_is_hung_up_on():
    """Silence is waited for, but not while somebody shouts: after a mebibyte the port is closed."""
    near, far = socket.socketpair()
    near.setblocking(False)
    shouting = threading.Thread(target=lambda: _shout(far), daemon=True)
    shouting.start()
    wire = Wire("tcp://shouts", lambda _: near)
    wire.open()
    wire.silence.distrust(600.0)
    dropped = wire.settle()
    shouting.join(60)
    assert not wire.is_open
    assert FLOOD < len(dropped) <= 2 * (FLOOD + 4096)  # what had come, and what came while it waited


def _shout(line):
    with line, suppress(OSError):
        while True:
            line.sendall(b"x" * 4096)
