"""Answers over RTU that come after their deadline, and are not taken for those of what is asked next."""

from __future__ import annotations

import pytest

from rigctl.errors import DeviceTimeout
from rigctl.rig.protocols import Deadline
from tests.drivers.peers import ModbusUnit, Overdue, PtyPeer, cut_rtu, lost


def soon() -> Deadline:
    """Short, for answers that never come."""
    return Deadline.after(0.1)


def patient() -> Deadline:
    """Long enough for everything that does come."""
    return Deadline.after(5.0)


@pytest.fixture
def unit():
    return ModbusUnit(words={(3, 7): 700, (4, 2): 42})


@pytest.fixture
def slow_rtu(peer, line, unit):
    """An RTU line whose late answers are waited for."""
    end = peer(PtyPeer, cut_rtu, unit.rtu)
    return line(f"modbus_rtu://{end.path}?baud=115200&quiet=0.4&echo=no")


def test_3_a_late_reply_does_not_answer_the_next_request(slow_rtu, unit):
    """The echo of a first write, arriving late, never confirms a second one that was itself lost."""
    unit.faults = [overdue := Overdue(), lost]
    with pytest.raises(DeviceTimeout):
        slow_rtu.write_registers(1, 7, [111], soon())
    overdue.come()
    with pytest.raises(DeviceTimeout):
        slow_rtu.write_registers(1, 7, [111], Deadline.after(0.6))
    assert [pdu[3:] for pdu in unit.pdus] == [bytes([0, 111])] * 2
    assert slow_rtu.read_registers(1, "holding", 7, 1, patient()) == [111]


def test_3_a_late_value_is_not_taken_for_the_next_one(slow_rtu, unit):
    """A reading that arrives after its deadline is dropped, not returned by the next read of another register."""
    unit.words[(4, 3)] = 43
    unit.faults = [overdue := Overdue()]
    with pytest.raises(DeviceTimeout):
        slow_rtu.read_registers(1, "input", 2, 1, soon())
    overdue.come()
    assert slow_rtu.read_registers(1, "input", 3, 1, patient()) == [43]


def test_3_the_second_answer_to_a_read_that_was_repeated_is_not_the_next_value(slow_rtu, unit):
    """A line that stalls and then carries both: the second answer comes when the next register has been asked for."""
    unit.words[(4, 3)] = 43
    unit.faults = [lost, lambda reply: [reply, 0.1, reply]]
    assert slow_rtu.read_registers(1, "input", 2, 1, Deadline.after(1.5)) == [42]
    assert slow_rtu.read_registers(1, "input", 3, 1, patient()) == [43]


@pytest.mark.slow
def test_3_a_unit_that_always_answers_late_answers_no_other_question(slow_rtu, unit):
    """Its first answer comes to the repetition, whose own comes when the next register would be asked for."""
    unit.words[(4, 3)] = 43
    unit.faults = [lost, lambda reply: [reply, 1.0, reply]]
    assert slow_rtu.read_registers(1, "input", 2, 1, Deadline.after(3.0)) == [42]
    assert slow_rtu.read_registers(1, "input", 3, 1, patient()) == [43]


def test_resync_forgets_a_late_reply(slow_rtu, unit):
    """resync() after a timeout stays silent until the late reply has come, and drops it."""
    unit.faults = [overdue := Overdue()]
    with pytest.raises(DeviceTimeout):
        slow_rtu.read_registers(1, "input", 2, 1, soon())
    overdue.come()
    slow_rtu.resync()
    assert slow_rtu.read_registers(1, "input", 2, 1, patient()) == [42]
    assert slow_rtu.read_retries == 0
