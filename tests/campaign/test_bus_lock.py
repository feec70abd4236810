"""Fault 67: two processes with state directories of their own must not drive one bus."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest

from rigctl.campaign import lock
from rigctl.campaign.lock import bus_locks
from rigctl.errors import Locked
from tests.profiles import slow_beyond

HOLD = """
import sys
from rigctl.campaign.lock import bus_locks
state = open(sys.argv[1] + "/journal.sqlite", "w")
with bus_locks(sys.argv[2:]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another(state, *urls):
    """Another process that holds these buses."""
    command = [sys.executable, "-c", HOLD, state, *urls]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def refused(*urls):
    with pytest.raises(Locked) as refusal, bus_locks(urls):
        pass
    return str(refusal.value)


def free(*urls):
    """Whether these buses can be had now; lets go of them."""
    with bus_locks(urls):
        return True


@pytest.fixture
def port():
    """Two ends of a serial line; the name of one."""
    ours, theirs = pty.openpty()
    yield os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


def own_port():
    """A number that no other test on this machine uses."""
    return 20000 + os.getpid() % 40000


@pytest.mark.slow
@pytest.mark.parametrize("place", slow_beyond(1, ["localhost:{}", "127.0.0.1:{}", "[::1]:{}", "LOCALHOST:{}?quiet=1"]))
def test_fault_67_a_server_is_one_bus_whatever_it_is_called(tmp_path, place):
    """The second is refused with the first one's pid and state directory; buses that are free do not matter."""
    number = own_port()
    with another(tmp_path, f"modbus_tcp://127.0.0.1:{number}") as first:
        message = refused(f"modbus_tcp://{place.format(number)}", f"tcp://127.0.0.1:{number + 1}")
        assert f"pid {first.pid}" in message
        assert f"`rigctl stop --state {tmp_path}`" in message
        assert free(f"modbus_tcp://127.0.0.1:{number + 1}")


@pytest.mark.slow
def test_all_buses_that_are_held_are_named_and_a_serial_port_is_one_through_every_link(tmp_path, port):
    """A link to it, another baud rate, another protocol; buses that could be had are let go again."""
    number, link = own_port(), tmp_path / "acid"
    link.symlink_to(port)
    server = f"modbus_tcp://127.0.0.1:{number}"
    with another(tmp_path, server, f"serial://{port}"):
        asked = (server, f"modbus_rtu://{link}?baud=2400")
        message = refused(*asked, f"tcp://127.0.0.1:{number + 1}")
        assert server in message
        assert str(link) in message
        assert free(f"tcp://127.0.0.1:{number + 1}")


@pytest.mark.slow
def test_the_kernel_lets_go_when_the_holder_is_killed(tmp_path):
    """No file to clean up, and none that could be deleted under a holder."""
    url = f"modbus_tcp://127.0.0.1:{own_port()}"
    with another(tmp_path, url) as first:
        refused(url)
        (tmp_path / "journal.sqlite").unlink()
        assert f"pid {first.pid}" in refused(url)
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert free(url)


@pytest.mark.slow
def test_default_ports_and_unknown_places(tmp_path):
    """502 need not be written; what leads nowhere that is known is not locked."""
    with another(tmp_path, "modbus_tcp://192.0.2.7", "rtu_tcp://192.0.2.8", "fake://pump", "serial:///no/such/port"):
        assert "192.0.2.7" in refused("modbus_tcp://192.0.2.7:502")
        assert "192.0.2.8" in refused("rtu_tcp://192.0.2.8:502")
        assert free("fake://pump", "serial:///no/such/port")


def test_without_an_abstract_namespace_a_file_does_the_same(tmp_path, monkeypatch):
    """The lock is one of the kernel's too, so it ends with its holder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(lock.tempfile, "tempdir", None)
    monkeypatch.setattr(lock.socket.socket, "bind", no_abstract_namespace, raising=False)
    url = f"tcp://127.0.0.1:{own_port()}"
    with bus_locks([url]):
        assert f"pid {os.getpid()}" in refused(url)
    assert free(url)


def no_abstract_namespace(*_):
    raise OSError(2, "No such file or directory")


def test_a_trap_in_the_temporary_directory_is_not_stepped_into(tmp_path, monkeypatch):
    """Where a file has to do: one that leads elsewhere is somebody's, and the bus counts as held."""
    victim = tmp_path / "precious"
    victim.write_text("kept")
    (tmp_path / "rigctl-bus-x").symlink_to(victim)
    monkeypatch.setattr(lock.tempfile, "gettempdir", lambda: str(tmp_path))
    with ExitStack() as held:
        assert lock._take_file(held, "rigctl-bus-x") == 0
    assert victim.read_text() == "kept"


def test_who_holds_a_lock_is_found_though_a_list_lacks_it(tmp_path, monkeypatch):
    """Linux lists locks in parts, and one that is held all the time was missing in 2 of 49,405 looks."""
    with (tmp_path / "lock").open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        looks = iter(["", lock.LOCKS.read_text(encoding="ascii")])
        monkeypatch.setattr(lock, "LOCKS", SimpleNamespace(read_text=lambda **_: next(looks)))
        assert lock._locker(held.fileno()) == str(os.getpid())
