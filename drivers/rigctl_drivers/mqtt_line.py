"""A connection to an MQTT broker as a line of messages; the only module that knows paho-mqtt.

`mqtt://host:1883` or, encrypted, `mqtts://host:8883`, with `user`, `password_file` (or the environment variable
RIGCTL_MQTT_PASSWORD), `ca` (file), `client` (a name of one's own, where the broker's access list asks for one) and
`quiet` (silence after a question without an answer, wall seconds).

MQTT 5: the broker says why it hangs up, and whether anybody follows a topic. Nothing is published so that it is kept,
and nothing is sent again: a command that is delivered later is one that nobody wants any more.
"""

from __future__ import annotations

import importlib.util
import math
import os
import secrets
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from rigctl.errors import DeviceFault, DeviceTimeout, PortUnavailable
from rigctl.flaws import Flaw
from rigctl.rig.clocks import Clock
from rigctl.rig.messages import Follow, Message, MessageLine
from rigctl.rig.protocols import PEEK_S, Deadline
from rigctl_drivers.urls import Convert, LineUrl, positive
from rigctl_drivers.wire import LineLost

if TYPE_CHECKING:
    from paho.mqtt.client import Client

PORTS = MappingProxyType({"mqtt": 1883, "mqtts": 8883})
PASSWORD = "RIGCTL_MQTT_PASSWORD"  # noqa: S105 - where it is, not what it is
QUIET_S = 0.5
OPENING_S = 2.0
"""For reaching the broker, and again for its answers; a bus waits for no longer."""
KEEPALIVE_S = 5
"""A broker that is silent for so long is lost."""
REMEMBERED = 64
"""Messages of one topic."""
NOBODY = 0x10
"""Reason code of MQTT 5 (2.4): no matching subscribers."""
OPTIONS: Mapping[str, Convert] = MappingProxyType(
    {"user": str, "password_file": Path, "ca": Path, "client": str, "quiet": positive}
)

T = TypeVar("T")


def open_mqtt(url: str, clock: Clock) -> MqttLine:
    scheme, _, rest = url.partition("://")
    if "@" in rest.partition("?")[0]:
        remedy = f"write user=NAME&password_file=PATH behind a ?, or set {PASSWORD}"
        raise ValueError(Flaw("holds a password, which would be copied into the journal", "", remedy, where=scheme))
    if importlib.util.find_spec("paho") is None:
        raise ValueError(Flaw("needs paho-mqtt", "", "`pip install 'rigctl[mqtt]'`", where=url))
    return MqttLine(LineUrl.parse(url, OPTIONS), clock)


class MqttLine(MessageLine):
    """One connection; paho's thread receives, the bus's thread asks."""

    def __init__(self, where: LineUrl, clock: Clock) -> None:
        self.url = where.text
        self.clock = clock
        self.me = where.options.get("client") or f"rigctl-{secrets.token_hex(6)}"
        self._where = where
        self._address = where.host_port(PORTS[where.scheme])
        self._client: Client | None = None
        self._topics: dict[str, Follow] = {}
        self._changed = threading.Condition()
        """Guards what follows, which both threads use."""
        self._messages: defaultdict[str, deque[Message]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self._acknowledged: dict[tuple[str, int], int] = {}
        """Reason codes of the broker's answers, by kind of question and its number."""
        self._gone = "it was not opened"
        """Why the broker is not there; empty: it is."""
        self._renewed = False
        self._quiet_until_s = 0.0

    # as a line ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.close()
        client, (host, port) = self._made(), self._address
        try:
            client.connect(host, port, KEEPALIVE_S)
        except OSError as problem:
            why = problem.strerror or str(problem) or "no answer"
            what = f"no broker at {host} port {port} ({why}); does it run, and listen to this machine?"
            raise PortUnavailable(what, bus=self.url) from problem
        with self._changed:
            self._client, self._gone = client, ""
            self._acknowledged.clear()
        client.loop_start()
        until = Deadline.after(OPENING_S)
        self._expect("connect", 0, until, "the broker refuses the connection")
        for topic in self._topics:
            self._expect(
                "subscribe", self._subscribe(client, topic), until, f"the broker does not let us follow {topic}"
            )

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.on_disconnect = None
            client.disconnect()
            client.loop_stop()
        with self._changed:
            self._gone = self._gone or "it was closed"

    def resync(self) -> None:
        self.settle(Deadline(math.inf))

    def settle(self, deadline: Deadline, *, command: bool = False) -> bool:
        until = Deadline(min(self._quiet_until_s, deadline.at_s), deadline.hurry)
        while until.remaining_s and not command:
            time.sleep(min(until.remaining_s, PEEK_S))
        return command or time.monotonic() >= self._quiet_until_s

    def press_on(self) -> None:
        """Do nothing: what arrived before a question is never taken for its answer."""

    def quiet_for_s(self, *, pressed_on: bool) -> float:
        return 0.0 if pressed_on else float(self._where.options.get("quiet", QUIET_S))

    def is_lost(self) -> bool:
        """Tell whether a device came or went, or the broker is not the connection any more: it is opened then.

        Raises `PortUnavailable`.
        """
        with self._changed:
            lost, self._renewed = bool(self._gone) or self._renewed, False
        if self._gone:
            self.open()
        return lost

    # messages -----------------------------------------------------------------------------------------------------

    def follow(self, topic: str, what: Follow = "all") -> None:
        self._topics[topic] = max(what, self._topics.get(topic, what), key=("kept", "all", "renews").index)
        if self._client is not None and not self._gone:
            self._subscribe(self._client, topic)

    def _subscribe(self, client: Client, topic: str) -> int:
        """Begin to follow; the broker sends what it keeps by now before it hears that no more is wanted."""
        with self._changed:
            said = self._messages[topic]
            self._messages[topic] = deque((m for m in said if not m.kept), REMEMBERED)
        number = client.subscribe(topic, qos=1)[1]
        if self._topics[topic] == "kept":  # who follows a topic hides from the broker that nobody else does
            client.unsubscribe(topic)
        return number or 0

    def publish(self, topic: str, payload: bytes, deadline: Deadline) -> None:
        if self._client is None or self._gone:
            raise self._lost()
        number = self._client.publish(topic, payload, qos=1).mid
        code = self._come(lambda: self._acknowledged.pop(("publish", number), None), deadline)
        if code is None:
            raise DeviceTimeout(f"the broker did not take {topic} in time", bus=self.url)
        if code == NOBODY:
            raise DeviceTimeout(f"nobody at the broker follows {topic}; is it on, is its name right?", bus=self.url)
        if code >= 0x80:
            raise DeviceFault(f"the broker refuses {topic} (reason {code:#x}); look at its access list", bus=self.url)

    def arrivals(self, topic: str, since_s: float, deadline: Deadline, *, kept: bool = False) -> Sequence[Message]:
        waits = deadline.remaining_s > 0

        def come() -> tuple[Message, ...] | None:
            return tuple(m for m in self._messages[topic] if m.at_s > since_s and m.kept <= kept) or None

        found = self._come(come, deadline)
        if found is None:
            if waits:  # else nothing was expected: somebody only looked whether there is something
                self._quiet_until_s = time.monotonic() + self.quiet_for_s(pressed_on=False)
            raise DeviceTimeout(f"nothing came on {topic} in time", bus=self.url)
        return found

    def _come(self, find: Callable[[], T | None], deadline: Deadline) -> T | None:
        """Return what `find` finds, or nothing once time is up. Raises `LineLost`."""
        with self._changed:
            found = find()
            while found is None:
                if self._gone:
                    raise self._lost()
                left_s = deadline.remaining_s
                if not left_s:
                    return None
                self._changed.wait(min(left_s, PEEK_S))
                found = find()
            return found

    def _lost(self) -> LineLost:
        return LineLost(f"the broker is gone ({self._gone}); whether anything was carried out is unknown", bus=self.url)

    # opening ------------------------------------------------------------------------------------------------------

    def _made(self) -> Client:
        from paho.mqtt import client as paho  # noqa: PLC0415 - an extra; only where a broker is really spoken to
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion  # noqa: PLC0415 - as above

        version = MQTTProtocolVersion.MQTTv5
        client = paho.Client(CallbackAPIVersion.VERSION2, self.me, protocol=version, reconnect_on_failure=False)
        client.connect_timeout = OPENING_S
        o = self._where.options
        if "user" in o or "password_file" in o:
            client.username_pw_set(o.get("user", ""), self._password(o.get("password_file")))
        if self._where.scheme == "mqtts":
            client.tls_set(str(o["ca"]) if "ca" in o else None)
        client.on_connect = lambda _client, _data, _flags, code, _more: self._acknowledge("connect", 0, code.value)
        client.on_subscribe = lambda _client, _data, number, codes, _more: self._acknowledge(
            "subscribe", number, codes[0].value
        )
        client.on_publish = lambda _client, _data, number, code, _more: self._acknowledge("publish", number, code.value)
        client.on_disconnect = lambda _client, _data, flags, code, _more: self._hung_up(
            str(code) if flags.is_disconnect_packet_from_server else "the connection broke"
        )
        client.on_message = lambda _client, _data, message: self._heard(message)
        return client

    def _password(self, file: Path | None) -> str | None:
        if file is None:
            return os.environ.get(PASSWORD)
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise PortUnavailable(f"password_file {file} cannot be read ({problem})", bus=self.url) from problem

    def _expect(self, kind: str, number: int, until: Deadline, otherwise: str) -> None:
        """Wait for the broker's answer to a question of ours while opening. Raises `PortUnavailable`."""
        try:
            code = self._come(lambda: self._acknowledged.pop((kind, number), None), until)
        except LineLost as lost:
            raise PortUnavailable(f"{otherwise}: {lost.what}", bus=self.url) from lost
        if code is None or code >= 0x80:
            why = "no answer" if code is None else f"reason {code:#x}; look at user, password and access list"
            raise PortUnavailable(f"{otherwise} ({why})", bus=self.url)

    # in paho's thread ---------------------------------------------------------------------------------------------

    def _acknowledge(self, kind: str, number: int, code: int) -> None:
        with self._changed:
            self._acknowledged[kind, number] = code
            self._changed.notify_all()

    def _hung_up(self, why: str) -> None:
        if "client" in self._where.options:  # no other could have a name that we made up
            why = f"{why}; has another client connected as {self.me}? each needs a name of its own"
        with self._changed:
            self._gone = self._gone or why
            self._changed.notify_all()

    def _heard(self, message: Any) -> None:
        kept = bool(message.retain)
        with self._changed:
            self._messages[message.topic].append(Message(message.topic, message.payload, time.monotonic(), kept))
            self._renewed = self._renewed or (self._topics.get(message.topic) == "renews" and not kept)
            self._changed.notify_all()
