"""Looking who is at a port or host: listened to first, then asked in one protocol after the other, read-only.

What may be sent to whom, and why in this order, is said where it is sent (`rigctl_drivers.searching`); here is on which
lines, at which settings, and for how long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Final

from rigctl.errors import BrokenPlugin, DeviceError, DeviceTimeout, PortUnavailable
from rigctl.flaws import got
from rigctl.rig.clocks import Clock
from rigctl.rig.places import host_and_port, is_on_network, stable_name
from rigctl.rig.protocols import ByteLine, Deadline, Driver, Found
from rigctl.rig.registry import Registry

TEXT_BAUDS: Final = (9600, 115200)
MODBUS_FRAMES: Final = ("baud=9600", "baud=19200&parity=E", "baud=2400", "baud=19200")
"""What most units come with: 9600 8N1, the standard's 19200 8E1, 2400 8N1 of small meters, 19200 8N1."""
LISTEN_S: Final = 1.2
"""Rig seconds: an EZO circuit as shipped speaks every second."""
LEAST_S: Final = 0.25
"""Wall seconds of listening, however fast rig time runs."""
MOST_HEARD: Final = 100_000
"""Bytes; who speaks more than that is known well enough."""
GLITCH: Final = 2
"""Bytes that a port may have heard merely from being opened."""
QUIET: Final = "quiet=0.2"
"""Wall seconds of silence after a question that nobody answered."""
LINE_S: Final = 25.0
"""The most that one line at one setting may take, wall seconds."""
PORTS: Final = {"502": ("modbus_tcp",), "5025": ("tcp",)}
"""Ports whose protocol is known; on others all are tried, Modbus first, which no text instrument mistakes."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What came of looking at one place."""

    place: str
    """As it was given."""
    url: str = ""
    """Where somebody answered."""
    found: Sequence[Found] = ()
    remark: str = ""
    """Why nobody was found, or asked."""


def urls_of(place: str) -> tuple[str, ...]:
    """Return the URLs at which to look, in order: of a URL itself, a serial port or a host.

    Raises:
        ValueError: it is none of them.
    """
    if "://" in place:
        return (place,)
    port = Path("/dev") / place if (Path("/dev") / place).exists() and "/" not in place else Path(place)
    if port.name.startswith("i2c-"):
        return (f"i2c://{port}",)
    if "/" in place or port.exists():
        stable = stable_name(f"serial://{port}") or str(port)
        text = tuple(f"serial://{stable}?baud={baud}" for baud in TEXT_BAUDS)
        return text + tuple(f"modbus_rtu://{stable}?{frame}" for frame in MODBUS_FRAMES)
    host, number = host_and_port(place, "")
    if not host or (number and not number.isdigit()):
        raise ValueError(got(place, "must be a serial port, a host, host:port or a URL such as serial:///dev/ttyUSB0"))
    if not number:
        return tuple(f"{scheme}://{host}:{port}" for port, schemes in PORTS.items() for scheme in schemes)
    return tuple(f"{scheme}://{host}:{number}" for scheme in PORTS.get(number, ("modbus_tcp", "tcp", "rtu_tcp")))


def search(place: str, urls: Sequence[str], units: Sequence[int], registry: Registry, clock: Clock) -> Sighting:
    """Ask at one URL after the other until somebody answers, at most `LINE_S` each."""
    why: list[str] = []
    speaks = ""
    for url in urls:
        if speaks and url.startswith("modbus"):
            break  # whoever speaks text unasked is no Modbus unit
        try:
            heard, found = _ask(url, units, registry, clock)
        except (PortUnavailable, ValueError) as problem:
            why.append(str(problem))
            if not is_on_network(url):
                break  # the same port at another setting
            continue
        except DeviceError as problem:
            why.append(str(problem))
            continue
        if found:
            return Sighting(place, url, found)
        if heard and _binary(heard):
            return Sighting(place, remark=f"somebody speaks there already ({_shown(heard)}); nothing was sent")
        speaks = _shown(heard) if heard else speaks
    if speaks:
        why.append(f"somebody speaks there unasked ({speaks}), but is none of those known here")
    return Sighting(place, remark="; ".join(dict.fromkeys(why)) or f"nobody answers, asked over {_settings(urls)}")


def _shown(heard: bytes) -> str:
    text = heard[:16].hex(" ") if _binary(heard) else heard[:40].decode("ascii").strip()
    return f"{len(heard)} bytes: {text}"


def _ask(url: str, units: Sequence[int], registry: Registry, clock: Clock) -> tuple[bytes, Sequence[Found]]:
    scheme = url.partition("://")[0]
    hushed = url if scheme in ("modbus_tcp", "i2c") or "quiet=" in url else f"{url}{'&' if '?' in url else '?'}{QUIET}"
    line = registry.open_line(hushed, clock)
    deadline = Deadline.after(LINE_S)
    line.open()
    try:
        heard = _heard(line) if isinstance(line, ByteLine) else b""
        if len(heard) > GLITCH and _binary(heard):
            return heard, ()
        for driver in _lookers(scheme, registry):
            found = driver.search(line, units, deadline)
            if found:
                return heard, found
        return heard if len(heard) > GLITCH else b"", ()
    finally:
        line.close()


def _lookers(scheme: str, registry: Registry) -> Iterator[type[Driver]]:
    """Yield those who can look on such a line, the most cautious question first, each once."""
    known: dict[Callable[..., Sequence[Found]], tuple[int, type[Driver]]] = {}
    for name in registry.drivers:
        with suppress(BrokenPlugin):
            driver = registry.driver(name)
            if driver.search_rank is not None and scheme in driver.schemes:
                known.setdefault(driver.search, (driver.search_rank, driver))
    yield from (driver for _, driver in sorted(known.values(), key=itemgetter(0)))


def _heard(line: ByteLine) -> bytes:
    """Listen, and return what came unasked."""
    said, until = bytearray(), Deadline.after(max(LISTEN_S / line.clock.speedup, LEAST_S))
    with suppress(DeviceTimeout):
        while len(said) <= MOST_HEARD:
            said += line.read_line(b"\r", until) + b"\r"
    line.resync()
    return bytes(said) + line.take_dropped()


def _binary(heard: bytes) -> bool:
    return any(byte not in b"\r\n\t" and not 32 <= byte < 127 for byte in heard)


def _settings(urls: Sequence[str]) -> str:
    return ", ".join(url.partition("://")[0] + ("" if "?" not in url else f" {url.partition('?')[2]}") for url in urls)
