"""Tokens by which people may act on a campaign from its page: random, told once, and kept as hashes only.

A token is 256 random bits, so there is nothing to guess and no dictionary to try: one SHA-256 protects a stolen file as
well as a slow hash would, and a slow one would let strangers keep the page's server busy.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rigctl.campaign.lock import make_directory
from rigctl.errors import RigctlError, UsageError
from rigctl.files import own, whole

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
            RigctlError: the file cannot be read, others may read it, or it is not what `rigctl token` writes.
        """
        try:
            return tuple(Token(**entry) for entry in json.loads(own(self.path, 0o077)))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise RigctlError(f"{self.path}: cannot be read ({error.strerror}); nobody can act on the page") from error
        except (ValueError, TypeError) as error:
            raise RigctlError(
                f"{self.path}: not what `rigctl token` writes ({error}); delete it and make new tokens"
            ) from error

    def create(self, name: str, by: str) -> str:
        """Return a new token for this person; only its hash is kept.

        Raises:
            UsageError: the name is none, or taken.
            RigctlError: the file cannot be read or written.
        """
        name = " ".join(name.split())
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise UsageError(f"token: NAME: got {name!r}, must be a person's name of 1 to {MAX_NAME} characters")
        with self._alone() as tokens:
            if any(token.name == name for token in tokens):
                raise UsageError(f"token: {name} has one already; `rigctl token revoke {name!r}` first")
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
                self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
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
    """Return tokens for people and programs, without their hashes."""
    return [{"name": token.name, "created": token.created, "by": token.by} for token in tokens]


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
