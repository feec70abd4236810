"""Who may act on the page: tokens, sessions, what slows those who guess, and the audit of all that.

Tokens are random, told once, and kept as hashes only. A token is 256 random bits, so there is nothing to guess and no
dictionary to try: one SHA-256 protects a stolen file as well as a slow hash would, and a slow one would let strangers
keep the page's server busy. Sessions are kept in memory, so a restart of the server logs everybody out.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rigctl import system
from rigctl.campaign import control
from rigctl.campaign.lock import make_directory
from rigctl.errors import RigctlError, UsageError
from rigctl.files import own, whole
from rigctl.flaws import got
from rigctl.logs import logger

FILE_NAME = "tokens.json"
PREFIX = "rigctl-"
BYTES = 32
MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token."""

    name: str
    """Of the person."""
    sha256: str
    created: str
    """UTC."""
    by: str
    """Who made it."""


class TokenFile:
    """Keeps the tokens of one state directory, in a file that its owner alone may read."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def all(self) -> tuple[Token, ...]:
        """Return every token that holds; none if there is no file.

        Raises:
            RigctlError: the file cannot be read, others may read it, or it is not what `rigctl tools token` writes.
        """
        try:
            return tuple(Token(**entry) for entry in json.loads(own(self.path, 0o077)))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise RigctlError(f"{self.path}: cannot be read ({error.strerror}); nobody can act on the page") from error
        except (ValueError, TypeError) as error:
            raise RigctlError(
                f"{self.path}: not what `rigctl tools token` writes ({error}); delete it and make new tokens"
            ) from error

    def create(self, name: str, by: str) -> str:
        """Return a new token for this person; only its hash is kept.

        Raises:
            UsageError: the name is none, or taken.
            RigctlError: the file cannot be read or written.
        """
        name = " ".join(name.split())
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise UsageError(got(name, f"must be a person's name of 1 to {MAX_NAME} characters", where="token: NAME"))
        with self._alone() as tokens:
            if any(token.name == name for token in tokens):
                raise UsageError(f"token: {name} has one already; `rigctl tools token revoke {name!r}` first")
            secret = PREFIX + secrets.token_urlsafe(BYTES)
            made = Token(name, _hash(secret), datetime.now(UTC).isoformat(timespec="seconds"), by)
            self._write([*tokens, made])
        return secret

    def revoke(self, name: str) -> None:
        """Let a person's token hold no longer.

        Raises:
            UsageError: there is none of that name.
            RigctlError: the file cannot be read or written.
        """
        with self._alone() as tokens:
            left = [token for token in tokens if token.name != name]
            if len(left) == len(tokens):
                known = ", ".join(token.name for token in tokens) or "none"
                raise UsageError(f"token: {name}: there is no token of that name; known: {known}")
            self._write(left)

    def found(self, secret: str) -> Token | None:
        """Return which token this is; None: none. Takes as long for a wrong one as for a right one.

        Raises:
            RigctlError: the file cannot be read.
        """
        found, digest = None, _hash(secret)
        for token in self.all():
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def holds(self, sha256: str) -> bool:
        """Tell whether the token with this hash was not revoked."""
        return any(token.sha256 == sha256 for token in self.all())

    @contextmanager
    def _alone(self) -> Iterator[tuple[Token, ...]]:
        """Give what is there while nobody else changes it."""
        try:
            make_directory(self.path.parent)
            descriptor = os.open(
                self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | system.CLOEXEC | system.NOFOLLOW, 0o600
            )
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            system.lock(descriptor, wait=True)
            yield self.all()
        finally:
            os.close(descriptor)

    def _write(self, tokens: Sequence[Token]) -> None:
        """Put a new file in the place of the old one: whoever reads sees one or the other."""
        text = json.dumps([asdict(token) for token in tokens], indent=1) + "\n"
        try:
            with whole(self.path, private=True) as new:
                new.write_text(text, encoding="utf-8")
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> RigctlError:
        return RigctlError(f"{self.path}: cannot be written ({error.strerror}); make the directory writable")


def listed(tokens: Sequence[Token]) -> Sequence[Mapping[str, Any]]:
    return [{"name": token.name, "created": token.created, "by": token.by} for token in tokens]


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


# Who is logged in -----------------------------------------------------------------------------------------------------


LASTS_S = 12 * 3600.0
MOST = 200
"""Sessions at a time; the oldest ends first."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """One person's browser."""

    name: str
    """Of the person."""
    sha256: str
    """Of the token it was opened with: it ends with it."""
    secret: str
    """Stands in every form of this person's pages (CSRF token)."""
    until_s: float

    def wrote(self, secret: str) -> bool:
        """Tell whether a form is from one of this session's pages."""
        return hmac.compare_digest(self.secret.encode(), secret.encode(errors="replace"))


@dataclass(slots=True)
class Sessions:
    """All that are open; mutable, used in the event loop only."""

    clock: Callable[[], float]
    """Monotonic seconds."""
    _open: OrderedDict[str, BrowserSession] = field(default_factory=OrderedDict)

    def begin(self, name: str, sha256: str) -> str:
        """Return a new session's cookie."""
        cookie = secrets.token_urlsafe(32)
        self._open[cookie] = BrowserSession(name, sha256, secrets.token_urlsafe(32), self.clock() + LASTS_S)
        while len(self._open) > MOST:
            self._open.popitem(last=False)
        return cookie

    def of(self, cookie: str | None) -> BrowserSession | None:
        """Return the session of a cookie; None if it is over, or never was."""
        session = self._open.get(cookie or "")
        if session is not None and self.clock() >= session.until_s:
            self.end(cookie)
            return None
        return session

    def end(self, cookie: str | None) -> None:
        self._open.pop(cookie or "", None)


# Those who guess ------------------------------------------------------------------------------------------------------
# A token is looked up before the throttle is asked: the right one gets in at once while somebody guesses, also from a
# proxy that everybody shares. A wrong one that comes too early is neither logged nor kept, and nothing waits for it.


FIRST_S = 1.0
LONGEST_S = 300.0
"""Seconds after the first and after many wrong tokens; they double from one to the other."""
FORGOTTEN_S = 3600.0
"""After so long without a wrong token it begins anew."""


@dataclass(slots=True)
class Throttle:
    """Remembers how many were wrong; mutable, used in the event loop only."""

    clock: Callable[[], float]
    """Monotonic seconds."""
    _wrong: int = 0
    _last_s: float = 0.0
    _next_s: float = 0.0

    def wait_s(self) -> float:
        """Return the seconds until another wrong token is heard; 0: now."""
        return max(0.0, self._next_s - self.clock())

    def wrong(self) -> None:
        """Note a wrong token."""
        now_s = self.clock()
        self._wrong = 1 if now_s - self._last_s > FORGOTTEN_S else self._wrong + 1
        self._last_s = now_s
        # 2**63 is long beyond every limit, and a float
        self._next_s = now_s + min(FIRST_S * 2.0 ** min(self._wrong - 1, 63), LONGEST_S)

    def right(self) -> None:
        """Note a right token: whoever has one may mistype it."""
        self._wrong, self._next_s = 0, 0.0


# What is kept of it ---------------------------------------------------------------------------------------------------
# The journal has one writer, so the server hands entries to the campaign over the control socket. Where none runs they
# go into a file beside the journal. What a stranger can cause is bounded: one entry a minute, with its number of tries.


AUDIT_FILE = "page-audit.jsonl"
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
        logger("rigctl.page").warning("refused", address=address, what=what)
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
    path = directory / AUDIT_FILE
    line = json.dumps({"utc": datetime.now(UTC).isoformat(timespec="seconds"), **entry}) + "\n"
    try:
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.replace(path.with_suffix(".old.jsonl"))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | system.CLOEXEC | system.NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        logger("rigctl.page").error("not kept", error=str(error), **entry)
