"""A virtual serial port behaves like one with a plug."""

import fcntl
import os
import struct
import termios

import pytest

from sim_rig.faces import pty_port
from sim_rig.faces.pty_port import TIOCGEXCL, PtyPort
from sim_rig.faults import WireFaults


@pytest.fixture
async def port(tmp_path):
    made = PtyPort(tmp_path / "port", WireFaults(), lambda _: None)
    made.open()
    yield made
    made.close()


@pytest.fixture
def fd(port):
    """What a program that opened the port holds."""
    made = os.open(port.link, os.O_RDWR | os.O_NOCTTY)
    yield made
    os.close(made)


def exclusive(fd) -> bool:
    return struct.unpack("i", fcntl.ioctl(fd, TIOCGEXCL, struct.pack("i", 0))) != (0,)


async def test_a_port_taken_exclusively_is_free_again_when_its_holder_is_gone(port, fd):
    """Exclusive mode lasts as long as the lock that was taken with it, as it would with a real port's last close."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.ioctl(fd, termios.TIOCEXCL)
    port._release_if_left()
    assert exclusive(fd)
    fcntl.flock(fd, fcntl.LOCK_UN)
    port._release_if_left()
    assert not exclusive(fd)


async def test_a_port_stays_shut_though_its_lock_is_missing_from_a_list(port, fd, monkeypatch):
    """Linux lists locks in parts: while others come and go a reader may miss one that is held all the time."""
    monkeypatch.setattr(pty_port, "_locked", lambda _: False)
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.ioctl(fd, termios.TIOCEXCL)
    port._release_if_left()
    assert exclusive(fd)


async def test_the_number_of_a_port_that_was_removed_is_given_to_nobody(port):
    """A campaign may still hold its lock, and the rig that got it would be refused."""
    old = port.link.readlink()
    port.close()
    port.open()
    near, far = os.openpty()
    taken = {str(port.link.readlink()), os.ttyname(far)}
    os.close(near)
    os.close(far)
    assert str(old) not in taken
