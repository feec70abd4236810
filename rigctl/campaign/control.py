"""The control socket: one JSON object per line, both ways. The one door through which people act on a campaign.

A request is `{"verb": "pause", "who": "...", "why": "..."}`, with what else the verb needs; the answer is
`{"ok": true, ...}` or `{"ok": false, "error": "..."}`. The socket is in the state directory and belongs to the user who
runs the daemon (mode 0600); whoever gets at it all the same is refused unless the kernel says it is that user or root.
Who does not say who asks is named by the user id that the kernel knows of.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any

from rigctl import system
from rigctl.campaign.lock import UNKNOWN, holder, peer
from rigctl.errors import RigctlError, UsageError, reason
from rigctl.flaws import Flaw, got
from rigctl.logs import logger
from rigctl.people import barred, person
from rigctl.printable import one_line

FILE_NAME = "control.sock"
MAX_REQUEST_BYTES = 4096
MAX_WORDS = 200
"""Characters of who asks, and of why."""
STRANGER_S = 1.0
"""Wall seconds in which a stranger may still send what nobody reads."""
LARGEST = 2**53
"""Of numbers: what JSON keeps exact, and the journal holds."""
Answer = Mapping[str, Any]


class CampaignSilent(RigctlError):
    """A campaign runs here, and says nothing."""


@dataclass(frozen=True, slots=True)
class Request:
    """Holds what somebody asks for."""

    verb: str
    who: str
    why: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """Return an argument that is a whole number; raises UsageError if there is none of this name."""
        value = self.arguments.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
            raise UsageError(got(value, "must be a whole number", where=name))
        return value

    def text(self, name: str) -> str:
        """Return words among the arguments, on one line; empty if there are none."""
        return _words(self.arguments.get(name, ""))


Verbs = Mapping[str, Callable[[Request], Answer | Awaitable[Answer]]]
"""What each verb does and answers; an awaitable is waited for, a `RigctlError` is told to who asks."""


@contextmanager
def _address(directory: Path) -> Iterator[str]:
    """Give a path to the socket short enough for the kernel (108 bytes), however deep the directory is."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        near = Path(f"/proc/self/fd/{descriptor}")
        yield str((near if near.exists() else directory) / FILE_NAME)
    finally:
        os.close(descriptor)


def _recognise(line: socket.socket, directory: Path) -> None:
    """Raise `RigctlError` unless who answers is who signed the lock, by the kernel's word (fault 86).

    Of a process in another PID namespace the kernel gives no number, and where no campaign ever ran nobody has signed:
    then its user must be the directory's owner.
    """
    (pid, user), known, owner = peer(line), holder(directory), directory.stat().st_uid
    if (pid and str(pid) != known and known != UNKNOWN) or user != owner:
        raise RigctlError(
            f"{directory / FILE_NAME}: process {pid} of user {user} answers, but this campaign is process {known} of "
            f"user {owner}. Nothing was asked of it. Find out what it is; `rigctl safe --force` makes everything safe "
            "without it"
        )


def ask(directory: Path, verb: str, timeout_s: float = 5.0, **arguments: Any) -> Mapping[str, Any]:
    """Ask the daemon that runs the campaign in this state directory; blocks.

    The answer may take `timeout_s` wall seconds. `arguments` are what the verb needs, with `who` asks and `why`.

    Raises:
        UsageError: none runs here, or it cannot do that.
        RigctlError: it refused, or did not answer in time.
    """
    if not system.SOCKETS:
        raise UsageError(f"{directory}: no campaign is running here")
    try:
        with _address(directory) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(timeout_s)
            line.connect(address)
            _recognise(line, directory)
            line.sendall(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
            with line.makefile("rb") as answers:
                text = answers.readline()
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise UsageError(f"{directory}: no campaign is running here") from error
    except PermissionError as error:  # whoever runs it is well; it is not this person's
        raise RigctlError(f"{verb}: {barred(directory, error)}") from error
    except OSError as error:
        pid = holder(directory)
        raise CampaignSilent(
            f"{directory / FILE_NAME}: {verb}: no answer ({reason(error)}) from process {pid} that runs this campaign. "
            "If it stays so, `rigctl safe --force` ends it and makes everything safe without it"
        ) from error
    answer: Mapping[str, Any] = json.loads(text or "{}")
    if not answer.get("ok"):
        refused = UsageError if answer.get("usage") else RigctlError
        parts = answer.get("flaw") or {"lead": answer.get("error", "the daemon ended before it answered")}
        raise refused(Flaw(**{f.name: str(parts.get(f.name, "")) for f in fields(Flaw)}).within(str(verb)))
    return answer


@asynccontextmanager
async def serving(directory: Path, verbs: Verbs) -> AsyncIterator[None]:
    """Answer requests while the block runs. The caller holds the state directory's lock."""
    if not system.SOCKETS:
        yield
        return
    strangers: set[int] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _, uid = peer(writer.get_extra_info("socket"))
            if uid not in (system.user(), 0):
                writer.write(json.dumps(await _refused(uid, verbs, strangers)).encode() + b"\n")
                await writer.drain()
                await asyncio.wait_for(_line(reader), STRANGER_S)  # else his question breaks the pipe, unanswered
                return
            asker = person(uid)
            while request := await _line(reader):
                writer.write(json.dumps(await _answer(request, verbs, asker)).encode() + b"\n")
                await writer.drain()
        except UsageError as error:
            writer.write(json.dumps({"ok": False, "error": str(error)}).encode() + b"\n")
        except OSError:  # the asker went away, or sent nothing
            return
        finally:
            writer.close()

    try:
        listening = _listen(directory)
    except OSError as error:
        # A file system without sockets is no reason not to run; signals still end the campaign.
        logger("rigctl.campaign").warning("no control socket", directory=str(directory), error=str(error))
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
        os.fchmod(out.fileno(), 0o600)  # so will be the mode of the file that it makes
        with _address(directory) as address:
            out.bind(address)
        out.listen(8)
    except BaseException:
        out.close()
        raise
    return out


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError as error:  # the rest of it is not waited for
        found = f"more than {MAX_REQUEST_BYTES} bytes on one line"
        raise UsageError(Flaw("", "must be a request", got=found)) from error


async def _refused(uid: int, verbs: Verbs, known: set[int]) -> Answer:
    """Refuse a stranger, and have it kept once: nobody fills the journal by asking again."""
    who = person(uid)
    logger("rigctl.campaign").warning("refused", who=who, what="the control socket")
    if uid not in known and "note" in verbs:
        known.add(uid)
        note = {"verb": "note", "act": "denied", "who": who, "argument": "the control socket", "outcome": "refused"}
        await _answer(json.dumps(note).encode(), verbs, who)
    return _refusal(RigctlError(Flaw(allowed=f"must be of {person(system.user())} or root", got=f"a request of {who}")))


def _read(line: bytes) -> Mapping[str, Any]:
    """Return a request; `ValueError` also for what no journal holds: numbers without end, halves of characters."""
    asked: Mapping[str, Any] = json.loads(line, parse_int=_whole)
    json.dumps(asked, ensure_ascii=False, allow_nan=False).encode()
    return asked


def _whole(text: str) -> int:
    if not isfinite(float(text)):
        raise ValueError(f"{text[:40]} is beyond all numbers")
    return int(text)


async def _answer(line: bytes, verbs: Verbs, asker: str) -> Answer:
    try:
        asked = _read(line)
        verb = asked["verb"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _refusal(RigctlError(Flaw("a request is one line of JSON", remedy='e.g. {"verb": "status"}')))
    if not isinstance(verb, str) or verb not in verbs:
        return _refusal(RigctlError(got(verb, f"must be one of {', '.join(verbs)}")))
    arguments = {name: value for name, value in asked.items() if name not in ("verb", "who", "why")}
    request = Request(verb, _words(asked.get("who")) or asker, _words(asked.get("why")), arguments)
    try:
        answer = verbs[verb](request)
        return {"ok": True, **(await answer if isinstance(answer, Awaitable) else answer)}
    except RigctlError as error:
        return _refusal(error)


def _refusal(error: RigctlError) -> Answer:
    return {"ok": False, "error": str(error), "flaw": asdict(error.flaw), "usage": isinstance(error, UsageError)}


def _words(said: Any) -> str:
    """Return what somebody has written, short and on one line: it goes into logs and onto terminals."""
    return one_line(str(said or ""))[:MAX_WORDS]
