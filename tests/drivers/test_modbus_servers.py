"""The Modbus driver against servers nobody here wrote: pyModbusTCP over TCP, modbus_tk over RTU on a pty pair."""

import pytest

from rigctl.errors import DeviceFault
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import Deadline
from rigctl_drivers.modbus_register import ModbusRegisterDriver
from tests.drivers.peers import foreign_slave

# 123.456 as IEEE 754 single is 42F6E979; one register pair per word order.
WORDS = {0: (0x42F6, 0xE979), 2: (0xF642, 0x79E9), 4: (0xE979, 0x42F6), 6: (0x79E9, 0xF642)}
ORDERS = {0: "ABCD", 2: "BADC", 4: "CDAB", 6: "DCBA"}
BY_REGISTER = {"write": {"at": 20, "type": "int32"}, "enable": {"register": "holding", "at": 22, "on": 7, "off": 1}}
WIDE = {"write": {"at": 24, "type": "float64", "order": "CDAB"}, "enable": {"coil": 3}, "write_multiple": "always"}
SWITCH = {"write": {"at": 30}, "release_value": 0.0, "safe_value": 2.0, "write_multiple": "always"}
PATIENCE_S = 60.0
"""For an answer of a thread that may have to wait for its processor; what is lost on purpose has other deadlines."""
VALVE = {"unit": "uM", "write": {"at": 20, "type": "float32", "order": "CDAB"}, "enable": {"coil": 3}}


@pytest.fixture(scope="module")
def tcp_url():
    """A pyModbusTCP server with the words above in its input registers."""
    from pyModbusTCP.server import DataBank, ModbusServer

    bank = DataBank()
    for at, pair in WORDS.items():
        bank.set_input_registers(at, list(pair))
    server = ModbusServer("127.0.0.1", 0, no_block=True, data_bank=bank)
    server.start()
    yield f"modbus_tcp://127.0.0.1:{server._service.server_address[1]}"
    server.stop()


@pytest.fixture(scope="module")
def rtu_url():
    """A modbus_tk RTU slave, unit 4, on a pseudo-terminal, with the same words."""
    with foreign_slave("input", "holding", "coils") as (wire, slave):
        for at, pair in WORDS.items():
            slave.set_values("input", at, list(pair))
        yield f"modbus_rtu://{wire.paths[1]}?baud=115200&quiet=0.4"


@pytest.fixture(params=["tcp", "rtu"])
def server(request):
    """Either server: URL and unit."""
    return request.getfixturevalue(f"{request.param}_url"), 1 if request.param == "tcp" else 4


def options(unit, **more):
    return ModbusRegisterDriver.options.model_validate({"address": unit, **more})


@pytest.mark.parametrize("at", WORDS)
def test_every_word_order_is_read_from_a_foreign_server(server, line, at):
    """A float in each of the four orders is read as what it is."""
    url, unit = server
    read = {"register": "input", "at": at, "type": "float32", "order": ORDERS[at]}
    device = ModbusRegisterDriver.connect(options(unit, read=read), line(url))
    assert device.read(Deadline.after(PATIENCE_S)).value == pytest.approx(123.456, rel=1e-7)


def test_a_missing_register_is_a_fault(server, line):
    """A register the server does not have is a configuration fault that names it."""
    url, unit = server
    at = 0xFFFF if url.startswith("modbus_tcp") else 900
    read = {"register": "input", "at": at, "type": "float32"}
    device = ModbusRegisterDriver.connect(options(unit, read=read), line(url))
    with pytest.raises(DeviceFault, match=rf"unit {unit}, .* register {at}: .* 0[23]"):
        device.read(Deadline.after(PATIENCE_S))


def test_a_sensor_conforms_on_a_foreign_server(server, clock):
    """On a server nobody here wrote it passes every check."""
    url, unit = server
    read = {"register": "input", "at": 0, "type": "float32"}
    report = check_driver(ModbusRegisterDriver, {"address": unit, "read": read}, url, clock, timeout_s=PATIENCE_S)
    assert report.abilities == ("Sensor",)


@pytest.mark.parametrize(
    ("valve", "setpoint"),
    [(VALVE, 31.5), (BY_REGISTER, -70000.0), (WIDE, 1234.5), (SWITCH, 9.0)],
    ids=["coil", "register", "wide", "always"],
)
def test_every_way_to_drive_conforms_on_a_foreign_server(server, line, clock, valve, setpoint):
    """Enabled by a coil or a register, 64 bits wide, with the functions for many alone: each keeps every promise."""
    url, unit = server
    if valve is BY_REGISTER:  # what nobody has ever written holds neither of its two values
        wire = line(url)
        wire.write_registers(unit, 22, [1], Deadline.after(PATIENCE_S))
        wire.close()
    given = {"address": unit, **valve}
    report = check_driver(ModbusRegisterDriver, given, url, clock, setpoint=setpoint, timeout_s=PATIENCE_S)
    assert report.abilities == ("Actuator",)


def test_a_foreign_server_s_coils_go_safe_together(server, line):
    """Coils of a group are off, and one between them that is not of the group is as it was."""
    url, unit = server
    wire = line(url)
    wire.write_coils(unit, 4, [True] * 6, Deadline.after(PATIENCE_S))
    group = [ModbusRegisterDriver.connect(options(unit, enable={"coil": at}), wire) for at in (4, 5, 7, 8)]
    group[0].safe_all(group, Deadline.after(PATIENCE_S))
    assert wire.read_bits(unit, "coil", 4, 6, Deadline.after(PATIENCE_S)) == [False, False, True, False, False, True]
