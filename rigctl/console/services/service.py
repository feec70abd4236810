"""`rigctl tools service`: a configuration -> a unit, where it is kept and whose it is, and what to run next."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import rigctl
from rigctl import system
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.config.load import LoadedConfig, Overrides, load
from rigctl.console.assemble import state_directory
from rigctl.console.checking import checked
from rigctl.console.options import ServiceFlags, require_devices
from rigctl.console.run import require_a_reading, share
from rigctl.console.services.service_unit import Service, backup_units, doubled, unit
from rigctl.errors import UsageError
from rigctl.files import whole
from rigctl.flaws import got
from rigctl.rig.places import is_on_network, taken_apart

_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Made:
    """Holds a unit, and where it belongs."""

    service: Service
    units: Mapping[Path, str]
    """The service first; then what copies its journal, if that was asked for."""

    @property
    def path(self) -> Path:
        """Return where the service's own unit belongs."""
        return next(iter(self.units))

    def install(self, *, force: bool) -> None:
        """Write them there; see `install`."""
        for path, text in self.units.items():
            install(path, text, force=force)

    def printed(self) -> str:
        """Return the unit; of several each under its file's name."""
        if len(self.units) == 1:
            return self.units[self.path]
        return "\n".join(f"# {path}\n{text}" for path, text in self.units.items())

    def next_steps(self, *, installed: bool) -> tuple[str, ...]:
        name, own = self.service.name, self.service.own
        if not installed:
            user = " --user" if own else f" --as {self.service.account}"
            sudo = "" if own else "sudo "
            return (f"{sudo}rigctl tools service {shlex.quote(str(self.service.config))}{user} --install",)
        user, sudo = (" --user", "") if own else ("", "sudo ")
        steps = [] if own or _known(self.service.account) else [_new_account(self.service)]
        steps += [f"{sudo}systemctl{user} daemon-reload", f"{sudo}systemctl{user} enable --now {name}"]
        steps += [f"{sudo}systemctl{user} enable --now {p.name}" for p in self.units if p.suffix == ".timer"]
        steps += ["sudo loginctl enable-linger   (or it ends when you log out)"] if own else []
        steps += [f"{sudo}journalctl{user} -fu {name}"]
        return tuple(steps)

    def to_json(self, *, installed: bool) -> Mapping[str, Any]:
        return {
            "name": self.service.name,
            "path": self.path,
            "installed": installed,
            "unit": self.units[self.path],
            "units": {path.name: text for path, text in self.units.items()},
            "next": list(self.next_steps(installed=installed)),
        }


def made(config: Path, buses: Mapping[str, str], said: ServiceFlags) -> Made:
    """Return the unit that runs a configuration; `buses` are URLs to use instead of the configured ones, by name.

    Raises:
        ConfigError: the configuration does not hold, so nothing can be derived from it.
        UsageError: it has no devices, a port by a relative path, or a name that no unit can hold.
    """
    loaded = load(config, Overrides(buses), to_run=True)
    require_devices(loaded)
    if said.account and said.own:
        raise UsageError("--as: a unit for your own service manager runs as you; leave out --as or --user")
    options = _production(loaded, config, said)
    who = "" if said.own else said.account or _asking()
    if who and _ACCOUNT.fullmatch(who) is None:
        raise UsageError(got(who, "must be an account such as rigctl", where="--as"))
    _require_absolute(loaded)
    speaks_out, listening, written = _telling(loaded)
    service = Service(
        rig=loaded.name,
        config=_absolute(config),
        state=_state(said.state, loaded.name),
        command=_command(),
        options=tuple(map(doubled, [*options, *(o for bus in buses.items() for o in ("--bus", "=".join(bus)))])),
        account=who,
        urls=tuple(dict.fromkeys([*(device.url for device in loaded.rig.devices.values()), *listening])),
        speaks_out=speaks_out,
        times=checked(loaded).times,
        watch_every_s=loaded.rig.watch.every_s,
        needed=tuple(dict.fromkeys(map(Path, (sys.prefix, sys.base_prefix, *rigctl.__path__)))),
        written=written,
        verb="operate" if said.operate else "run",
    )
    texts = {f"{service.name}.service": unit(service)}
    texts |= {} if said.backup is None else backup_units(service, _absolute(said.backup))
    kept_in = folder(own=said.own)
    return Made(service, {kept_in / n: marked(text, service.config) for n, text in texts.items()})


def _production(loaded: LoadedConfig, config: Path, said: ServiceFlags) -> Sequence[str]:
    """Return the options that `rigctl operate` is given."""
    if share(said.learn) is not None and not said.operate:
        raise UsageError("service: --learn needs --operate; a campaign learns anyway")
    if said.full and not said.operate:
        raise UsageError("service: --full needs --operate; a campaign follows no rule")
    if said.full:
        require_a_reading("service", loaded, config)
    return [*(["--learn", said.learn] if said.learn is not None else []), *(["--full"] if said.full else [])]


def _require_absolute(loaded: LoadedConfig) -> None:
    for device in loaded.rig.devices.values():
        scheme, place = taken_apart(device.url)
        if not is_on_network(device.url) and not place.startswith("/"):
            must = "must begin at / for a service, which has another working directory"
            remedy, where = f"or give --bus NAME={scheme}:///dev/...", f"{loaded.path}: devices.{device.name}"
            raise UsageError(got(device.url, must, remedy, where=where))


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  # a link that a person has made stays one


def _state(given: Path | None, rig: str) -> Path | None:
    """Return the state directory, unless systemd is to keep it: a campaign that has begun goes on where it is."""
    begun = state_directory(given, rig)
    return _absolute(begun) if given is not None or (begun / FILE_NAME).exists() else None


def _command() -> tuple[str, ...]:
    """Return how this very rigctl is started, independently of directory and search path."""
    program = Path(sys.prefix) / "bin" / "rigctl"
    return (doubled(str(program)),) if program.exists() else (doubled(sys.executable), "-P", "-m", "rigctl")


def _telling(loaded: LoadedConfig) -> tuple[bool, tuple[str, ...], tuple[Path, ...]]:
    """Return whether people are told over the network, what listens on this machine, and where files are written."""
    metrics = loaded.document.data.get("metrics") or {}
    listening = ("tcp://localhost",) if metrics.get("port") else ()
    written = (Path(metrics["textfile"]).parent,) if metrics.get("textfile") else ()
    return bool(loaded.document.data.get("notify")), listening, written


def _asking() -> str:
    """Return who asks, before sudo; for root itself an account of its own is the better one."""
    who = os.environ.get("SUDO_USER") or getpass.getuser()
    return "rigctl" if who == "root" else who


def _known(account: str) -> bool:
    try:
        system.module("pwd").getpwnam(account)
    except KeyError:
        return False
    return True


def _new_account(service: Service) -> str:
    groups = f" --groups {','.join(service.groups)}" if service.groups else ""
    return f"sudo useradd --system{groups} {service.account}"


SYSTEM: Final = Path("/etc/systemd/system")
_MARK: Final = "# Written by `rigctl tools service`: "


def folder(*, own: bool) -> Path:
    """Return where units are kept: the system's, or a person's own."""
    if not own:
        return SYSTEM
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(configured) if configured else Path.home() / ".config") / "systemd" / "user"


def marked(text: str, config: Path) -> str:
    """Return a unit under a line that says what it was made from, and by which a later edit is noticed."""
    return f"{_MARK}{json.dumps({'config': str(config), 'sha256': _sum(text)}, ensure_ascii=False)}\n{text}"


def _made_from(unit: str) -> tuple[Mapping[str, Any], str] | None:
    """Return what a unit's mark says, and the unit below it; None where it has none."""
    line, _, text = unit.partition("\n")
    try:
        made = json.loads(line[len(_MARK) :]) if line.startswith(_MARK) else None
    except ValueError:
        return None
    return (made, text) if isinstance(made, dict) else None


def install(path: Path, text: str, *, force: bool) -> None:
    """Put a unit there, whole or not at all; raises UsageError if it cannot be written, or another is there."""
    stands = "" if force else _why_not(path, text)
    if stands:
        raise UsageError(f"{path}: {stands}; look at it, then overwrite it with --force")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as new:
            new.write_text(text, encoding="utf-8")
            new.chmod(0o644)
    except OSError as error:
        remedy = "call it with sudo, or install it for yourself with --user"
        raise UsageError(f"{path}: cannot be written ({error.strerror}); {remedy}") from error


def _why_not(path: Path, text: str) -> str:
    """Say whose the unit is that is there already; empty: there is none, or it is ours to overwrite."""
    try:
        there = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    old, new = _made_from(there), _made_from(text)
    if old is None:
        return "is there already, and was not written by `rigctl tools service`"
    if new is not None and old[0].get("config") != new[0].get("config"):
        return f"runs another configuration, {old[0].get('config')}"
    return "" if old[0].get("sha256") == _sum(old[1]) else "was edited since it was written"


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
