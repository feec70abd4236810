import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rigctl.campaign import control
from rigctl.campaign.control import ask, serving
from rigctl.errors import RigctlError, UsageError
from rigctl.people import person
from tests.campaign.test_acts import once, watched

STRANGER = 65534
CONNECT = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    line.sendall(b'{"verb": "stop"}\\n')
    print(line.makefile().readline(), end="")
"""


async def test_a_socket_that_cannot_be_removed_is_left_behind(tmp_path):
    """As on a disk that has become read-only: the campaign's own end is what its caller hears of."""
    async with serving(tmp_path, {}):
        (tmp_path / "control.sock").unlink()
        (tmp_path / "control.sock").mkdir()
    assert (tmp_path / "control.sock").is_dir()


@pytest.fixture
def open_to_all():
    """A state directory that its owner has opened to everybody."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        directory = Path(made)
        directory.chmod(0o755)
        yield directory


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
async def test_another_user_of_the_machine_is_refused_even_where_the_files_let_him_in(open_to_all):
    """What counts is who the kernel says is at the other end; nothing of the request is looked at."""
    asked, path = [], open_to_all / "control.sock"
    command = [sys.executable, "-c", CONNECT, path, str(STRANGER)]
    async with serving(open_to_all, {"stop": lambda request: asked.append(request) or {}}):
        path.chmod(0o666)
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        await asyncio.to_thread(ask, open_to_all, "stop")
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert not answer["ok"]
    assert person(STRANGER) in answer["flaw"]["got"]
    assert person(0) in answer["flaw"]["allowed"]
    assert len(asked) == 1


async def test_a_stranger_is_kept_as_denied_once(stage, monkeypatch, golden):
    """However often he asks: nobody fills the journal from outside."""
    told = []
    peer = control.peer  # the server's end is not a plain socket
    monkeypatch.setattr(control, "peer", lambda s: peer(s) if isinstance(s, socket.socket) else (0, STRANGER))

    async def fault():
        for _ in range(3):
            with pytest.raises(RigctlError) as refused:
                await asyncio.to_thread(ask, stage.state, "stop", 60.0, who="root")
            told.append(str(refused.value))

    result = await stage.run(watched(max_trials=1), fail={"measure": once(fault)})
    assert result.ending == "trials"
    assert len(told) == 3
    (act,) = stage.acts()
    assert act.who == person(STRANGER)
    golden((act.verb, act.argument, act.outcome))


BROKEN = {
    "no JSON": b"pause",
    "not UTF-8": b'{"verb": "\xff"}',
    "half a character": b'{"verb": "note", "who": "\\ud800"}',
    "no number": b'{"verb": "ack", "alarm": NaN}',
    "a number without end": b'{"verb": "ack", "alarm": 1e999}',
    "a number beyond all": b'{"verb": "status", "ago_s": 1' + b"0" * 400 + b"}",
    "a list": b"[1]",
    "nothing": b"null",
    "nested": b"[" * 4000,
}


async def test_a_line_that_is_too_long_is_refused_in_words(tmp_path, golden):
    """Whoever writes a long reason is not told that nobody answers."""
    async with serving(tmp_path, {"pause": lambda _: {}}):
        with golden.raises(RigctlError):
            await asyncio.to_thread(ask, tmp_path, "pause", why="x" * 5000)


async def test_who_asks_names_the_verb_of_a_refusal(tmp_path, golden):
    """Whoever refuses only says why."""

    def refuse(_):
        raise UsageError("trial 1: has one")

    async with serving(tmp_path, {"outcome": refuse}):
        with golden.raises(UsageError):
            await asyncio.to_thread(ask, tmp_path, "outcome")


@pytest.mark.parametrize("kind", BROKEN)
async def test_what_is_no_request_is_refused_and_the_next_one_is_answered(tmp_path, kind, golden):
    """The connection goes on: whoever slipped may ask again."""
    async with serving(tmp_path, {"status": lambda _: {"phase": "running"}}):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "control.sock")
        writer.write(BROKEN[kind] + b'\n{"verb": "status"}\n')
        first, second = json.loads(await reader.readline()), json.loads(await reader.readline())
        writer.close()
    assert not first["ok"]
    golden(first["error"])
    assert second == {"ok": True, "phase": "running"}
