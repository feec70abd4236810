"""EZO circuits that measure: the exchange, codes that come unasked, and what spoils an answer."""

import math

import pytest
from pydantic import ValidationError

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.protocols import Deadline, Identity, Severity
from rigctl.rig.testing import ScriptedLine
from rigctl_drivers.ezo_sensor import EzoSensorDriver
from tests.drivers.peers import Overdue, PtyPeer, cut_lines, over_once, soon


class Circuit:
    """An EZO-pH as its data sheet describes it; a test may change its answers."""

    def __init__(self, model="pH"):
        self.answers = {"i": [f"?I,{model},2.14", "*OK"], "C,0": ["*OK"], "R": ["6.021", "*OK"]}

    def __call__(self, command):
        return self.answers.get(command, ["*ER"])


@pytest.fixture
def circuit():
    return Circuit()


@pytest.fixture
def wire(circuit):
    return ScriptedLine(circuit)


def sensor(wire, **options):
    return EzoSensorDriver.connect(EzoSensorDriver.options(**{"model": "pH", **options}), wire)


def test_it_asks_who_is_there_then_stops_continuous_mode_then_reads(wire):
    """Nothing is set before the circuit is known; later readings are one command each."""
    device = sensor(wire)
    first, second = device.read(soon()), device.read(soon())
    assert (first.value, first.unit, first.severity) == (6.021, "pH", Severity.NONE)
    assert second.value == 6.021
    assert wire.sent == ["i", "C,0", "R", "R"]


def test_identity_compares_in_any_case(wire, circuit):
    """Firmwares write prefixes and models in either case."""
    circuit.answers["i"] = ["?i,PH,1.98", "*OK"]
    assert sensor(wire).identify(soon()).firmware == "1.98"


def test_it_says_whether_it_is_simulated_and_what_it_is_called(wire, circuit):
    """A real circuit's firmware is a number; its name, where it has one, is the identity's serial number."""
    circuit.answers["Name,?"] = ["?NAME,north_ph", "*OK"]
    device = sensor(wire)
    assert device.identify(soon()) == Identity("pH", "2.14", "north_ph")
    assert not device.simulated(soon())
    circuit.answers["i"] = ["?I,pH,SIM2.14", "*OK"]
    assert device.simulated(soon())


def test_a_probe_that_sleeps_between_readings_is_woken(wire, circuit):
    """A reading that only woke the circuit is asked for again."""
    device = sensor(wire)
    device.read(soon())
    answers = [["*WA"]]
    wire.answer = lambda command: answers.pop() if answers else circuit(command)
    assert device.read(soon()).value == 6.021
    assert wire.sent[-3:] == ["R", "i", "R"]


@pytest.mark.parametrize(
    ("model", "question", "said", "mend"),
    [
        ("RTD", "S,?", "?S,f", "S,c"),
        ("RTD", "S,?", "?S,K", "S,c"),
        ("EC", "O,?", "?O,TDS,S", "O,EC,1"),
        ("DO", "O,?", "?O,%", "O,mg,1"),
        ("DO", "O,?", "?,O,%", "O,mg,1"),
        ("HUM", "O,?", "?O,T,Dew", "O,HUM,1"),
    ],
)
def test_a_circuit_that_is_set_to_another_unit_is_refused(model, question, said, mend):
    """77 is no temperature in degC if the circuit speaks degF; whoever says so in `unit` is believed."""
    circuit = Circuit(model)
    circuit.answers[question] = [said, "*OK"]
    with pytest.raises(IdentityMismatch, match=rf"send {mend}.*`unit`"):
        sensor(ScriptedLine(circuit), model=model).identify(soon())
    assert sensor(ScriptedLine(circuit), model=model, unit="degF").identify(soon()).model == model


@pytest.mark.parametrize(
    ("model", "question", "said"),
    [
        ("RTD", "S,?", "?S,C"),
        ("RTD", "S,?", "?S,c"),
        ("RTD", "Name,?", "?NAME,bath"),  # it does not know the question
        ("DO", "O,?", "?,O,%,mg"),  # as its data sheet prints it, with a comma before the name of the question
        ("DO", "O,?", "?,O,mg"),
        ("EC", "O,?", "?,O,EC,TDS,S,SG"),
        ("HUM", "O,?", "?,O,HUM,T,Dew"),
    ],
)
def test_a_circuit_that_gives_the_values_of_its_unit_is_taken(model, question, said):
    """However it says so."""
    circuit = Circuit(model)
    circuit.answers[question] = [said, "*OK"]
    assert sensor(ScriptedLine(circuit), model=model).identify(soon()).model == model


def test_18_another_circuit_gets_no_commands(wire, circuit, golden):
    """If another circuit answers, the mismatch names both, and nothing but the question was sent."""
    circuit.answers["i"] = ["?I,EC,2.10", "*OK"]
    with golden.raises(IdentityMismatch):
        sensor(wire).read(soon())
    assert wire.sent == ["i"]


def test_a_device_that_refuses_to_say_who_it_is_gets_no_commands(wire, circuit, golden):
    """As long as the identity is refused, only the question is sent, however often a reading is asked for."""
    circuit.answers["i"] = ["*ER"]
    device = sensor(wire)
    for _ in range(2):
        with golden.raises(GarbledReply):
            device.read(soon())
    assert set(wire.sent) == {"i"}


def test_continuous_readings_are_not_answers(wire):
    """Lines of the continuous mode that precede the identity are dropped."""
    wire.pending += [b"5.100", b"5.200"]
    assert sensor(wire).read(soon()).value == 6.021


def test_a_restart_in_between_is_told_and_continuous_mode_stopped_again(wire):
    """After `*RS` the reading is marked MINOR, and `C,0` is sent anew; the next reading is clean."""
    device = sensor(wire)
    device.read(soon())
    wire.pending += [b"*RS", b"*RE"]
    told = device.read(soon())
    assert (told.value, told.severity) == (6.021, Severity.MINOR)
    assert wire.sent[-2:] == ["C,0", "R"]
    assert device.read(soon()).severity is Severity.NONE


def test_codes_inside_an_exchange_are_sorted_out(wire, circuit):
    """A code between the command and its answer is no answer, but is mentioned."""
    device = sensor(wire)
    device.read(soon())
    circuit.answers["R"] = ["*UV,VCC,3.05", "6.5", "*OK"]
    reading = device.read(soon())
    assert (reading.value, reading.severity) == (6.5, Severity.MINOR)
    assert "*UV,VCC,3.05" in reading.detail
    circuit.answers["R"] = ["6.5", "*OK"]
    assert device.read(soon()).severity is Severity.NONE


def test_22_a_refused_command_is_a_fault(wire, circuit, golden):
    """`*ER` is a fault that names device, port and command."""
    circuit.answers["R"] = ["*ER"]
    with golden.raises(DeviceFault):
        sensor(wire).read(soon())
    assert wire.sent[-1] == "R"


@pytest.mark.parametrize(
    ("model", "answer", "unit"), [("pH", "nan", "pH"), ("pH", "NaN", "pH"), ("RTD", "-1023.000", "degC")]
)
def test_not_a_number_is_invalid(model, answer, unit):
    """Nor is what an RTD circuit reports without its probe; never the last value."""
    circuit = Circuit(model)
    device = sensor(ScriptedLine(circuit), model=model)
    device.read(soon())
    circuit.answers["R"] = [answer, "*OK"]
    reading = device.read(soon())
    assert (reading.severity, reading.unit) == (Severity.INVALID, unit)
    assert math.isnan(reading.value)


def test_6_an_unreadable_answer_is_no_value_and_the_circuit_is_asked_who_it_is(wire, circuit, golden):
    """Garbage instead of a number fails, and the next reading starts from the identity again."""
    device = sensor(wire)
    circuit.answers["R"] = ["6.0.21", "*OK"]
    with golden.raises(GarbledReply):
        device.read(soon())
    circuit.answers["R"] = ["6.021", "*OK"]
    assert device.read(soon()).value == 6.021
    assert wire.sent == ["i", "C,0", "R", "i", "C,0", "R"]


def test_8_a_spoilt_answer_before_ok_is_no_value_and_may_be_asked_again(wire, circuit, golden):
    """Garbage took the value, *OK came: there is nothing to wait for, and the next reading is good."""
    device = sensor(wire)
    device.read(soon())
    circuit.answers["R"] = ["*OK"]
    with golden.raises(GarbledReply):
        device.read(soon())
    circuit.answers["R"] = ["6.021", "*OK"]
    assert device.read(soon()).value == 6.021


def test_missing_confirmation_says_how_to_switch_it_on(wire, circuit, golden):
    """A circuit with response codes switched off is a timeout that tells the remedy."""
    circuit.answers["i"] = ["?I,pH,2.14"]
    circuit.answers["R"] = ["6.021"]
    device = sensor(wire)
    with pytest.raises(DeviceTimeout):
        device.read(soon())
    circuit.answers["i"].append("*OK")
    with golden.raises(DeviceTimeout):
        device.read(soon())


def test_one_of_several_fields_is_read(golden):
    """A conductivity circuit answers several values; `field` chooses, and a missing one is garbled."""
    circuit = Circuit("EC")
    circuit.answers["R"] = ["1413,763,0.7,1.000", "*OK"]
    assert sensor(ScriptedLine(circuit), model="EC").read(soon()).value == 1413
    assert sensor(ScriptedLine(circuit), model="EC", field=3, unit="ppt").read(soon()).value == 0.7
    with golden.raises(GarbledReply):
        sensor(ScriptedLine(circuit), model="EC", field=5).read(soon())


def test_temperature_compensation_is_sent_once(wire, circuit):
    """`temperature_c` is set when the circuit is prepared, not with each reading."""
    circuit.answers["T,19.50"] = ["*OK"]
    device = sensor(wire, temperature_c=19.5)
    device.read(soon())
    device.read(soon())
    assert wire.sent == ["i", "C,0", "T,19.50", "R", "R"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "XYZ"}, "model 'XYZ' has no known unit, so `unit` must be given"),
        ({"model": "pH", "field": 0}, "greater than or equal to 1"),
        ({}, "Field required"),
        ({"model": "pH", "temperature": 20}, "Extra inputs are not permitted"),
    ],
)
def test_options_that_do_not_hold_are_refused(options, says):
    """Options are checked before anything is opened, with a sentence that helps."""
    with pytest.raises(ValidationError, match=says):
        EzoSensorDriver.options.model_validate(options)


def test_6_half_a_line_left_over_does_not_spoil_the_next_value(line, peer, golden):
    """A truncated answer is a timeout, and its half does not become part of the next value."""
    circuit = Circuit()
    replies = [b"1"]  # of `1.021\r*OK\r` only this arrives; joined to the next answer it would read 16.021

    def answer(request):
        command = request[:-1].decode()
        if command == "R" and replies:
            return [replies.pop()]
        return ["".join(f"{text}\r" for text in circuit(command)).encode()]

    end = peer(PtyPeer, cut_lines(b"\r"), answer)
    near = line(f"serial://{end.path}")
    device = EzoSensorDriver.connect(EzoSensorDriver.options(model="pH"), near)
    with golden.raises(DeviceTimeout):
        device.read(over_once(lambda: near._buffer == b"1"))
    assert device.read(Deadline.after(60.0)).value == 6.021


def test_7_a_dribbling_answer_is_put_together(line, peer):
    """An answer that comes one byte per 20 ms is read as a whole."""
    circuit = Circuit()

    def answer(request):
        text = "".join(f"{text}\r" for text in circuit(request[:-1].decode())).encode()
        return [item for byte in text for item in (bytes([byte]), 0.02)] if request == b"R\r" else [text]

    end = peer(PtyPeer, cut_lines(b"\r"), answer)
    device = EzoSensorDriver.connect(EzoSensorDriver.options(model="pH"), line(f"serial://{end.path}"))
    assert device.read(Deadline.after(5.0)).value == 6.021


def test_a_late_answer_is_not_taken_for_the_next_one(line, peer):
    """A reading that arrives after its deadline is never returned by a later call."""
    circuit = Circuit()
    overdue = Overdue()
    faults = [overdue]

    def answer(request):
        text = "".join(f"{text}\r" for text in circuit(request[:-1].decode())).encode()
        if request == b"R\r" and faults:
            return faults.pop()(b"1.111\r*OK\r")
        return [text]

    end = peer(PtyPeer, cut_lines(b"\r"), answer)
    device = EzoSensorDriver.connect(EzoSensorDriver.options(model="pH"), line(f"serial://{end.path}"))
    with pytest.raises(DeviceTimeout):
        device.read(over_once(lambda: not faults))
    overdue.come()
    assert device.read(Deadline.after(60.0)).value == 6.021
