"""Serial ports and sockets as lines of bytes."""

import errno
import fcntl
import os
import socket as socket_module
import struct
import subprocess
import sys
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.errors import DeviceTimeout, GarbledReply, PortHeld, PortUnavailable
from rigctl.rig.clocks import RealClock
from rigctl.rig.protocols import Deadline
from rigctl_drivers.byte_line import TextLine
from rigctl_drivers.port_holder import holder_of, other_user_of
from rigctl_drivers.urls import LineUrl
from tests.drivers.peers import HangUp, PtyPeer, TcpPeer, briefly, cut_lines, patient

CR = b"\r"
HOLD = "import serial, sys; p = serial.Serial(sys.argv[1], exclusive=True); print('held', flush=True); sys.stdin.read()"

USE = "import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); print('open', flush=True); sys.stdin.read()"
"""Opens a port as a program does that knows of no locks."""
INTRUDE = """
import os, sys
if os.getuid() == 0:
    os.setuid(65534)
try:
    os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
except OSError as problem:
    sys.exit(problem.errno)
"""
"""The same as anybody but root, whom the kernel lets open everything."""
TIOCGEXCL = 0x80045440


@pytest.fixture
def echo(peer):
    """A serial port whose other end answers each line with itself, twice."""
    return peer(PtyPeer, cut_lines(CR), lambda request: [request + request])


@pytest.fixture
def serial(line, echo):
    return line(f"serial://{echo.path}?quiet=0.05")


def test_lines_come_one_at_a_time(serial):
    """Two lines that arrive together are read one after the other, without terminators."""
    serial.write(b"abc\r", patient())
    assert serial.read_line(CR, patient()) == b"abc"
    assert serial.read_line(CR, patient()) == b"abc"


def test_a_line_may_have_a_terminator_of_two_bytes(serial, echo):
    """A terminator that arrives in two pieces is found."""
    serial.open()
    echo.say(b"abc\r")
    with pytest.raises(DeviceTimeout):
        serial.read_line(b"\r\n", briefly())
    echo.say(b"\ndef")
    assert serial.read_line(b"\r\n", patient()) == b"abc"


def test_a_partial_line_is_kept(serial, echo, golden):
    """What has come of a line when time is up is named, and belongs to the next call."""
    serial.open()
    echo.say(b"6.0")
    with golden.raises(DeviceTimeout):
        serial.read_line(CR, briefly())
    echo.say(b"21\r")
    assert serial.read_line(CR, patient()) == b"6.021"


def test_resync_drops_what_has_arrived_and_can_say_what(serial, echo):
    """After a timeout, resync forgets partial and late lines; once, they can be asked for."""
    serial.open()
    echo.say(b"half")
    with pytest.raises(DeviceTimeout):
        serial.read_line(CR, briefly())
    echo.say(b" a line\r*RS\r")
    serial.resync()
    assert serial.take_dropped() == b"half a line\r*RS\r"
    assert serial.take_dropped() == b""
    serial.write(b"new\r", patient())
    assert serial.read_line(CR, patient()) == b"new"


def test_a_flood_without_line_ends_is_garbled(line, peer):
    """A line that never ends is given up instead of filling the memory."""
    end = peer(PtyPeer, cut_lines(CR), lambda _: [b"x" * 2000] * 34)
    port = line(f"serial://{end.path}")
    port.write(b"go\r", patient())
    with pytest.raises(GarbledReply, match="terminator"):
        port.read_line(CR, patient())


def test_20_a_port_that_takes_nothing_is_a_timeout(line, peer):
    """A write the port does not take ends at its deadline, saying how far it came."""
    end = peer(PtyPeer, cut_lines(CR), lambda _: [])
    end.stop_thread()
    blocked = line(f"serial://{end.path}")
    with pytest.raises(DeviceTimeout, match=" of 1000000 "):
        blocked.write(b"x" * 1_000_000, briefly())


def test_19_a_port_held_by_another_process_names_the_holder(line, echo):
    """Opening a port that is in use is refused with the holder's pid and name."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(echo.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        for scheme in ("serial", "modbus_rtu"):
            with pytest.raises(PortHeld, match=rf"{echo.path} .*pid {holder.pid} \(python.*\)"):
                line(f"{scheme}://{echo.path}").open()
        holder.stdin.close()


def test_66_a_port_we_hold_cannot_be_opened_by_a_program_that_knows_no_locks(serial, echo):
    """While we have the port, an open() without any lock is refused by the kernel; afterwards it is not."""
    echo.path.chmod(0o666)
    serial.open()
    assert intrude(echo) == errno.EBUSY
    serial.write(b"abc\r", patient())
    assert serial.read_line(CR, patient()) == b"abc"
    serial.close()
    assert intrude(echo) == 0


@pytest.mark.parametrize("scheme", ["serial", "modbus_rtu"])
def test_66_every_serial_port_is_opened_for_us_alone(line, echo, scheme):
    """The terminal is in exclusive mode while we have it, whatever is spoken over it."""
    port = line(f"{scheme}://{echo.path}")
    fd = os.open(echo.path, os.O_RDWR | os.O_NOCTTY)
    assert not exclusive(fd)
    port.open()
    assert exclusive(fd)
    port.close()
    assert not exclusive(fd)
    os.close(fd)


@pytest.mark.parametrize("scheme", ["serial", "modbus_rtu"])
def test_dtr_is_not_dropped_between_two_openings(line, echo, scheme):
    """Else each opening after a silence, and each start, would restart a board that hangs on it."""
    fd = os.open(echo.path, os.O_RDWR | os.O_NOCTTY)
    attributes = termios.tcgetattr(fd)
    attributes[2] |= termios.HUPCL
    termios.tcsetattr(fd, termios.TCSANOW, attributes)
    port = line(f"{scheme}://{echo.path}?baud=250000")
    port.open()
    assert not termios.tcgetattr(fd)[2] & termios.HUPCL
    port.close()
    assert not termios.tcgetattr(fd)[2] & termios.HUPCL
    os.close(fd)


def test_66_a_port_that_another_program_opened_before_us_is_refused(line, echo):
    """A program that has the port open without a lock is named; once it is gone, the port is ours."""
    port = line(f"serial://{echo.path}")
    with subprocess.Popen(
        [sys.executable, "-c", USE, str(echo.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout.readline() == b"open\n"
        with pytest.raises(PortHeld, match=rf"pid {user.pid} \(python.*\)"):
            port.open()
        user.stdin.close()
    port.open()


def test_the_maker_of_a_virtual_port_is_not_in_its_way(tmp_path, echo):
    """Whoever holds the other end of a pseudo-terminal may keep ours open too; anybody else is named."""
    proc = tmp_path / "proc"
    number = echo.path.name
    for pid, other_end in ((4711, number), (4712, f"{number}1")):
        for part in ("fd", "fdinfo"):
            (proc / str(pid) / part).mkdir(parents=True)
        (proc / str(pid) / "fd" / "3").symlink_to(echo.path)
        (proc / str(pid) / "fd" / "4").symlink_to("/dev/ptmx")
        (proc / str(pid) / "fdinfo" / "4").write_text(f"pos:\t0\ntty-index:\t{other_end}\n")
    assert other_user_of(echo.path, proc) == "pid 4712"


def intrude(peer) -> int:
    """What becomes of opening its port without asking for a lock: 0, or the error's number."""
    return subprocess.run([sys.executable, "-c", INTRUDE, str(peer.path)], check=False, timeout=120).returncode


def exclusive(fd) -> bool:
    """Whether a terminal lets nobody else in."""
    return struct.unpack("i", fcntl.ioctl(fd, TIOCGEXCL, struct.pack("i", 0))) != (0,)


def test_a_port_opened_twice_names_ourselves(line, echo, golden):
    """A port that this process has open already is refused, and the message says so."""
    line(f"serial://{echo.path}").open()
    with golden.raises(PortUnavailable):
        line(f"serial://{echo.path}").open()


@pytest.mark.parametrize("made", [False, True], ids=["missing", "a file"])
def test_what_is_no_port_is_unavailable(line, tmp_path, made, golden):
    """It is named, with where to look for the ports that there are."""
    if made:
        (tmp_path / "port").write_text("no port")
    with golden.raises(PortUnavailable):
        line(f"serial://{tmp_path}/port").open()


def test_a_relative_path_counts_from_here(line, echo, tmp_path, monkeypatch):
    """`serial://sim/ph` is the port sim/ph below the current directory; links are followed."""
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "ph").symlink_to(echo.path)
    monkeypatch.chdir(tmp_path)
    here = line("serial://sim/ph")
    here.write(b"hello\r", patient())
    assert here.read_line(CR, patient()) == b"hello"


def test_17_a_port_that_comes_back_is_opened_again(line, peer, tmp_path, golden):
    """After a replug the same URL works again, although the port behind it is another."""
    link = tmp_path / "by-id"
    first = peer(PtyPeer, cut_lines(CR), lambda request: [request])
    link.symlink_to(first.path)
    port = line(f"serial://{link}")
    port.write(b"one\r", patient())
    assert port.read_line(CR, patient()) == b"one"
    second = peer(PtyPeer, cut_lines(CR), lambda request: [request])
    first.stop_thread()
    first.unplug()
    link.unlink()
    link.symlink_to(second.path)
    with golden.raises(DeviceTimeout):
        port.read_line(CR, patient())
    port.write(b"two\r", patient())
    assert port.read_line(CR, patient()) == b"two"


def test_18_a_port_that_is_lost_in_mid_exchange_is_opened_by_the_next_exchange_only(line, peer, tmp_path, golden):
    """What is said in one exchange is said to one instrument; the next one opens the port, and asks who is there."""
    link = tmp_path / "by-id"
    first, second = (peer(PtyPeer, cut_lines(CR), lambda request: [request]) for _ in range(2))
    link.symlink_to(first.path)
    port = line(f"serial://{link}")
    assert port.is_lost()
    port.stay()
    port.write(b"one\r", patient())
    assert port.read_line(CR, patient()) == b"one"
    assert not port.is_lost()
    port.stay()
    first.stop_thread()
    first.unplug()
    link.unlink()
    link.symlink_to(second.path)
    with golden.raises(DeviceTimeout):
        port.read_line(CR, patient())
    with golden.raises(DeviceTimeout):
        port.write(b"two\r", patient())
    assert second.requests == []
    assert port.is_lost()
    port.stay()
    port.write(b"two\r", patient())
    assert port.read_line(CR, patient()) == b"two"


def test_a_socket_carries_lines_and_reconnects(line, peer, golden):
    """A server that hangs up is a lost connection; the next write opens a new one."""
    calls = []

    def answer(request):
        calls.append(request)
        if len(calls) == 2:
            raise HangUp
        return [request]

    end = peer(TcpPeer, cut_lines(b"\n"), answer)
    socket = line(f"tcp://127.0.0.1:{end.port}")
    socket.write(b"a\n", patient())
    assert socket.read_line(b"\n", patient()) == b"a"
    socket.write(b"b\n", patient())
    with golden.raises(DeviceTimeout):
        socket.read_line(b"\n", patient())
    socket.write(b"c\n", patient())
    assert socket.read_line(b"\n", patient()) == b"c"
    assert end.connections == 2


def test_a_holder_that_cannot_be_found_is_left_out(tmp_path, echo):
    """Without a readable /proc the holder is simply not named."""
    assert holder_of(echo.path, proc=tmp_path / "no proc") == ""


def test_a_holder_without_a_lock_is_found_by_its_open_files(tmp_path, echo, golden):
    """A process that has the port open but holds no lock is named too, if nobody holds one."""
    proc = tmp_path / "proc"
    (proc / "4711" / "fd").mkdir(parents=True)
    (proc / "4711" / "fd" / "3").symlink_to(echo.path)
    (proc / "4711" / "comm").write_text("minicom\n")
    (proc / "locks").write_text("1: POSIX  ADVISORY  WRITE 12 00:2e:1 0 EOF\n")
    holder = holder_of(echo.path, proc)
    assert "4711" in holder
    golden(holder)


@given(st.lists(st.binary(max_size=12).filter(lambda b: b"\r" not in b), max_size=6), st.integers(1, 7))
def test_lines_do_not_depend_on_how_their_bytes_arrive(lines, size):
    """However a stream is cut into pieces, the same lines come out, and nothing is left."""
    ours, theirs = socket_module.socketpair()
    ours.setblocking(False)
    port = TextLine(LineUrl.parse("tcp://x:1", {}), RealClock(), lambda _: ours)
    port.open()
    stream = b"".join(text + CR for text in lines)
    found = []
    with theirs:
        for at in range(0, len(stream), size):
            theirs.sendall(stream[at : at + size])
            found += complete_lines(port)
    port.close()
    assert found == lines


def complete_lines(port) -> list[bytes]:
    """The lines that are complete by now."""
    found = []
    try:
        while True:
            found.append(port.read_line(CR, Deadline(0.0)))
    except DeviceTimeout:
        return found


def test_bytes_are_counted_or_end_where_they_are_said_to(serial, echo):
    """`read_bytes` waits for as many as asked, takes no more, and stops behind what may end them."""
    serial.open()
    echo.say(b"#14\r\n\r\nOK\nrest")
    assert serial.read_bytes(3, patient()) == b"#14"
    assert serial.read_bytes(4, patient()) == b"\r\n\r\n"
    assert serial.read_bytes(100, patient(), b"\n") == b"OK\n"
    assert serial.read_bytes(2, patient(), b"s") == b"re"
    with pytest.raises(DeviceTimeout):
        serial.read_bytes(3, briefly(), b"\n")
    assert serial.read_line(b"t", patient()) == b"s"
