"""The profile of Julabo circulators against a simulated one of others (`pip install julabo sinstruments`)."""

import json
import socket
import subprocess
import sys
import time

import pytest

from rigctl.rig.clocks import RealClock
from rigctl.rig.conformance import check_driver
from rigctl_drivers.ascii_instrument import AsciiDriver
from tests.drivers.pairs import profiles


@pytest.fixture
def circulator(tmp_path):
    """The URL of a CF31 of the package `julabo`, in a process of its own."""
    pytest.importorskip("sinstruments", reason="the simulator is not installed")
    pytest.importorskip("julabo", reason="the simulator is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    device = {"class": "JulaboCF", "package": "julabo.simulator", "name": "cf31"}
    device["transports"] = [{"type": "tcp", "url": f"127.0.0.1:{port}"}]
    (tmp_path / "sim.json").write_text(json.dumps({"devices": [device]}))
    process = subprocess.Popen([sys.executable, "-m", "sinstruments", "-c", str(tmp_path / "sim.json")])
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"tcp://127.0.0.1:{port}?quiet=0.1"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(("quantity", "can"), [("bath", ("Sensor", "Actuator")), ("probe", ("Sensor",))])
def test_it_keeps_every_promise(circulator, quantity, can):
    """Readings, setpoint, start and stop."""
    profile = profiles("julabo")[quantity]
    report = check_driver(AsciiDriver, profile.options, circulator, RealClock(100.0), setpoint=41.5, timeout_s=10.0)
    assert report.abilities == can
