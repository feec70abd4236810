"""How Modbus actuators are driven: settled when an answer is lost, made safe together, and how long that takes."""

import math
import time

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout
from rigctl.rig.protocols import ActuatorState, Deadline, Pace
from rigctl.rig.testing import MemoryLine, RecordingLine
from rigctl_drivers.modbus_register import ModbusRegisterDriver
from tests.drivers.peers import HangUp, ModbusUnit, PtyPeer, TcpPeer, cut_mbap, cut_rtu, exception, late, lost, patient

WRITE = {"at": 10, "type": "uint16"}
VALVE = {"write": WRITE, "enable": {"coil": 3}}
BY_REGISTER = {"write": WRITE, "enable": {"register": "holding", "at": 11, "on": 2, "off": 1}}


def device(line, **options):
    return ModbusRegisterDriver.connect(ModbusRegisterDriver.options.model_validate(options), line)


@pytest.fixture
def wire():
    return RecordingLine(MemoryLine())


@pytest.fixture
def unit():
    return ModbusUnit()


@pytest.fixture
def rtu(peer, line, unit):
    """An RTU line with `unit` at its end."""
    return line(f"modbus_rtu://{peer(PtyPeer, cut_rtu, unit.rtu).path}?baud=9600&echo=no&quiet=0.05")


def functions(unit):
    return [pdu[0] for pdu in unit.pdus]


# an answer that is lost --------------------------------------------------------------------------------------------


def test_1_a_setpoint_whose_answer_is_lost_is_read_back_and_put_in_force(rtu, unit):
    """The setpoint is written once, the register asked, and the coil closed, as the register holds what was sent."""
    unit.faults = [lost]
    device(rtu, **VALVE).apply(7.0, Deadline.after(2.0))
    assert functions(unit) == [6, 3, 5]
    assert (unit.words[(3, 10)], unit.coils[3]) == (7, True)


def test_1_a_setpoint_that_did_not_arrive_is_not_put_in_force(rtu, unit, golden):
    """If the register holds something else, the call fails: nothing is written twice, and the coil stays open."""
    unit.deaf_to = {6}
    with golden.raises(DeviceTimeout):
        device(rtu, **VALVE).apply(7.0, Deadline.after(2.0))
    assert functions(unit) == [6, 3]
    assert unit.coils == {}


def test_1_a_lost_answer_to_the_coil_is_left_to_the_read_back(rtu, unit):
    """The last frame is not settled here: whoever called reads back."""
    unit.faults = [None, lost]
    made = device(rtu, **VALVE)
    with pytest.raises(DeviceTimeout):
        made.apply(7.0, Deadline.after(1.0))
    assert functions(unit) == [6, 5]
    assert made.read_back(patient()) == ActuatorState(True, 7.0)


@pytest.mark.parametrize("setpoint", [99, 7])
def test_a_setpoint_is_not_put_in_force_by_a_unit_that_restarted_before(
    peer, line, unit, setpoint, monkeypatch, golden
):
    """It hangs up once it has the setpoint; put in force is what it holds then only if that is what was sent."""

    def answer(request):
        yield from unit.tcp(request)
        if unit.pdus[-1][0] == 6:
            unit.words[(3, 10)] = setpoint
            raise HangUp

    wire = line(f"modbus_tcp://127.0.0.1:{peer(TcpPeer, cut_mbap, answer).port}")
    is_up = wire.is_up

    def is_up_after_all() -> bool:
        while is_up():  # the answer is here, its end may still be on its way
            time.sleep(0.001)
        return False

    monkeypatch.setattr(wire, "is_up", is_up_after_all)
    made = device(wire, **VALVE)
    if setpoint == 7:
        made.apply(7.0, patient())
    else:
        with golden.raises(DeviceTimeout):
            made.apply(7.0, patient())
    assert functions(unit) == [6, 3, *[5] * (setpoint == 7)]


# enabled by a register ---------------------------------------------------------------------------------------------


def test_a_register_may_put_the_setpoint_in_force(wire):
    """With `enable` a register, its `on` and `off` are written after the setpoint and to release."""
    made = device(wire, **BY_REGISTER)
    made.apply(7.0, patient())
    assert made.read_back(patient()) == ActuatorState(True, 7.0)
    made.release(patient())
    assert made.read_back(patient()) == ActuatorState(False, None)
    assert wire.sent == [("write_registers", 1, at, (word,)) for at, word in ((10, 7), (11, 2), (11, 1))]


@pytest.mark.parametrize("at", [9, 12])
def test_neighbours_are_read_back_in_one_request(at):
    """A setpoint of two words and the register that enables it, before or behind, are one question."""
    wire = RecordingLine(MemoryLine())
    made = device(wire, write={"at": 10, "type": "float32", "order": "CDAB"}, enable={"register": "holding", "at": at})
    made.apply(-2.5, patient())
    asked = wire.traffic
    assert made.read_back(patient()) == ActuatorState(True, -2.5)
    assert wire.traffic == asked + 1


@pytest.mark.parametrize("words", [(0x7F80, 0), (0xFF80, 0), (0x7FC0, 0)], ids=["inf", "-inf", "nan"])
def test_a_register_that_holds_no_number_holds_no_setpoint(words):
    """What a float register may hold besides numbers is never taken for where the actuator is."""
    wire = MemoryLine()
    made = device(wire, write={"at": 10, "type": "float32"}, enable={"register": "holding", "at": 12})
    made.apply(-2.5, patient())
    wire.write_registers(1, 10, words, patient())
    state = made.read_back(patient())
    assert state.controlled
    assert state.setpoint is not None
    assert math.isnan(state.setpoint)


def test_what_is_not_a_neighbour_is_read_back_by_itself(wire):
    """An enabling register elsewhere is asked first; while it is off, the setpoint is not asked for."""
    made = device(wire, write=WRITE, enable={"register": "holding", "at": 99})
    made.apply(7.0, patient())
    assert made.read_back(patient()) == ActuatorState(True, 7.0)
    made.release(patient())
    asked = wire.traffic
    assert made.read_back(patient()) == ActuatorState(False, None)
    assert wire.traffic == asked + 1


def test_an_enabling_register_that_holds_neither_value_is_a_fault(wire, golden):
    """Neither on nor off is not taken for released."""
    made = device(wire, **BY_REGISTER)
    with golden.raises(DeviceFault):
        made.read_back(patient())


def test_wide_setpoints_are_written_whole(wire):
    """A 64-bit setpoint is one frame of four registers, and reads back as it was sent."""
    made = device(wire, write={"at": 10, "type": "float64", "order": "CDAB"}, enable={"coil": 3})
    made.apply(1234.5678901234, patient())
    assert [len(sent[3]) for sent in wire.sent if sent[0] == "write_registers"] == [4]
    assert made.read_back(patient()) == ActuatorState(True, 1234.5678901234)


# together ----------------------------------------------------------------------------------------------------------


def relays(line, *coils, **options):
    return [device(line, enable={"coil": coil}, **options) for coil in coils]


def test_only_a_unit_with_an_identity_can_be_told_from_others(wire):
    """A register's value tells it from others; without one it is anonymous."""
    made = device(wire, **VALVE)
    assert made.anonymous
    assert not device(wire, **VALVE, identity={"at": 9, "value": 1}).anonymous


def test_a_group_goes_safe_in_as_few_frames_as_can_be(wire):
    """Neighbouring coils go in one frame, others in their own; a coil in between that is nobody's is left alone."""
    group = relays(wire, 8, 1, 3, 2, 7, 5)
    assert len({made.safe_group() for made in group}) == 1
    group[0].safe_all(group, patient())
    assert wire.sent == [
        ("write_coils", 1, 1, (False,) * 3),
        ("write_coils", 1, 5, (False,)),
        ("write_coils", 1, 7, (False,) * 2),
    ]


def test_registers_go_together_too(wire):
    """Release values of neighbouring registers, two words each, are one frame."""
    group = [device(wire, write={"at": at, "type": "int32"}, release_value=float(-at)) for at in (12, 10)]
    group[0].safe_all(group, patient())
    assert wire.sent == [("write_registers", 1, 10, (0xFFFF, 0xFFF6, 0xFFFF, 0xFFF4))]


def test_only_those_who_can_go_together_have_a_group(wire):
    """Other units, other tables, a safe state of two writes, and units without such functions are kept apart."""
    coil, elsewhere = relays(wire, 1)[0], device(wire, address=2, enable={"coil": 2})
    register = device(wire, write=WRITE, release_value=0.0)
    assert len({coil.safe_group(), elsewhere.safe_group(), register.safe_group()}) == 3
    assert device(wire, **VALVE, safe_value=3.0).safe_group() is None
    assert device(wire, **VALVE, write_multiple="never").safe_group() is None


@pytest.mark.parametrize("code", [1, 2, 3])
def test_a_unit_that_refuses_such_frames_is_not_asked_again(rtu, unit, code, golden):
    """After a refusal each is told by itself, and none of the group offers to go together any more."""
    group = relays(rtu, 4, 5)
    unit.faults = [exception(code)]
    with golden.raises(DeviceFault):
        group[0].safe_all(group, patient())
    assert [made.safe_group() for made in group] == [None, None]
    for made in group:
        made.safe(patient())
    assert functions(unit) == [0x0F, 5, 5]


def test_a_gateway_that_fails_once_is_asked_again(rtu, unit):
    """Exception 0B is about the moment, not about the function."""
    group = relays(rtu, 4, 5)
    unit.faults = [exception(0x0B)]
    with pytest.raises(DeviceTimeout):
        group[0].safe_all(group, patient())
    assert group[0].safe_group() is not None


def test_a_lost_answer_keeps_no_other_frame_from_leaving(peer, line, unit, golden):
    """All frames of a group are sent though the first has no answer, without waiting for the line's silence."""
    end = peer(PtyPeer, cut_rtu, unit.rtu)
    made = line(f"modbus_rtu://{end.path}?baud=9600&echo=no&quiet=60")
    group = relays(made, 1, 2, 8, 9)
    unit.coils = dict.fromkeys(range(12), True)
    unit.faults = [lost]
    with golden.raises(DeviceTimeout):
        group[0].safe_all(group, Deadline.after(4.0))
    assert [at for at, on in unit.coils.items() if not on] == [1, 2, 8, 9]


def test_units_that_know_only_the_functions_for_many_are_served(wire, rtu, unit):
    """With `write_multiple: always` a single coil goes by 0F and a single register by 10."""
    made = device(rtu, write=WRITE, enable={"coil": 3}, write_multiple="always")
    made.apply(7.0, patient())
    made.safe(patient())
    assert functions(unit) == [0x10, 0x0F, 0x0F]
    assert (unit.words[(3, 10)], unit.coils) == (7, {3: False})


# how long ----------------------------------------------------------------------------------------------------------


def test_the_pace_follows_from_baud_latency_and_frames(line):
    """At 9600 baud, 30 ms: 16 bytes and two silences for a coil; 14 bytes to ask for it; one frame for sixteen."""
    rtu = line("modbus_rtu:///dev/null?baud=9600")
    group = relays(rtu, *range(16), latency_s=0.03)
    byte_s, gaps_s = 11 / 9600, 2 * 3.5 * 11 / 9600
    assert group[0].pace() == Pace(
        pytest.approx(16 * byte_s + gaps_s + 0.03), pytest.approx(14 * byte_s + gaps_s + 0.03)
    )
    assert group[0].safe_all_s(group) == pytest.approx((11 + 8) * byte_s + gaps_s + 0.03)
    assert relays(rtu, 1)[0].pace().command_s == pytest.approx(16 * byte_s + gaps_s + 0.05)
    assert relays(line("modbus_tcp://127.0.0.1"), 1)[0].pace() == Pace(0.1, 0.1)


@pytest.mark.parametrize(("turnaround_s", "count"), [(0.03, 8), (0.05, 16)])
def test_51_all_channels_of_a_board_are_told_within_the_time_that_was_said(peer, line, unit, turnaround_s, count):
    """A relay board that takes its time is told in one exchange, far within 2 s, and all its coils are off."""
    unit.coils = dict.fromkeys(range(count + 2), True)
    unit.faults = [late(turnaround_s)]
    made = line(f"modbus_rtu://{peer(PtyPeer, cut_rtu, unit.rtu).path}?baud=9600")
    group = relays(made, *range(count), latency_s=turnaround_s)
    until = Deadline.after(2.0)
    group[0].safe_all(group, until)
    assert until.remaining_s > 0.0
    assert group[0].safe_all_s(group) < 0.1
    assert [at for at, on in unit.coils.items() if on] == [count, count + 1]
    assert functions(unit) == [0x0F]


# who made it -------------------------------------------------------------------------------------------------------


def test_a_unit_that_refuses_to_say_who_made_it_is_not_simulated(rtu, wire):
    """An exception is a No; so is a line that cannot ask."""
    assert not device(rtu, enable={"coil": 1}).simulated(patient())
    assert not device(wire, enable={"coil": 1}).simulated(patient())


@pytest.mark.parametrize(("vendor", "simulated"), [(b"sim_rig (simulated)", True), (b"ACME", False)])
def test_the_vendor_s_name_tells_a_simulated_unit(line, vendor, simulated):
    """PyModbusTCP's server says who made it, and is believed."""
    from pyModbusTCP.server import DeviceIdentification, ModbusServer

    server = ModbusServer("127.0.0.1", 0, no_block=True, device_id=DeviceIdentification(vendor_name=vendor))
    server.start()
    made = line(f"modbus_tcp://127.0.0.1:{server._service.server_address[1]}")
    assert device(made, enable={"coil": 1}).simulated(patient()) is simulated
    made.close()
    server.stop()
