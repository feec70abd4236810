"""The short form: some blocks of each kind; `python -m tests.fuzz` runs as many as one likes."""

import pytest

from rigctl.rig.protocols import Deadline
from tests.fuzz import documents, drivers, requests
from tests.fuzz.running import run, seeded

BLOCKS = 8
SEED = 0


@pytest.mark.parametrize("target", drivers.TARGETS)
def test_nonsense_from_an_instrument_is_an_error_of_the_tree(target):
    """A value that can be one, or a `DeviceError` that can be told; and every call ends."""
    found = run(drivers.block, target, SEED, range(BLOCKS))
    assert found.bugs == {}
    assert found.came["cases"] > 10 * BLOCKS
    assert found.came["answers taken"] > BLOCKS


@pytest.mark.slow
def test_nonsense_for_a_configuration_is_refused_in_words():
    """A `ConfigError` with its places, whatever was done to the file."""
    found = run(documents.block, "yaml", SEED, range(BLOCKS))
    assert found.bugs == {}
    assert found.came["refused"] > 5 * BLOCKS


@pytest.mark.slow
def test_nonsense_at_the_control_socket_is_answered():
    """By hand and through the socket; the campaign goes on to its end."""
    found = run(requests.block, "socket", SEED, range(3))
    assert found.bugs == {}
    assert found.came["done"] > 50
    assert found.came["refused"] > 50


def test_the_same_block_is_the_same_nonsense():
    """So that what was found can be run again alone."""
    once, again = (drivers.block("ezo", seeded("ezo", SEED, 3)) for _ in range(2))
    assert once == again


@pytest.mark.parametrize("target", ["ezo", "ezo-pmp", "scpi", "modbus-rtu", "modbus-tcp"])
def test_an_instrument_that_never_stops_talking_is_left_at_the_deadline(target, monkeypatch):
    """Each call ends, by its deadline or by what it takes in at most."""
    monkeypatch.setattr(drivers, "SPEAKS_ON", 1.0)
    monkeypatch.setattr(drivers, "CALLS", 3)
    found = run(drivers.block, target, SEED, range(4))
    assert found.bugs == {}


def test_what_is_planted_is_found(monkeypatch):
    """A driver that lets a `ValueError` out, and a loop that never looks at its deadline."""

    def forgets(wire):
        raise ValueError("could not convert string to float")

    def spins(wire):
        while True:
            wire.read_some(Deadline.after(1.0))

    for plant, name in ((forgets, "ValueError"), (spins, "Stuck")):

        def made(rng, time, plant=plant):
            wire = drivers.Wire(lambda _: b"1.0\n", rng, time)
            return wire, (lambda _: plant(wire),)

        monkeypatch.setattr(drivers, "TARGETS", {"planted": made})
        found = run(drivers.block, "planted", SEED, range(1))
        assert [kind for kind, *_ in found.bugs] == [name]
