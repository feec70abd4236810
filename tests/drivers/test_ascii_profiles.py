"""The shipped profiles of line instruments, each against the bytes of its maker's manual."""

import math

import pytest

from rigctl.rig.clocks import RealClock
from rigctl.rig.conformance import check_driver
from rigctl.rig.protocols import Actuator, Identity, Sensor, Severity
from rigctl_drivers.ascii_instrument import AsciiDriver
from tests.config.test_schema import shipped
from tests.drivers.pairs import FOLDER, NAMES, player, profiles, quantities, script
from tests.drivers.peers import PtyPeer, cut_lines, patient

SPEED = 2400.0


@pytest.fixture
def wired(peer, line):
    """Connects a quantity of a profile to its script at the other end of a serial port."""

    def connect(name, quantity, played=None):
        options = AsciiDriver.options.model_validate(profiles(name)[quantity].options)
        end = peer(PtyPeer, cut_lines(options.terminator.encode()), played or player(name))
        return AsciiDriver.connect(options, line(f"serial://{end.path}?quiet=0.05"))

    return connect


def test_each_profile_is_short_and_has_its_script():
    """At most 30 lines of YAML, and the bytes it is tested with beside it."""
    assert len(NAMES) == 8
    for name in NAMES:
        assert len((FOLDER / f"{name}.yaml").read_text().splitlines()) <= 30
        said = script(name)
        assert set(said.get("read", {})) | set(said.get("drive", {})) == set(profiles(name)), name


@pytest.mark.parametrize(("name", "quantity"), quantities())
def test_a_quantity_is_read_and_driven_as_its_script_says(wired, name, quantity):
    """The value of the answer, in the profile's unit; a setpoint is held, and let go."""
    device, said = wired(name, quantity), script(name)
    assert isinstance(device, Sensor) == (quantity in said.get("read", {}))
    assert isinstance(device, Actuator) == (quantity in said.get("drive", {}))
    if isinstance(device, Sensor):
        reading = device.read(patient())
        if said["read"][quantity] == "INVALID":
            assert reading.severity is Severity.INVALID
        else:
            assert (reading.value, reading.severity) == (pytest.approx(said["read"][quantity]), Severity.NONE)
    if isinstance(device, Actuator):
        device.apply(said["drive"][quantity], patient())
        assert device.read_back(patient()).setpoint == pytest.approx(said["drive"][quantity])
        device.safe(patient())
        assert not device.read_back(patient()).controlled


@pytest.mark.parametrize("name", NAMES)
def test_it_says_who_it_is(wired, name):
    """Model and serial number, where the instrument tells them."""
    said = script(name)
    device = wired(name, next(iter(profiles(name))))
    assert device.anonymous == ("identity" not in said)
    if not device.anonymous:
        assert device.identify(patient()) == Identity(**said["identity"])


@pytest.mark.parametrize(
    ("name", "answer", "severity", "value"),
    [(n, a, m[0], *(m[1:] or [math.nan])) for n in NAMES for a, m in script(n).get("marks", {}).items()],
)
def test_108_the_marks_of_a_balance_are_understood(wired, name, answer, severity, value):
    """A weight that has not settled is MINOR, an overload INVALID."""
    played = player(name)
    played.kept["answer"] = answer
    reading = wired(name, "weight", played).read(patient())
    assert reading.severity is Severity[severity]
    assert reading.value == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(("name", "quantity"), quantities())
def test_a_profile_keeps_every_promise(peer, name, quantity):
    """The conformance checks hold against its script at the other end of a serial port."""
    profile, said = profiles(name)[quantity], script(name)
    if said.get("read", {}).get(quantity) == "INVALID":
        pytest.skip("its script has no such probe")
    options = AsciiDriver.options.model_validate(profile.options)
    end = peer(PtyPeer, cut_lines(options.terminator.encode()), player(name))
    setpoint = said.get("drive", {}).get(quantity, 1.0)
    url = f"serial://{end.path}?quiet=0.05"
    report = check_driver(AsciiDriver, profile.options, url, RealClock(SPEED), setpoint=setpoint, tolerance=0.01)
    assert ("Sensor" in report.abilities) == (quantity in said.get("read", {}))
    assert ("Actuator" in report.abilities) == (quantity in said.get("drive", {}))


def test_the_driver_is_installed():
    """By its entry point, with its profiles."""
    assert shipped().driver("ascii") is AsciiDriver
