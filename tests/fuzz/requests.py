"""Requests to the control socket of a campaign that runs, changed; its real verbs, its real journal.

Most go to the handler itself, in the campaign's event loop; those of one block in ten through the socket.
"""

import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import structlog

from rigctl.campaign import control, daemon
from rigctl.printable import printable
from tests.campaign.fakes import Stage
from tests.campaign.test_acts import once, watched
from tests.fuzz.mutation import changed

TARGETS = ("socket",)
REQUESTS = 200
SOUND: tuple[Mapping[str, Any], ...] = (
    {"verb": "status"},
    {"verb": "pause", "who": "anna", "why": "the tank leaks"},
    {"verb": "resume", "who": "anna"},
    {"verb": "ack", "alarm": 1, "who": "anna"},
    {"verb": "void", "trial": 1, "why": "a bubble in the cell"},
    {"verb": "void", "trial": 1, "why": "it was none", "undo": True},
    {"verb": "amend", "trial": 1, "why": "typed wrong", "becomes": {"values": {"a": 0.5}, "outcomes": {"growth": 2.5}}},
    {"verb": "amend", "trial": 1, "why": "typed wrong", "becomes": {"amount": 1_000_000, "note": "cheaper"}},
    {"verb": "note", "act": "login", "who": "anna", "argument": "the page", "outcome": "logged in"},
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**300, 10**3000, 1e308),
    *(float("nan"), float("inf"), "", "1", "x" * 3000, "\ud800"),
    *("\x1b]52;c;cm0=\x07", "\u202e", "'; DROP TABLE trials; --"),
    *("../..", [], [1], {}, {"a": 1}, {"values": [1]}, {"a": "b"}),
    *({"outcomes": {"growth": "much"}}, {"values": {"a": {}}}, {"amount": 0.5}, {"note": {"a": 1}}, {"outcomes": None}),
    *({"outcomes": {"growth": 10**400}}, {"values": {"a": True}}),
    *({"amount": 2**70}, {"outcomes": {"growth": "\x1b[2J"}}),
)  # fmt: skip


def block(target: str, rng: random.Random) -> Counter[str]:
    """Run a campaign, and ask it nonsense; return what came of it."""
    del target
    came: Counter[str] = Counter()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(_campaign(Path(made), rng, came))
    return came


async def _campaign(directory: Path, rng: random.Random, came: Counter[str]) -> None:
    caught: list[control.Verbs] = []

    def serving(where: Path, verbs: control.Verbs) -> Any:
        caught.append(verbs)
        return control.serving(where, verbs)

    stage, through, errors = Stage(directory), rng.random() < 0.1, []

    async def ask() -> None:
        try:
            await (_by_socket if through else _by_hand)(stage.state, caught[0], rng, came)
        except Exception as error:  # noqa: BLE001 - the campaign would take it for a failed trial
            errors.append(error)
        for verb in ("resume", "stop"):
            await control._answer(json.dumps({"verb": verb}).encode(), caught[0], "fuzz (uid 0)")

    with stage.world, mock.patch.object(daemon, "serving", serving):
        await stage.run(watched(max_trials=3), fail={"measure": second(ask)})
    if errors:
        raise errors[0]


def second(fault: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """The fault, the second time only: there is a trial to correct by then."""
    times, then = [], once(fault)

    async def of_two() -> None:
        times.append(1)
        if len(times) > 1:
            await then()

    return of_two


async def _by_hand(_: Path, verbs: control.Verbs, rng: random.Random, came: Counter[str]) -> None:
    for _ in range(REQUESTS):
        answer = await control._answer(_request(rng), verbs, "fuzz (uid 0)")
        _check(json.dumps(answer), came)


async def _by_socket(state: Path, verbs: control.Verbs, rng: random.Random, came: Counter[str]) -> None:
    del verbs
    for _ in range(REQUESTS):
        reader, writer = await asyncio.open_unix_connection(state / control.FILE_NAME)
        writer.write(_request(rng).replace(b"\n", b" ") + b"\n")
        try:
            answer = await asyncio.wait_for(reader.readline(), 60.0)
        except ConnectionResetError:  # the line was too long, so its end was not read
            answer = b'{"ok": false}'
        writer.close()
        _check(answer.decode(), came)


def _check(answer: str, came: Counter[str]) -> None:
    told = json.loads(answer)
    assert isinstance(told["ok"], bool)
    assert printable(str(told.get("error", ""))) == told.get("error", ""), told
    came.update(["cases", "done" if told["ok"] else "refused"])


def _request(rng: random.Random) -> bytes:
    asked = dict(rng.choice(SOUND))
    if rng.random() < 0.5:
        return changed(json.dumps(asked).encode(), rng)
    for _ in range(rng.randrange(1, 3)):
        asked[rng.choice((*asked, "who", "why", "trial", "x"))] = rng.choice(VALUES)
    return json.dumps(asked).encode()[: control.MAX_REQUEST_BYTES]
