"""What has changed, sent to browsers as it changes (Server-Sent Events, as in the HTML standard).

A reader is sent what is new since it was last sent something, so nothing is kept for it: one that reads slowly misses
what lay between, and one that does not read at all is dropped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from rigctl.page.gatherer import Gatherer, Shown

HEARTBEAT_S = 15.0
"""Wall seconds without news after which a reader is sent a sign of life."""
SLOW_S = 20.0
"""A reader that takes longer for a message is dropped."""
AGAIN_MS = 3000
"""After so long a browser connects anew."""


@dataclass(frozen=True, slots=True)
class Events:
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
