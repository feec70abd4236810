"""What a configuration says of who is told what, and where the secrets for that are kept.

A URL that people are told by is a password as often as not: it stands in a file that only its owner can read, or in
the environment, and is read when it is needed. Nothing here, nor what is raised here, ever holds any of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rigctl.errors import UsageError

MOST_BYTES: Final = 65_536
MOST_URLS: Final = 50


@dataclass(frozen=True, slots=True)
class Secret:
    """Says where a secret is kept: in a file, or in a variable of the environment."""

    file: str = ""
    env: str = ""

    def __str__(self) -> str:
        return f"file {self.file}" if self.file else f"environment variable {self.env}"

    def lines(self, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
        """Return what is kept there, line by line, without empty lines and those that begin with `#`.

        Raises:
            UsageError: there is nothing, or others may read it too; says nothing of what is in it.
        """
        text = _text_of(Path(self.file)) if self.file else environment.get(self.env, "")
        lines = (line.strip() for line in text.splitlines())
        found = tuple(line for line in lines if line and not line.startswith("#"))
        if not found and self.env:
            raise UsageError(f"{self}: is not set, must hold a URL; set it where rigctl is started")
        if not found:
            raise UsageError(f"{self}: is empty, must hold a URL on a line of its own")
        if len(found) > MOST_URLS:
            raise UsageError(f"{self}: got {len(found)} lines, must be at most {MOST_URLS}")
        return found


def _text_of(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        remedy = f"write one URL on each line of it, then `chmod 600 {path}`"
        raise UsageError(f"file {path}: is not there, must hold the URLs; {remedy}") from error
    except OSError as error:
        raise UsageError(f"file {path}: cannot be read: {error.strerror}; it must be this user's own") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise UsageError(f"file {path}: must be an ordinary file with one URL on each line")
    with os.fdopen(descriptor, "rb") as file:
        if found.st_mode & stat.S_IRWXO:
            mode = stat.S_IMODE(found.st_mode)
            raise UsageError(f"file {path}: others may read or change it (mode {mode:o}); `chmod 600 {path}`")
        try:
            return file.read(MOST_BYTES).decode()
        except UnicodeDecodeError:
            raise UsageError(f"file {path}: must be text in UTF-8, one URL on each line") from None


@dataclass(frozen=True, slots=True)
class NotifySpec:
    """Says who is told what."""

    urls: Secret | None = None
    """One URL of the library `apprise` on each line."""
    at_least: int = 2
    """Severity from which on an alarm is told."""
    alive: Secret | None = None
    """A URL that is asked for as long as the watch looks."""
    alive_every_s: float = 900.0
    """Wall seconds."""
    daily: str = ""
    """Civil time of the daily summary, `HH:MM`; empty: none."""
    zone: str = ""
    """Of that and of all times that people are told; empty: this machine's."""


@dataclass(frozen=True, slots=True)
class MetricsSpec:
    """Says where other programs find numbers."""

    textfile: str = ""
    """For the textfile collector of node_exporter; empty: none."""
    port: int = 0
    """On 127.0.0.1; 0: none."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Holds all that is told to anybody outside."""

    notify: NotifySpec | None = None
    metrics: MetricsSpec | None = None

    def __bool__(self) -> bool:
        return self.notify is not None or self.metrics is not None
