"""Instruments by foreign classes: what they may do, and what they cannot."""

import math
import subprocess
import sys
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rigctl.errors import DeviceError, DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.clocks import RealClock
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import Actuator, ActuatorState, Deadline, Meter, Reading, Sensor
from rigctl.rig.testing import ManualClock, ScriptedLine, SilentLine
from rigctl_drivers import instrument_libraries
from rigctl_drivers.bridge import PyMeasureDriver
from tests.drivers import foreign
from tests.drivers.foreign import Scpi
from tests.drivers.peers import PtyPeer, TcpPeer, cut_lines, patient

OVEN = {"unit": "kW", "read": "temperature", "set": "power", "enable": "burning"}
LF = b"\n"


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    """The classes that a distribution offers; those of this test's folder among them."""
    values = {f"tests.drivers.foreign:{name}" for name in vars(foreign)} | {"tests.drivers.foreign:Absent"}
    monkeypatch.setattr(
        instrument_libraries, "entry_points", lambda group: [SimpleNamespace(value=value) for value in values]
    )
    return values


@pytest.fixture
def oven():
    return Scpi(TEMP="812.5", POW="0", OUTP="0")


@pytest.fixture
def wire(oven):
    return ScriptedLine(oven, terminator=LF)


def connect(line, made="Furnace", **options):
    given = {"instrument": f"tests.drivers.foreign:{made}", **OVEN, **options}
    return PyMeasureDriver.connect(PyMeasureDriver.options.model_validate(given), line)


def assess(made, **options):
    given = {"instrument": made if "." in made else f"tests.drivers.foreign:{made}", **OVEN, **options}
    return PyMeasureDriver.options.model_validate(given).assess()


def foreign_threads():
    return [thread for thread in threading.enumerate() if thread.name == "foreign"]


def test_a_class_of_ones_own_keeps_every_promise(oven):
    """A class on plain pyvisa makes a sensor and actuator that conforms, over a line in memory."""
    options = {"instrument": "tests.drivers.foreign:Furnace", **OVEN, "model": "F-1"}
    report = check_driver(PyMeasureDriver, options, lambda: ScriptedLine(oven, terminator=LF), ManualClock())
    assert report.abilities == ("Sensor", "Actuator")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TcpPeer, PtyPeer])
def test_it_conforms_over_a_socket_and_a_serial_port(kind, oven, peer):
    """The same with deadlines and silences that are real; pyvisa opens a serial port in its own way."""

    def answer(request):
        return [text.encode() + LF for text in oven(request.decode())]

    other = peer(kind, cut_lines(LF), answer)
    url = f"tcp://127.0.0.1:{other.port}" if kind is TcpPeer else f"serial://{other.path}"
    options = {"instrument": "tests.drivers.foreign:Furnace", **OVEN}
    assert check_driver(PyMeasureDriver, options, f"{url}?quiet=0.05", RealClock(), timeout_s=1.0).checks


def test_what_a_device_can_do_follows_from_its_properties(wire):
    """A property to read makes a sensor, one to set an actuator, a counter a meter."""
    assert isinstance(connect(wire), Sensor)
    assert isinstance(connect(wire), Actuator)
    assert not isinstance(connect(wire, set=None, enable=None), Actuator)
    assert not isinstance(connect(wire, read=None), Sensor)
    meter = connect(wire, set=None, enable=None, read=None, counter="temperature", unit="kWh")
    assert isinstance(meter, Meter)
    assert meter.total(patient()).value == 812.5


@pytest.mark.parametrize(
    "options",
    [
        {"read": None, "set": None, "enable": None},
        {"enable": None},
        {"set": None, "safe_value": 3.0},
        {"counter": "temperature"},
        {"off": True},
        {"identity": "temperature"},
        {"set": "shutdown()"},
        {"instrument": "os; import"},
    ],
)
def test_what_makes_no_sense_is_refused(options, golden):
    """Without a way to safety a device may only be read; names are names."""
    with pytest.raises(ValidationError) as refused:
        PyMeasureDriver.options.model_validate({"instrument": "a.B", **OVEN, **options})
    golden([error["msg"] for error in refused.value.errors()])


def test_its_own_shutdown_is_never_called(wire, oven):
    """Released and safe, the class's `shutdown` has sent nothing."""
    device = connect(wire)
    device.apply(5.0, patient())
    device.release(patient())
    device.safe(patient())
    assert device.read_back(patient()) == ActuatorState(False, None)
    assert "POW 20" not in oven.asked


def test_a_safe_value_is_imposed_and_without_a_switch_imposes_nothing(wire, oven):
    """With `enable` the safe value is in force; without it, it is what releases."""
    connect(wire, safe_value=1.0).safe(patient())
    assert (oven.held["POW"], oven.held["OUTP"]) == ("1", "1")
    device = connect(wire, enable=None, safe_value=0.0)
    device.apply(5.0, patient())
    assert device.read_back(patient()) == ActuatorState(True, 5.0)
    device.release(patient())
    assert device.read_back(patient()) == ActuatorState(False, 0.0)


def test_setpoints_are_rounded_to_the_instruments_steps(wire, oven):
    """With `step` the instrument is sent what it can hold."""
    device = connect(wire, step=0.5)
    device.apply(5.2, patient())
    assert oven.held["POW"] == "5"
    assert device._options.rounded(5.3) == 5.5


def test_another_model_is_refused(wire):
    """`model` is compared with what answers."""
    with pytest.raises(IdentityMismatch):
        connect(wire, model="F-2").identify(patient())
    assert connect(wire, identity="temperature", model="812").identify(patient()).serial == "812.5"


def test_a_class_that_cannot_ask_who_answers_is_anonymous(wire):
    """Of an instrument without `id` only this is known: it answers."""
    device = connect(wire, instrument="tests.drivers.foreign:Nameless")
    assert device.identify(patient()).model == "tests.drivers.foreign:Nameless"
    assert device.anonymous


def test_99_a_class_that_sleeps_holds_nobody_up(wire, oven):
    """A class that sleeps is left to itself at the deadline: the line is free, and the way to safety, too."""
    device, others = connect(wire, made="Sleeper", arguments={"asleep_s": 300.0}), foreign_threads()
    device.apply(5.0, patient())
    with pytest.raises(DeviceTimeout):
        device.read(Deadline.after(0.1))
    device.safe(patient())
    assert set(foreign_threads()) - set(others), "it still sleeps"
    assert oven.held["OUTP"] == "0"
    assert connect(wire).read(patient()).value == 812.5


def test_99_the_answer_to_an_abandoned_question_is_nobodys(oven, peer, line):
    """The class asks and sleeps; the instrument answers after the deadline, while the next question is asked."""

    def answer(request):
        late = [0.3] if request.startswith(b"TEMP?") else []
        return [*late, *(text.encode() + LF for text in oven(request.decode()))]

    wire = line(f"tcp://127.0.0.1:{peer(TcpPeer, cut_lines(LF), answer).port}?quiet=0.5")
    device = connect(wire, made="Slow")
    device.apply(5.0, patient())
    with pytest.raises(DeviceTimeout):
        device.read(Deadline.after(0.02))
    assert device.read_back(patient()) == ActuatorState(True, 5.0)


def test_99_one_that_never_returns_is_asked_no_more(wire, oven):
    """Each abandoned call keeps a thread: after some of them only commands are carried out."""
    device = connect(wire, made="Sleeper", read="temperature")
    for _ in range(8):
        with pytest.raises(DeviceTimeout):
            device.read(Deadline.after(0.01))
    busy = len(foreign_threads())
    with pytest.raises(DeviceTimeout):
        device.read(patient())
    assert len(foreign_threads()) == busy
    with pytest.raises(DeviceTimeout):  # told, and not confirmed
        device.safe(patient())
    assert "OUTP 0" in oven.asked


def test_100_a_class_that_answers_from_memory_is_not_believed(wire, oven):
    """It says what was set and has sent half of it: no bytes came, so there is no read-back, and nothing is on."""
    device = connect(wire, made="Liar")
    with pytest.raises(GarbledReply):
        device.apply(5.0, patient())
    assert oven.held["OUTP"] == "0"


def test_101_a_class_that_cannot_be_made_is_a_fault_and_sends_nothing(wire, oven, golden):
    """What it raises is told, each time anew."""
    device = connect(wire, made="Refuses")
    for call in (device.identify, device.read, device.safe):
        with pytest.raises(DeviceFault) as refused:
            call(patient())
    golden(refused.value)
    assert not oven.asked


@pytest.mark.parametrize("text", ["1 / 0", "import sys; sys.exit(3)", "def"])
def test_101_a_module_that_cannot_be_imported_leaves_other_devices_alone(text, wire, tmp_path, monkeypatch, offered):
    """Whatever its import raises, its device can be connected, and each call is a fault."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"lab_{len(text)}"
    offered.add(f"{name}:Furnace")
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    device = connect(wire, instrument=f"{name}:Furnace")
    with pytest.raises(DeviceFault):
        device.safe(patient())
    flaws, _ = device._options.assess()
    assert flaws


def test_102_a_setpoint_that_a_validator_changes_is_not_switched_on(wire, oven):
    """The class makes 10 of 15: the read-back shows it, and the switch stays off."""
    device = connect(wire, made="Truncating")
    with pytest.raises(DeviceFault):
        device.apply(15.0, patient())
    assert oven.held["OUTP"] == "0"
    device.apply(8.0, patient())
    assert device.read_back(patient()) == ActuatorState(True, 8.0)


def test_103_after_its_deadline_a_class_can_send_nothing(wire, oven):
    """One that wakes later and would set something finds no line; the next call has an instrument made anew."""
    device, others = connect(wire, made="Sleeper", arguments={"asleep_s": 0.5}), foreign_threads()
    with pytest.raises(DeviceTimeout):
        device.read(Deadline.after(0.1))
    for thread in set(foreign_threads()) - set(others):
        thread.join(120.0)
    assert "POW 20" not in oven.asked
    assert device.read(patient()).value == 812.5


def test_103_one_that_asks_again_for_ever_is_refused_and_left(peer, line):
    """After its deadline every request is refused; its thread ends, instead of asking on as fast as a computer can."""
    wire = line(f"tcp://127.0.0.1:{peer(TcpPeer, cut_lines(LF), lambda _: []).port}?quiet=0.05")
    device, others = connect(wire, made="Insistent"), foreign_threads()
    with pytest.raises(DeviceTimeout):
        device.read(Deadline.after(0.1))
    left = set(foreign_threads()) - set(others)
    for thread in left:
        thread.join(60.0)
    assert not any(thread.is_alive() for thread in left)


def test_103_one_that_would_end_the_program_does_not(wire):
    """`sys.exit` in a class is a fault of the device."""
    with pytest.raises(DeviceFault):
        connect(wire, made="Quits").read(patient())


def test_104_what_cannot_be_read_back_is_no_actuator(wire, oven):
    """A property that is only set: nothing is switched on."""
    device = connect(wire, made="Deaf")
    with pytest.raises(DeviceFault):
        device.apply(5.0, patient())
    assert oven.held["OUTP"] == "0"


def test_a_port_that_the_class_wants_otherwise_is_named(golden):
    """Where nothing answers, it is said which settings the class expects; the line's URL decides them."""
    line = SilentLine()
    line.url = "serial:///dev/ttyUSB0?baud=9600"
    with golden.raises(DeviceTimeout):
        connect(line, made="Port").identify(Deadline.after(0.2))


def test_a_serial_instrument_behind_a_device_server_works(wire):
    """Its class asks for a baud rate, which a socket has not: that of the server counts."""
    assert connect(wire, made="Port").read(patient()).value == 812.5


@pytest.mark.parametrize("made", ["Furnace", "Sleeper", "Talker", "Refuses", "Absent", "no.such:Module"])
def test_what_is_not_guaranteed_is_told(made, golden):
    """`check` imports the class and makes one where nobody answers."""
    golden([said for kind in assess(made) for said in kind])


def test_a_class_that_nobody_offers_is_not_even_imported(wire, golden):
    """Neither a module of the system nor a class that a library's module only imports."""
    with pytest.raises(DeviceFault) as refused:
        connect(wire, instrument="antigravity:Module").read(patient())
    assert "antigravity" not in sys.modules
    golden(refused.value)
    pytest.importorskip("pymeasure")
    assert assess("common_base.TypeVar")[0]


def test_a_property_that_is_not_there_is_told(golden):
    """A misspelt name, a method, and what can only be read are found before anything is opened."""
    golden([assess("Furnace", set=name)[0] for name in ("powr", "shutdown", "temperature")])


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=20), max_size=2))
def test_whatever_an_instrument_answers_is_a_value_or_an_error_of_the_device(answers):
    """Nothing else comes out of a class, and no number that is none."""
    device = connect(ScriptedLine(lambda _: answers, terminator=LF))
    for call in (device.identify, device.read, device.read_back, device.safe, device.release):
        with suppress(DeviceError):
            told = call(patient())
            assert not isinstance(told, Reading) or math.isfinite(told.value) or not told.valid


@pytest.mark.slow
def test_nothing_of_others_is_imported_where_no_device_is_driven_by_it():
    """The drivers are listed, and their options read, without pyvisa or a library of instruments."""
    code = """
import sys
from rigctl_drivers.bridge import PyMeasureDriver, QcodesDriver
for driver in (PyMeasureDriver, QcodesDriver):
    driver.options.model_validate({"instrument": "a.B", "read": "value"})
sys.exit(bool({"pyvisa", "pymeasure", "qcodes"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_check_knows_who_shares_a_line_and_what_an_on_off_device_takes(wire, golden):
    """Devices of one class share a line; a switch takes 0 and 1."""
    switch = connect(wire, set=None, read=None)
    assert [bool(switch._options.misfit(v)) for v in (0.0, 0.5)] == [False, True]
    golden({claim.place for claim in switch._options.occupies()})
    with pytest.raises(DeviceFault):
        switch.apply(0.5, patient())
    switch.apply(1.0, patient())
    assert switch.read_back(patient()) == ActuatorState(True, 1.0)
