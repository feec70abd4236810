"""What may be driven now and how to stop it, in a small file beside the journal.

Written before the first command of a process leaves, so that whoever comes next can go safe without the journal, the
configuration or the lock: every actuator with its driver, its line and its safe state. Needs nothing that learns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import structlog

from rigctl.campaign.lock import Writer
from rigctl.codec import plain, typed
from rigctl.errors import JournalError, JournalUnwritable, RigctlError, reason
from rigctl.files import own, whole
from rigctl.rig.places import Seen
from rigctl.rig.spec import RigSpec

if TYPE_CHECKING:
    from rigctl.campaign.journal.thread import JournalThread

FILE_NAME = "safe.json"
VERSION = 2
"""2: who was seen there; a file of version 1 does not know."""
BY_CONFIGURATION = "`rigctl safe CONFIG` goes by the configuration instead"


@dataclass(frozen=True, slots=True)
class Driven:
    """One actuator or pump, and how it is stopped."""

    name: str
    driver: str
    url: str
    options: Mapping[str, Any]
    """As the driver's options read them, JSON."""
    timeout_s: float
    kind: Literal["actuator", "doser"]
    safe_state: Literal["off"] | float
    seen: Seen | None = None
    """Who stood there; None: it is not known."""

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Return what is equal for two that are the same instrument, whatever it is called."""
        return self.driver, self.url, json.dumps(dict(self.options), sort_keys=True), self.kind


@dataclass(frozen=True, slots=True)
class SafeFile:
    """What a process that drives, or drove, a rig has left word of."""

    rig: str
    driven: bool
    """False: it was confirmed safe at its end."""
    speedup: float
    devices: tuple[Driven, ...]
    writer: Writer


_NOBODY: Final[Mapping[str, Seen]] = MappingProxyType({})


def driven_by(spec: RigSpec, seen: Mapping[str, Seen] = _NOBODY) -> tuple[Driven, ...]:
    """Return all that a rig may drive, with who is known to stand where, by device."""
    return tuple(
        Driven(
            name=name,
            driver=device.driver,
            url=device.url,
            options=device.options.model_dump(mode="json", by_alias=True, exclude_unset=True),
            timeout_s=device.timeout_s,
            kind="doser" if name in spec.pumps else "actuator",
            safe_state=limits.safe_state,
            seen=seen.get(name),
        )
        for name, limits in spec.limits.items()
        if (device := spec.devices.get(name)) is not None
    )


def of_rig(spec: RigSpec, seen: Mapping[str, Seen], *, driven: bool) -> SafeFile:
    """Return this process's word."""
    return SafeFile(spec.name, driven, spec.speedup, driven_by(spec, seen), Writer.this_process())


def write(directory: Path, content: SafeFile) -> None:
    """Put it there, whole or not at all; when this returns, it is on disk.

    Raises:
        JournalUnwritable: it cannot be written, so nothing may move.
    """
    put(directory / FILE_NAME, {"version": VERSION, **plain(content)})


def put(path: Path, content: Mapping[str, Any]) -> None:
    """Put a JSON document there, whole or not at all; when this returns, it is on disk.

    Raises:
        JournalUnwritable: it cannot be written, so nothing may move.
    """
    try:
        with whole(path, private=True) as new:
            new.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise JournalUnwritable(
            f"{path}: cannot be written ({reason(error)}), so nothing may move; free space or make the directory "
            "writable, then run again"
        ) from error


class Word:
    """A running campaign's word of what it may drive; mutable."""

    def __init__(self, spec: RigSpec, journal: JournalThread) -> None:
        self._spec = spec
        self._journal = journal
        self._left = False
        self._seen = _NOBODY

    async def leave(self, seen: Mapping[str, Seen]) -> None:
        """Leave word, with who stands where, before the first command; when this returns, it is on disk.

        Raises:
            JournalUnwritable: it cannot be, so nothing may move.
        """
        self._seen = seen
        await self._write(driven=True)
        self._left = True

    async def take_back(self) -> None:
        """Take it back once everything is confirmed safe; harmless if there is nothing to take back."""
        if not self._left:
            return
        try:
            await self._write(driven=False)
        except JournalError as error:  # the next start goes safe once more, which does no harm
            structlog.get_logger("rigctl.campaign").warning("safe.json still says driven", error=str(error))

    async def _write(self, *, driven: bool) -> None:
        content = of_rig(self._spec, self._seen, driven=driven)
        await self._journal.call(lambda j: write(j.path.parent, content))


def read(directory: Path) -> SafeFile | None:
    """Return what is there; None: nothing.

    Raises:
        RigctlError: something is, but it cannot be read, or others may have put it there (fault 86).
    """
    path = directory / FILE_NAME
    try:
        content = json.loads(own(path))
        version = content.pop("version")
        if version > VERSION:
            raise RigctlError(
                f"{path}: written by a newer rigctl (version {version}, this one knows up to {VERSION}); "
                f"update rigctl. {BY_CONFIGURATION}"
            )
        return typed(SafeFile, content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RigctlError(f"{path}: cannot be read ({type(error).__name__}: {error}). {BY_CONFIGURATION}") from error
