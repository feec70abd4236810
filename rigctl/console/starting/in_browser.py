"""`rigctl init --web`: the questions of the terminal as a form in a browser of this computer, without scripts.

The interview runs anew over all answers so far, until a group of questions has one that is missing or wrong.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from rigctl.console.starting.initialise import ENDED, Find, Wanted, Written, find, lines
from rigctl.errors import RigctlError, UsageError
from rigctl.page import serving
from rigctl.page.door import LOOPBACK, Door, RequestRefused, check_origin, form
from rigctl.page.render import filled
from rigctl.page.server import send_asset

T = TypeVar("T")
MOST_ANSWERS, MOST_BYTES = 1000, 65_536


@dataclass(frozen=True, slots=True)
class FormPart:
    """A heading, a sentence or a question, with what stands in its field."""

    kind: str
    text: str
    key: str = ""
    value: str = ""
    answered: bool = False
    more: Mapping[str, str] = field(default_factory=dict)
    """An example, what an empty answer means, what is wrong with this one."""


class AnswerMissing(Exception):
    """The next question hangs on an answer that is missing or wrong."""


@dataclass(slots=True)
class FormPrompt:
    """Takes the answers of one form, and keeps what the next one asks; mutable."""

    given: Mapping[str, str]
    parts: list[FormPart] = field(default_factory=list)
    _said: list[FormPart] = field(default_factory=list)
    """Shown if a question follows; what is said may have been made of an answer that is missing."""

    def section(self, title: str) -> None:
        if any(part.key and not part.answered for part in self.parts):
            raise AnswerMissing
        self._said.append(FormPart("title", title))

    def say(self, text: str) -> None:
        self._said.append(FormPart("said", text))

    def ask(
        self, question: str, reader: Callable[[str], T], default: str | None = None, example: str = "", empty: str = ""
    ) -> T:
        """Return the answer, or one that stands in for it until the group is answered.

        Raises:
            AnswerMissing: nothing can stand in for it.
        """
        name, taken = question.partition(",")[0], {part.key for part in self.parts}
        key = next(k for k in (name, *(f"{name} {n}" for n in range(2, MOST_ANSWERS))) if k not in taken)
        text, more = self.given.get(key), {"example": example, "empty": empty}
        self.parts += self._said
        self._said.clear()
        try:
            if text is not None:
                value = reader(text.strip() or default or "")
                self.parts.append(FormPart("field", question, key, text, True, more))
                return value
        except ValueError as wrong:
            more["error"] = str(wrong)
        shown = (default or "") if text is None else text
        self.parts.append(FormPart("field", question, key, shown, more=more))
        if default is None and not example:
            raise AnswerMissing
        return reader(default or example)


@dataclass(slots=True)
class Visit:
    """Answers one browser until the file is written; mutable, used in the event loop only."""

    wanted: Wanted
    find: Find = field(default_factory=lambda: cache(find))
    end: Callable[[], None] = lambda: None
    written: Written | None = None
    visitor: str = ""
    """The cookie of the browser that came first."""

    async def answer(self, request: Request) -> Response:
        if self.visitor and not secrets.compare_digest(request.cookies.get("visitor", ""), self.visitor):
            return PlainTextResponse("Another browser has opened this form, and it answers only that one.\n", 403)
        self.visitor, given = self.visitor or secrets.token_urlsafe(), {}
        if request.method == "POST":
            check_origin(request)
            given = dict(await form(request, MOST_BYTES, MOST_ANSWERS))
        page = HTMLResponse(await asyncio.to_thread(self._page, given))
        if self.written is not None:
            page.background = BackgroundTask(self.end)
        page.set_cookie("visitor", self.visitor, httponly=True, samesite="strict")
        return page

    def _page(self, given: Mapping[str, str]) -> str:
        prompt, file, shown = FormPrompt(given), self.wanted.file, {}
        try:
            asked = self.wanted.asked(prompt, self.find)
            prompt.section("")  # nothing stands in for an answer any more
            self.written = self.wanted.write(*asked)
            shown = {"written": lines(self.written), "text": file.read_text(encoding="utf-8")}
        except AnswerMissing:
            pass
        except RigctlError as error:
            shown = {"trouble": str(error)}
        return filled("init.html", prompt=prompt, file=file, **shown)


def ask_in_browser(wanted: Wanted, say: Callable[[str], object]) -> Written:
    """Serve the form to this computer until the file is written; raises UsageError if it is ended before."""
    place, token = serving.ServedAt(Path(), port=0), secrets.token_urlsafe()
    visit, listener = Visit(wanted), serving.listening(place)
    server = serving.limited(application(visit, token), readers=1)
    visit.end = lambda: setattr(server, "should_exit", True)
    say(f"Open in a browser of this computer (Ctrl-C ends it):\n{serving.url_of(place, listener)}{token}/")
    serving.serve(server, listener)
    if visit.written is None:
        raise UsageError(ENDED)
    return visit.written


def application(visit: Visit, token: str) -> Door:
    """Return the form's server as an ASGI application; without the token every address is unknown."""
    routes = [Route("/", visit.answer, methods=["GET", "POST"]), Route("/assets/{name}", send_asset)]

    def refused(_: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}\n", getattr(error, "status", 400))

    app = Starlette(routes=[Mount(f"/{token}", routes=routes)], exception_handlers={RequestRefused: refused})
    return Door(app, frozenset(LOOPBACK))
