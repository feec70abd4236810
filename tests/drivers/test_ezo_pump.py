"""The dosing pump at driver level; the numbers are rows of the fault matrix."""

import pytest

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.protocols import Deadline, DoseStatus, Hurry, Identity, Pace, Severity
from rigctl.rig.testing import RecordingLine, ScriptedLine, SilentLine
from rigctl_drivers.ezo_pump import EzoPumpDriver
from tests.drivers.circuits import Pump, Sleeper
from tests.drivers.peers import PtyPeer, cut_lines, soon


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
    return EzoPumpDriver.connect(EzoPumpDriver.options(), wire)


def test_a_dose_from_beginning_to_end(device, wire, pump):
    """Ready, total before, dose, running, done, total after: each answered as the pump says, the dose sent once."""
    device.ready(soon())
    before = device.total_volume_ml(soon())
    device.start_dose(12.345, soon())
    assert device.dose_status(soon()).running
    wire.pending.append(pump.finish())
    assert device.dose_status(soon()) == DoseStatus(running=False, dispensed_ml=12.34)
    after = device.total(soon())
    assert (before.value, after.value, after.unit) == (0.0, 12.34, "mL")
    assert [c for c in wire.sent if c.startswith("D,") and c != "D,?"] == ["D,12.34"]


def test_its_rate_is_asked_from_the_pump(device, pump):
    """`ready` learns the calibrated rate."""
    pump.override["DC,?"] = ["?MAXRATE,41.2", "*OK"]
    device.ready(soon())
    assert device.max_rate_ml_per_min == 41.2


@pytest.mark.parametrize(("volume_ml", "sent"), [(0.507, "0.50"), (0.57, "0.57"), (8.2, "8.20"), (19.999, "19.99")])
def test_a_dose_is_never_rounded_up(device, wire, volume_ml, sent):
    """Caps were held against the volume asked for."""
    device.start_dose(volume_ml, soon())
    assert wire.sent[-1] == f"D,{sent}"


def test_18_another_circuit_is_not_dosed_with(device, wire, pump, golden):
    """If a sensor answers where the pump should be, nothing but the question is sent."""
    pump.override["i"] = ["?I,pH,2.14", "*OK"]
    with golden.raises(IdentityMismatch):
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


def test_23_a_late_done_of_the_dose_before_is_not_the_end_of_this_one(device, pump):
    """`D,?` tells that a dose is over before its `*DONE` is heard: that may come once the next one has been sent."""
    device.ready(soon())
    pump.override["D,5.00"] = ["*DONE,5.20", "*OK"]
    device.start_dose(5.0, soon())
    pump.override["D,?"] = ["?D,5.00,0", "*OK"]  # it has ended, and its own `*DONE` is still to come
    assert device.dose_status(soon()) == DoseStatus(running=False, dispensed_ml=5.0)


def test_24_a_dose_that_ends_short_says_so(device, wire, pump):
    """The volume of `*DONE` is what was dispensed, not what was asked for."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    wire.pending.append(pump.finish(3.2))
    assert device.dose_status(soon()).dispensed_ml == 3.2


def test_25_stop_is_one_exchange(device, wire, pump):
    """`X` goes out before anything else, and its own answer is all that is waited for."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    device.stop(soon())
    assert wire.sent[-2:] == ["D,5.00", "X"]
    assert not pump.running
    assert not device.dose_status(soon()).running


def test_25_stop_needs_no_acquaintance(device, wire):
    """A process that has just started stops the pump before it asks who is there."""
    device.stop(soon())
    assert wire.sent[0] == "X"


@pytest.mark.parametrize("asks", [lambda d: d.dose_status(soon()).dispensed_ml, lambda d: d.total(soon()).value])
def test_25_an_ok_that_follows_the_done_of_a_stop_answers_nothing_else(device, wire, pump, asks):
    """It is still on its way when the next question leaves: neither this answer nor the next is shifted by one."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    device.stop(soon())
    pump.total_ml = 5.0
    wire.answer = _ok_first(pump, wire)
    assert [asks(device), asks(device)] == [5.0, 5.0]


def test_25_an_ok_that_follows_the_done_of_a_stop_accepts_no_dose(device, wire, pump):
    """A dose that is refused after a stop is refused, whatever of the stop is still on its way."""
    device.ready(soon())
    device.stop(soon())
    pump.override["D,5.00"] = ["*TOOFAST", "*ER"]
    wire.answer = _ok_first(pump, wire)
    with pytest.raises(DeviceFault):
        device.start_dose(5.0, soon())


def _ok_first(pump, wire):
    """The pump's answers, an `*OK` that was late before the first of them."""
    answer = pump

    def answered(command):
        wire.answer = answer
        return ["*OK", *answer(command)]

    return answered


@pytest.mark.parametrize("first", [[], ["*ER"], ["*WA"]], ids=["no answer", "refused", "only woken"])
def test_25_a_stop_without_a_sign_is_sent_again(wire, pump, device, first):
    """If nothing shows that `X` was understood, it is sent again; the command does no harm."""
    device.ready(soon())
    device.start_dose(5.0, soon())
    answers = [first]
    wire.answer = lambda command: answers.pop() if command == "X" and answers else pump(command)
    device.stop(soon())
    assert wire.sent.count("X") == 2
    assert not pump.running


def test_25_a_pump_that_is_silent_is_an_error(device, pump, golden):
    """If there is no sign up to the deadline that `X` arrived, stop() does not pretend."""
    device.ready(soon())
    pump.override["X"] = []
    with golden.raises(DeviceTimeout):
        device.stop(Deadline.after(0.05))


@pytest.mark.parametrize(
    ("state", "answer", "error"),
    [
        ({"dstart": "10.00"}, None, DeviceFault),
        ({"running": True}, None, DeviceFault),
        *(({}, ("PV,?", f"?PV,{volts}"), DeviceFault) for volts in ("0.00", "9.50", "nan")),
        *(({}, ("DC,?", f"?MAXRATE,{rate}"), GarbledReply) for rate in ("0.00", "-58.5", "nan")),
    ],
    ids=["Dstart", "runs", "0 V", "9.5 V", "nan V", "no rate", "negative rate", "nan rate"],
)
def test_26_a_pump_that_would_dispense_at_power_up_or_cannot_is_not_ready(device, pump, state, answer, error, golden):
    """`Dstart` not zero, running, without motor supply, or at no rate, by which its deadlines are reckoned."""
    vars(pump).update(state)
    if answer is not None:
        pump.override[answer[0]] = [answer[1], "*OK"]
    with golden.raises(error):
        device.ready(soon())
    assert device.max_rate_ml_per_min == 58.5


def test_26_a_firmware_without_dstart_dispenses_nothing_at_power_up(device, wire, pump, golden):
    """A pump that refuses `Dstart,?` is usable; a single refusal, which noise may cause, is asked again."""
    pump.override["Dstart,?"] = ["*ER"]
    device.ready(soon())
    assert wire.sent.count("Dstart,?") == 2
    answers = [["*ER"], ["?DSTART,10.00", "*OK"]]
    wire.answer = lambda command: answers.pop(0) if command == "Dstart,?" else pump(command)
    with golden.raises(DeviceFault):
        device.ready(soon())


def test_a_motor_supply_is_asked_before_each_dose(device, wire, pump):
    """A good voltage, and a firmware that does not know the question, are both ready."""
    for answer in (["?PV,12.00", "*OK"], ["?PV,23.80", "*OK"], ["*ER"]):
        pump.override["PV,?"] = answer
        device.ready(soon())
    assert wire.sent.count("PV,?") == 3


def test_65_the_name_stands_for_a_serial_number(device, wire, pump):
    """Two pumps of one model are told apart by the names people gave them; the name is asked again at each identify."""
    pump.override["Name,?"] = ["?NAME,calcium", "*OK"]
    assert device.identify(soon()) == Identity("PMP", "1.06", "calcium")
    pump.override["Name,?"] = ["?NAME,acid", "*OK"]
    assert device.identify(soon()).serial == "acid"
    assert wire.sent == ["i", "Name,?"] * 2


@pytest.mark.parametrize(("answer", "asked"), [(["?NAME,", "*OK"], 1), (["?NAME", "*OK"], 1), (["*ER"], 2)])
def test_a_pump_without_a_name_is_asked_for_it_at_first_only(device, wire, pump, answer, asked):
    """No name is no serial number, and later identifications cost one exchange."""
    pump.override["Name,?"] = answer
    assert [device.identify(soon()) for _ in range(2)] == [Identity("PMP", "1.06", "")] * 2
    assert wire.sent == ["i", *["Name,?"] * asked, "i"]


def test_a_name_refused_once_is_asked_again(device, wire, pump):
    """A single `*ER`, which noise may cause, does not make another pump of it."""
    answers = [["*ER"], ["?NAME,calcium", "*OK"]]
    wire.answer = lambda command: answers.pop(0) if command == "Name,?" else pump(command)
    assert device.identify(soon()).serial == "calcium"


def test_a_simulated_pump_says_so(device, pump):
    """The firmware version of a simulated circuit begins with SIM; a real one's is a number."""
    assert not device.simulated(soon())
    pump.override["i"] = ["?I,PMP,SIM1.06", "*OK"]
    assert device.simulated(soon())


@pytest.mark.parametrize("call", ["identify", "ready", "dose_status", "total_volume_ml", "simulated"])
def test_a_question_may_be_hurried(call):
    """Whatever a question waits for, something urgent may cut it short."""
    line, hurry = SilentLine(), Hurry()
    with pytest.raises(DeviceTimeout):
        getattr(doser(line), call)(Deadline(soon().at_s - 0.9, hurry))
    assert line.asked
    assert all(deadline.hurry is hurry for deadline in line.asked if deadline.at_s > 0)


def test_its_pace_is_300_ms_an_answer(device, wire):
    """Stopping and asking take one exchange each, and nothing is sent to find that out."""
    assert device.pace() == Pace(command_s=0.35, confirm_s=0.35)
    assert wire.sent == []


@pytest.mark.parametrize("says", [["*WA"], []], ids=["it says so", "silently"])
def test_a_sleeping_pump_is_woken(wire, pump, device, says):
    """The first question wakes it and is asked again; the pump is then ready."""
    wire.answer = Sleeper(pump, says)
    device.ready(soon())
    assert wire.sent[:3] == ["i", "i", "Dstart,?"]


def test_a_pump_that_said_it_sleeps_is_woken_by_a_question(wire, pump, device):
    """After `*SL` a dose is not what wakes it: the dose goes out once, to a pump that is awake."""
    device.ready(soon())
    wire.pending.append(b"*SL")
    wire.answer = Sleeper(pump)
    device.start_dose(5.0, soon())
    assert wire.sent[-3:] == ["i", "i", "D,5.00"]
    assert pump.running


def test_a_dose_that_only_woke_the_pump_is_not_repeated(wire, pump, device, golden):
    """A pump that fell asleep unheard answers a dose with `*WA`: unknown, and not sent again."""
    device.ready(soon())
    wire.answer = Sleeper(pump)
    with golden.raises(DeviceTimeout):
        device.start_dose(5.0, soon())
    assert not device.dose_status(soon()).running
    assert wire.sent.count("D,5.00") == 1


def test_a_question_that_only_woke_the_pump_is_asked_again(wire, pump, device):
    """A pump that fell asleep unheard costs a question one repetition, and no time-out."""
    device.ready(soon())
    wire.answer = Sleeper(pump)
    assert device.total(soon()).value == 0.0
    assert wire.sent[-3:] == ["TV,?", "i", "TV,?"]


def test_a_dose_whose_reply_is_lost_is_not_repeated(wire, pump, golden):
    """Whatever is asked after a lost reply, the dose itself goes out once, and the total tells."""
    deaf = RecordingLine(wire)
    device = doser(deaf)
    device.ready(soon())
    deaf.lose_replies = True
    with golden.raises(DeviceTimeout):
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
