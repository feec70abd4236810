"""Instruments with lines of their maker's own: what is understood, what is refused, what is lost."""

import math

import pytest
from pydantic import ValidationError

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.protocols import Deadline, Severity
from rigctl.rig.testing import RecordingLine, ScriptedLine
from rigctl_drivers.ascii_instrument import AsciiDriver
from tests.drivers.pairs import player, profiles
from tests.drivers.peers import soon

LAI = {
    "query": "[M01V07",
    "answer": r"\[S01V0E(.+)",
    "identity": {"ask": "[M01V07", "answer": r"\[S01V0E(.+)"},
    "terminator": "\r",
    "checksum": "sum",
}
"""Huber CC508 manual, p. 72: question and answer of the LAI command V, with their checksums."""


def connect(line, **options):
    return AsciiDriver.connect(AsciiDriver.options.model_validate(options), line)


class Played:
    """A profile's quantity in memory, played by its script."""

    def __init__(self, name, quantity, **options):
        self.given = {**profiles(name)[quantity].options, **options}
        self.played, self.refuses = player(name), {}
        self.end = self.given["terminator"].encode()
        self.line = ScriptedLine(self.answer, self.end)
        self.device = connect(self.line, **self.given)

    def answer(self, command):
        if command in self.refuses:
            return [self.refuses[command]]
        return [said.decode() for said in self.played(command.encode() + self.end)]


def test_109_a_setpoint_that_is_refused_is_a_fault_and_not_switched_on(golden):
    """The instrument's own word for it is told."""
    bath = Played("lauda", "bath")
    bath.refuses["OUT_SP_00_400.00"] = "ERR_6"
    with golden.raises(DeviceFault):
        bath.device.apply(400.0, soon())
    assert bath.line.sent == ["OUT_SP_00_400.00"]


@pytest.mark.parametrize("arrived", [True, False])
def test_105_a_lost_acknowledgement_is_settled_by_what_the_instrument_holds(arrived):
    """It goes on if the setpoint arrived; else nothing is switched on. Neither way is it sent twice."""
    bath = Played("lauda", "bath")
    heard = bath.answer

    def deaf(command):
        if command != "OUT_SP_00_40.00":
            return heard(command)
        if arrived:
            heard(command)
        return []

    bath.line.answer = deaf
    if arrived:
        bath.device.apply(40.0, soon())
    else:
        with pytest.raises(DeviceTimeout):
            bath.device.apply(40.0, soon())
    assert bath.line.sent.count("OUT_SP_00_40.00") == 1
    assert ("START" in bath.line.sent) == arrived


def test_106_a_circulator_that_is_not_in_remote_control_does_not_pass_for_driven(golden):
    """It ignores commands without a word; what it holds is what counts, and it is not switched on."""
    bath = Played("julabo", "bath")
    heard = bath.answer
    bath.line.answer = lambda command: [] if command.startswith("out_") else heard(command)
    with golden.raises(DeviceFault):
        bath.device.apply(40.0, soon())
    assert bath.line.sent == ["out_sp_00 40.00", "in_sp_00"]
    assert not bath.device.read_back(soon()).controlled


def test_107_a_pump_that_was_switched_off_meanwhile_says_so_once():
    """The alarm is a fault, also where it answers a rate; it is told, and cleared by that."""
    pump = Played("new-era", "rate")
    pump.refuses["00RAT2.000"] = "\x0200A?R"
    with pytest.raises(DeviceFault):
        pump.device.apply(2.0, soon())
    assert pump.played.kept["status"] == "S"
    pump.refuses.clear()
    pump.device.apply(2.0, soon())
    assert pump.device.read_back(soon()).setpoint == 2.0


def test_what_is_off_already_may_refuse_to_be_switched_off():
    """The stop of a pump that stands is no fault, however often it is sent."""
    pump = Played("new-era", "rate")
    pump.device.apply(2.0, soon())
    for _ in range(3):
        pump.device.safe(soon())
    assert not pump.device.read_back(soon()).controlled
    with pytest.raises(DeviceFault):
        pump.device.apply(20.0, soon())  # five digits


def test_a_heater_is_started_once_it_holds_its_setpoint_and_never_on_the_way_to_safety():
    """It cannot be asked whether it is started, so it must not heat toward a setpoint of before."""
    plate = Played("ika", "plate")
    plate.device.safe(soon())
    assert plate.line.sent == ["OUT_SP_1 0", "IN_SP_1"]
    plate.device.apply(60.0, soon())
    assert plate.line.sent[2:] == ["OUT_SP_1 60", "IN_SP_1", "START_1"]
    heard = plate.answer
    plate.line.answer = lambda command: [] if command.startswith("OUT") else heard(command)
    with pytest.raises(DeviceFault):
        plate.device.apply(80.0, soon())
    assert plate.line.sent.count("START_1") == 1


def test_a_number_in_hexadecimal_is_signed_and_scaled():
    """Four digits, two's complement, hundredths of a kelvin."""
    bath = Played("huber-pb", "internal")
    bath.device.apply(-23.15, soon())
    assert "{M00F6F5" in bath.line.sent
    assert bath.device.read_back(soon()).setpoint == pytest.approx(-23.15)
    options = AsciiDriver.options.model_validate(bath.given)
    assert options.rounded(20.004) == pytest.approx(20.0)
    assert [bool(options.misfit(v)) for v in (20.0, 327.67, 327.69, -400.0)] == [False, False, True, True]
    before = list(bath.line.sent)
    with pytest.raises(DeviceFault):
        bath.device.apply(400.0, soon())  # 40000, which as four digits means -255.36
    assert bath.line.sent == before


def test_instruments_on_one_line_are_told_apart_by_their_address():
    """It stands in what is sent and in what is expected; another one's frame is no answer."""
    second = Played("alicat", "flow", address="B")
    second.line.answer = lambda command: ["B +014.70 +025.00 +002.004 +001.500 +000.000 N2"]
    assert second.device.read(soon()).value == 1.5
    assert second.line.sent == ["B"]
    second.line.answer = lambda command: ["A +014.70 +025.00 +002.004 +001.500 +000.000 N2"]
    with pytest.raises(GarbledReply):
        second.device.read(soon())


def test_parts_of_one_answer_are_different_quantities():
    """Flow and temperature of a controller come with one question; the same part twice is one quantity."""
    reads = [
        {c.place for c in AsciiDriver.options.model_validate(q.options).occupies() if c.use == "reads"}
        for q in profiles("alicat").values()
    ]
    assert len(set.union(*reads)) == len(reads) == 3


def test_checksums_are_sent_and_checked():
    """The bytes are those of a maker's manual."""
    line = ScriptedLine(lambda sent: ["[S01V0EMINI CCAD"], b"\r")
    device = connect(line, **LAI)
    assert device.identify(soon()).model == "MINI CC"
    assert line.sent == ["[M01V07C6"]
    line.answer = lambda sent: ["[S01V0EMINI CDAD"]
    with pytest.raises(GarbledReply):
        device.identify(soon())


def test_an_exclusive_or_is_another_checksum():
    """Of all bytes in front of it."""
    line = ScriptedLine(lambda sent: ["A+2.5" + f"{ord('A') ^ ord('+') ^ ord('2') ^ ord('.') ^ ord('5'):02X}"], b"\r")
    assert connect(line, query="A", answer="A(.+)", terminator="\r", checksum="xor").read(soon()).value == 2.5
    assert line.sent == [f"A{ord('A'):02X}"]


def test_the_pause_is_rig_time_after_what_is_not_answered_and_keeps_to_the_deadline():
    """A quarter of a second after a command, a hundredth after an answer; where that is too long, nothing is sent."""
    bath = Played("julabo", "bath")
    clock = bath.line.clock
    bath.device.read(soon())
    before_s = clock.time_s
    bath.device.read(soon())
    assert clock.time_s - before_s == pytest.approx(0.01)
    before_s = clock.time_s
    bath.device.apply(40.0, soon())
    assert bath.line.sent[2:] == ["out_sp_00 40.00", "in_sp_00", "out_mode_05 1", "in_mode_05", "in_sp_00"]
    assert clock.time_s - before_s == pytest.approx(0.01 + 0.25 + 0.01 + 0.25 + 0.01)
    bath.line.answer = lambda command: []
    with pytest.raises(DeviceTimeout):
        bath.device.read(soon())
    sent = len(bath.line.sent)
    with pytest.raises(DeviceTimeout):
        bath.device.read(Deadline.after(0.1))
    assert len(bath.line.sent) == sent


@pytest.mark.parametrize("answer", ["S S 1.5 kg", "S S nonsense g", "S X 1.5 g", "", "S S 1.2.3 g"])
def test_108_an_answer_of_another_form_is_no_value(answer):
    """A balance that was switched to kilograms among them."""
    balance = Played("mettler-sics", "weight")
    balance.refuses["SI"] = answer
    with pytest.raises(GarbledReply):
        balance.device.read(soon())


@pytest.mark.parametrize("answer", ["nan", "inf"])
def test_what_is_not_finite_is_invalid(answer):
    """Whether the profile marks it or not."""
    reading = connect(ScriptedLine(lambda sent: [answer], b"\r"), query="Q", terminator="\r").read(soon())
    assert reading.severity is Severity.INVALID
    assert math.isnan(reading.value)


def test_another_model_is_a_mismatch(golden):
    """One of another form, and one that is not the one that was named."""
    balance = Played("mettler-sics", "weight", model="XP205 220.00090 g")
    with golden.raises(IdentityMismatch):
        balance.device.identify(soon())
    balance.refuses["I2"] = "I2 L"
    with golden.raises(IdentityMismatch):
        balance.device.identify(soon())


def test_late_answers_do_not_answer_the_next_question():
    """What was on its way is dropped before anything is sent."""
    line = ScriptedLine(lambda sent: {"T": ["20.0"], "S": ["30.0"]}[sent], b"\r")
    device = connect(RecordingLine(line), query="T", terminator="\r")
    line.pending.append(b"99.0")
    assert device.read(soon()).value == 20.0


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"query": "Q", "answer": "no group"}, "answer"),
        ({"query": "Q", "answer": "(a)(b)"}, "answer"),
        ({"query": "Q", "refused": "("}, "refused"),
        ({"query": "Q", "answer": "("}, "answer"),
        ({"query": "Q", "identity": {"ask": "I"}}, "identity"),
        ({"query": "Q", "scale": 0}, "scale"),
        ({"query": "Q", "pause_s": 60}, "pause_s"),
        ({"query": "Q", "terminator": "x"}, "terminator"),
        ({"query": "Q", "address": "{value}"}, "address"),
        ({"set": "{value}", "confirm": "C", "release_value": 99999, "number": "int16"}, ""),
        ({"query": "Q", "serial_number": {"ask": "N", "answer": "(.+)"}}, ""),
        ({"query": "Q", "set": "V", "confirm": "C", "release_value": 0}, ""),
    ],
)
def test_options_that_cannot_work_are_refused(options, key, golden):
    """Before anything is opened, at the option that is wrong."""
    with pytest.raises(ValidationError) as refused:
        AsciiDriver.options.model_validate(options)
    (error,) = refused.value.errors()
    assert str((*error["loc"], "")[0]) == key
    golden(error["msg"])
