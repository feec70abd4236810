"""What a campaign as a whole is doing, and the worst thing that stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from rigctl.campaign.journal.glance import Condition, LastStart
from rigctl.page.shown import Phase, Standing
from rigctl.page.words import ending

SILENT_S = 60.0
"""A process that has not been seen for so long is not running, as far as a journal says."""
IN_ORDER = ("budget", "finished", "trials", "stopped")
"""Endings that nobody need look at."""


def phase_now(
    condition: Condition, status: Mapping[str, Any] | None, now: datetime, *, wired: bool, alive: bool | None = None
) -> Phase:
    """Return what the campaign does, in a word."""
    start, noted, trip = condition.start, condition.phase, condition.trip
    if trip is not None:
        return Phase("tripped", trip.reason, trip.utc, abnormal=True)
    if status is not None:
        word = str(status.get("phase", "running"))
        since = noted.utc if noted is not None and noted.phase.lower() == word else "" if start is None else start.utc
        paused = str(status.get("paused") or "")
        why = f"after this trial {paused}" if word == "running" and paused else str(status.get("why", ""))
        return Phase(word, "" if word == "running" and not paused else why, since, abnormal=word == "holding")
    if not wired:
        return Phase("by hand")
    if start is None:
        return Phase("not started")
    if start.ended is not None:
        return Phase("ended", start.ended, start.seen_utc, abnormal=start.safe is False or start.ended not in IN_ORDER)
    return _without_answer(start, now, alive)


def _without_answer(start: LastStart, now: datetime, alive: bool | None) -> Phase:
    silent_s = (now - datetime.fromisoformat(start.seen_utc)).total_seconds()
    if not alive and (alive is False or silent_s > SILENT_S):
        return Phase("not running", "the process ended without saying why", start.seen_utc, abnormal=True)
    return Phase("no answer", "the campaign is alive but does not answer", start.seen_utc, abnormal=True)


def worst_standing(condition: Condition, phase: Phase, status: Mapping[str, Any] | None) -> Standing | None:
    """Return the worst thing that stands now; None while all is in order."""
    told = [] if status is None else [_told(f) for f in status.get("standing", ()) if isinstance(f, Mapping)]
    order = ("MINOR", "MAJOR", "INVALID")
    if phase.word == "tripped":
        return Standing("INVALID", "", phase.why, "")
    if told:
        return replace(max(told, key=lambda found: order.index(found.severity)), others=len(told) - 1)
    start = condition.start
    if phase.word == "ended" and start is not None and start.safe is False:
        return Standing("MAJOR", "safe state", "not everything was confirmed safe at the end", phase.since)
    if phase.abnormal:
        severity: Literal["MINOR", "MAJOR"] = "MINOR" if phase.word == "ended" else "MAJOR"
        return Standing(severity, "", ending(phase.why), "")
    return None


def _told(finding: Mapping[str, Any]) -> Standing:
    known: Mapping[Any, Literal["MINOR", "MAJOR", "INVALID"]] = {"MINOR": "MINOR", "INVALID": "INVALID"}
    source, message, since = (str(finding.get(key, "")) for key in ("source", "message", "since"))
    return Standing(known.get(finding.get("severity"), "MAJOR"), source, message, since)
