"""The watchdog of a Modbus unit, fed and asked."""

import pytest

from rigctl.errors import DeviceFault
from rigctl.rig.testing import MemoryLine
from rigctl_drivers.modbus_register import ModbusRegisterDriver
from tests.drivers.peers import ModbusUnit, TcpPeer, cut_mbap, soon

VALVE = {"enable": {"coil": 1}, "heartbeat": {"at": 100, "every_s": 1.0, "timeout_at": 101}}


def valve(line, **changes):
    options = {**VALVE, "heartbeat": {**VALVE["heartbeat"], **changes}}
    return ModbusRegisterDriver.connect(ModbusRegisterDriver.options.model_validate(options), line)


@pytest.fixture
def memory():
    """A unit whose watchdog waits for four seconds."""
    line = MemoryLine()
    line.write_registers(1, 101, (40,), soon())
    return line


def test_every_heartbeat_is_another_number(memory):
    """A device that looks for a change sees one, and each is read back."""
    made = valve(memory)
    seen = []
    for _ in range(3):
        made.heart.beat(soon())
        made.heart.check(soon())
        seen += memory.read_registers(1, "holding", 100, 1, soon())
    assert len(set(seen)) == 3
    made.heart._count = 0xFFFF
    made.heart.beat(soon())
    assert list(memory.read_registers(1, "holding", 100, 1, soon())) == [1]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (0, "holds 0: its watchdog is off; set it to at least 3 s"),
        (29, r"holds 29, 2.9 s; must be 3 s \(3 heartbeats\) to 60 s"),
        (601, r"60.1 s; must be 3 s"),
        (30, ""),
        (600, ""),
    ],
)
def test_a_watchdog_that_is_off_or_has_no_sane_time_is_refused(memory, raw, said):
    """Before anything is driven: off, too quick for a busy bus, or too slow to protect anything."""
    made = valve(memory)
    made.heart.beat(soon())
    memory.write_registers(1, 101, (raw,), soon())
    if said:
        with pytest.raises(DeviceFault, match=said):
            made.heart.check(soon())
    else:
        made.heart.check(soon())
        assert not said


def test_a_heartbeat_that_the_device_does_not_keep_is_refused(memory, golden):
    """Somebody else writes the register, or nobody listens there."""
    made = valve(memory)
    made.heart.beat(soon())
    memory.write_registers(1, 100, (7,), soon())
    with golden.raises(DeviceFault):
        made.heart.check(soon())


def test_one_device_feeds_the_watchdog_of_its_unit(memory, golden):
    """The others of the unit are guarded with it; the register is claimed, so no other may write it."""
    options = ModbusRegisterDriver.options.model_validate
    assert options(VALVE).watchdog() == ("unit 1", True)
    assert options({"enable": {"coil": 2}}).watchdog() == ("unit 1", False)
    golden({claim.place for claim in options(VALVE).occupies()})


def test_a_unit_that_knows_only_functions_for_many_is_fed_by_one(peer, line):
    """`write_multiple: always` holds for the heartbeat as for whatever else is written to it."""
    unit = ModbusUnit(words={(3, 101): 40}, deaf_to={0x05, 0x06})
    wire = line(f"modbus_tcp://127.0.0.1:{peer(TcpPeer, cut_mbap, unit.tcp).port}")
    options = ModbusRegisterDriver.options.model_validate({**VALVE, "write_multiple": "always"})
    heart = ModbusRegisterDriver.connect(options, wire).heart
    heart.beat(soon())
    heart.check(soon())
    assert [pdu[0] for pdu in unit.pdus] == [0x10, 0x03, 0x03]
