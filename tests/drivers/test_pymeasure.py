"""PyMeasure's own classes over our lines: ten makers, some of its records, and the census."""

import pytest

from rigctl.rig.conformance import check_driver
from rigctl.rig.testing import ManualClock, ScriptedLine
from rigctl_drivers.bridge import PyMeasureDriver
from tests.drivers.foreign import Scpi

pytest.importorskip("pymeasure")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # other people's imports

SUPPLY = {"read": "voltage", "set": "voltage_setpoint", "enable": "output_enabled"}
TEN = {
    "agilent.Agilent33220A": {"read": "amplitude", "set": "amplitude", "enable": "output"},
    "deltaelektronika.SM7045D": {"read": "measure_voltage", "set": "voltage", "safe_value": 0},
    "keithley.Keithley2000": {"read": "voltage"},
    "kepco.KepcoBOP3612": SUPPLY,
    "keysight.KeysightE36312A": {"channel": "ch_1", **SUPPLY},
    "lakeshore.LakeShore331": {"channel": "input_A", "read": "kelvin"},
    "newport.ESP300": {"read": "error"},
    "rohdeschwarz.FSL": {"read": "attenuation"},
    "temptronic.ATS545": {"read": "temperature", "set": "temperature_setpoint", "safe_value": 20},
    "texio.TexioPSW360L30": SUPPLY,
}


@pytest.mark.parametrize("name", TEN)
def test_classes_of_ten_makers_keep_every_promise(name):
    """Asked, told, deaf, silent and in noise; the instrument answers each question with what was last set."""
    options = {"instrument": name, **TEN[name]}
    report = check_driver(PyMeasureDriver, options, lambda: ScriptedLine(Scpi(), terminator=b"\n"), ManualClock())
    assert report.abilities == (("Sensor", "Actuator") if "set" in options else ("Sensor",))


def test_records_are_carried():
    """What PyMeasure recorded of an instrument passes over pyvisa, our library and a line: text and counted bytes."""
    from pymeasure.instruments.hcp import TC038D
    from pymeasure.instruments.keysight import KeysightE36312A

    from tests.drivers.bridge_exchanges import carried

    with carried(KeysightE36312A, [("VOLT 1.5, (@1)", None), ("VOLT? (@1)", "1.5")]) as supply:
        supply.ch_1.voltage_setpoint = 1.5
        assert supply.ch_1.voltage_setpoint == 1.5
    with carried(TC038D, [(b"\x01\x03\x00\x00\x00\x02\xc4\x0b", b"\x01\x03\x04\x00\x00\x03\xe8\xfa\x8d")]) as bath:
        assert bath.temperature == 100


@pytest.mark.nightly
def test_the_census_finds_enough():
    """At least 150 classes can be read; the catalogue names each."""
    from tests.drivers.instrument_census import census, page

    entries = census()
    assert sum(bool(entry.reads) and entry.made != "fails" for entry in entries) >= 150
    assert sum(bool(entry.sets) for entry in entries) >= 100
    assert "`keysight.KeysightE36312A`" in page()
