"""How an EZO circuit is calibrated, and what temperature it compensates by."""

import pytest
from pydantic import ValidationError

from rigctl.errors import DeviceFault, GarbledReply
from rigctl.rig.protocols import Calibration, Reading, Severity
from rigctl.rig.testing import ScriptedLine
from rigctl_drivers.ezo_pump import EzoPumpDriver
from rigctl_drivers.ezo_sensor import EzoSensorDriver
from tests.drivers.peers import soon


def circuit(model, **answers):
    known = {"i": f"?I,{model},2.14", **{command.replace("_", ",") + ",?": text for command, text in answers.items()}}
    return ScriptedLine(lambda command: [known[command], "*OK"] if command in known else ["*ER"])


def sensor(wire, model="pH"):
    return EzoSensorDriver.connect(EzoSensorDriver.options(model=model), wire)


@pytest.mark.parametrize(
    ("model", "answers", "said"),
    [
        (
            "pH",
            {"Cal": "?CAL,3", "Slope": "?SLOPE,99.7,100.3,-0.89"},
            Calibration(3, (99.7, 100.3), "Cal,3,Slope,99.7,100.3,-0.89"),
        ),
        ("pH", {"Cal": "?Cal,0"}, Calibration(0, (), "Cal,0")),
        ("EC", {"Cal": "?CAL,2"}, Calibration(2, (), "Cal,2")),
        ("RTD", {}, Calibration(None)),
    ],
)
def test_a_circuit_says_how_it_is_calibrated(model, answers, said):
    """Points, and of a pH probe the slopes; firmwares that do not know the question say nothing."""
    device = sensor(circuit(model, **answers), model)
    assert device.calibration(soon()) == said


def test_an_answer_that_makes_no_sense_is_none(golden):
    """Half a point, and a slope that is no number."""
    with golden.raises(GarbledReply):
        sensor(circuit("pH", Cal="?CAL,1.5")).calibration(soon())
    with pytest.raises(GarbledReply, match="number"):
        sensor(circuit("pH", Cal="?CAL,1", Slope="?SLOPE,x,100")).calibration(soon())


def test_a_pump_is_told_what_was_measured(golden):
    """Once, to a hundredth of a millilitre; a volume that cannot be is not sent."""
    told = []

    def answer(command):
        told.append(command)
        known = {"i": ["?I,PMP,1.06", "*OK"], "Cal,9.60": ["*OK"], "Cal,?": ["?CAL,1", "*OK"]}
        return known.get(command, ["*ER"])

    device = EzoPumpDriver.connect(EzoPumpDriver.options(), ScriptedLine(answer))
    device.calibrate(9.6, soon())
    assert device.calibration(soon()) == Calibration(1, (), "Cal,1")
    for volume_ml in (0.0, 0.004, -1.0, float("nan")):
        with golden.raises(DeviceFault):
            device.calibrate(volume_ml, soon())
    assert told.count("Cal,9.60") == 1


ANSWERS = {"i": ["?I,pH,2.14", "*OK"], "C,0": ["*OK"], "RT,24.32": ["6.021", "*OK"], "RT,23.00": ["6.003", "*OK"]}


@pytest.fixture
def wire():
    return ScriptedLine(lambda command: ANSWERS.get(command, ["*ER"]))


@pytest.fixture
def probe(wire):
    options = {"model": "pH", "compensate": {"temperature": "tank_temp", "stale_after_s": 600.0}}
    return EzoSensorDriver.connect(EzoSensorDriver.options.model_validate(options), wire)


def degrees(wire, value=24.32, ago_s=0.0):
    return Reading(value, "degC", wire.clock.now_s() - ago_s)


def broken(wire):
    return Reading.invalid("degC", wire.clock.now_s(), "DeviceTimeout: tank_temp: silent")


def test_a_reading_goes_with_its_temperature(wire, probe):
    """Each is asked for with the degrees of its own moment, to the hundredth."""
    probe.take_temperature(degrees(wire, 24.317))
    first = probe.read(soon())
    probe.take_temperature(degrees(wire, 23.0))
    assert (first.value, first.severity, probe.read(soon()).value) == (6.021, Severity.NONE, 6.003)
    assert wire.sent == ["i", "C,0", "RT,24.32", "RT,23.00"]


def test_without_any_temperature_there_is_no_reading(wire, probe, golden):
    """Nothing is sent, and it says why."""
    probe.take_temperature(broken(wire))
    reading = probe.read(soon())
    assert not reading.valid
    golden(reading.detail)
    assert wire.sent == []


@pytest.mark.parametrize(
    ("ago_s", "severity", "said"),
    [
        (599.0, Severity.MINOR, "compensated by a temperature of tank_temp that is 599 s old: DeviceTimeout"),
        (601.0, Severity.INVALID, "cannot be compensated, the temperature of tank_temp is 601 s old: DeviceTimeout"),
    ],
)
def test_an_old_temperature_is_doubtful_then_useless(wire, probe, ago_s, severity, said):
    """The last one serves for a while, and the reading says so; after that there is none."""
    probe.take_temperature(degrees(wire, ago_s=ago_s))
    probe.take_temperature(broken(wire))
    reading = probe.read(soon())
    assert (reading.severity, said in reading.detail) == (severity, True)
    assert (wire.sent[-1:] == ["RT,24.32"]) == (severity is Severity.MINOR)


def test_a_fixed_temperature_and_a_measured_one_exclude_each_other(golden):
    """Which of them counts would be anybody's guess."""
    options = {"model": "pH", "temperature_c": 20.0, "compensate": {"temperature": "tank_temp"}}
    with golden.raises(ValidationError):
        EzoSensorDriver.options.model_validate(options)
