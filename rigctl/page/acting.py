"""Logging in with a token, and acting on the campaign: each act goes over the control socket, with who did it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from rigctl.campaign import control
from rigctl.campaign.acts import Acknowledge, Act, Outcome, Shelve, Unshelve, Void
from rigctl.errors import RigctlError, UsageError
from rigctl.flaws import got
from rigctl.page.access import LASTS_S, Audit, BrowserSession, Sessions, Throttle, TokenFile
from rigctl.page.door import LOGIN_FORM, RequestRefused, check_origin, form, plain_page
from rigctl.printable import printable

if TYPE_CHECKING:
    from starlette.requests import Request


REQUESTS: Mapping[str, tuple[str, float]] = {
    "finish": ("stop", 5.0),
    "stop": ("stop", 5.0),
    "safe": ("safe", 60.0),
    "pause": ("pause", 10.0),
    "resume": ("resume", 10.0),
}
"""What a form may ask of the campaign itself: its verb, and the wall seconds it may take."""
FORMS: Mapping[str, type[Act]] = {kind.verb: kind for kind in (Acknowledge, Shelve, Unshelve, Void, Outcome)}
"""The acts that have a form; its numbers are the act's whole ones."""
ACT_S = 30.0
"""Wall seconds that an act may take."""
NO_TOKENS = "Nobody can act on this page yet: `rigctl tools token create NAME` makes a token."


@dataclass(slots=True)
class LoggedIn:
    """Knows who is logged in; mutable, used in the event loop only."""

    directory: Path
    judge: Judge | None = None
    """Judges outcomes that people say; None: none is taken here."""
    sessions: Sessions = field(default_factory=lambda: Sessions(time.monotonic))
    throttle: Throttle = field(default_factory=lambda: Throttle(time.monotonic))
    audit: Audit = field(init=False)
    _tokens: TokenFile = field(init=False)

    def __post_init__(self) -> None:
        self.audit, self._tokens = Audit(self.directory), TokenFile(self.directory)

    # who it is -------------------------------------------------------------------------------------------------------

    def cookie(self, request: Request) -> str | None:
        return request.cookies.get(_cookie_name(request))

    def session(self, request: Request) -> BrowserSession | None:
        """Return who asks; None: somebody who may only read."""
        return self.of(self.cookie(request))

    def of(self, cookie: str | None) -> BrowserSession | None:
        return self.sessions.of(cookie)

    async def login_page(self, request: Request) -> Response:
        session = self.session(request)
        if session is not None:
            form_html = (
                f'<form method="post" action="logout"><input type="hidden" name="csrf" value="{session.secret}">'
                "<p><button>Log out</button></p></form>"
            )
            return HTMLResponse(plain_page(f"You are logged in as {session.name}", [], form=form_html))
        if not await asyncio.to_thread(self._tokens.all):
            return HTMLResponse(plain_page("Log in", [NO_TOKENS]))
        return HTMLResponse(plain_page("Log in", ["Anyone with a token may act on the campaign."], form=LOGIN_FORM))

    async def login(self, request: Request) -> Response:
        """Begin a session for who has a token; slow those who guess."""
        check_origin(request)
        address = request.client.host if request.client is not None else "unknown"
        secret = (await form(request)).get("token", "").strip()
        token = await asyncio.to_thread(self._tokens.found, secret)
        if token is None:
            wait_s, title = self.throttle.wait_s(), "This is not a token of this campaign"
            if wait_s > 0:
                text = "Wrong tokens came too fast. The right token is let in at once."
                again = {"Retry-After": str(max(1, round(wait_s)))}
                return HTMLResponse(plain_page(title, [text], form=LOGIN_FORM), 429, again)
            self.throttle.wrong()
            self.audit.denied(address, "wrong token")
            return HTMLResponse(plain_page(title, [], form=LOGIN_FORM), 403)
        self.throttle.right()
        self.sessions.end(self.cookie(request))
        cookie = self.sessions.begin(token.name, token.sha256)
        await self.audit.login(token.name, address)
        answer = RedirectResponse("./", HTTPStatus.SEE_OTHER)
        encrypted = request.headers.get("origin", "").startswith("https:") or request.url.scheme == "https"
        answer.set_cookie(
            _cookie_name(request), cookie, int(LASTS_S), httponly=True, samesite="strict", secure=encrypted, path="/"
        )
        return answer

    async def logout(self, request: Request) -> Response:
        check_origin(request)
        await self._checked(request)
        self.sessions.end(self.cookie(request))
        answer = RedirectResponse("./", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(_cookie_name(request), path="/", httponly=True, samesite="strict")
        return answer

    async def _checked(self, request: Request) -> tuple[BrowserSession, Mapping[str, str]]:
        """Return who has sent a form, and the form.

        Raises:
            Refused: nobody is logged in, the token holds no longer, or the form is not from a page of this session.
        """
        session, given = self.session(request), await form(request)
        if session is None:
            raise RequestRefused(403, "You are not logged in (any more). Log in with a token first.")
        if not session.wrote(given.get("csrf", "")):
            self.audit.denied(request.client.host if request.client else "unknown", "a form that is not from the page")
            raise RequestRefused(403, "This form is not from your page. Load the page anew, then try again.")
        if not await asyncio.to_thread(self._tokens.holds, session.sha256):
            self.sessions.end(self.cookie(request))
            raise RequestRefused(403, f"The token of {session.name} was revoked.")
        return session, given

    # what they do ----------------------------------------------------------------------------------------------------

    async def act(self, request: Request) -> Response:
        """Have the campaign do what a form asks for."""
        check_origin(request)
        session, given = await self._checked(request)
        name = request.path_params["verb"]
        if name not in REQUESTS and name not in FORMS:
            raise RequestRefused(404, f"Got {name}, must be one of {', '.join((*REQUESTS, *FORMS))}.")
        verb, within_s = REQUESTS.get(name, (name, ACT_S))
        arguments: dict[str, Any] = {"who": f"{session.name} (page)", "why": given.get("why", "")}
        arguments |= {key: _number(key, given[key]) for key in _numbers(verb) if key in given}
        wants_json = "application/json" in request.headers.get("accept", "")
        try:
            if verb == "outcome":
                said = await asyncio.to_thread(heard, self.judge, self.directory, arguments.get("trial", 0), given)
                if said.doubts:
                    asks = {"ok": False, "doubts": said.doubts, "sure": said.sure}
                    return JSONResponse(asks, 409) if wants_json else HTMLResponse(question(said, given), 409)
                arguments |= said.arguments
            answer = await asyncio.to_thread(control.ask, self.directory, verb, within_s, **arguments)
        except RigctlError as error:
            status = 504 if isinstance(error, control.CampaignSilent) else 409
            if wants_json:
                return JSONResponse({"ok": False, "error": str(error)}, status)
            return HTMLResponse(plain_page("Not done", [str(error)], up="../"), status)
        if wants_json:
            return JSONResponse(dict(answer))
        if verb == "safe" and answer.get("failed"):
            failed = json.dumps(answer["failed"])
            return HTMLResponse(plain_page("NOT CONFIRMED SAFE", [failed], up="../"), 500)
        return RedirectResponse("../", HTTPStatus.SEE_OTHER)


def _numbers(verb: str) -> tuple[str, ...]:
    """Return which fields of a form are whole numbers: those of its act."""
    hints = get_type_hints(FORMS[verb]) if verb in FORMS else {}
    return tuple(name for name, kind in hints.items() if kind is int)


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise RequestRefused(400, f"{name}: got {text!r:.40}, must be a whole number.")
    return int(text)


def _cookie_name(request: Request) -> str:
    """Return the cookie's name: cookies do not tell ports apart, and a machine may show several campaigns."""
    server = request.scope.get("server")
    return f"rigctl-{server[1]}" if server else "rigctl"


# Outcomes that come later ---------------------------------------------------------------------------------------------


Judge = Callable[[Path, int, Mapping[str, str]], tuple[Mapping[str, float], Sequence[str]]]
"""Turns what is said of a trial, by outcome, into its own units, and says what looks mistyped."""
OF = "of "
"""Begins the name of the field of an outcome."""
MOST_CHARS = 500


@dataclass(frozen=True, slots=True)
class Heard:
    """Holds what somebody said of one trial."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """For the campaign."""
    doubts: tuple[str, ...] = ()
    """What looks mistyped, and whoever said it has not seen yet."""

    @property
    def sure(self) -> str:
        """Return what a form carries of one who has seen just these doubts: others that come are asked about, too."""
        return sha256("\n".join(self.doubts).encode()).hexdigest()


def heard(judge: Judge | None, directory: Path, trial: int, given: Mapping[str, str]) -> Heard:
    """Return what a form says came of a trial.

    Raises:
        UsageError: it is no outcome of this trial, or none is taken here.
        ConfigError: the configuration does not hold any more, so nobody knows units and limits.
    """
    if given.get("lost") == "yes":
        return Heard({"lost": True})
    said = {name.removeprefix(OF): text.strip() for name, text in given.items() if name.startswith(OF)}
    if judge is None or not any(said.values()):
        raise UsageError(got(None, "must be a number, with or without a unit", where=f"outcome: trial {trial}"))
    outcomes, doubts = judge(directory, trial, said)
    found = Heard({"outcomes": dict(outcomes)}, tuple(doubts))
    return replace(found, doubts=()) if given.get("sure") == found.sure else found


def question(found: Heard, given: Mapping[str, str]) -> str:
    """Return a page that asks whether it is right, and sends the same form again if so."""
    fields = "".join(
        f'<input type="hidden" name="{escape(printable(name))}" value="{escape(text[:MOST_CHARS])}">'
        for name, text in {**given, "sure": found.sure}.items()
    )
    form = f'<form method="post" action="outcome">{fields}<p><button>Record it all the same</button></p></form>'
    return plain_page("Is this right? Nothing is recorded yet", found.doubts, form=form, up="../")
