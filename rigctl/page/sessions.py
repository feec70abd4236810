"""Who is logged in, by a random cookie; kept in memory, so that a restart of the page's server logs everybody out."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

LASTS_S = 12 * 3600.0
MOST = 200
"""Sessions at a time; the oldest ends first."""


@dataclass(frozen=True, slots=True)
class Session:
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
    _open: OrderedDict[str, Session] = field(default_factory=OrderedDict)

    def begin(self, name: str, sha256: str) -> str:
        """Return a new session's cookie."""
        cookie = secrets.token_urlsafe(32)
        self._open[cookie] = Session(name, sha256, secrets.token_urlsafe(32), self.clock() + LASTS_S)
        while len(self._open) > MOST:
            self._open.popitem(last=False)
        return cookie

    def of(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie; None if it is over, or never was."""
        session = self._open.get(cookie or "")
        if session is not None and self.clock() >= session.until_s:
            self.end(cookie)
            return None
        return session

    def end(self, cookie: str | None) -> None:
        self._open.pop(cookie or "", None)
