"""The page's server as an ASGI application: the page, what changes of it, and what people may do there.

It opens the journal read-only and speaks with the campaign over its control socket, and does nothing else to either.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rigctl.codec import fields_of
from rigctl.errors import RigctlError
from rigctl.page.access import BrowserSession
from rigctl.page.acting import Judge, LoggedIn
from rigctl.page.card import Card
from rigctl.page.door import RequestRefused, plain_page
from rigctl.page.figures import series
from rigctl.page.gatherer import SECRET, Gatherer, Scholar, Shown
from rigctl.page.manual import html_pages
from rigctl.page.render import asset, page
from rigctl.page.shown import Facts

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


READERS = 100
"""Readers of events at a time."""
LONG_S = 365 * 24 * 3600
"""An asset that is named with its hash never changes."""


@dataclass(slots=True)
class Server:
    """Answers requests; mutable, used in the event loop only."""

    gatherer: Gatherer
    desk: LoggedIn
    readers: int = READERS
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    """Of this process, in the numbers of its events."""
    _pages: dict[bool, tuple[int, str]] = field(default_factory=dict)
    """By whether one may act, the version it is of and the page."""
    _series: tuple[int, bytes] = (-1, b"")

    async def home(self, request: Request) -> Response:
        """Return the page as it is now; without a script it is loaded anew by hand."""
        shown, session = await self.gatherer.fresh(), self.desk.session(request)
        if shown.facts is None:
            sentences = [shown.trouble, "This page looks again by itself."]
            return HTMLResponse(plain_page("Nothing to show yet", sentences, again_s=2))
        trial = request.query_params.get("trial", "")
        if trial.isdecimal() and len(trial) < 10:
            page = await self.gatherer.page_of(int(trial), acting=session is not None)
        else:
            page = await self._page(shown, shown.facts, acting=session is not None)
        return HTMLResponse(page if session is None else page.replace(SECRET, session.secret))

    async def _page(self, shown: Shown, facts: Facts, *, acting: bool) -> str:
        """Return the page for one who may act, or not; readers of the same version share it."""
        version, html = self._pages.get(acting, (-1, ""))
        if version != shown.version:
            html = await asyncio.to_thread(page, facts, shown.study, acting=SECRET if acting else None)
            self._pages[acting] = shown.version, html
        return html

    async def events(self, request: Request) -> Response | EventStream:
        """Send what changes, until the reader goes away."""
        if request.method == "HEAD":  # it would be kept waiting for a body that it does not want
            return Response(media_type="text/event-stream")
        if self.gatherer.readers >= self.readers:
            text = f"{self.readers} readers are here already; `rigctl serve --readers N` allows more.\n"
            return PlainTextResponse(text, 503, {"Retry-After": "30"})
        await self.gatherer.fresh()
        last, cookie = request.headers.get("last-event-id", ""), self.desk.cookie(request)
        without = ("log",) if request.query_params.get("trial") else ()  # one trial's log stays as it is
        return EventStream(self.gatherer, lambda s, v: _told(s, v, self.desk.of(cookie), without), self.name, last)

    async def series(self, request: Request) -> Response:
        shown = await self.gatherer.fresh()
        if shown.facts is None:
            return JSONResponse({"error": shown.trouble}, 503)
        tag = f'"{self.name}-{shown.version}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        if self._series[0] != shown.version:
            self._series = shown.version, await asyncio.to_thread(_json, series(shown.facts))
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        return Response(self._series[1], media_type="application/json", headers=headers)

    async def card(self, request: Request) -> Response:
        """Return the campaign in a few lines, for a wall."""
        del request
        shown = await self.gatherer.fresh()
        if shown.facts is None:
            return JSONResponse({"error": shown.trouble}, 503)
        return JSONResponse(fields_of(Card.of(shown.facts, shown.study)))

    async def health(self, request: Request) -> Response:
        """Say that the server answers, and what it sees; for whatever watches over it."""
        del request
        shown = self.gatherer.shown
        return JSONResponse({"ok": True, "readers": self.gatherer.readers, "journal": shown.facts is not None})


async def manual(request: Request) -> Response:
    page = (await asyncio.to_thread(html_pages)).get(request.path_params["topic"])
    if page is None:
        return await _missing(request, KeyError())
    return HTMLResponse(plain_page(page.title, [], form=page.text, up="../"))


async def send_asset(request: Request) -> Response:
    """Return a file that a page needs; kept by browsers for good where its hash is asked for."""
    try:
        body, kind = asset(request.path_params["name"])
    except RigctlError:
        return PlainTextResponse("There is no such file.\n", 404)
    digest = hashlib.sha256(body).hexdigest()
    tag, asked = f'"{digest[:16]}"', request.query_params.get("v", "")
    kept = len(asked) >= 8 and digest.startswith(asked)
    headers = {"ETag": tag, "Cache-Control": f"public, max-age={LONG_S}, immutable" if kept else "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=kind, headers=headers)


def _told(shown: Shown, version: int, session: BrowserSession | None, without: Sequence[str]) -> Mapping[str, str]:
    newer = shown.newer_than(version, acting=session is not None)
    sections = {name: html for name, html in newer.items() if name not in without}
    return sections if session is None else {n: html.replace(SECRET, session.secret) for n, html in sections.items()}


def _json(value: Mapping[str, Any]) -> bytes:
    return bytes(JSONResponse(value).body)


def application(
    directory: Path, scholar: Scholar, judge: Judge | None = None, readers: int = READERS, *, acts: bool = True
) -> Starlette:
    """Return the page of a state directory's campaign, to stand behind a `Door`; `acts`: people may act there."""
    desk = LoggedIn(directory, judge)
    server = Server(Gatherer(directory, scholar), desk, readers)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        gathering = asyncio.create_task(server.gatherer.run(), name="gatherer")
        try:
            yield
        finally:
            gathering.cancel()
            with suppress(asyncio.CancelledError):
                await gathering
            await server.gatherer.close()
            await desk.audit.end()

    routes = [
        Route("/", server.home),
        Route("/events", server.events),
        Route("/data/series.json", server.series),
        Route("/data/card.json", server.card),
        Route("/assets/{name}", send_asset),
        Route("/help/{topic}", manual),
        Route("/healthz", server.health),
    ]
    acting = [
        Route("/login", desk.login_page, methods=["GET"]),
        Route("/login", desk.login, methods=["POST"]),
        Route("/logout", desk.logout, methods=["POST"]),
        Route("/act/{verb}", desk.act, methods=["POST"]),
    ]
    routes += acting if acts else [Route("/login", _nobody)]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={RigctlError: _refused, 404: _missing})
    app.state.gatherer, app.state.desk = server.gatherer, desk
    return app


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, RequestRefused) else 500
    return HTMLResponse(plain_page("Not done", [str(error)], up=_up(request)), status)


async def _nobody(request: Request) -> Response:
    del request
    return HTMLResponse(plain_page("Nobody acts on a wall", ["`rigctl serve --state DIR` shows the page to act on."]))


async def _missing(request: Request, error: Exception) -> Response:
    del error
    return HTMLResponse(plain_page("There is no such page", [], up=_up(request)), 404)


def _up(request: Request) -> str:
    """Return where the campaign's page is from a request's path."""
    return "../" * (request.url.path.removeprefix(request.scope.get("root_path", "")).count("/") - 1) or "./"


# Events ---------------------------------------------------------------------------------------------------------------
# Server-Sent Events, as in the HTML standard. A reader is sent what is new since it was last sent something, so nothing
# is kept for it: one that reads slowly misses what lay between, and one that does not read at all is dropped.


HEARTBEAT_S = 15.0
"""Wall seconds without news after which a reader is sent a sign of life."""
SLOW_S = 20.0
"""A reader that takes longer for a message is dropped."""
AGAIN_MS = 3000
"""After so long a browser connects anew."""


@dataclass(frozen=True, slots=True)
class EventStream:
    """An ASGI application that goes on until its reader goes away."""

    gatherer: Gatherer
    told: Callable[[Shown, int], Mapping[str, str]]
    """The sections, for this reader, that are new since a version."""
    server: str
    """Names this process: versions of another one mean nothing."""
    last: str
    """The last event that the reader has seen, as it says; empty: none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        self.gatherer.begin_reading()
        telling = asyncio.create_task(self._tell(send), name="events")
        leaving = asyncio.create_task(_left(receive), name="reader leaves")
        try:
            with suppress(asyncio.CancelledError):  # the server ends
                await asyncio.wait([telling, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.gatherer.end_reading()
            for task in (telling, leaving):
                task.cancel()
            await asyncio.wait([telling, leaving])
        if not telling.cancelled():
            with suppress(TimeoutError, OSError):
                telling.result()

    async def _tell(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
        await _sent(send, {"type": "http.response.start", "status": 200, "headers": headers})
        await _sent(send, _body(f"retry: {AGAIN_MS}\n\n"))
        version, file = self._known(), self.gatherer.shown.file
        while True:
            news, shown = self.gatherer.news, self.gatherer.shown
            if shown.facts is None or shown.file != file:  # another campaign's journal, or none
                await _sent(send, _body(event("reload", {})))
                return
            sections = self.told(shown, version)
            version = shown.version
            if sections:
                await _sent(send, _body(event("sections", sections, f"{self.server}-{version}")))
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await news.wait()
            except TimeoutError:
                await _sent(send, _body(": still here\n\n"))

    def _known(self) -> int:
        server, _, version = self.last.partition("-")
        return int(version) if server == self.server and version.isdecimal() else 0


def event(name: str, data: Mapping[str, Any], number: str = "") -> str:
    """Return one event as it is sent; JSON has no line break in it."""
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


def _body(text: str) -> Message:
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}


async def _sent(send: Send, message: Message) -> None:
    async with asyncio.timeout(SLOW_S):
        await send(message)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
