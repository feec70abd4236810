"""Line URLs: what they mean and how mistakes are told."""

from pathlib import Path

import pytest

from rigctl.errors import UnknownPlugin
from rigctl.flaws import flaw_of
from rigctl.rig.registry import Registry
from rigctl_drivers.urls import SERIAL_FRAME, LineUrl


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("serial://sim/ph", "sim/ph"),
        ("serial://Sim", "Sim"),
        ("serial:///dev/serial/by-id/usb-FTDI_A1-if00-port0?baud=9600", "/dev/serial/by-id/usb-FTDI_A1-if00-port0"),
        ("modbus_rtu://bus%201", "bus 1"),
    ],
)
def test_a_place_is_a_path(url, path):
    """Relative places stay relative, absolute ones absolute, and no letter changes case."""
    assert LineUrl.parse(url, SERIAL_FRAME).path == Path(path)


def test_options_are_converted():
    """Numbers become numbers and parity is taken in any case."""
    found = LineUrl.parse("serial://p?baud=2400&parity=e&stopbits=2&bits=7", SERIAL_FRAME)
    assert found.options == {"baud": 2400, "parity": "E", "stopbits": 2, "bits": 7}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://cam:5000", ("cam", 5000)),
        ("tcp://10.0.0.7", ("10.0.0.7", 502)),
        ("tcp://[::1]:99", ("::1", 99)),
        ("tcp://[::1]", ("::1", 502)),
    ],
)
def test_a_place_is_host_and_port(url, expected):
    """Host and port are told apart, IPv6 addresses included; without a port the default holds."""
    assert LineUrl.parse(url, {}).host_port(502) == expected


@pytest.mark.parametrize(
    ("url", "at", "got"),
    [
        ("serial://sim/ph?bauds=9600", ": bauds", ""),
        ("serial://sim/ph?baud=fast", ": baud", '"fast"'),
        ("serial://sim/ph?baud=9600&baud=2400", ": baud", ""),
        ("serial://sim/ph?quiet=-1", ": quiet", '"-1"'),
        ("serial://sim/ph?quiet=nan", ": quiet", '"nan"'),
        ("modbus_rtu://p?parity=X", ": parity", '"X"'),
        ("modbus_rtu://p?stopbits=1.5", ": stopbits", '"1.5"'),
        ("modbus_tcp://plc?unit=3", ": unit", ""),
        ("modbus_tcp://plc?echo=auto", ": echo", ""),
        ("modbus_rtu://p?echo=maybe", ": echo", '"maybe"'),
        ("rtu_tcp://plc?baud=9600", ": baud", ""),
        ("rtu_tcp://plc:70000", ": place", '"plc:70000"'),
        ("modbus_tcp://plc:70000", ": place", '"plc:70000"'),
        ("modbus_tcp://plc:0", ": place", '"plc:0"'),
        ("tcp://:5025", ": place", '":5025"'),
        ("serial://", ": place", "nothing"),
        ("plc", "", ""),
    ],
)
def test_mistakes_are_told(url, at, got, clock, golden):
    """A URL that does not hold is a ValueError that names the mistake and what is allowed; nothing is opened."""
    with pytest.raises(ValueError) as refused:
        Registry.installed().open_line(url, clock)
    assert (flaw_of(refused.value).where, flaw_of(refused.value).got) == (f"{url}{at}", got)
    golden(refused.value)


def test_an_unknown_scheme_names_the_nearest(clock, golden):
    """A scheme nobody serves is an error that names the one that was meant."""
    with golden.raises(UnknownPlugin):
        Registry.installed().open_line("modbus-tcp://plc", clock)
