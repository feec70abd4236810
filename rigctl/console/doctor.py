"""`rigctl doctor`: looks at the machine a rig is left alone with, and says what to mend. Asks only, never a rig.

A check is a function of the machine and of what runs on it; it yields findings. All that is looked at comes through
`Machine`, so that another one can be put in its place.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from rigctl.config.file import read
from rigctl.config.load import LoadedConfig, Overrides, load_text
from rigctl.console.safe import state_of
from rigctl.errors import ConfigError, RigctlError

if TYPE_CHECKING:
    from rich.console import Console

Verdict = Literal["ok", "warn", "bad"]
COMMAND_S: Final = 5.0
"""Wall seconds that a command of the system may take."""
SERVICES_STATE: Final = "/var/lib/rigctl"
"""Where systemd keeps the state of `rigctl service`."""
STYLES: Final[Mapping[Verdict, str]] = {"ok": "green", "warn": "yellow", "bad": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """Says how one thing is, and what to do about it."""

    subject: str
    verdict: Verdict
    what: str
    remedy: str = ""


def _run(words: Sequence[str]) -> str:
    """Return what a command prints; empty if it is not there, fails or takes long."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False)  # noqa: S603 - our words
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Answers what is asked about the machine; read-only."""

    root: Path = Path("/")
    run: Callable[[Sequence[str]], str] = _run
    uid: int = field(default_factory=os.geteuid)
    groups: frozenset[int] = field(default_factory=lambda: frozenset({os.getegid(), *os.getgroups()}))
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def at(self, path: str) -> Path:
        """Return where a path of the machine is found."""
        return self.root / path.lstrip("/")

    def read(self, path: str) -> str:
        """Return a file's text; empty if there is none."""
        try:
            return self.at(path).read_text(encoding="utf-8", errors="replace").strip("\0\n ")
        except OSError:
            return ""

    def real(self, path: str) -> str:
        """Return where links lead to, as a path of the machine."""
        return f"/{os.path.relpath(os.path.realpath(self.at(path)), os.path.realpath(self.root))}"

    def listed(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder; none if it is not there."""
        try:
            return tuple(sorted(path.name for path in self.at(folder).iterdir()))
        except OSError:
            return ()

    def processes(self, *names: str) -> Mapping[int, str]:
        """Return the processes with one of these names."""
        found = {int(pid): self.read(f"/proc/{pid}/comm") for pid in self.listed("/proc") if pid.isdecimal()}
        return {pid: name for pid, name in found.items() if name in names}


@dataclass(frozen=True, slots=True)
class Subject:
    """Holds what runs, or is to run, on the machine."""

    loaded: LoadedConfig | None = None
    """None: no configuration was given, or it does not hold."""
    directory: Path | None = None
    """Where its state is."""
    wrong: tuple[str, ...] = ()
    """What does not hold in the configuration."""


Check = Callable[[Machine, Subject], Iterator[Finding]]


def examined(
    config: Path | None, state: Path | None, buses: Mapping[str, str], machine: Machine
) -> tuple[Finding, ...]:
    """Return all that is found. A check that fails is a finding, too: it must not hide the others.

    Raises:
        ConfigError: there is no such configuration.
    """
    from rigctl.console.doctor_machine import CHECKS as OF_THE_MACHINE  # noqa: PLC0415  # they import this module
    from rigctl.console.doctor_ports import CHECKS as OF_PORTS  # noqa: PLC0415
    from rigctl.console.doctor_state import CHECKS as OF_STATE  # noqa: PLC0415

    subject = _subject(config, state, buses, machine)
    found: list[Finding] = []
    for check in (*OF_STATE, *OF_PORTS, *OF_THE_MACHINE):
        try:
            found += check(machine, subject)
        except (OSError, ValueError, RigctlError) as error:
            name = check.__name__.strip("_").replace("_", " ")
            found.append(Finding(name, "warn", f"could not be looked at ({error})"))
    return tuple(found)


def _subject(config: Path | None, state: Path | None, buses: Mapping[str, str], machine: Machine) -> Subject:
    directory = state_of(config, state)
    if state is None and directory is not None and not directory.is_dir():
        kept = machine.at(f"{SERVICES_STATE}/{directory.name}")
        directory = kept if kept.is_dir() else directory
    if config is None:
        return Subject(None, directory)
    text = read(config)  # none at all is refused: nobody meant the machine alone
    try:
        return Subject(load_text(text, config, Overrides(buses), to_run=True), directory)
    except ConfigError as error:
        return Subject(None, directory, tuple(map(str, error.mistakes)))
    except RigctlError as error:
        return Subject(None, directory, (str(error),))


# telling ----------------------------------------------------------------------------------------------------------


def to_json(found: Sequence[Finding]) -> Mapping[str, Any]:
    return {"ok": well(found), "findings": [_fields(finding) for finding in found]}


def _fields(finding: Finding) -> Mapping[str, Any]:
    said = {"subject": finding.subject, "verdict": finding.verdict, "what": finding.what}
    return {**said, "remedy": finding.remedy or None}


def well(found: Sequence[Finding]) -> bool:
    """Tell whether nothing is bad."""
    return all(finding.verdict != "bad" for finding in found)


def show(found: Sequence[Finding], console: Console) -> None:
    wide = max(len(finding.subject) for finding in found)
    for finding in found:
        text = f"{finding.verdict:4}  {finding.subject:{wide}}  {finding.what}"
        console.print(text, style=STYLES[finding.verdict], soft_wrap=True, highlight=False)
        if finding.remedy:
            console.print(f"{'':{wide + 8}}{finding.remedy}", soft_wrap=True, highlight=False)
    counts = {verdict: sum(f.verdict == verdict for f in found) for verdict in STYLES}
    console.print(f"{len(found)} findings: {', '.join(f'{n} {v}' for v, n in counts.items())}")
