"""Who brings messages to people: the library `apprise`, by URLs that nobody else may see; and signs of life by HTTP.

Errors never quote a word of a URL, whatever the library or the other end says.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from rigctl.errors import RigctlError
from rigctl.plugins import need

if TYPE_CHECKING:
    import apprise

    from rigctl.notify.texts import Notice

PING_S: Final = 10.0
"""Wall seconds that a sign of life may take."""
HIDDEN: Final = "***"
_PARTS: Final = re.compile(r"[^A-Za-z0-9_.~%+-]+")
_LEAST: Final = 3
"""Characters of a part of a URL that is taken for a secret."""


class NotSent(RigctlError):
    """Somebody could not be told."""


@dataclass(frozen=True, slots=True)
class MessageService:
    """Brings messages to one receiver."""

    name: str
    """Of the kind of service; says nothing of who is told."""
    key: str = field(repr=False)
    """Its URL, to know it by."""
    send: Callable[[Notice], None] = field(repr=False)
    """Blocks, for how long nobody knows.

    Raises:
        NotSent: it was not taken.
    """


@dataclass(frozen=True, slots=True)
class Parsed:
    """Holds the services that URLs are of."""

    services: tuple[MessageService, ...]
    refused: tuple[int, ...] = ()
    """Lines, counted from 1 among those that are not empty, that are no URLs the library knows."""

    def __str__(self) -> str:
        names = ", ".join(service.name for service in self.services) or "nobody"
        lines = ", ".join(map(str, self.refused))
        return names + (f"; not understood: URL {lines} (counted from 1)" if self.refused else "")


def parsed(urls: Sequence[str]) -> Parsed:
    """Return the services that these URLs are of; raises UsageError if the library is not installed."""
    need("apprise", "notify")
    hidden = _parts(urls)
    services, refused = [], []
    with _quiet(hidden), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports; it imports what a URL needs when it sees the first
        import apprise  # noqa: PLC0415 - heavy, and of use only here

        for number, url in enumerate(urls, start=1):
            one = apprise.Apprise(asset=_asset())
            if not one.add(url):
                refused.append(number)
                continue
            name = _clean(str(one[0].service_name), hidden)
            services.append(MessageService(name, url, _sender(one, name, hidden)))
    return Parsed(tuple(services), tuple(refused))


def ping(url: str) -> None:
    """Ask for a URL, as a sign of life; raises NotSent if no answer comes, or one that tells of an error."""
    if not url.startswith(("https://", "http://")):
        raise NotSent("alive: the URL must begin with https:// or http://")
    import urllib.error  # noqa: PLC0415 - slow to load, and of use only where something is sent
    import urllib.request  # noqa: PLC0415

    request = urllib.request.Request(url, headers={"User-Agent": "rigctl"})  # noqa: S310 - looked at above
    try:
        with urllib.request.urlopen(request, timeout=PING_S) as answer:  # noqa: S310 - as above
            answer.read(1024)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotSent(f"alive: the service answered {error.code}") from None
    except Exception as error:  # noqa: BLE001 - whatever it is may name the URL, so only its kind is told
        raise NotSent(f"alive: the service cannot be asked ({type(error).__name__})") from None


def _asset() -> apprise.AppriseAsset:
    import apprise  # noqa: PLC0415

    return apprise.AppriseAsset(app_id="rigctl", app_desc="rigctl", app_url="", async_mode=False, secure_logging=True)


def _sender(one: apprise.Apprise, name: str, hidden: frozenset[str]) -> Callable[[Notice], None]:
    def send(message: Notice) -> None:
        with _quiet(hidden) as heard:
            try:
                taken = one.notify(title=message.title, body=message.body, notify_type=message.tone)
            except Exception as error:  # noqa: BLE001 - a plug-in of the library may raise anything
                raise NotSent(f"{name}: {type(error).__name__}: {_clean(str(error), hidden)}") from None
        if not taken:
            why = f": {heard[-1]}" if heard else ""
            raise NotSent(f"{name}: was not taken{why}")

    return send


@contextmanager
def _quiet(hidden: frozenset[str]) -> Iterator[list[str]]:
    """Keep what the library logs from going anywhere; give its warnings, cleaned."""
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                heard.append(_clean(record.getMessage(), hidden)[:200])

    logger, ear = logging.getLogger("apprise"), Ear()
    logger.propagate = False  # for good: others may be sending just now
    logger.addHandler(ear)
    try:
        yield heard
    finally:
        logger.removeHandler(ear)


def _parts(urls: Sequence[str]) -> frozenset[str]:
    """Return every word in these URLs that may be a secret: all but how they begin."""
    words = [word for url in urls for word in (url, *_PARTS.split(url.partition("://")[2]))]
    return frozenset(word for word in (*words, *map(unquote, words)) if len(word) >= _LEAST)


def _clean(text: str, hidden: frozenset[str]) -> str:
    for word in sorted(hidden, key=len, reverse=True):
        text = text.replace(word, HIDDEN)
    return " ".join(text.split())
