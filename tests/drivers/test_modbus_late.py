"""Answers that come after their deadline, and commands that must leave although one is still owed."""

import pytest

from rigctl.errors import DeviceError, DeviceTimeout, GarbledReply
from rigctl.rig.protocols import Deadline
from tests.drivers.peers import Overdue, PtyPeer, TcpPeer, briefly, cut_mbap, cut_rtu, late, lost, patient


def test_3_a_late_reply_does_not_answer_the_next_request(slow_rtu, unit):
    """The echo of a first write, arriving late, never confirms a second one that was itself lost."""
    unit.faults = [overdue := Overdue(), lost]
    with pytest.raises(DeviceTimeout):
        slow_rtu.write_registers(1, 7, [111], briefly())
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
        slow_rtu.read_registers(1, "input", 2, 1, briefly())
    overdue.come()
    assert slow_rtu.read_registers(1, "input", 3, 1, patient()) == [43]


@pytest.mark.parametrize(
    ("pause_s", "within_s"),
    [(0.1, 1.5), pytest.param(1.0, 3.0, marks=pytest.mark.slow)],
    ids=["of a line that stalls", "of a unit that is always late"],
)
def test_3_the_second_answer_to_a_read_is_not_the_next_value(slow_rtu, unit, pause_s, within_s):
    """The first is for the repetition, whose own comes when the next register has been asked for."""
    unit.words[(4, 3)] = 43
    unit.faults = [lost, lambda reply: [reply, pause_s, reply]]
    assert slow_rtu.read_registers(1, "input", 2, 1, Deadline.after(within_s)) == [42]
    assert slow_rtu.read_registers(1, "input", 3, 1, patient()) == [43]


def test_resync_forgets_a_late_reply(slow_rtu, unit):
    """resync() after a timeout stays silent until the late reply has come, and drops it."""
    unit.faults = [overdue := Overdue()]
    with pytest.raises(DeviceTimeout):
        slow_rtu.read_registers(1, "input", 2, 1, briefly())
    overdue.come()
    slow_rtu.resync()
    assert slow_rtu.read_registers(1, "input", 2, 1, patient()) == [42]
    assert slow_rtu.read_retries == 0


# pressing on ----------------------------------------------------------------------------------------------------


@pytest.fixture
def tcp(peer, unit):
    """A TCP server with `unit` behind it."""
    return peer(TcpPeer, cut_mbap, unit.tcp)


def rtu_line(peer, line, unit, quiet):
    end = peer(PtyPeer, cut_rtu, unit.rtu)
    return line(f"modbus_rtu://{end.path}?baud=9600&echo=no&quiet={quiet}")


def test_on_rtu_the_next_command_does_not_wait_for_the_silence(peer, line, unit):
    """After a lost answer the next command leaves at once; without pressing on it would wait for a minute."""
    rtu = rtu_line(peer, line, unit, 60)
    unit.faults = [lost]
    with pytest.raises(DeviceTimeout):
        rtu.write_coils(1, 7, [True], briefly())
    rtu.press_on()
    until = patient()
    rtu.write_coils(1, 8, [True], until)
    rtu.write_coils(1, 9, [True], until)
    assert until.remaining_s > 30.0
    assert (unit.coils[8], unit.coils[9]) == (True, True)


def test_on_rtu_a_silence_owed_later_is_not_waived(peer, line, unit):
    """Pressing on waives what is owed by then, not what a later timeout adds."""
    rtu = rtu_line(peer, line, unit, 60)
    unit.faults = [lost, lost]
    for _ in range(2):
        rtu.press_on()
        with pytest.raises(DeviceTimeout):
            rtu.write_coils(1, 7, [True], briefly())
    with pytest.raises(DeviceTimeout):
        rtu.write_coils(1, 8, [True], briefly())
    assert len(unit.pdus) == 2


def test_on_rtu_a_read_back_still_waits_for_late_answers(peer, line, unit):
    """A late answer to a question about another coil is not taken for the read-back, though commands pressed on."""
    rtu = rtu_line(peer, line, unit, 0.6)
    unit.faults = [late(0.25)]
    with pytest.raises(DeviceTimeout):
        rtu.read_bits(1, "coil", 1, 1, briefly())
    rtu.press_on()
    assert rtu.read_bits(1, "coil", 2, 1, patient()) == [True]


def test_on_tcp_commands_go_on_over_the_same_connection(line, unit, tcp):
    """After a lost answer the next command needs no new connection; without pressing on it gets one."""
    made = line(f"modbus_tcp://127.0.0.1:{tcp.port}")
    unit.faults = [lost]
    with pytest.raises(DeviceTimeout):
        made.write_coils(1, 7, [True], briefly())
    made.press_on()
    made.write_coils(1, 8, [True], patient())
    assert (unit.coils[8], tcp.connections) == (True, 1)
    unit.faults = [lost]
    with pytest.raises(DeviceTimeout):
        made.write_coils(1, 7, [True], briefly())
    made.write_coils(1, 9, [True], patient())
    assert (unit.coils[9], tcp.connections) == (True, 2)


def test_on_tcp_a_connection_that_stays_silent_is_left(line, unit, tcp):
    """Two commands in a row without an answer, and the next one connects anew even when pressing on."""
    made = line(f"modbus_tcp://127.0.0.1:{tcp.port}")
    unit.faults = [lost, lost]
    for at in (7, 8):
        with pytest.raises(DeviceTimeout):
            made.write_coils(1, at, [True], briefly())
        made.press_on()
    made.write_coils(1, 9, [True], patient())
    assert (unit.coils[9], tcp.connections) == (True, 2)


def test_on_tcp_a_late_answer_confirms_no_other_write(line, unit, tcp):
    """The answer to the same command sent before, arriving now, does not confirm the second, whose own was lost."""
    made = line(f"modbus_tcp://127.0.0.1:{tcp.port}")
    unit.faults = [late(0.4), lost]
    with pytest.raises(DeviceTimeout):
        made.write_coils(1, 7, [True], briefly())
    made.press_on()
    with pytest.raises(DeviceError):  # whether it was still heard depends on how busy the machine is
        made.write_coils(1, 7, [True], Deadline.after(1.5))
    assert (len(unit.pdus), tcp.connections) == (2, 1)


def test_on_tcp_an_answer_without_number_confirms_nothing_while_another_is_owed(line, unit, tcp, golden):
    """Some servers answer everything as transaction 0: the late answer to the same command sent before looks alike."""
    unnumbered = lambda reply: [bytes(2) + reply[2:]]  # noqa: E731 - a fault
    made = line(f"modbus_tcp://127.0.0.1:{tcp.port}")
    unit.faults = [unnumbered, lambda reply: [0.4, *unnumbered(reply)], lost, unnumbered]
    made.write_coils(1, 7, [True], patient())
    with pytest.raises(DeviceTimeout):
        made.write_coils(1, 7, [True], briefly())
    made.press_on()
    with golden.raises(GarbledReply):
        made.write_coils(1, 7, [True], Deadline.after(1.5))
    assert made.read_bits(1, "coil", 7, 1, patient()) == [True]
    assert (len(unit.pdus), tcp.connections) == (4, 2)
