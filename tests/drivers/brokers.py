"""Debian's mosquitto, and plugs at it that are processes of their own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paho.mqtt import publish, subscribe

from rigctl.config.profiles import profile_of
from rigctl_drivers.mqtt_device import MqttDriver

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
PLUG = Path(__file__).with_name("plug_apart.py")
LONG_S = 20.0


def options(profile: str, **device) -> dict:
    """What a device's section stands for, with this profile."""
    return {**profile_of(MqttDriver, profile, Path()).options, **device}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Broker:
    """A broker of a test's own; `more` goes into its configuration."""

    def __init__(self, folder: Path, *more: str) -> None:
        if MOSQUITTO is None:
            pytest.skip("mosquitto is missing: apt-get install mosquitto")
        self.port, self.plugs, self.process = free_port(), [], None
        self.config = folder / "mosquitto.conf"
        lines = [
            f"listener {self.port} 127.0.0.1",
            "persistence false",
            "user root",
            *(more or ("allow_anonymous true",)),
        ]
        self.config.write_text("\n".join(lines) + "\n")
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", self.config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually(self._answers)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def plug(self, kind: str, name: str, mac: str = "AA:BB:CC:00:00:01") -> Plug:
        self.plugs.append(Plug(self, kind, name, mac))
        return self.plugs[-1]

    def close(self) -> None:
        for plug in self.plugs:
            plug.close()
        self.stop()

    def say(self, topic: str, payload: str, *, kept: bool = False) -> None:
        publish.single(topic, payload, qos=1, retain=kept, hostname="127.0.0.1", port=self.port)

    def last(self, topic: str) -> str:
        """Return what the broker keeps for a topic."""
        return subscribe.simple(topic, hostname="127.0.0.1", port=self.port).payload.decode()


class Plug:
    """A plug apart, and what is done to it."""

    def __init__(self, broker: Broker, kind: str, name: str, mac: str) -> None:
        self.broker, self.name = broker, name
        command = [sys.executable, str(PLUG), kind, str(broker.port), name, mac]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.is_(commands=0)

    def does(self, what: str) -> None:
        self.broker.say(f"bench/{self.name}", what)

    @property
    def state(self) -> dict:
        return json.loads(self.broker.last(f"bench/{self.name}/is"))

    def is_(self, **wanted) -> None:
        """Wait until it is in this state."""
        eventually(lambda: {key: self.state[key] for key in wanted} == wanted)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def eventually(holds) -> None:
    until_s = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < until_s, "it never came to that"
        time.sleep(0.05)
