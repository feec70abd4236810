"""Who may come in: names the page answers to, what a browser may do with it, sizes and times of requests.

A page of another site cannot act here. It cannot read: its name for this machine is not answered (DNS rebinding). It
cannot post: the cookie is not sent with its requests (SameSite=Strict), its origin is not ours, and it does not know
the form's secret word.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse

from rigctl.errors import RigctlError
from rigctl.printable import printable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without one, browsers do not say that a form is from our own page
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
MOST_BYTES = 4096
MOST_FIELDS = 20
"""Of a small form."""
FORM_S = 5.0
"""Wall seconds for a form to arrive."""


class RequestRefused(RigctlError):
    """Says why a request is not answered, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Door:
    """An ASGI application around another one: lets in who asks for one of our names, and adds the headers."""

    app: ASGIApp
    hosts: frozenset[str]
    """Names and addresses we answer to, besides the address that a connection came in at."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        given = [value for name, value in scope["headers"] if name == b"host"]
        if len(given) == 1 and self.knows(given[0].decode("latin-1"), scope.get("server")):
            await self.app(scope, receive, sent)
            return
        allowed = ", ".join(sorted(self.hosts))
        text = f"Not a name of this page. Allowed: {allowed}. `rigctl serve --allow-host NAME` adds one.\n"
        await PlainTextResponse(text, 421)(scope, receive, sent)

    def knows(self, host: str, server: Sequence[object] | None = None) -> bool:
        """Tell whether a `Host` header names us; a bare address that we were reached at cannot have been rebound."""
        name = hostname(host)
        return name in self.hosts or (name != "" and _is_address(name) and server is not None and server[0] == name)


def hostname(host: str) -> str:
    """Return the name in a `Host` header, without port and brackets, in lower case; empty if it is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises if it is no number
    except ValueError:
        return ""
    plain = not (parts.username or parts.password or parts.path or parts.query or parts.fragment)
    return (parts.hostname or "").rstrip(".") if plain and "@" not in host else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach that address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def check_origin(request: Request) -> None:
    """Raise `Refused` where a browser says that another site's page has sent this."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
    ours = origin is None or (urlsplit(origin).netloc == request.headers.get("host") and origin != "null")
    if not ours or site not in ("same-origin", "none"):
        raise RequestRefused(403, "This came from the page of another site, so it was not carried out.")


async def form(request: Request, most_bytes: int = MOST_BYTES, most_fields: int = MOST_FIELDS) -> Mapping[str, str]:
    """Return a form's fields; of a field that comes twice the last one.

    Raises:
        Refused: it is too large, too slow or no form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RequestRefused(415, f"Got {kind or 'no content type'}, must be application/x-www-form-urlencoded.")
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise RequestRefused(413, f"More than {most_bytes} bytes; no form of this page is so large.")
    except TimeoutError:
        raise RequestRefused(408, f"The form did not arrive within {FORM_S:g} s.") from None
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=most_fields))
    except ValueError as error:
        raise RequestRefused(400, f"Not a form: {error}.") from error


# Pages of a few sentences ---------------------------------------------------------------------------------------------


def plain_page(title: str, sentences: Sequence[str], *, again_s: int = 0, form: str = "", up: str = "./") -> str:
    """Return a page of these sentences, with HTML of a form below; it reloads itself after `again_s` (0: never).

    `up` is where the campaign's page is from here, for a proxy may have put it anywhere.
    """
    title = printable(title)
    refresh = f'<meta http-equiv="refresh" content="{again_s}">' if again_s else ""
    said = "".join(f"<p>{escape(printable(sentence))}</p>" for sentence in sentences if sentence)
    way_back = "" if again_s else f'<p><a href="{up}">Back to the page</a></p>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>{refresh}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="{up}assets/icon.svg" type="image/svg+xml">'
        f'<link rel="stylesheet" href="{up}assets/page.css"></head>'
        f'<body class="plain"><main><h1>{escape(title)}</h1>{said}{form}{way_back}</main></body></html>'
    )


LOGIN_FORM = (
    '<form method="post" action="login"><p><label for="token">Your token</label></p>'
    '<p><input id="token" name="token" type="password" autocomplete="current-password" required autofocus></p>'
    "<p><button>Log in</button></p></form>"
)
