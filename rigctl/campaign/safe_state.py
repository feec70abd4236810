"""Getting everything into its safe state and keeping at it, and saying how that stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rigctl.campaign.desk import Desk
from rigctl.campaign.protocols import CampaignRig
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm, SafeReport

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 10.0
"""Wall seconds between attempts; they double from the first to the longest."""


def standing(report: SafeReport) -> str:
    """In words, for messages: that everything is safe, or what is not."""
    if report.ok:
        return "everything is safe"
    return "NOT CONFIRMED SAFE: " + "; ".join(f"{name}: {why}" for name, why in report.failed.items())


async def until_confirmed(rig: CampaignRig, desk: Desk, report: SafeReport, enough: Callable[[], bool]) -> SafeReport:
    """Go on from a first report until everything is confirmed safe, or `enough` says to leave it; the last report.

    One alarm when it begins and one when it is over, however many attempts there are.
    """
    if report.ok:
        return report
    desk.alarm(Alarm(Severity.MAJOR, "safe state", f"no trial starts, trying again: {standing(report)}"))
    pause_s = FIRST_RETRY_S
    while not report.ok and not enough():
        await asyncio.sleep(pause_s)
        pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        report = await rig.safe()
    if report.ok:
        desk.alarm(Alarm(Severity.MINOR, "safe state", "confirmed: everything is safe; the campaign goes on"))
    return report
