"""What the service manager is told, over a socket that a fake one listens on."""

import re
import socket

from rigctl.campaign import safe_file, watchman
from rigctl.campaign.desk import MOST_ROUNDS, ServiceManager, notify
from tests.campaign.fakes import make_spec


async def test_the_service_manager_is_told(stage, tmp_path, monkeypatch):
    """READY once everything is safe, WATCHDOG from the tick alone, STOPPING at the end; around them more time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        looks = []

        async def looking(self):
            looks.append(self)
            self.alive()

        monkeypatch.setattr(watchman.Watchman, "run", looking)

        def look():
            looks[0].alive()

        await stage.run(make_spec(max_trials=1), fail={"measure": look, "close": look})
        manager.setblocking(False)
        told = received(manager)
    more = "EXTEND_TIMEOUT_USEC=30000000"
    assert told == [
        *("WATCHDOG=1", more, "STATUS=starting"),
        "READY=1",
        *("WATCHDOG=1", told[5]),
        "STOPPING=1",
        *("WATCHDOG=1", more, told[-1]),
    ]
    assert told[5].startswith("STATUS=running; trial 1; 0.00 ")
    assert re.match(r"STATUS=running; 0\.\d\d ", told[-1])


async def test_fault_116_a_start_that_holds_is_ready(stage, tmp_path, monkeypatch):
    """The service manager does not end it for taking too long: it tries on."""
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        ready = []
        fail = {"safe": lambda: ready.append("READY=1" in received(manager))}
        await stage.run(make_spec(max_trials=1), fail=fail, unsafe=[{"valve": "stuck"}] * 2)
    assert ready[:3] == [False, True, False]


def received(manager):
    """All that has come, in order."""
    told = []
    while True:
        try:
            told.append(manager.recv(4096).decode())
        except BlockingIOError:
            return told


def test_more_time_is_not_asked_for_without_end(tmp_path):
    """A start that looks on for ever without becoming ready is left to the service manager's limit."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        manager = ServiceManager(20.0, {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        asked = 0
        for _ in range(MOST_ROUNDS + 5):
            manager.looked("starting")
            asked += sum(message == "EXTEND_TIMEOUT_USEC=60000000" for message in received(listening))
    assert asked == MOST_ROUNDS


def test_without_a_service_manager_nothing_is_sent(tmp_path):
    """No address, or nobody listening there, is no error."""
    addresses = [{}, {"NOTIFY_SOCKET": str(tmp_path / "nobody")}, {"NOTIFY_SOCKET": "@nobody"}]
    assert [notify("READY=1", environment) for environment in addresses] == [False] * 3
