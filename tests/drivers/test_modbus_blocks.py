"""Neighbouring registers are read in one request, and no value is ever an old one."""

import struct

import pytest

from rigctl.errors import DeviceError
from rigctl.rig.protocols import Deadline
from rigctl.rig.registry import Registry
from rigctl.rig.testing import ManualClock, MemoryLine
from rigctl_drivers.modbus_register import ModbusRegisterDriver
from tests.drivers.peers import ModbusUnit, TcpPeer, cut_mbap, lost, patient


@pytest.fixture
def unit():
    words = struct.unpack(">4H", struct.pack(">ff", 1.5, -2.25))
    return ModbusUnit(words={(4, at): word for at, word in enumerate(words)})


@pytest.fixture
def rig_time():
    """Rig time that passes only when a test says so."""
    return ManualClock()


@pytest.fixture
def made(peer, unit, rig_time):
    """A TCP line with `unit` at its end, on rig time."""
    line = Registry.installed().open_line(f"modbus_tcp://127.0.0.1:{peer(TcpPeer, cut_mbap, unit.tcp).port}", rig_time)
    yield line
    line.close()


def sensor(line, at):
    read = {"at": at, "type": "float32", "block": {"at": 0, "count": 4}}
    return ModbusRegisterDriver.connect(ModbusRegisterDriver.options.model_validate({"read": read}), line)


def test_sensors_of_one_block_asked_together_are_one_request(made, unit, rig_time):
    """Two floats side by side come from one question, each with the time it arrived."""
    first, second = sensor(made, 0), sensor(made, 2)
    rig_time.sleep(7.0)
    readings = [first.read(patient())]
    rig_time.sleep(0.09)
    readings.append(second.read(patient()))
    assert [(r.value, r.time_s) for r in readings] == [(1.5, 7.0), (-2.25, 7.0)]
    assert unit.pdus == [bytes([4, 0, 0, 0, 4])]


def test_nobody_gets_the_same_answer_twice(made, unit):
    """Whoever asks again at once causes a new question, and gets what holds now."""
    first, second = sensor(made, 0), sensor(made, 2)
    first.read(patient())
    second.read(patient())
    unit.words[(4, 0)] = 0
    assert first.read(patient()).value != 1.5
    assert len(unit.pdus) == 2


def test_what_is_a_little_old_is_asked_for_again(made, unit, rig_time):
    """After a tenth of a second an answer is for nobody any more."""
    sensor(made, 0).read(patient())
    rig_time.sleep(0.11)
    unit.words[(4, 2)] = 0
    assert sensor(made, 2).read(patient()).value != -2.25
    assert len(unit.pdus) == 2


def test_after_a_write_everything_is_asked_for_again(made, unit):
    """What was read before something was written is not handed on after it."""
    sensor(made, 0).read(patient())
    made.write_coils(1, 0, [True], patient())
    sensor(made, 2).read(patient())
    assert [pdu[0] for pdu in unit.pdus] == [4, 5, 4]


def test_a_question_that_fails_leaves_nothing_behind(made, unit):
    """If the block cannot be read again, no other sensor gets what was read before."""
    first, second = sensor(made, 0), sensor(made, 2)
    first.read(patient())
    unit.faults = [lost] * 4
    for probe in (first, second):
        with pytest.raises(DeviceError):
            probe.read(Deadline.after(0.3))


def test_a_line_that_knows_no_blocks_is_asked_for_the_value_alone():
    """The option asks for nothing that a line of another make would have to know."""
    line = MemoryLine(cells={(1, "input", 2): 0x3FC0})
    assert sensor(line, 2).read(patient()).value == 1.5
