"""The page's server as a process: where it listens, how long it waits for whom, and when it ends."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rigctl.errors import UsageError, reason
from rigctl.flaws import Flaw, got
from rigctl.page.access import TokenFile
from rigctl.page.acting import Judge
from rigctl.page.door import LOOPBACK, Door, is_loopback
from rigctl.page.server import READERS, application

if TYPE_CHECKING:
    from rigctl.page.gatherer import Scholar

PORT = 8765
HEADERS_S = 10.0
"""Wall seconds for a request's headers to arrive, and for its rest once it is answered; who takes longer is cut off."""
UNREAD_S = 30.0
"""Wall seconds that what was sent may wait to be taken."""
HEADERS_BYTES = 16 * 1024
IDLE_S = 5
LEAVE_S = 1
"""Wall seconds that readers have to go when the server ends."""
BESIDE_READERS = 100
"""Connections besides those of readers of events."""


@dataclass(frozen=True, slots=True)
class ServedAt:
    """Says where the page is served."""

    directory: Path
    """The campaign's state directory."""
    host: str = "127.0.0.1"
    port: int = PORT
    """0: any that is free."""
    allow_hosts: tuple[str, ...] = ()
    """Other names it answers to, such as a reverse proxy's."""
    readers: int = READERS

    @property
    def hosts(self) -> frozenset[str]:
        names = frozenset(name.lower() for name in (*LOOPBACK, self.host, *self.allow_hosts))
        return names - {"0.0.0.0", "::"}  # noqa: S104 - these are no names


def check_place(place: ServedAt, *, acts: bool = True) -> str:
    """Return what a person should know of this place; empty if there is nothing.

    Raises:
        UsageError: others could reach it and act there, and nobody has a token.
    """
    if is_loopback(place.host):
        return ""
    if not acts:
        return f"--host {place.host}: anyone who reaches this machine can read all cards. Nothing is encrypted"
    if not TokenFile(place.directory).all():
        raise UsageError(
            Flaw(
                "other machines could reach the page there, and nobody has a token yet",
                remedy="Create a token first: `rigctl tools token create NAME`. Or leave --host out: then only this "
                "machine can reach it",
                where=f"--host {place.host}",
            )
        )
    return (
        f"--host {place.host}: other machines can read the page, and anyone with a token can act. It is NOT "
        "encrypted: anyone on the network can read along, tokens too. Better leave --host out and put a reverse "
        f"proxy with TLS in front, e.g. `caddy reverse-proxy --from rig.example --to 127.0.0.1:{place.port}` with "
        "`rigctl serve --allow-host rig.example`"
    )


def listening(place: ServedAt) -> socket.socket:
    """Return a socket that listens there; raises UsageError if the host is unknown, or the port cannot be had."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise _no_host(place.host, reason(error)) from error
    out = socket.socket(family, kind, number)
    try:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        out.bind(address)
        out.listen(128)
    except OSError as error:
        out.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                Flaw(
                    f"another program listens at {place.host} port {place.port} already",
                    remedy="give another one with --port, or --port 0 for any that is free",
                    where=f"--port {place.port}",
                )
            ) from error
        if error.errno == errno.EACCES:
            lead, remedy = (
                ", where this user may not listen",
                "to be reached at port 80 or 443, put a reverse proxy in front",
            )
            raise UsageError(got(place.port, "must be 1024 to 65535", remedy, where="--port", lead=lead)) from error
        raise _no_host(place.host, os.strerror(error.errno or 0)) from error
    return out


def _no_host(host: str, why: str) -> UsageError:
    remedy = "127.0.0.1 is for this machine alone, 0.0.0.0 for all that can reach it"
    return UsageError(got(host, f"must be an address or a name of this machine ({why})", remedy, where="--host"))


def url_of(place: ServedAt, listener: socket.socket) -> str:
    """Return where a browser on this machine finds the page."""
    host = place.host if place.host not in ("0.0.0.0", "::") else "localhost"  # noqa: S104 - not bound to here
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"


class Protocol(H11Protocol):
    """Cuts off who begins a request and does not go on with it, or does not take what it has asked for."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        line = transport.get_extra_info("socket")
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * UNREAD_S))
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE or self._answered_early():
            self._expect_headers()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._answered_early():
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _answered_early(self) -> bool:
        """Tell whether a request has its answer, and is still coming: without end, it would hold the connection."""
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _expect_headers(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEADERS_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def server_of(place: ServedAt, scholar: Scholar, judge: Judge | None = None) -> uvicorn.Server:
    page = application(place.directory, scholar, judge, place.readers)
    return limited(Door(page, place.hosts), place.readers)


def limited(app: Door, readers: int) -> uvicorn.Server:
    """Return a server, with limits on what a stranger may take of it."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=LEAVE_S,
        h11_max_incomplete_event_size=HEADERS_BYTES,
        limit_concurrency=readers + BESIDE_READERS,
    )
    return uvicorn.Server(config)


def serve(server: uvicorn.Server, listener: socket.socket, *, with_parent: bool = False) -> None:
    """Serve the page until a signal comes; `with_parent`: also until standard input ends."""
    if with_parent:
        threading.Thread(target=_end_with_input, args=[server], name="parent", daemon=True).start()
    try:
        asyncio.run(server.serve(sockets=[listener]))
    except KeyboardInterrupt:
        return


def _end_with_input(server: uvicorn.Server) -> None:
    while sys.stdin.buffer.read(1024):
        pass
    server.should_exit = True


def names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that `--allow-host` was given; raises UsageError if one is no host's name."""
    for name in given or ():
        if not name or any(c in name for c in "/:@* ") or not name.isascii():
            raise UsageError(got(name, "must be a name without port, such as rig.example", where="--allow-host"))
    return tuple(given or ())
