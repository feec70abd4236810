"""What EZO circuits say of their calibration, and how a pump is told what it really dispensed."""

from __future__ import annotations

import pytest

from rigctl.errors import DeviceFault, GarbledReply
from rigctl.rig.protocols import Calibration
from rigctl.rig.testing import ScriptedLine
from rigctl_drivers.ezo_pump import EzoPumpDriver
from rigctl_drivers.ezo_sensor import EzoSensorDriver
from tests.drivers.peers import soon
from tests.golden import Golden


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


def test_an_answer_that_makes_no_sense_is_none(golden: Golden):
    """Half a point, and a slope that is no number."""
    with pytest.raises(GarbledReply) as refused:
        sensor(circuit("pH", Cal="?CAL,1.5")).calibration(soon())
    golden(refused.value)
    with pytest.raises(GarbledReply, match="number"):
        sensor(circuit("pH", Cal="?CAL,1", Slope="?SLOPE,x,100")).calibration(soon())


def test_a_pump_is_told_what_was_measured(golden: Golden):
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
        with pytest.raises(DeviceFault) as refused:
            device.calibrate(volume_ml, soon())
        golden(refused.value)
    assert told.count("Cal,9.60") == 1
