"""Modbus lines under wire faults; the numbers are rows of the fault matrix."""

import pytest

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault, DeviceTimeout, GarbledReply, PortUnavailable
from rigctl.rig.bus import Bus, BusTiming
from rigctl.rig.protocols import Deadline
from rigctl.rig.values import News
from tests.drivers.peers import (
    HangUp,
    ModbusUnit,
    PtyPeer,
    TcpPeer,
    after_garbage,
    briefly,
    crc16,
    cut_mbap,
    cut_rtu,
    dribbled,
    exception,
    flipped,
    from_unit,
    lost,
    patient,
    questions,
    truncated,
)

QUIET = "quiet=0.05&echo=no"


@pytest.fixture
def rtu(peer, line, unit):
    """An RTU line with `unit` at its end."""
    end = peer(PtyPeer, cut_rtu, unit.rtu)
    return line(f"modbus_rtu://{end.path}?baud=115200&{QUIET}")


@pytest.fixture
def tcp(peer, line, unit):
    """A TCP line with `unit` at its end."""
    end = peer(TcpPeer, cut_mbap, unit.tcp)
    return line(f"modbus_tcp://127.0.0.1:{end.port}")


def test_the_crc_of_the_tests_is_the_standards():
    """The peer's own CRC gives the example of the Modbus serial line guide: 02 07 -> 41 12."""
    assert crc16(bytes([0x02, 0x07])) == bytes([0x41, 0x12])


@pytest.mark.parametrize("fault", [flipped, truncated, after_garbage], ids=lambda f: f.__name__)
def test_5_6_8_a_spoilt_answer_is_asked_for_again(rtu, unit, fault):
    """A read whose answer is damaged, cut short or preceded by noise still gives the value, and is counted."""
    unit.faults = [fault]
    assert rtu.read_registers(1, "input", 2, 1, patient()) == [42]
    assert rtu.read_retries == len(unit.pdus) - 1 == 1


@pytest.mark.parametrize("fault", [flipped, truncated], ids=lambda f: f.__name__)
def test_5_6_an_answer_that_stays_spoilt_is_no_value(rtu, unit, fault, golden):
    """After a few tries a read fails as garbled, showing what came; the line then works again."""
    unit.faults = [fault] * 3
    with golden.raises(GarbledReply):
        rtu.read_registers(1, "input", 2, 1, patient())
    assert rtu.read_registers(1, "input", 2, 1, patient()) == [42]
    assert len(unit.pdus) == 4


@pytest.mark.parametrize("which", ["rtu", "tcp"])
def test_7_a_dribbling_answer_is_parsed(request, unit, which):
    """An answer that comes one byte per 20 ms is put together; over TCP no pause ends one."""
    line = request.getfixturevalue(which)
    unit.faults = [dribbled]
    assert line.read_registers(1, "input", 2, 1, patient()) == [42]
    assert line.read_retries == 0


def test_a_lost_read_is_asked_again_if_time_allows(rtu, unit):
    """A read whose answer is lost is repeated once after the quiet period."""
    unit.faults = [lost]
    assert rtu.read_registers(1, "input", 2, 1, questions(unit.pdus, 3)) == [42]
    assert (rtu.read_retries, len(unit.pdus)) == (1, 2)


@pytest.mark.parametrize("which", ["rtu", "tcp"])
def test_2_when_all_replies_are_lost_a_read_times_out(request, unit, which, golden):
    """With no answer at all a read is a timeout that says what to check, after at most two questions."""
    unit.faults = [lost] * 9
    with golden.raises(DeviceTimeout):
        request.getfixturevalue(which).read_registers(1, "input", 2, 1, Deadline.after(0.6))
    assert 1 <= len(unit.pdus) <= 2


@pytest.mark.parametrize("which", ["rtu", "tcp"])
@pytest.mark.parametrize(
    ("values", "functions"),
    [([5], [6, 3]), ([5, 6], [0x10, 3]), ([True], [5, 1])],
    ids=["one register", "two registers", "a coil"],
)
def test_1_a_write_whose_reply_is_lost_is_sent_once(request, unit, which, values, functions):
    """The caller is told that the outcome is unknown, the device has seen the write once, and a read-back tells."""
    line, coil = request.getfixturevalue(which), values == [True]
    unit.faults = [lost]
    with pytest.raises(DeviceTimeout):
        (line.write_coils if coil else line.write_registers)(1, 9, values, briefly())
    read, table = (line.read_bits, "coil") if coil else (line.read_registers, "holding")
    assert read(1, table, 9, len(values), patient()) == values
    assert [pdu[0] for pdu in unit.pdus] == functions


@pytest.mark.parametrize(
    ("echo", "write"),
    [
        (bytes([1, 6, 0, 7, 0, 1]), lambda rtu: rtu.write_registers(1, 7, [222], patient())),
        (bytes([1, 5, 0, 6, 0, 0]), lambda rtu: rtu.write_coils(1, 6, [True], patient())),
    ],
    ids=["register", "coil"],
)
def test_4_a_stale_echo_is_no_confirmation(rtu, unit, echo, write, golden):
    """A write answered by the echo of an older one, or of the opposite value, is garbled, not successful."""
    unit.faults = [lambda _: [echo + crc16(echo)]]
    with golden.raises(GarbledReply):
        write(rtu)
    assert len(unit.pdus) == 1


@pytest.mark.parametrize(
    ("body", "ask", "value"),
    [
        (bytes([1, 4, 4, 0, 1, 0, 2]), ("read_registers", "input", 2), [42]),
        (bytes([1, 3, 2, 0, 1]), ("read_registers", "input", 2), [42]),
        (bytes([1, 6, 0, 2, 0, 1]), ("read_registers", "input", 2), [42]),
        (bytes([1, 1, 2, 0xFF, 0xFF]), ("read_bits", "coil", 4), [False]),  # two bytes, which say that coil 4 is on
    ],
    ids=["too many registers", "another function", "a write's echo", "too many coils"],
)
def test_the_answer_to_another_question_is_no_value(rtu, unit, body, ask, value):
    """A sound frame that cannot be the answer to this read is dropped and the read is asked again."""
    unit.faults = [lambda _: [body + crc16(body)]]
    read, table, at = ask
    assert getattr(rtu, read)(1, table, at, 1, patient()) == value
    assert rtu.read_retries == 1


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (1, "01, illegal function"),
        (2, "02, illegal data address; the device has no such register; check `at`"),
        (3, "03, illegal data value"),
        (4, "04, device failure"),
        (0x42, "42, unknown exception"),
    ],
)
def test_9_11_a_refusal_is_a_fault_and_is_not_asked_again(rtu, unit, code, says):
    """An exception reply names line, unit, function, register, meaning and remedy; one request is sent."""
    unit.faults = [exception(code)]
    with pytest.raises(DeviceFault, match=rf" register 2: .*{says}") as refused:
        rtu.read_registers(1, "input", 2, 1, patient())
    assert refused.value.bus == rtu.url
    assert len(unit.pdus) == 1


@pytest.mark.parametrize(
    ("code", "says"), [(5, "acknowledge"), (0x0A, "gateway path unavailable"), (0x0B, "gateway target failed")]
)
def test_11_a_write_that_may_have_been_carried_out_all_the_same_is_not_refused(rtu, unit, code, says):
    """A gateway that heard no answer, a device that is still at it: unknown, sent once, and a read-back tells."""
    unit.faults = [exception(code)]
    with pytest.raises(DeviceTimeout, match=f" register 9: .*{says}"):
        rtu.write_registers(1, 9, [5], patient())
    assert rtu.read_registers(1, "holding", 9, 1, patient()) == [5]
    assert [pdu[0] for pdu in unit.pdus] == [6, 3]


@pytest.mark.parametrize("code", [5, 6])
def test_10_a_busy_device_is_asked_again(rtu, unit, code):
    """Busy answers to a read are waited out a few times."""
    unit.faults = [exception(code)] * 3
    assert rtu.read_registers(1, "input", 2, 1, patient()) == [42]
    assert rtu.read_retries == 3


def test_10_a_device_that_stays_busy_is_given_up(rtu, unit, golden):
    """The number of questions to a busy device is bounded."""
    unit.faults = [exception(6)] * 99
    with golden.raises(DeviceBusy):
        rtu.read_registers(1, "input", 2, 1, patient())
    assert len(unit.pdus) == 6


@pytest.mark.parametrize(
    ("fault", "timeout_s", "asks", "by_bus"),
    [(lost, 5.0, 2, 0), (flipped, 5.0, 3, 0), (exception(6), 5.0, 6, 0), (lost, 0.3, 1, 0), (flipped, 0.3, 2, 1)],
    ids=["dead", "noisy", "busy", "dead and in haste", "noisy and in haste"],
)
async def test_5_10_a_read_is_repeated_by_its_line_or_its_bus_but_not_by_both(
    slow_rtu, unit, fault, timeout_s, asks, by_bus
):
    """However often a device fails, the line asks again while there is time for it, else the bus, never both."""
    unit.faults = [fault] * 99
    bus = Bus(slow_rtu, News(), BusTiming(busy_pauses_s=(0.0, 0.0, 0.0)))
    with pytest.raises(DeviceError):
        await bus.call(
            lambda deadline: slow_rtu.read_registers(1, "input", 2, 1, deadline),
            timeout_s=timeout_s,
            doing="read",
            repeatable=True,
        )
    await bus.close()
    assert (len(unit.pdus), bus.repeated_reads) == (asks, asks - 1)  # counted, whoever repeated it
    assert bus.repeated_reads - slow_rtu.read_retries == by_bus


def test_10_a_write_to_a_busy_device_is_not_repeated(rtu, unit):
    """A busy answer to a write goes to the caller; the write is not sent again."""
    unit.faults = [exception(6)]
    with pytest.raises(DeviceBusy):
        rtu.write_coils(1, 6, [True], patient())
    assert len(unit.pdus) == 1


@pytest.mark.parametrize(
    ("which", "fault", "within_s"),
    [("rtu", from_unit(9), 5.0), ("tcp", lambda reply: [reply[:6] + b"\x09" + reply[7:]], 0.3)],
    ids=["rtu", "tcp"],
)
def test_12_another_unit_s_answer_is_rejected(request, unit, which, fault, within_s, golden):
    """An answer from another unit is garbled and names who seems to have sent it."""
    unit.faults = [fault] * 3
    with golden.raises(GarbledReply):
        request.getfixturevalue(which).read_registers(1, "input", 2, 1, Deadline.after(within_s))


def test_13_a_reset_in_mid_write_is_not_resent(peer, line, unit, golden):
    """If the connection breaks during a write, the outcome is unknown, and the next read finds out on a new one."""
    end = peer(TcpPeer, cut_mbap, lambda request: hang_up(unit, request))
    tcp = line(f"modbus_tcp://127.0.0.1:{end.port}")
    with golden.raises(DeviceTimeout):
        tcp.write_coils(1, 6, [True], patient())
    assert tcp.read_bits(1, "coil", 6, 1, patient()) == [True]
    assert [pdu[0] for pdu in unit.pdus] == [5, 1]


def hang_up(unit: ModbusUnit, request: bytes):
    """Carry a write out, then break the connection."""
    reply = unit.tcp(request)
    if request[7] == 5:
        raise HangUp
    return reply


def test_14_a_half_open_connection_is_left(tcp, unit, peer):
    """A server that no longer answers is a timeout; the next request goes over a new connection."""
    unit.faults = [None, lost, lost]
    assert tcp.read_registers(1, "input", 2, 1, patient()) == [42]
    with pytest.raises(DeviceTimeout):
        tcp.read_registers(1, "input", 2, 1, Deadline.after(0.5))
    assert tcp.read_registers(1, "input", 2, 1, patient()) == [42]


def test_a_connection_closed_in_between_is_noticed_before_a_write(peer, line, unit):
    """A write after the server has dropped an idle connection goes over a new one, once, and succeeds."""
    end = peer(TcpPeer, cut_mbap, lambda request: hang_up_after(unit, request))
    tcp = line(f"modbus_tcp://127.0.0.1:{end.port}")
    with pytest.raises(DeviceTimeout):
        tcp.write_registers(1, 99, [1], patient())
    tcp.write_coils(1, 6, [True], patient())
    assert unit.coils[6] is True
    assert end.connections == 2


def hang_up_after(unit: ModbusUnit, request: bytes):
    """Break the connection instead of answering a write to register 99."""
    if request[7:10] == bytes([6, 0, 99]):
        raise HangUp
    return unit.tcp(request)


def test_15_a_server_that_is_down_is_not_hammered(line, golden):
    """Nothing listens: the error says so and when the next try is due; the pause doubles, up to 10 s."""
    tcp = line("modbus_tcp://127.0.0.1:1")
    with golden.raises(PortUnavailable):
        tcp.open()
    with golden.raises(PortUnavailable):
        tcp.read_registers(1, "input", 2, 1, Deadline.after(0.01))
    for _ in range(12):
        with pytest.raises(PortUnavailable, match="refused"):
            tcp.open()
    with golden.raises(PortUnavailable):
        tcp.read_registers(1, "input", 2, 1, Deadline.after(0.01))


def test_16_an_unplugged_port_is_unavailable(peer, line, unit):
    """When the port goes away, an exchange fails, and so does every later one, naming the port."""
    end = peer(PtyPeer, cut_rtu, unit.rtu)
    rtu = line(f"modbus_rtu://{end.path}?{QUIET}")
    assert rtu.read_registers(1, "input", 2, 1, patient()) == [42]
    end.stop_thread()
    end.unplug()
    with pytest.raises((PortUnavailable, DeviceTimeout)):
        rtu.read_registers(1, "input", 2, 1, patient())
    with pytest.raises(PortUnavailable, match=str(end.path)):
        rtu.open()
