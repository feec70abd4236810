"""A TCP server for whatever speaks over a port, on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from sim_rig.errors import ListenError
from sim_rig.faults import TCP_FAULTS, WireFaults

HOST = "127.0.0.1"
Feed = Callable[[bytes], None]


class Connection(asyncio.Protocol):
    """Serves one client."""

    def __init__(self, port: TcpPort) -> None:
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._feed = port.connect(self._transmit)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self._port.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self._port.connections.discard(self)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if self._port.deaf:
            return
        self._port.sync()
        self._feed(data)

    def abort(self) -> None:
        """Reset the connection: no lingering, so the peer sees a reset and not an orderly end."""
        if self._transport is not None:
            peer = self._transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _transmit(self, reply: bytes) -> None:
        faults = self._port.faults
        if faults.take(TCP_FAULTS) is not None:
            self.abort()
            return
        faults.transmit(reply, self._write)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


class TcpPort:
    """Listens on the loopback interface only; at a free port where `port` is 0.

    `connect` is given what sends to a new client, and returns what takes its bytes; `sync` brings the plant up to date.
    """

    def __init__(
        self, connect: Callable[[Feed], Feed], faults: WireFaults, port: int, sync: Callable[[], None]
    ) -> None:
        self.connect = connect
        self.faults = faults
        self.sync = sync
        self.connections: set[Connection] = set()
        self.deaf = False
        """Half open: connections stay, nothing is answered."""
        self.port = port
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; raise `ListenError` if the port is taken."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: Connection(self), HOST, self.port)
        except OSError as error:
            raise ListenError(
                f"--port {self.port}: cannot listen on {HOST}: {error.strerror}; 0 takes a free one"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for connection in tuple(self.connections):
                connection.abort()
            await self._server.wait_closed()
            self._server = None
