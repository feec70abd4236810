import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import minimalmodbus
import pytest
import serial

from tests.forked import run
from tests.sim_rig.fakes import ask, serial_port
from tests.simulated import start_sim


def command(directory, *more):
    return [sys.executable, "-m", "sim_rig", "greenhouse", "--dir", str(directory), "--speed", "2400", *more]


@pytest.mark.slow
def test_the_ready_file_says_where_everything_is(tmp_path):
    """Once everything listens one line and the ready file tell process, speed and every bus by its configured name."""
    ready = tmp_path / "ready.json"
    process = subprocess.Popen(command(tmp_path / "sim", "--ready", str(ready)), stdout=subprocess.PIPE, text=True)
    with process:
        said = json.loads(process.stdout.readline())
        assert json.loads(ready.read_text(encoding="utf-8")) == said
        assert (said["pid"], said["speed"]) == (process.pid, 2400.0)
        assert list(said["buses"]) == ["plc", "mains", "ph", "ca", "acid", "cam"]
        assert said["buses"]["mains"] == f"modbus_rtu://{tmp_path}/sim/mains?baud=2400"
        assert said["buses"]["ca"] == f"serial://{tmp_path}/sim/ca_pump"
        process.terminate()
    assert process.returncode == 0
    assert not ready.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly(tmp_path, number):
    """On a signal every link and socket is removed and the exit code is 0."""
    rig = start_sim("greenhouse", tmp_path)
    rig.process.send_signal(number)
    assert rig.process.wait(120) == 0
    assert list(rig.directory.iterdir()) == []
    assert rig.process.stderr.read() == ""
    rig.stop()


def test_it_ends_with_its_parent(tmp_path):
    """A rig started with --with-parent is gone once that process is."""
    starter = (
        "import os, subprocess, sys; p = subprocess.Popen([*sys.argv[1:], '--with-parent', str(os.getpid())], "
        "stdout=subprocess.PIPE, text=True); print(p.stdout.readline()); "
    )
    read, write = os.pipe()
    with os.fdopen(read) as pipe:
        subprocess.run(
            [sys.executable, "-c", starter, *command(tmp_path / "sim")], stdout=write, pass_fds=[write], check=True
        )
        os.close(write)
        pid = json.loads(pipe.readline())["pid"]
    watch = os.pidfd_open(pid) if Path(f"/proc/{pid}").exists() else None
    if watch is not None:
        assert select.select([watch], [], [], 10.0)[0], "the rig outlived its parent"
        os.close(watch)
    assert not (tmp_path / "sim" / "ph").is_symlink()


def test_a_taken_port_is_an_error_that_names_it(tmp_path):
    """A rig that cannot listen says so, exits 1 and leaves nothing behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run(["sim_rig", "greenhouse", "--dir", tmp_path / "sim", "--port", port])
    assert done.returncode == 1
    assert f"--port {port}" in done.stderr
    assert list((tmp_path / "sim").iterdir()) == []


def test_it_listens_on_loopback_only(greenhouse):
    """Nobody outside this machine can drive the rig."""
    host, port = greenhouse.plc
    assert host == "127.0.0.1"
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", port), timeout=120):
        pass


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["garden", "--dir", "x"], "garden"), (["lathe", "--dir", "x", "--speed", "0"], "--speed"), (["lathe"], "--dir")],
)
def test_wrong_usage_exits_2(arguments, complaint):
    """A wrong command line is refused with its reason."""
    done = run(["sim_rig", *arguments])
    assert done.returncode == 2
    assert complaint in done.stderr


def test_the_tunnel_needs_its_data(tmp_path):
    """Without arrays the wind tunnel says which file is missing and how to name it."""
    done = run(["sim_rig", "wind-tunnel", "--dir", tmp_path])
    assert done.returncode == 1
    assert "airfoil.npz" in done.stderr
    assert "--data" in done.stderr


def test_a_link_left_by_a_dead_rig_is_replaced(tmp_path):
    """After a kill -9 the next rig takes over the names."""
    first = start_sim("greenhouse", tmp_path)
    first.process.kill()
    first.process.wait()
    stale = (first.directory / "ph").readlink()
    second = start_sim("greenhouse", tmp_path)
    try:
        with serial_port(second.path("ph")) as port:
            assert "?I,pH,SIM2.14" in ask(port, "i")
        assert stale.is_relative_to("/dev/pts")
    finally:
        second.stop()
        first.stop()


def test_a_port_can_be_unplugged_and_replugged(greenhouse):
    """Unplugged, an open port hangs up and its name is gone; replugged, the same name answers."""
    with serial_port(greenhouse.path("acid")) as port:
        greenhouse.control({"fault": "unplug", "bus": "acid"})
        assert not os.path.lexists(greenhouse.path("acid"))
        with pytest.raises(serial.SerialException):
            port.read(1)
    assert not greenhouse.ask({"fault": "unplug", "bus": "plc"})["ok"]
    greenhouse.control({"fault": "replug", "bus": "acid"})
    with serial_port(greenhouse.path("acid")) as port:
        assert ask(port, "i") == ["?I,PMP,SIM1.06", "*OK"]


def test_faults_reach_the_wire(greenhouse):
    """Wire, sensor, identity, pump and meter faults asked for on the socket appear where they should, and clear."""
    with serial_port(greenhouse.path("ca")) as pump:
        greenhouse.control({"fault": "identity", "bus": "ca", "as": "?I,EC,2.10"})
        assert ask(pump, "i")[0] == "?I,EC,2.10"
        greenhouse.control({"fault": "drop_reply", "bus": "ca", "count": 1})
        pump.write(b"TV,?\r")
        assert ask(pump, "DC,?") == ["?MAXRATE,58.5", "*OK"]
        greenhouse.control({"fault": "pump", "bus": "ca", "unpowered": True})
        assert ask(pump, "D,5") == ["*UV,PUMPPWR,0.00", "*ER"]
        greenhouse.control({"fault": "dstart", "bus": "ca", "ml": 3})
        assert ask(pump, "Dstart,?")[0] == "?DSTART,3.00"
        greenhouse.control({"clear": True})
        assert ask(pump, "i")[0] == "?I,PMP,SIM1.06"
        assert ask(pump, "Dstart,?")[0] == "?DSTART,0.00"
        greenhouse.control({"fault": "pump_reset", "bus": "ca"})
        assert pump.read_until(b"*RE\r") == b"*RS\r*RE\r"
    with serial_port(greenhouse.path("cam")) as camera:
        greenhouse.control({"fault": "sensor", "name": "camera", "mode": "nan"})
        camera.write(b"MEAS:GROW?\n")
        assert float(camera.read_until(b"\n")) == 9.91e37


def test_a_tcp_reset_hits_after_the_write_was_done(greenhouse):
    """The connection is reset in place of a reply; the write has happened, and is on record once."""
    frame = bytes.fromhex("0001 0000 0006 01 05 0001 ff00")
    before = len(greenhouse.state()["writes"]["plc"])
    greenhouse.control({"fault": "reset", "bus": "plc"})
    with socket.create_connection(greenhouse.plc, timeout=120) as client:
        client.sendall(frame)
        with pytest.raises(ConnectionResetError):
            client.recv(64)
    state = greenhouse.state()
    assert state["plant"]["alkaliser"] is True
    assert len(state["writes"]["plc"]) == before + 1
    with socket.create_connection(greenhouse.plc, timeout=120) as client:
        client.sendall(frame.replace(b"\xff\x00", b"\x00\x00"))
        assert client.recv(64) == frame.replace(b"\xff\x00", b"\x00\x00")


def test_a_half_open_connection_is_silent(greenhouse):
    """Deaf, the PLC takes connections and answers nothing."""
    frame = bytes.fromhex("0001 0000 0006 01 01 0000 0001")
    with socket.create_connection(greenhouse.plc, timeout=120) as client:
        greenhouse.control({"fault": "half_open"})
        client.sendall(frame)
        assert select.select([client], [], [], 0.05)[0] == []
        greenhouse.control({"clear": True})
        client.sendall(frame)
        assert client.recv(64)[:2] == b"\x00\x01"


def test_energy_faults_reach_the_meter_only(tmp_path):
    """A change of unit, a word swap and a counter reset alter what the meter shows, not what was consumed."""
    greenhouse = start_sim("greenhouse", tmp_path)
    consumed = greenhouse.state()["metered"]["energy_kwh"]
    meter = minimalmodbus.Instrument(greenhouse.path("mains"), 1)
    meter.serial.baudrate, meter.serial.timeout = 19200, 5
    greenhouse.control({"fault": "energy_unit", "as": "MWh"})
    assert meter.read_float(0x48, 4) == pytest.approx(consumed / 1000.0, rel=1e-2)
    greenhouse.control({"fault": "word_swap", "bus": "mains"})
    assert meter.read_float(0x00, 4) != 230.0
    greenhouse.control({"clear": True})
    greenhouse.control({"fault": "energy_reset"})
    assert meter.read_float(0x48, 4) < 1.0
    assert greenhouse.state()["metered"]["energy_kwh"] >= consumed
    meter.serial.close()
    greenhouse.stop()


@pytest.mark.parametrize(
    "request_",
    [
        {"fault": "gremlins"},
        {"fault": "delay", "bus": "phone"},
        {"fault": "exception", "bus": "ph"},
        {"fault": "reset", "bus": "mains"},
        {"fault": "sensor", "name": "camera", "mode": "drunk"},
        {"fault": "pump", "bus": "ca"},
        {"fault": "delay", "bus": "plc", "seconds": "long"},
        {"fault": "delay", "bus": "plc", "count": 0},
        {"fault": "delay", "bus": "plc", "secnds": 1},
        {"fault": "energy_unit", "as": "BTU"},
        {"fault": "replug", "bus": "ph"},
        {},
    ],
    ids=str,
)
def test_what_the_desk_does_not_understand_is_refused(greenhouse, request_):
    """A request that makes no sense is answered with its reason and changes nothing."""
    answer = greenhouse.ask(request_)
    assert answer["ok"] is False
    assert answer["error"]
