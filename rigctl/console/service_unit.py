"""A systemd unit that runs a campaign: written from its configuration, so that nothing in it is guessed.

What it may touch is what the configuration names: its serial ports, its hosts, one directory. Where systemd could
forbid more but something of ours would break, the unit says so in a comment.
"""

from __future__ import annotations

import math
import os
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal

from rigctl.errors import UsageError
from rigctl.rig.places import host_and_port, stable_name, taken_apart
from rigctl.rig.values import SafeTimes

WATCHDOG_S: Final = 30.0
"""Without a completed look for so long a process hangs: a look that is 10 s late holds the campaign already."""
MISSED_LOOKS: Final = 3
"""Or as many in a row, where looks are rare."""
STARTING_S: Final = 180.0
STOPPING_S: Final = 180.0
"""Wall seconds for what a slow board does besides making everything safe: to import, to check and close the journal;
and for what `ExecStopPost=`, which cannot ask for more, tries again while an instrument refuses to be made safe."""
RESTART_S: Final = 30
STARTS: Final = 100
STARTS_WITHIN: Final = "2h"
"""So a missing instrument is waited for about an hour; starts that crash are held by rigctl itself long before."""
NOT_MENDED_BY_TRYING: Final = (2, 3, 4)
"""Exit codes of a wrong configuration, of a trip, and of a rig that another process holds."""
INTERRUPTED: Final = 130
_HOMES: Final = ("/home", "/root", "/run/user")
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108  # where nothing is written; only looked for
_UNESCAPED: Final = frozenset(string.ascii_letters + string.digits + ":_.")
Lines = Iterator[str]


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
    look_every_s: float
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
        """Return the serial ports, as the configuration names them."""
        return tuple(taken_apart(url)[1] for url in self.urls if not _is_network(url))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts, each once."""
        over_network = (taken_apart(url)[1] for url in self.urls if _is_network(url))
        return tuple(dict.fromkeys(host_and_port(place, "")[0] for place in over_network))


def _is_network(url: str) -> bool:
    return "tcp" in url.partition("://")[0]


# how systemd reads it ---------------------------------------------------------------------------------------------


def doubled(text: str) -> str:
    """Return a text in which systemd finds no specifier; see SPECIFIERS in systemd.unit(5).

    Raises:
        UsageError: it holds a line break or another sign that no unit can hold.
    """
    if not text.isprintable():
        raise UsageError(f"got {text!r}, must have no line breaks or control characters in a unit; rename it")
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
    """Return the unit's text."""
    sections: tuple[tuple[str, Iterable[str]], ...] = (
        ("Unit", _unit(service)),
        ("Service", _service(service)),
        ("Install", (f"WantedBy={'default' if service.own else 'multi-user'}.target",)),
    )
    return text_of(sections)


def text_of(sections: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a unit's text from its sections, each with its lines."""
    return "\n".join("\n".join((f"[{name}]", *lines, "")) for name, lines in sections)


def _unit(service: Service) -> Lines:
    yield f"Description=rigctl campaign {service.rig}"
    ports = [] if service.own else [device_unit(p) for p in map(stable_port, service.ports) if p.startswith("/dev/")]
    after = [*ports, *(["network-online.target"] if service.hosts and not service.own else [])]
    if after:
        yield "# Ports and network are waited for; what is missing after all is told by the campaign itself."
        yield f"Wants={' '.join(after)}"
        yield f"After={' '.join(after)}"
    yield f"StartLimitIntervalSec={STARTS_WITHIN}"
    yield f"StartLimitBurst={STARTS}"


def _service(service: Service) -> Lines:
    run = (*service.command, service.verb, doubled(str(service.config)), "--state", service.directory, *service.options)
    safe = (*service.command, "safe", "--if-left-driven", "--state", service.directory)
    yield "Type=notify"
    yield "NotifyAccess=main"
    yield f"ExecStart={command_line(run)}"
    yield "# Whatever ended it: what it left driven goes safe at once, not only at the next start."
    yield f"ExecStopPost={command_line(safe)}"
    yield f"WatchdogSec={max(WATCHDOG_S, MISSED_LOOKS * service.look_every_s):g}"
    yield f"# Everything is safe within {service.times.confirmed_s:.2f} s. Who works, or tries on, asks for more time."
    yield f"TimeoutStartSec={_rounded(STARTING_S + 2 * service.times.confirmed_s)}"
    yield f"TimeoutStopSec={stopping_s(service.times)}"
    yield "Restart=on-failure"
    yield f"RestartSec={RESTART_S}"
    yield "# 2: the configuration does not hold. 3: tripped. 4: another process holds the rig."
    yield f"RestartPreventExitStatus={' '.join(map(str, NOT_MENDED_BY_TRYING))}"
    yield f"SuccessExitStatus={INTERRUPTED}"
    yield "# A signal is for the campaign alone; what it has started ends with it."
    yield "KillMode=mixed"
    yield "# A process that hangs says where it hung, and leaves no copy of its memory."
    yield "Environment=PYTHONFAULTHANDLER=1 PYTHONUNBUFFERED=1"
    yield "LimitCORE=0"
    yield "# Where memory runs out, the process that decides costs one decision; it is started anew."
    yield "OOMPolicy=continue"
    yield "# Secrets of notifications, one NAME=value per line, if there are any."
    yield f"EnvironmentFile=-%E/rigctl/{service.rig}.env"
    yield from account(service)
    yield from directory(service)
    yield ""
    yield from hardening(service)


def stopping_s(times: SafeTimes) -> int:
    """Return how long a stop of this rig may take, wall seconds, whole tens."""
    return _rounded(STOPPING_S + 2 * times.confirmed_s)


def _rounded(seconds: float) -> int:
    return 10 * math.ceil(seconds / 10)


def account(service: Service) -> Lines:
    """Say who it runs as."""
    if not service.own:
        yield f"User={service.account}"
        if service.ports:
            yield "SupplementaryGroups=dialout"


def directory(service: Service) -> Lines:
    """Say where it writes, and that nobody else sees it."""
    yield "UMask=0077"
    if service.state is None:
        yield f"StateDirectory=rigctl/{service.rig}"
        yield "StateDirectoryMode=0700"
    elif not service.own:
        yield f"ReadWritePaths={word(service.directory)}"
    if service.written and not service.own:
        yield f"ReadWritePaths={' '.join(word(doubled(f'-{path}')) for path in service.written)}"
    yield f"WorkingDirectory={service.directory}"


# what it may not do -----------------------------------------------------------------------------------------------

_BY_SYSCALL: Final = (
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RestrictNamespaces=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged @resources",
    "SystemCallErrorNumber=EPERM",
)
"""What a person's own service manager can forbid, too."""


def hardening(service: Service) -> Lines:
    """Say what it may not do."""
    if service.own:
        yield "# A person's own service manager can forbid no more than this."
    yield from _BY_SYSCALL
    if service.own:
        return
    yield "CapabilityBoundingSet="
    yield "AmbientCapabilities="
    yield "ProtectSystem=strict"
    paths = [service.config, *service.needed, *([] if service.state is None else [service.state])]
    at_home = any(_below(path, _HOMES) for path in paths)
    yield f"ProtectHome={'read-only' if at_home else 'yes'}"
    if not any(_below(path, _TEMPORARY) for path in paths):
        yield "PrivateTmp=yes"
    yield "PrivateMounts=yes"
    for what in ("Clock", "ControlGroups", "Hostname", "KernelLogs", "KernelModules", "KernelTunables"):
        yield f"Protect{what}=yes"
    yield "KeyringMode=private"
    yield "RemoveIPC=yes"
    yield from _devices(service)
    yield from _network(service)
    yield "# Not ProcSubset=pid: the boot's id tells rig time from that of another boot."
    yield "# Not ProtectProc=: who holds a port that should be ours is to be named."
    yield "# Not PrivateNetwork=: bus locks are names in the network's namespace, shared with runs by hand."


def _below(path: Path, tops: Sequence[str]) -> bool:
    return any(path.is_relative_to(top) for top in tops)


def _devices(service: Service) -> Lines:
    yield "DevicePolicy=closed"
    if not service.ports:
        yield "PrivateDevices=yes"
        return
    yield "# An adapter that is plugged in again gets a new number, so USB ports are allowed by kind;"
    yield "# which instrument answers is recognised before anything is written."
    for allowed in dict.fromkeys(kind for port in service.ports for kind in allowed_nodes(port)):
        yield f"DeviceAllow={word(doubled(allowed))} rw"


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


def _network(service: Service) -> Lines:
    if not service.hosts and not service.speaks_out:
        yield "RestrictAddressFamilies=AF_UNIX"
        yield "IPAddressDeny=any"
        return
    yield "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6"
    if service.speaks_out:
        yield "# It tells people over the network, so addresses are not restricted."
        return
    named = [host for host in service.hosts if not _is_address(host)]
    if named:
        yield f"# {', '.join(named)}: a name can move. Give addresses in the configuration to have others forbidden."
        return
    yield "IPAddressDeny=any"
    for host in service.hosts:
        yield f"IPAddressAllow={host}"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
