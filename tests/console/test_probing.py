"""Which places `rigctl init --probe` looks at, which it leaves alone, and what it calls who is found."""

import pytest

from rigctl.campaign.lock import bus_locks
from rigctl.console.starting.initialise import devices_of, places_of, sightings, told, units_of
from rigctl.errors import UsageError
from rigctl.rig.finding import Sighting
from rigctl.rig.protocols import Found, Identity
from tests.drivers.peers import PtyPeer


@pytest.fixture
def silent():
    """A serial port at whose end somebody only listens."""
    peer = PtyPeer(len, lambda _: [])
    yield peer
    peer.stop()


def test_a_bus_that_a_campaign_drives_is_left_alone(silent, golden):
    """Nothing is opened there, and it is said who has it."""
    url = f"modbus_rtu://{silent.path}?baud=9600"
    with bus_locks([url]):
        (found,) = sightings(places_of([str(silent.path)]), (1,))
    golden(found.remark)
    assert silent.requests == []


def test_a_port_that_another_program_holds_is_left_alone(silent, golden):
    """A terminal program that has it open keeps it."""
    import serial

    with serial.Serial(str(silent.path), exclusive=True):
        (found,) = sightings(places_of([str(silent.path)]), (1,))
    golden(found.remark)
    assert silent.requests == []


def test_a_port_under_two_names_is_refused(silent, tmp_path, golden):
    """Two who ask on one wire would read each other's answers."""
    link = tmp_path / "probe"
    link.symlink_to(silent.path)
    with golden.raises(UsageError):
        places_of([str(silent.path), f"other={link}"])


@pytest.mark.parametrize("text", ["", "0", "8-1", "1-248", "one", "1,,2"])
def test_addresses_that_cannot_be_are_refused(text, golden):
    """0 is everybody, and more than 247 nobody."""
    with golden.raises(UsageError):
        units_of(text)


def test_addresses_are_a_list_of_ranges():
    """Each once, in order."""
    assert units_of("17, 1-3,2") == (1, 2, 3, 17)


def test_those_found_have_names_of_their_own():
    """The person's, else their own, else what they are; numbered where that is taken."""

    def seen(*names):
        found = tuple(Found("ezo-pmp", {}, Identity("EZO PMP", "1.06", name), name) for name in names)
        return Sighting("x", "tcp://x:1", found)

    places = places_of(["acid=10.0.0.1:4001", "10.0.0.2:4001", "10.0.0.3:4001"])
    all_seen = [seen("calcium"), seen("Calcium 2+", "calcium"), seen("2", "2")]
    devices = devices_of(places, all_seen)
    assert [d.name for d in devices] == ["acid", "calcium_2", "calcium", "device_2", "device_2_2"]
    assert len(list(told(places, all_seen, devices))) == 2 * len(devices)
