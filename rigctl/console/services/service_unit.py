"""A systemd unit that runs a campaign: written from its configuration, so that nothing in it is guessed.

What it may touch is what the configuration names: its serial ports, its hosts, one directory. Where systemd could
forbid more but something of ours would break, the unit says so in a comment.
"""

from __future__ import annotations

import math
import os
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from rigctl.errors import UsageError
from rigctl.flaws import Flaw
from rigctl.rig.places import host_and_port, is_on_network, stable_name, taken_apart
from rigctl.rig.values import SafeTimes

WATCHDOG_S: Final = 30.0
"""Without a completed look for so long a process hangs: a look that is 10 s late holds the campaign already."""
MISSED_ROUNDS: Final = 3
"""Or as many in a row, where looks are rare."""
STARTING_S: Final = 180.0
STOPPING_S: Final = 180.0
"""Wall seconds for what a slow board does besides making everything safe: to import, to check and close the journal;
and for what `ExecStopPost=`, which cannot ask for more, tries again while an instrument refuses to be made safe."""
HOMES: Final = ("/home", "/root", "/run/user")
TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108  # where nothing is written; only looked for
_UNESCAPED: Final = frozenset(string.ascii_letters + string.digits + ":_.")
KEPT: Final = 30
"""Backups, so a month of them."""


@dataclass(frozen=True, slots=True)
class Service:
    """Says all that a unit depends on."""

    rig: str
    config: Path
    state: Path | None
    """None: where systemd keeps the state of services."""
    command: tuple[str, ...]
    """How rigctl is started."""
    options: tuple[str, ...]
    """What the verb is given besides."""
    account: str
    """Who it runs as; empty: the person whose own service manager starts it."""
    urls: tuple[str, ...]
    """Of the lines, each once."""
    speaks_out: bool
    """Whether it is to reach others than its instruments: notifications, a ping."""
    times: SafeTimes
    watch_every_s: float
    """Wall seconds between two looks of the watch."""
    needed: tuple[Path, ...] = ()
    """What must be readable besides the configuration: the program."""
    written: tuple[Path, ...] = ()
    """Directories besides the state's that files are written into."""
    verb: Literal["run", "operate"] = "run"

    @property
    def name(self) -> str:
        """Return the unit's name without its suffix."""
        return f"rigctl-{self.rig}"

    @property
    def own(self) -> bool:
        """Tell whether it is for a person's own service manager."""
        return not self.account

    @property
    def directory(self) -> str:
        """Return the state directory as the unit writes it, unquoted; `%S` is where systemd keeps state."""
        return f"%S/rigctl/{self.rig}" if self.state is None else doubled(str(self.state))

    @property
    def ports(self) -> tuple[str, ...]:
        """Return the ports and buses that are files of devices, as the configuration names them."""
        places = (taken_apart(url)[1] for url in self.urls if not is_on_network(url))
        return tuple(place for place in places if not place.startswith("/sys/"))

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups that may open them, by custom of Debian and Raspberry Pi OS."""
        schemes = (url.partition("://")[0] for url in self.urls if not is_on_network(url))
        groups = (_GROUPS.get(scheme, "dialout") for scheme in schemes)
        return tuple(dict.fromkeys(group for group in groups if group))

    @property
    def hosts(self) -> tuple[str, ...]:
        over_network = (taken_apart(url)[1] for url in self.urls if is_on_network(url))
        return tuple(dict.fromkeys(host_and_port(place, "")[0] for place in over_network))


_GROUPS: Final = MappingProxyType({"i2c": "i2c", "gpio": "gpio", "w1": ""})
"""Who may open a line, by its scheme, where that is not the group of serial ports."""


# how systemd reads it ---------------------------------------------------------------------------------------------


def doubled(text: str) -> str:
    """Return a text in which systemd finds no specifier; see SPECIFIERS in systemd.unit(5).

    Raises:
        UsageError: it holds a line break or another sign that no unit can hold.
    """
    if not text.isprintable():
        raise UsageError(Flaw("", "must have no line breaks or control characters in a unit", "rename it", repr(text)))
    return text.replace("%", "%%")


def word(text: str) -> str:
    """Return one word of a setting, quoted where it needs to be; `text` has its specifiers doubled already."""
    if re.fullmatch(r"[\w@%+=:,./-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def command_line(words: Sequence[str]) -> str:
    """Return a command as `ExecStart=` reads it: `$` is no variable in it."""
    return " ".join(word(part.replace("$", "$$")) for part in words)


def device_unit(path: str) -> str:
    """Return the unit systemd makes of a device node, as `systemd-escape --path --suffix=device` does."""
    text = os.path.normpath(path).strip("/")
    kept = (
        "-" if c == "/" else c if c in _UNESCAPED and not (i == 0 and c == ".") else _hex(c) for i, c in enumerate(text)
    )
    return f"{''.join(kept)}.device"


def _hex(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


# the unit ---------------------------------------------------------------------------------------------------------


def unit(service: Service) -> str:
    """Return the text of the unit that runs it.

    A missing instrument is waited for about an hour; starts that crash are held by rigctl itself long before.
    """
    ports = [] if service.own else [device_unit(p) for p in map(stable_port, service.ports) if p.startswith("/dev/")]
    run = (*service.command, service.verb, doubled(str(service.config)), "--state", service.directory, *service.options)
    return _filled(
        "run.service",
        service,
        after=[*ports, *(["network-online.target"] if service.hosts and not service.own else [])],
        run=command_line(run),
        safe=command_line((*service.command, "safe", "--if-left-driven", "--state", service.directory)),
        watchdog_s=max(WATCHDOG_S, MISSED_ROUNDS * service.watch_every_s),
        starting_s=_rounded(STARTING_S + 2 * service.times.confirmed_s),
        stopping_s=stopping_s(service.times),
    )


def backup_units(service: Service, to: Path) -> Mapping[str, str]:
    """Return the units that copy the journal into a directory once a day, by their names."""
    name = f"rigctl-backup-{service.rig}"
    there = doubled(str(to))
    words = (*service.command, "backup", "--state", service.directory, "--to", there, "--keep", str(KEPT))
    alone = replace(service, urls=(), speaks_out=False, written=(*service.written, to))
    return {
        f"{name}.service": _filled("backup.service", alone, copy=command_line(words)),
        f"{name}.timer": _filled("backup.timer", alone),
    }


def _filled(template: str, service: Service, **more: Any) -> str:
    """Return a unit's text; what a template asks for and is not given is an error."""
    made = Environment(  # noqa: S701  # a unit is no markup
        loader=PackageLoader("rigctl.console"), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    made.filters.update(word=word, doubled=doubled)
    paths = [service.config, *service.needed, *([] if service.state is None else [service.state])]
    return made.get_template(template).render(
        service=service,
        reads=lambda tops: any(path.is_relative_to(top) for path in paths for top in tops),
        HOMES=HOMES,
        TEMPORARY=TEMPORARY,
        nodes=tuple(dict.fromkeys(node for port in service.ports for node in allowed_nodes(port))),
        named_hosts=[host for host in service.hosts if not _is_address(host)],
        **more,
    )


def stopping_s(times: SafeTimes) -> int:
    """Return how long a stop of this rig may take, wall seconds, whole tens."""
    return _rounded(STOPPING_S + 2 * times.confirmed_s)


def _rounded(seconds: float) -> int:
    return 10 * math.ceil(seconds / 10)


def stable_port(place: str) -> str:
    """Return a serial port by the name that stays, else as it is given."""
    return stable_name(f"serial://{place}") or os.path.abspath(place)  # noqa: PTH100  # links are to stay


def allowed_nodes(place: str) -> tuple[str, ...]:
    """Return what `DeviceAllow=` must let through for a port: its kind for USB, else itself."""
    real = os.path.realpath(place)
    kind = re.fullmatch(r"/dev/(tty(?:USB|ACM))\d+", real)
    if kind is not None:
        return (f"char-{kind[1]}",)
    if real.startswith("/dev/pts/"):
        return ("char-pts",)
    if not Path(real).exists():  # not plugged in now
        return ("char-ttyUSB", "char-ttyACM", stable_port(place))
    return (stable_port(place),)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
