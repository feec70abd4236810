"""SCPI instruments that are told something: setpoints, switches, and what is not repeated."""

import math

import pytest
from pydantic import ValidationError

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply
from rigctl.rig.clocks import RealClock
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import Actuator, ActuatorState, Deadline, Sensor
from rigctl.rig.testing import ManualClock, RecordingLine, ScriptedLine
from rigctl_drivers.scpi_instrument import ScpiDriver
from tests.drivers.peers import PtyPeer, cut_lines, soon
from tests.simulated import start_sim

SWITCH = {"on": "OUTP ON", "off": "OUTP OFF", "state": "OUTP?"}
LEVEL = {"set": "VOLT {value}", "confirm": "VOLT?"}
SUPPLY = {"unit": "V", "query": "MEAS:VOLT?", **LEVEL, "enable": SWITCH}
RELEASED = ActuatorState(controlled=False, setpoint=None)


class Supply:
    """A power supply of 30 V, and a load that takes what it gives."""

    def __init__(self, no_error="0,No Error"):
        self.volts, self.on = 0.0, False
        self.errors = []
        self.no_error = no_error

    def __call__(self, command):
        verb, _, value = command.partition(" ")
        if verb == "VOLT":
            if 0 <= float(value) <= 30:
                self.volts = float(value)
            else:
                self.errors.append('-222,"Data out of range"')
            return []
        if command in ("OUTP ON", "OUTP OFF"):
            self.on = command == "OUTP ON"
            return []
        answers = {
            "*IDN?": "Acme,PS-30,77,1.0",
            "VOLT?": f"{self.volts:+.6E}",
            "OUTP?": str(int(self.on)),
            "MEAS:VOLT?": f"{self.volts * self.on:.3f}",
        }
        if command == "SYST:ERR?":
            return [self.errors.pop(0) if self.errors else self.no_error]
        if command in answers:
            return [answers[command]]
        self.errors.append('-113,"Undefined header"')
        return []


@pytest.fixture
def supply():
    return Supply()


@pytest.fixture
def wire(supply):
    return ScriptedLine(supply, terminator=b"\n")


def connect(wire, **options):
    return ScpiDriver.connect(ScpiDriver.options.model_validate({**SUPPLY, **options}), wire)


def changes(wire):
    """What was sent that is no question."""
    return [command for command in wire.sent if "?" not in command]


def test_what_it_can_do_follows_from_its_options(wire):
    """`query` makes a sensor, `set` or `enable` an actuator, and all of them both."""
    both = connect(wire)
    assert isinstance(both, Sensor)
    assert isinstance(both, Actuator)
    assert not isinstance(connect(wire, query=None), Sensor)
    assert not isinstance(connect(wire, set=None, confirm=None, enable=None), Actuator)


def test_a_setpoint_is_sent_then_switched_on_and_read_back(wire):
    """First the value, then the switch; the error queue is asked after each."""
    device = connect(wire)
    assert device.read_back(soon()) == RELEASED
    device.apply(12.5, soon())
    assert device.read_back(soon()) == ActuatorState(controlled=True, setpoint=12.5)
    assert device.read(soon()).value == 12.5
    assert wire.sent[1:6] == ["SYST:ERR?", "VOLT 12.5", "SYST:ERR?", "OUTP ON", "SYST:ERR?"]


def test_released_is_switched_off(wire, supply):
    """`release` and `safe` send one command, before any question."""
    device = connect(wire)
    device.safe(soon())
    assert wire.sent == ["OUTP OFF", "SYST:ERR?"]
    device.apply(5.0, soon())
    device.release(soon())
    assert device.read_back(soon()) == RELEASED
    assert not supply.on


def test_a_refused_setpoint_is_a_fault_and_not_switched_on(wire, supply, golden):
    """An error after the value is raised in the instrument's own words, and what is off stays off."""
    with golden.raises(DeviceFault):
        connect(wire).apply(31.0, soon())
    assert changes(wire) == ["VOLT 31.0"]
    assert not supply.on


def test_errors_from_before_are_not_blamed_on_a_command(wire, supply):
    """What others left in the queue fails neither a setpoint nor the way to the safe state."""
    supply.errors = ['-350,"Queue overflow"']
    connect(wire).apply(5.0, soon())
    supply.errors = ['-350,"Queue overflow"']
    connect(wire).safe(soon())
    assert not supply.on


def test_1_a_lost_answer_to_a_setpoint_is_settled_by_reading_back(line, peer, supply):
    """The value is not sent again; what the instrument holds decides, and it is switched on."""
    lost = []

    def answer(request):
        command = request[:-1].decode()
        if command == "SYST:ERR?" and supply.volts == 5.0 and not lost:
            lost.append(command)
            return []
        return [f"{text}\n".encode() for text in supply(command)]

    end = peer(PtyPeer, cut_lines(b"\n"), answer)
    device = connect(line(f"serial://{end.path}?quiet=0.05"), set="VOLT {value:.1f}")
    device.apply(5.04, Deadline.after(4.0))  # a share of it is for the answer; what was sent has one decimal
    assert (supply.volts, supply.on) == (5.0, True)
    assert end.requests.count(b"VOLT 5.0\n") == end.requests.count(b"OUTP ON\n") == 1


def test_1_a_lost_setpoint_is_not_switched_on(wire, supply, golden):
    """If the instrument holds something else than was sent, it is unknown what arrived, and nothing more is sent."""
    device = connect(wire)
    device.release(soon())
    wire.answer = lambda command: [] if command.startswith(("VOLT ", "SYST")) else supply(command)
    with golden.raises(DeviceTimeout):
        device.apply(5.0, Deadline.after(0.1))
    assert changes(wire) == ["OUTP OFF", "VOLT 5.0"]
    assert not supply.on


def test_each_command_leaves_once_though_every_answer_is_lost(wire):
    """A setpoint whose answers are all lost is sent once, and its switch not at all."""
    deaf = RecordingLine(wire)
    device = connect(deaf)
    device.apply(5.0, soon())
    deaf.lose_replies = True
    with pytest.raises(DeviceTimeout):
        device.apply(7.0, Deadline.after(0.1))
    assert changes(wire) == ["VOLT 5.0", "OUTP ON", "VOLT 7.0"]


def test_without_a_switch_a_value_releases(wire, supply):
    """`release_value` imposes nothing, and reads back as released."""
    device = connect(wire, enable=None, release_value=0.0, safe_value=1.5)
    device.apply(5.0, soon())
    assert device.read_back(soon()) == ActuatorState(controlled=True, setpoint=5.0)
    device.release(soon())
    assert device.read_back(soon()) == ActuatorState(controlled=False, setpoint=0.0)
    device.safe(soon())
    assert supply.volts == 1.5


def test_what_is_sent_with_few_decimals_is_released_all_the_same(wire):
    """It holds what was sent, not what stands in the configuration."""
    device = connect(wire, enable=None, release_value=0.25, set="VOLT {value:.1f}")
    device.release(soon())
    assert device.read_back(soon()) == ActuatorState(controlled=False, setpoint=0.25)


@pytest.mark.parametrize(("safe_value", "on"), [(None, False), (0.0, False), (1.0, True)])
def test_a_switch_alone_takes_0_or_1(wire, supply, safe_value, on, golden):
    """On is 1, off is 0 and released; anything else is refused and not sent."""
    device = connect(wire, set=None, confirm=None, safe_value=safe_value)
    for value in (1.0, 0.0):
        device.apply(value, soon())
        assert device.read_back(soon()) == ActuatorState(bool(value), value)
    before = len(wire.sent)
    with golden.raises(DeviceFault):
        device.apply(0.5, soon())
    assert len(wire.sent) == before
    supply.on = not on
    device.safe(soon())
    assert supply.on is on


def test_a_setpoint_is_written_as_the_instrument_wants_it(wire):
    """`{value:.3f}` says how many digits."""
    connect(wire, set="VOLT {value:.3f}").apply(1.0 / 3.0, soon())
    assert "VOLT 0.333" in wire.sent


@pytest.mark.parametrize(
    ("question", "answer"),
    [("OUTP?", ""), ("OUTP?", "2"), ("OUTP?", "YES"), ("VOLT?", "off"), ("VOLT?", "9.91E37")],
)
def test_a_read_back_that_is_no_state_is_garbled(wire, supply, question, answer, golden):
    """Only 1, 0, ON and OFF tell a switch's state, and only a number a setpoint."""
    supply.on = True
    wire.answer = lambda command: [answer] if command == question else supply(command)
    with golden.raises(GarbledReply):
        connect(wire).read_back(soon())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_not_sent(wire, value, golden):
    """A setpoint is a finite number."""
    with golden.raises(DeviceFault):
        connect(wire).apply(value, soon())
    assert wire.sent == []


@pytest.mark.parametrize(
    "options",
    [
        SUPPLY,
        {k: v for k, v in SUPPLY.items() if k != "query"},
        {"unit": "V", "enable": SWITCH, "safe_value": 0},
        {"unit": "V", **LEVEL, "release_value": 0, "safe_value": 2},
        {**SUPPLY, "check_errors": False},
    ],
    ids=["all", "no reading", "switch", "no switch", "no error queue"],
)
def test_an_instrument_that_is_told_keeps_every_promise(options):
    """The conformance checks hold for each kind of actuator."""
    report = check_driver(ScpiDriver, options, lambda: ScriptedLine(Supply(), b"\n"), ManualClock())
    assert "Actuator" in report.abilities


def test_an_output_on_a_serial_line_conforms(tmp_path):
    """A SCPI instrument that measures and is told a setpoint keeps every promise against the simulated one."""
    options = {
        "unit": "percent",
        "query": "MEAS:GROW?",
        "set": "ILL {value:.1f}",
        "confirm": "ILL?",
        "enable": {"on": "OUTP ON", "off": "OUTP OFF", "state": "OUTP?"},
    }
    sim = start_sim("greenhouse", tmp_path)
    try:
        report = check_driver(ScpiDriver, options, sim.buses["cam"], RealClock(sim.speed), setpoint=40.0)
    finally:
        sim.stop()
    assert report.abilities == ("Sensor", "Actuator")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"set": "VOLT 5", "confirm": "VOLT?", "enable": SWITCH}, "`set` must hold the setpoint as {value}"),
        ({"set": "VOLT {volts}", "confirm": "VOLT?", "enable": SWITCH}, "`set` must hold the setpoint as {value}"),
        ({"set": "VOLT? {value}", "confirm": "VOLT?", "enable": SWITCH}, "String should match pattern"),
        ({"set": "VOLT {value}", "enable": SWITCH}, "`set` and `confirm` go together"),
        ({**LEVEL}, "`set` needs `enable` or `release_value`"),
        ({**LEVEL, "enable": SWITCH, "release_value": 0}, "`release_value` does not go with `enable`"),
        ({"query": "A?", "release_value": 0}, "`release_value` needs `set`"),
        ({"query": "A?", "safe_value": 0}, "`safe_value` needs `set` or `enable`"),
        ({"enable": SWITCH, "safe_value": 5}, "`safe_value` of an on/off device must be 0 or 1"),
        ({"enable": {**SWITCH, "state": "OUTP"}}, "String should match pattern"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, says):
    """What could never be confirmed, released or made safe is refused before anything is opened."""
    with pytest.raises(ValidationError, match=says):
        ScpiDriver.options.model_validate(options)


@pytest.mark.parametrize(
    "form", ["{value:999999999}", "{value:.999999999f}", "{value.__class__}", "{value!r:>99999999}", "{value:{value}}"]
)
def test_a_setpoint_is_written_in_a_form_of_numbers(form, golden):
    """No template takes the memory or looks into Python."""
    with golden.raises(ValidationError):
        ScpiDriver.options.model_validate({"set": f"VOLT {form}", "confirm": "VOLT?", "release_value": 0})
