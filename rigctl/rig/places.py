"""Where a line's URL really leads: what of it is the same port, under whatever name, and what names it for good."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from rigctl.rig.protocols import Identity

STABLE = (Path("/dev/serial/by-id"), Path("/dev/serial/by-path"))
"""Names of serial ports that survive a replug, the better ones first."""
DEFAULT_PORTS: Final = MappingProxyType({"modbus_tcp": "502", "rtu_tcp": "502", "mqtt": "1883", "mqtts": "8883"})
"""Where a scheme goes if no port is given."""
_LOCALHOST: Final = "localhost"
_LOOPBACK: Final = frozenset({_LOCALHOST, "127.0.0.1", "::1", "::ffff:127.0.0.1"})


@dataclass(frozen=True, slots=True)
class Seen:
    """By what an instrument is known: its model and number, or its port where it has no number. Firmware may change."""

    model: str
    serial: str
    place: str
    """Stable name of its port, where it has no number of its own and the port has such a name."""

    @classmethod
    def at(cls, url: str, found: Identity) -> Seen:
        return cls(found.model, found.serial, "" if found.serial else stable_name(url))

    def __str__(self) -> str:
        return f"{self.model} {self.serial or self.place}".rstrip()


def taken_apart(url: str) -> tuple[str, str]:
    """Take scheme and place of `scheme://place?option=value`."""
    scheme, _, rest = url.partition("://")
    return scheme, unquote(rest.partition("?")[0])


def is_on_network(url: str) -> bool:
    """Tell whether a URL leads to a host, not to a port of this machine."""
    scheme = url.partition("://")[0]
    return "tcp" in scheme or scheme in DEFAULT_PORTS


def line_of(url: str) -> str:
    """Name the wire behind a URL by its text and links: a port by its real path, a socket by host and port."""
    scheme, place = taken_apart(url)
    if not is_on_network(url):
        return os.path.realpath(place)
    host, port = _host_port(scheme, place)
    return f"{_LOCALHOST if host in _LOOPBACK else host}:{port}"


def physical(url: str) -> frozenset[str]:
    """Name what is at the other end, equally for URLs that lead to the same; empty where that is not known.

    Options (baud, quiet) do not count. A host is what its name resolves to.
    """
    scheme, place = taken_apart(url)
    if is_on_network(url):
        host, port = _host_port(scheme, place)
        return frozenset(f"tcp {address} {port}" for address in _addresses(host))
    try:
        found = Path(place).stat()
    except OSError:
        return frozenset()  # it cannot be opened either
    if stat.S_ISCHR(found.st_mode):  # also where two nodes or links lead to it
        return frozenset({f"device {os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"})
    return frozenset({f"file {os.path.realpath(place)}"})


def stable_name(url: str) -> str:
    """Return the name of its port that stays when other ports come and go; empty where there is none.

    A port of this machine's own address is a tunnel or a simulator: its number says nothing.
    """
    scheme, place = taken_apart(url)
    if is_on_network(url):
        host, port = _host_port(scheme, place)
        return "" if host in _LOOPBACK else f"{host}:{port}"
    real = os.path.realpath(place)
    for folder in STABLE:
        for link in sorted(folder.iterdir()) if folder.is_dir() else ():
            if os.path.realpath(link) == real:
                return str(link)
    named_by_a_person = place.startswith("/dev/") and Path(place).is_symlink()
    return place if named_by_a_person else ""


def host_and_port(place: str, default_port: str) -> tuple[str, str]:
    """Take `host:port` apart, IPv6 addresses in brackets."""
    host, separator, port = place.rpartition(":")
    if not separator or port.endswith("]"):
        host, port = place, default_port
    return host.removeprefix("[").removesuffix("]"), port


def _host_port(scheme: str, place: str) -> tuple[str, str]:
    host, port = host_and_port(place, DEFAULT_PORTS.get(scheme, ""))
    return host.lower(), port


def _addresses(host: str) -> frozenset[str]:
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        found = {host}
    return frozenset(_LOCALHOST if address in _LOOPBACK else address for address in found)
