"""I2C buses of the kernel, as far as a machine without one can show: who holds one, and what is not one."""

import errno
import fcntl
import subprocess
import sys

import pytest

from rigctl.errors import DeviceTimeout, PortHeld, PortUnavailable
from rigctl.rig.registry import Registry
from rigctl.rig.testing import ManualClock
from tests.drivers.i2c_parts import Bus
from tests.drivers.peers import soon


@pytest.fixture
def node(tmp_path):
    """A file where a bus would be."""
    path = tmp_path / "i2c-1"
    path.touch()
    return path


def opened(path):
    Registry.installed().open_line(f"i2c://{path}", ManualClock()).open()


def test_a_bus_that_is_not_there(tmp_path):
    """The path is named."""
    with pytest.raises(PortUnavailable) as refused:
        opened(tmp_path / "i2c-7")
    assert str(tmp_path / "i2c-7") in str(refused.value)


def test_a_file_that_is_no_bus(node):
    """The kernel says so, and it is given back."""
    with pytest.raises(PortUnavailable):
        opened(node)
    with node.open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_bus_that_another_process_has_locked_is_refused(node):
    """As a serial port is: with the holder's name."""
    program = "import fcntl,sys,time; f=open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, str(node)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            with pytest.raises(PortHeld) as refused:
                opened(node)
        finally:
            other.kill()
    assert f"pid {other.pid}" in str(refused.value)


@pytest.mark.parametrize("code", ["ENXIO", "EREMOTEIO", "ETIMEDOUT", "EAGAIN", "EIO", "EBUSY"])
def test_what_the_kernel_says_of_an_exchange_leaves_it_unknown(code, golden):
    """Nobody acknowledged, or the bus is disturbed: never a refusal."""
    bus = Bus()
    line = bus.line()
    line.open()
    bus.error = getattr(errno, code)
    with golden.raises(DeviceTimeout):
        line.transfer(0x63, b"i", 0, soon())


def test_an_adapter_that_is_gone_is_a_port_to_be_opened_again():
    """A USB adapter pulled out: the bus opens it again, ever less often."""
    bus = Bus()
    line = bus.line()
    with pytest.raises(PortUnavailable):
        line.transfer(0x63, b"i", 0, soon())
    line.open()
    bus.error = errno.ENODEV
    with pytest.raises(PortUnavailable):
        line.transfer(0x63, b"i", 0, soon())
