"""Serial ports of the real stack, wanted by programs that know of no locks."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drivers.test_byte_line import INTRUDE, USE
from tests.system.stack import greenhouse, next_trial

pytestmark = pytest.mark.system

PORTS = ("ca", "acid", "ph", "cam", "mains")


@pytest.fixture(scope="module")
def campaign_config(tmp_path_factory):
    """Valves only: no dose is asked for by rigctl."""
    return greenhouse(tmp_path_factory.mktemp("config") / "rig.yaml")


def test_fault_66_a_port_of_a_running_campaign_is_shut(sim, campaign):
    """While a campaign runs nobody but root can open its serial ports, and so start a dose; afterwards anybody can."""
    ports = [Path(sim.path(bus)).resolve() for bus in PORTS]
    for port in ports:  # the simulated ports belong to the user who made them: without this they were shut anyway
        port.chmod(0o666)
    assert [intrude(port) for port in ports] == [errno.EBUSY] * len(ports)
    next_trial(campaign, "RECORDED")
    campaign.end()
    assert [intrude(port) for port in ports] == [0] * len(ports)


def test_fault_66_a_port_in_use_without_a_lock_is_refused(sim, stack, tmp_path):
    """A program that opened a port before, without a lock, is named, and nothing starts."""
    with subprocess.Popen(
        [sys.executable, "-c", USE, sim.path("ca")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"open\n"
        run = stack.run(greenhouse(tmp_path / "rig.yaml"), tmp_path / "state")
        assert run.wait() == 4
        user.communicate()
    assert run.error["kind"] == "PortHeld"
    assert f"pid {user.pid}" in run.error["what"]


def test_a_port_left_by_a_killed_campaign_is_free_again(sim, stack, tmp_path):
    """Kill -9 leaves no port shut for whoever comes next."""
    port = Path(sim.path("ca")).resolve()
    run = stack.run(greenhouse(tmp_path / "rig.yaml"), tmp_path / "state")
    next_trial(run, "RECORDED")
    port.chmod(0o666)
    run.kill()
    assert sim.wait_for(lambda _: intrude(port) == 0, "an open port")


def intrude(port: Path) -> int:
    """What becomes of opening a port as nobody, without a lock: 0, or the error's number."""
    return subprocess.run([sys.executable, "-c", INTRUDE, str(port)], check=False, timeout=120).returncode
