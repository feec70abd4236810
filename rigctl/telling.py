"""What a configuration says of who is told what, and where the secrets for that are kept.

A URL that people are told by is a password as often as not: it stands in a file that only its owner can read, or in
the environment, and is read when it is needed. Nothing here, nor what is raised here, ever holds any of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le

from rigctl import system
from rigctl.errors import UsageError
from rigctl.flaws import Flaw
from rigctl.kinds import Clash, Duration, Late, Section, Whole

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
            raise UsageError(Flaw("is not set", "must hold a URL", "set it where rigctl is started", where=str(self)))
        if not found:
            raise UsageError(Flaw("is empty", "must hold a URL on a line of its own", where=str(self)))
        if len(found) > MOST_URLS:
            raise UsageError(Flaw("", f"must be at most {MOST_URLS}", got=f"{len(found)} lines", where=str(self)))
        return found


def _text_of(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | system.CLOEXEC | system.NONBLOCK)
    except FileNotFoundError as error:
        remedy = f"write one URL on each line of it, then `chmod 600 {path}`"
        raise UsageError(Flaw("is not there", "must hold the URLs", remedy, where=f"file {path}")) from error
    except OSError as error:
        raise UsageError(f"file {path}: cannot be read: {error.strerror}; it must be this user's own") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise UsageError(f"file {path}: must be an ordinary file with one URL on each line")
    with os.fdopen(descriptor, "rb") as file:
        mode = system.mode(found)
        if mode & stat.S_IRWXO:
            raise UsageError(f"file {path}: others may read or change it (mode {mode:o}); `chmod 600 {path}`")
        try:
            return file.read(MOST_BYTES).decode()
        except UnicodeDecodeError:
            raise UsageError(f"file {path}: must be text in UTF-8, one URL on each line") from None


_FILE: Final = "A file that others cannot read (mode 600); its path is from the configuration's folder."
_ENV: Final = "A variable of the environment that rigctl is started in."
_KEPT: Final = {
    "type": "object",
    "properties": {"file": {"type": "string", "description": _FILE}, "env": {"type": "string", "description": _ENV}},
    "description": "Where a URL is kept that nobody else should know: exactly one of these.",
    "additionalProperties": False,
}
Kept = Annotated[Secret, Late("secret", _KEPT, Secret(), in_unit=False)]
_TIME: Final = {"type": "string", "pattern": r"^([01]?\d|2[0-3]):[0-5]\d$"}
LEAST_ALIVE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class AliveSpec(Section):
    """A URL that is asked for as long as the watch looks: whoever is behind it tells when that ends."""

    url: Kept
    """Where the URL is kept."""
    every_s: Duration = 900.0
    """Wall time between two."""

    def clashes(self) -> Iterator[Clash]:
        """Nobody's server is asked all the time."""
        if self.every_s < LEAST_ALIVE_S:
            yield Clash("every", "must be at least 1 min")


@dataclass(frozen=True, slots=True)
class NotifySpec(Section):
    """Who is told what; needs the extra `notify`."""

    urls: Kept | None = None
    """Where the URLs are kept, one on each line, as the library apprise has them: mailto, ntfy, mqtt, json, ..."""
    at_least: Literal["MINOR", "MAJOR", "INVALID"] = "MAJOR"
    """Severity from which on people are told of an alarm."""
    alive: AliveSpec | None = None
    """A sign of life."""
    daily: Annotated[str, Late("time_of_day", _TIME, in_unit=False)] | None = None
    """Civil time of a daily summary, as "08:00"."""
    zone: Annotated[str, Late("zone", {"type": "string"}, in_unit=False)] | None = None
    """Zone of that time and of all times that are told, as Europe/Berlin; default: this machine's."""

    def clashes(self) -> Iterator[Clash]:
        """Somebody is told."""
        if self.urls is None and self.alive is None:
            yield Clash("", "must have urls, alive or both", ("urls", "alive"), "tells nobody")
        elif self.urls is None and self.daily is not None:
            yield Clash("daily", "must have urls beside it", ("urls",), "but nobody is told")


@dataclass(frozen=True, slots=True)
class MetricsSpec(Section):
    """Where Prometheus finds the campaign's numbers; needs the extra `notify`."""

    textfile: str | None = None
    """Written anew every 15 s for node_exporter's textfile collector: an absolute path that ends in .prom."""
    port: Annotated[Whole, Ge(1), Le(65535)] | None = None
    """Of 127.0.0.1, where they are also given over HTTP at /metrics."""

    def clashes(self) -> Iterator[Clash]:
        """Somebody finds them, and where the collector looks."""
        if self.textfile is None and self.port is None:
            yield Clash("", "must have textfile, port or both", ("textfile", "port"), "are given to nobody")
        path = Path(self.textfile or "/any.prom")
        if not path.is_absolute() or path.suffix != ".prom" or ".." in path.parts:
            must = "must be an absolute path that ends in .prom, such as /var/lib/node_exporter/rigctl.prom"
            yield Clash("textfile", must)


@dataclass(frozen=True, slots=True)
class Telling:
    """Holds all that is told to anybody outside."""

    notify: NotifySpec | None = None
    metrics: MetricsSpec | None = None

    def __bool__(self) -> bool:
        return self.notify is not None or self.metrics is not None
