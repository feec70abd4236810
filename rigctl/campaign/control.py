"""The control socket: one JSON object per line, both ways, for `rigctl status`, `stop` and `safe`.

A request is `{"verb": "status"}`; the answer is `{"ok": true, ...}` or `{"ok": false, "error": "..."}`. The socket is
in the state directory and belongs to the user who runs the daemon (mode 0600).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from rigctl.campaign.lock import holder
from rigctl.errors import RigctlError, UsageError

FILE_NAME = "control.sock"
MAX_REQUEST_BYTES = 4096
Answer = Mapping[str, Any]
Verbs = Mapping[str, Callable[[], Answer | Awaitable[Answer]]]
"""What each verb does and answers; an awaitable is waited for."""


@contextmanager
def _address(directory: Path) -> Iterator[str]:
    """Give a path to the socket short enough for the kernel (108 bytes), however deep the directory is."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        near = Path(f"/proc/self/fd/{descriptor}")
        yield str((near if near.exists() else directory) / FILE_NAME)
    finally:
        os.close(descriptor)


def ask(directory: Path, verb: str, timeout_s: float = 5.0) -> Mapping[str, Any]:
    """Ask the daemon that runs the campaign in this state directory; blocks.

    Raises:
        UsageError: none runs here.
        RigctlError: it refused, or did not answer in time.
    """
    try:
        with _address(directory) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(timeout_s)
            line.connect(address)
            line.sendall(json.dumps({"verb": verb}).encode() + b"\n")
            with line.makefile("rb") as answers:
                text = answers.readline()
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise UsageError(f"{directory}: no campaign is running here") from error
    except OSError as error:
        pid = holder(directory)
        raise RigctlError(
            f"{directory / FILE_NAME}: {verb}: no answer ({error}) from process {pid} that runs this campaign. "
            f"If it stays so, end it with `kill -9 {pid}`, then `rigctl safe` makes everything safe without it"
        ) from error
    answer: Mapping[str, Any] = json.loads(text or "{}")
    if not answer.get("ok"):
        raise RigctlError(f"{verb}: {answer.get('error', 'the daemon ended before it answered')}")
    return answer


@asynccontextmanager
async def serving(directory: Path, verbs: Verbs) -> AsyncIterator[None]:
    """Answer requests while the block runs. The caller holds the state directory's lock."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readline():
                writer.write(json.dumps(await _answer(request, verbs)).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):  # the asker went away, or sent a line without end
            return
        finally:
            writer.close()

    try:
        listening = _listen(directory)
    except OSError as error:
        # A file system without sockets is no reason not to run; signals still end the campaign.
        structlog.get_logger("rigctl.campaign").warning("no control socket", directory=str(directory), error=str(error))
        yield
        return
    server = await asyncio.start_unix_server(talk, sock=listening, limit=MAX_REQUEST_BYTES)
    try:
        yield
    finally:
        server.close()
        with suppress(OSError):  # a disk that is read-only by now keeps it; the next start removes it
            (directory / FILE_NAME).unlink(missing_ok=True)


def _listen(directory: Path) -> socket.socket:
    # A socket left by a process that was killed; nobody can be listening on it, the lock is ours.
    (directory / FILE_NAME).unlink(missing_ok=True)
    out = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        with _address(directory) as address:
            out.bind(address)
        # Nobody can connect before it listens, so there is no moment in which the mode is too wide.
        (directory / FILE_NAME).chmod(0o600)
        out.listen(8)
    except BaseException:
        out.close()
        raise
    return out


async def _answer(request: bytes, verbs: Verbs) -> Answer:
    try:
        asked = json.loads(request)
        verb = asked["verb"]
    except (ValueError, KeyError, TypeError):
        return {"ok": False, "error": 'a request is one line of JSON, e.g. {"verb": "status"}'}
    if verb not in verbs:
        return {"ok": False, "error": f"got {verb!r}, must be one of {', '.join(verbs)}"}
    answer = verbs[verb]()
    return {"ok": True, **(await answer if isinstance(answer, Awaitable) else answer)}
