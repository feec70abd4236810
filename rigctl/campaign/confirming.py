"""Going on until everything is confirmed safe: who has driven a rig stays until then, or until told to leave it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm, SafeReport

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 10.0
"""Wall seconds between two attempts to make everything safe; they double from the first to the longest."""
REMIND_S = 60.0
"""Wall seconds after which the log says again what is not confirmed safe."""
STAYS = "it stays and tries again until everything is confirmed safe; another signal ends it"


def standing(report: SafeReport) -> str:
    """Say that everything is safe, or what is not."""
    if report.ok:
        return "everything is safe"
    return "NOT CONFIRMED SAFE: " + "; ".join(f"{name}: {why}" for name, why in (report.told or report.failed).items())


async def until_confirmed(
    safe: Callable[[], Awaitable[SafeReport]],
    report: SafeReport,
    tell: Callable[[Alarm], object],
    enough: Callable[[], bool],
    *,
    what: str,
    sooner: asyncio.Event | None = None,
) -> SafeReport:
    """Go on from a first report until everything is confirmed safe, or `enough` says to leave it.

    One alarm when it begins and one when it is over, however many attempts there are; the log says it every minute.

    Args:
        safe: tries once.
        report: what came of the first attempt.
        tell: is told of both alarms.
        enough: asked before every attempt.
        what: what is done meanwhile, for people.
        sooner: when set, the next attempt does not wait.
    """
    if report.ok:
        return report
    kind, source, log = "unconfirmed", "safe state", structlog.get_logger("rigctl.campaign")
    tell(Alarm(Severity.MAJOR, source, f"{what}: {standing(report)}", kind=kind, state="stands"))
    pause_s, told_s = FIRST_RETRY_S, time.monotonic()
    while not report.ok:
        await moment(pause_s, sooner or asyncio.Event())
        if enough():
            return report
        pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        report = await safe()
        if not report.ok and time.monotonic() >= told_s + REMIND_S:
            told_s = time.monotonic()
            log.error("still not confirmed safe", what=what, failed=dict(report.failed))
    tell(Alarm(Severity.MINOR, source, "confirmed: everything is safe", kind=kind, state="over"))
    return report


async def moment(within_s: float, sooner: asyncio.Event) -> None:
    """Let so many wall seconds pass, or fewer if the event is set meanwhile."""
    with suppress(TimeoutError):
        await asyncio.wait_for(sooner.wait(), within_s)
    sooner.clear()
