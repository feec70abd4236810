"""The dosing pump at driver level; the numbers are rows of the fault matrix."""

from __future__ import annotations

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.protocols import Deadline, Doser, DoseStatus, Meter, Severity
from rigctl.rig.testing import RecordingLine, ScriptedLine
from rigctl_drivers.ezo_pump import EzoPumpDriver
from tests.drivers.peers import PtyPeer, cut_lines


class Pump:
    """An EZO-PMP as its data sheet describes it; dispensing takes as long as the test wants."""

    def __init__(self):
        self.total_ml = self.last_ml = 0.0
        self.running = False
        self.dstart = "0.00"
        self.override = {}
        """Command -> lines, instead of what it would answer."""

    def finish(self, ml=None):
        """The dispense ends; the code it sends."""
        self.last_ml = self.last_ml if ml is None else ml
        self.total_ml += self.last_ml
        self.running = False
        return f"*DONE,{self.last_ml:.2f}".encode()

    def __call__(self, command):
        if command in self.override:
            return self.override[command]
        answers = {
            "i": "?I,PMP,1.06",
            "D,?": f"?D,{self.last_ml:.2f},{int(self.running)}",
            "TV,?": f"?TV,{self.total_ml:.2f}",
            "Dstart,?": f"?DSTART,{self.dstart}",
            "DC,?": "?MAXRATE,58.5",
        }
        if command in answers:
            return [answers[command], "*OK"]
        if command == "X":
            stopped, self.running = self.running, False
            return ["*DONE,0.00" if not stopped else f"*DONE,{self.last_ml:.2f}"]
        if command.startswith("D,"):
            self.last_ml, self.running = float(command[2:]), True
            return ["*OK"]
        return ["*ER"]


@pytest.fixture
def pump():
    return Pump()


@pytest.fixture
def wire(pump):
    return ScriptedLine(pump)


@pytest.fixture
def device(wire):
    return doser(wire)


def doser(wire):
    return EzoPumpDriver.connect("ca_doser", EzoPumpDriver.options(), wire)


def soon() -> Deadline:
    return Deadline.after(1.0)


def test_a_dose_from_beginning_to_end(device, wire, pump):
    """Ready, total before, dose, running, done, total after: each answered as the pump says, the dose sent once."""
    device.ready(soon())
    before = device.total_volume_ml(soon())
    device.start_dose(12.345, soon())
    assert device.dose_status(soon()).running
    wire.pending.append(pump.finish())
    assert device.dose_status(soon()) == DoseStatus(running=False, dispensed_ml=12.35)
    after = device.total(soon())
    assert (before.value, after.value, after.unit) == (0.0, 12.35, "mL")
    assert [c for c in wire.sent if c.startswith("D,") and c != "D,?"] == ["D,12.35"]


def test_it_is_a_doser_and_a_meter(device):
    """The pump doses and counts; it neither senses nor imposes anything."""
    assert isinstance(device, Doser)
    assert isinstance(device, Meter)


def test_its_rate_is_asked_from_the_pump(device, pump):
    """`ready` learns the calibrated rate."""
    pump.override["DC,?"] = ["?MAXRATE,41.2", "*OK"]
    device.ready(soon())
    assert device.max_rate_ml_per_min == 41.2


def test_18_another_circuit_is_not_dosed_with(device, wire, pump):
    """If a sensor answers where the pump should be, nothing but the question is sent."""
    pump.override["i"] = ["?I,pH,2.14", "*OK"]
    with pytest.raises(IdentityMismatch, match="EZO 'pH' answers, expected 'PMP'"):
        device.start_dose(5.0, soon())
    assert wire.sent == ["i"]


def test_21_a_restart_in_mid_dose_is_reported_once(device, wire, pump):
    """`*RS` while dosing shows as `reset`, with the pump standing still; the next status is quiet again."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    pump.running, pump.last_ml, pump.total_ml = False, 0.0, 0.0
    wire.pending += [b"*RS", b"*RE"]
    assert device.dose_status(soon()) == DoseStatus(running=False, dispensed_ml=0.0, reset=True)
    assert not device.dose_status(soon()).reset
    assert wire.sent.count("D,5.00") == 1


def test_21_a_restart_dropped_by_a_resync_is_still_reported(line, peer, pump):
    """A pump that is silent while it restarts costs a timeout; the `*RS` in what the resync drops is not lost."""
    silent = [True]

    def answer(request):
        command = request[:-1].decode()
        if command == "D,?" and silent:
            silent.clear()
            return [b"*RS\r*RE\r"]
        return ["".join(f"{text}\r" for text in pump(command)).encode()]

    end = peer(PtyPeer, cut_lines(b"\r"), answer)
    wire = line(f"serial://{end.path}?quiet=0.05")
    device = doser(wire)
    device.start_dose(5.0, soon())
    with pytest.raises(DeviceTimeout):
        device.dose_status(Deadline.after(0.1))
    end.say(b"*RS\r")
    wire.resync()
    assert device.dose_status(Deadline.after(2.0)).reset


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (["*ER"], r"'D,5.00' refused with \*ER"),
        (["*TOOFAST", "*ER"], r"refused with \*ER \(\*TOOFAST\)"),
        (["*MINVOL", "*ER"], r"refused with \*ER \(\*MINVOL\)"),
        (["*UV,PUMPPWR,0.00", "*ER"], r"supply out of range, \*UV,PUMPPWR,0.00"),
    ],
)
def test_22_a_refused_dose_is_a_fault(device, wire, pump, answer, says):
    """A dose the pump refuses is a fault with its reason, and nothing runs."""
    pump.override["D,5.00"] = answer
    device.ready(soon())
    with pytest.raises(DeviceFault, match=says):
        device.start_dose(5.0, soon())
    assert not device.dose_status(soon()).running
    assert wire.sent.count("D,5.00") == 1


def test_22_a_refusal_that_comes_late_shows_in_the_status(device, wire, pump):
    """When the reply to the dose is lost and the refusal is heard only later, the status tells."""
    pump.override["D,5.00"] = []
    device.ready(soon())
    with pytest.raises(DeviceTimeout):
        device.start_dose(5.0, soon())
    wire.pending += [b"*TOOFAST", b"*ER"]
    assert device.dose_status(soon()) == DoseStatus(running=False, dispensed_ml=0.0, fault="*TOOFAST")


@pytest.mark.parametrize(
    "answer",
    [["*DONE,5.00", "?D,4.90,1", "*OK"], ["?D,4.90,1", "*DONE,5.00", "*OK"]],
    ids=["before the answer", "before the OK"],
)
def test_23_a_done_inside_a_query_counts(device, pump, answer):
    """`*DONE` in the middle of `D,?` is parsed like the answer itself."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    pump.override["D,?"] = answer
    assert device.dose_status(soon()) == DoseStatus(running=False, dispensed_ml=5.0)


def test_23_a_done_inside_another_query_is_remembered(device, wire, pump):
    """`*DONE` in the middle of `TV,?` spoils neither the total nor the next status."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    pump.override["TV,?"] = ["*DONE,5.00", "?TV,5.00", "*OK"]
    assert device.total(soon()).value == 5.0
    pump.running = False
    assert device.dose_status(soon()).dispensed_ml == 5.0


def test_24_a_dose_that_ends_short_says_so(device, wire, pump):
    """The volume of `*DONE` is what was dispensed, not what was asked for."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    wire.pending.append(pump.finish(3.2))
    assert device.dose_status(soon()).dispensed_ml == 3.2


def test_25_stop_is_sent_at_once_and_verified(device, wire, pump):
    """`X` goes out before anything else, and success means that the pump says it stands still."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    device.stop(soon())
    assert wire.sent[-2:] == ["X", "D,?"]
    assert not pump.running


def test_25_stop_needs_no_acquaintance(device, wire):
    """A process that has just started stops the pump before it asks who is there."""
    device.stop(soon())
    assert wire.sent[0] == "X"


def test_25_a_pump_that_does_not_stop_is_told_again(wire, pump, device):
    """If it still runs after `X`, it is told again; the command does no harm."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    answers = [["*OK"], ["*DONE,2.00"]]

    def stubborn(command):
        if command == "X":
            answer = answers.pop(0)
            pump.running = bool(answers)
            return answer
        return pump(command)

    wire.answer = stubborn
    device.stop(soon())
    assert wire.sent.count("X") == 2


def test_25_a_pump_that_never_stops_is_an_error(device, pump):
    """If it is not confirmed up to the deadline that the pump stands still, stop() does not pretend."""
    device.ready(soon())
    pump.override |= {"X": [], "D,?": ["?D,2.00,1", "*OK"]}
    with pytest.raises(DeviceTimeout, match="it is not confirmed that the pump stands still"):
        device.stop(Deadline.after(0.05))


def test_26_a_pump_that_would_dispense_at_power_up_is_not_ready(device, pump):
    """`Dstart` must be zero, and the error says how to make it so."""
    pump.dstart = "10.00"
    with pytest.raises(DeviceFault, match=r"dispenses 10 mL at every power-up \(Dstart\); send Dstart,0"):
        device.ready(soon())


def test_a_running_pump_is_not_ready(device, pump):
    """A second dose is not begun while one runs."""
    pump.running = True
    with pytest.raises(DeviceFault, match="a dose is running"):
        device.ready(soon())


def test_a_dose_whose_reply_is_lost_is_not_repeated(wire, pump):
    """Whatever is asked after a lost reply, the dose itself goes out once, and the total tells."""
    deaf = RecordingLine(wire)
    device = doser(deaf)
    device.ready(soon())
    deaf.lose_replies = True
    with pytest.raises(DeviceTimeout, match=r"no answer to 'D,5\.00'"):
        device.start_dose(5.0, soon())
    deaf.lose_replies = False
    pump.finish()
    assert device.dose_status(soon()).running is False
    assert device.total(soon()).value == 5.0
    assert wire.sent.count("D,5.00") == 1


@pytest.mark.parametrize("answer", [["?TV,-3.00", "*OK"], ["?TV,nan", "*OK"]])
def test_a_total_that_cannot_be_is_invalid(device, pump, answer):
    """A negative volume or none at all is INVALID."""
    pump.override["TV,?"] = answer
    assert device.total(soon()).severity is Severity.INVALID


@pytest.mark.parametrize("answer", [["?D", "*OK"], ["?D,5.00", "*OK"], ["?D,x,1", "*OK"], ["?D,nan,0", "*OK"]])
def test_6_a_status_that_cannot_be_read_is_garbled(device, pump, answer):
    """A cut or unreadable status is an error, not a volume."""
    pump.override["D,?"] = answer
    with pytest.raises(GarbledReply, match=r"D,\?"):
        device.dose_status(soon())


def test_a_total_with_a_nonsense_running_flag_is_still_running(device, pump):
    """Only a clear 0 counts as standing still."""
    pump.override["D,?"] = ["?D,1.00,nan", "*OK"]
    assert device.dose_status(soon()).running
