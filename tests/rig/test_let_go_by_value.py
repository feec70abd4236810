"""An actuator that is let go by a setpoint of its own, on a Modbus server nobody here wrote."""

from dataclasses import replace

import pytest

from rigctl.rig.clocks import RealClock
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.protocols import ActuatorState
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig
from rigctl.rig.values import News
from tests.rig.boards import reading, rig_of
from tests.rig.fakes import FakeDoseLog

FAN = {"unit": "Hz", "write": {"at": 1, "scale": 0.01}, "release_value": 20.0}


@pytest.fixture
def plc():
    """A pyModbusTCP server."""
    from pyModbusTCP.server import ModbusServer

    server = ModbusServer("127.0.0.1", 0, no_block=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def rig(plc):
    """A fan that turns at 20 Hz while nobody asks for another speed; so it does in its safe state."""
    url = f"modbus_tcp://127.0.0.1:{plc._service.server_address[1]}"
    spec = rig_of({"fan": ("modbus", url, FAN, 1.0)}, reading(url), FakeDoseLog()).spec
    spec = replace(spec, limits={"fan": ActuatorLimits(low=0.0, high=50.0, safe_state=20.0)})
    made = Rig(spec, Registry.installed(), RealClock(), FakeDoseLog(), News())
    yield made
    await made.close()


async def test_a_safe_state_that_is_the_release_value_is_confirmed(plc, rig):
    """It holds what it was sent, although that lets it go."""
    plc.data_bank.set_holding_registers(1, [5000])
    report = await rig.safe()
    assert (report.ok, report.failed) == (True, {})
    assert plc.data_bank.get_holding_registers(1, 1) == [2000]


async def test_a_setpoint_that_is_the_release_value_is_held(plc, rig, golden):
    """A trial may ask for it; another one is not confirmed by it."""
    await rig.open()
    assert await rig.control({"fan": 20.0}) == {"fan": ActuatorState(True, 20.0)}
    assert await rig.verify() == {}
    await rig.control({"fan": 50.0})
    plc.data_bank.set_holding_registers(1, [2000])
    golden(await rig.verify())
