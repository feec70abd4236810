"""RTU frames over TCP, as serial device servers pass them on."""

import pytest
import serial

from rigctl.errors import DeviceTimeout
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import Deadline
from rigctl_drivers.modbus_register import ModbusRegisterDriver
from tests.drivers.peers import HangUp, TcpPeer, cut_rtu, dribbled, flipped, foreign_slave, late, patient


@pytest.fixture
def server(peer, unit):
    """A device server with `unit` on its serial side."""
    return peer(TcpPeer, cut_rtu, unit.rtu)


@pytest.fixture
def over_tcp(line, server):
    return line(f"rtu_tcp://127.0.0.1:{server.port}?quiet=0.4&echo=no")


@pytest.mark.parametrize("fault", [None, dribbled, flipped], ids=["sound", "dribbled", "flipped"])
def test_rtu_frames_go_over_a_socket(over_tcp, unit, fault):
    """Answers are checked by their checksum, put together from pieces, and asked for again when damaged."""
    unit.faults = [fault]
    assert over_tcp.read_registers(1, "input", 2, 1, patient()) == [42]
    over_tcp.write_registers(1, 20, [9], patient())
    assert unit.words[(3, 20)] == 9


def test_after_a_timeout_the_line_is_silent_as_a_serial_one(over_tcp, unit, server):
    """Such answers carry no number: a late one is waited for and dropped, over the same connection."""
    unit.faults = [late(0.2)]
    with pytest.raises(DeviceTimeout):
        over_tcp.read_registers(1, "input", 2, 1, Deadline.after(0.1))
    assert over_tcp.read_registers(1, "input", 3, 1, patient()) == [43]
    assert server.connections == 1


def test_a_connection_that_breaks_is_opened_again(peer, line, unit, golden):
    """A write during which it breaks is not sent again; the next read goes over a new connection."""

    def answer(request):
        if request[1] == 6:
            raise HangUp
        return unit.rtu(request)

    end = peer(TcpPeer, cut_rtu, answer)
    made = line(f"rtu_tcp://127.0.0.1:{end.port}?quiet=0.1&echo=no")
    assert made.read_registers(1, "input", 2, 1, patient()) == [42]
    with golden.raises(DeviceTimeout):
        made.write_registers(1, 20, [9], patient())
    assert made.read_registers(1, "input", 2, 1, patient()) == [42]
    assert [request[1] for request in end.requests] == [4, 6, 4]


@pytest.mark.slow
def test_the_driver_conforms_to_a_foreign_slave_behind_a_device_server(peer, clock):
    """modbus_tk's RTU slave, its serial line passed on over TCP, passes every check of the driver."""
    with (
        foreign_slave("holding", "coils") as (wire, slave),
        serial.Serial(wire.paths[1], baudrate=115200, timeout=0.3) as side,
    ):

        def pass_on(request):
            side.reset_input_buffer()
            side.write(request)
            return [side.read_until(b"no end", 256)]

        url = f"rtu_tcp://127.0.0.1:{peer(TcpPeer, cut_rtu, pass_on).port}?quiet=0.4"
        valve = {"address": 4, "write": {"at": 20, "type": "float32", "order": "CDAB"}, "enable": {"coil": 3}}
        report = check_driver(ModbusRegisterDriver, valve, url, clock, setpoint=31.5)
        assert report.abilities == ("Actuator",)
        assert slave.get_values("holding", 20, 2) == (0, 0x41FC)
