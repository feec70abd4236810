"""Keeps who logged in to the page and who was refused, where people look for it.

The journal has one writer, so the page's server hands it to the campaign over the control socket. Where no campaign
runs it goes into a file of its own beside the journal, for the server never writes the journal and takes no lock. What
a stranger can cause is bounded: one entry a minute, which says how many tries it stands for.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from rigctl.campaign import control
from rigctl.errors import RigctlError

FILE_NAME = "page-audit.jsonl"
AT_MOST_EVERY_S = 60.0
MOST_BYTES = 1 << 20
"""Of the file; then it is put aside once, and a new one begun."""


@dataclass(slots=True)
class Audit:
    """Keeps what the page's server has to tell; mutable, used in the event loop only."""

    directory: Path
    _tries: int = 0
    """Not yet kept."""
    _last: str = ""
    _next_s: float = 0.0
    _waiting: asyncio.Task[None] | None = None

    def denied(self, address: str, what: str) -> None:
        """Note that somebody at this address was refused; returns at once."""
        structlog.get_logger("rigctl.page").warning("refused", address=address, what=what)
        self._tries += 1
        self._last = address
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.create_task(self._keep(what), name="audit")

    async def end(self) -> None:
        """Keep what is still waiting to be kept."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        if self._tries:
            await asyncio.to_thread(keep, self.directory, "denied", *self._taken("wrong token"))

    async def login(self, name: str, address: str) -> None:
        """Keep that a person has logged in."""
        await asyncio.to_thread(keep, self.directory, "login", name, f"the page, from {address}", "logged in")

    async def _keep(self, what: str) -> None:
        await asyncio.sleep(max(0.0, self._next_s - time.monotonic()))
        self._next_s = time.monotonic() + AT_MOST_EVERY_S
        await asyncio.to_thread(keep, self.directory, "denied", *self._taken(what))

    def _taken(self, what: str) -> tuple[str, str, str]:
        tries, self._tries = self._tries, 0
        return f"somebody at {self._last}", "the page", what if tries == 1 else f"{what}, {tries} tries"


def keep(directory: Path, verb: str, who: str, argument: str, outcome: str) -> None:
    """Hand an entry to the campaign that runs here, else write it beside the journal; blocks."""
    try:
        control.ask(directory, "note", act=verb, who=who, argument=argument, outcome=outcome)
    except RigctlError:
        _write(directory, {"verb": verb, "who": who, "argument": argument, "outcome": outcome})


def _write(directory: Path, entry: Mapping[str, str]) -> None:
    path = directory / FILE_NAME
    line = json.dumps({"utc": datetime.now(UTC).isoformat(timespec="seconds"), **entry}) + "\n"
    try:
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.replace(path.with_suffix(".old.jsonl"))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        structlog.get_logger("rigctl.page").error("not kept", error=str(error), **entry)
