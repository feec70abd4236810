"""Several campaigns as cards on one wall: of state directories here, and of pages that are served elsewhere.

It reads only, and nobody can act here. Addresses come from the command line, never from a request.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route

from rigctl.errors import UsageError, reason
from rigctl.flaws import got
from rigctl.page.card import Card
from rigctl.page.door import Door
from rigctl.page.gatherer import Gatherer, ProcessScholar
from rigctl.page.render import filled
from rigctl.page.server import application, send_asset
from rigctl.page.words import SEVERITIES

EVERY_S = 5.0
"""Wall seconds between two looks."""
ANSWER_S = 4.0
"""Wall seconds for another page to answer."""
MOST_BYTES = 16_384


def places(given: Sequence[str]) -> Mapping[str, Path | str]:
    """Return what a wall shows, by what it is called: state directories, and addresses of pages.

    Raises:
        UsageError: one is neither.
    """
    found: dict[str, Path | str] = {}
    for one in given:
        address = urlsplit(one)
        if address.scheme in ("http", "https") and address.hostname and "@" not in address.netloc:
            found[one] = urljoin(one if one.endswith("/") else f"{one}/", "data/card.json")
        elif Path(one).is_dir():
            found[one] = Path(one)
        else:
            must = "must be a state directory, or the address of a page such as http://rig2.example:8765"
            raise UsageError(got(one, must, where="--wall"))
    return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(slots=True)
class WallView:
    """Looks at all campaigns while somebody reads; mutable, used in the event loop only."""

    places: Mapping[str, Path | str]
    _gatherers: dict[str, Gatherer] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _seen_s: float = float("-inf")
    _html: str = ""

    async def cards(self) -> str:
        """Return all cards as HTML, looked at a moment ago at most; all who ask at a time share one look."""
        async with self._lock:
            if time.monotonic() - self._seen_s > EVERY_S:
                found = await asyncio.gather(*(self._card(name, place) for name, place in self.places.items()))
                cards = list(zip(self.places, found, strict=True))
                self._html = filled("cards.html", cards=cards, signs=SEVERITIES)
                self._seen_s = time.monotonic()
        return self._html

    async def _card(self, name: str, place: Path | str) -> Card:
        try:
            if isinstance(place, str):
                return await asyncio.to_thread(_fetched, place)
            shown = await self._gatherers.setdefault(name, Gatherer(place, None, sections=lambda *_, **__: {})).fresh()
            if shown.facts is not None:
                return Card.of(shown.facts, None)
            why = shown.trouble
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            why = f"does not answer: {reason(cause) if isinstance(cause, OSError) else cause}"
        except (ValueError, TypeError, KeyError):
            why = "answers, but not as a page of rigctl does"
        return Card(name, "not seen", abnormal=True, sentence=why)

    async def home(self, request: Request) -> Response:
        del request
        return HTMLResponse(filled("wall.html", cards=await self.cards()))

    async def again(self, request: Request) -> Response:
        del request
        return HTMLResponse(await self.cards())


def _fetched(address: str) -> Card:
    with urllib.request.build_opener(_NoRedirect).open(address, timeout=ANSWER_S) as answer:  # http or https only
        return Card.read(answer.read(MOST_BYTES).decode())


def wall(shown: Mapping[str, Path | str], hosts: frozenset[str]) -> Door:
    """Return the wall's server as an ASGI application; a directory's page is beside it, and nobody acts there."""
    found = WallView(shown)
    pages = {
        n: application(place, ProcessScholar(place), acts=False)
        for n, place in enumerate(shown.values())
        if isinstance(place, Path)
    }

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        async with AsyncExitStack() as stack:
            for page in pages.values():
                await stack.enter_async_context(page.router.lifespan_context(page))
            yield
        for gatherer in found._gatherers.values():  # noqa: SLF001 - its own module
            await gatherer.close()

    routes = [Route("/", found.home), Route("/cards", found.again), Route("/assets/{name}", send_asset)]
    beside = [Mount(f"/{n}", page) for n, page in pages.items()]
    return Door(Starlette(routes=[*routes, *beside], lifespan=lifespan), hosts)
