"""A look at the variables before a trial is decided, and whether it counts when another process goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, nan

from rigctl.campaign.closing import look
from rigctl.campaign.decision import Decision
from rigctl.campaign.desk import Desk
from rigctl.campaign.events import TrialLooked, TrialStep
from rigctl.campaign.instruments import judged_by_past
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.protocols import CampaignRig
from rigctl.campaign.trial import State
from rigctl.errors import ReadBackMismatch
from rigctl.rig.metering import look_s
from rigctl.rig.protocols import Clock, Reading, Severity
from rigctl.rig.resting import rest
from rigctl.rig.spec import RigSpec
from rigctl.rig.values import Alarm

BY_HAND = "manual"
"""Verb of the acts by which a person moves single instruments."""


def outdated(journal: Journal, rig: RigSpec, trial: TrialRow) -> str:
    """Say why a trial that was decided by what was read is not to be carried out any more; empty if it is.

    Going safe undoes no refill: a rig is still as it was prepared if going safe only lets go what was let go anyway,
    and no person has moved anything by hand.
    """
    if not trial.looks:
        return ""
    if rig.timing.look is None:
        return "nobody looks before a decision any more"
    driven = sorted(name for name, limits in rig.limits.items() if limits.safe_state != "off")
    if driven:
        return f"going safe drives {', '.join(driven)}, so the rig is not as it was when it was looked at"
    begun_s = journal.read.events(trial.trial)[0].at_s
    for act in journal.read.people.acts():
        if act.at_s >= begun_s and act.verb == BY_HAND and not act.argument.startswith("read "):
            return f"{act.who} has done by hand since it was looked at: {act.argument}"
    age_s, most_s = journal.past.look_age_s(trial.trial), rig.timing.look.valid_for_s
    if age_s > most_s:
        unknown = "the computer was started anew since, and nobody knows how old what was read is"
        return (
            unknown
            if age_s == inf
            else f"what was read is {age_s / 60:.3g} min old, and counts for {most_s / 60:.3g} min"
        )
    return ""


@dataclass(frozen=True, slots=True)
class Looking:
    """Carries out the look that a trial begins with."""

    spec: RigSpec
    rig: CampaignRig
    journal: JournalThread
    clock: Clock
    desk: Desk

    async def begin(self, trial: Decision, before: Mapping[str, Reading]) -> None:
        """Commit that a trial begins, with the meters' readings; prepare the rig; read its variables and commit that.

        Raises:
            DeviceError, GuardRefused, Tripped: it cannot be prepared, or is not let go; whoever calls closes it.
            JournalError: something cannot be recorded; the same holds.
        """
        number, timing = trial.trial, self.spec.timing
        await self.journal.call(look, self.spec, trial, before)
        now_s = self.clock.now_s()
        until_s = {"prepare": now_s + timing.prepare_s} if timing.prepare_s else {}
        until_s["look"] = now_s + timing.prepare_s + look_s(timing)
        self.desk.tell(TrialStep(number, State.LOOKING, now_s, until_s))
        await self.rig.prepare()
        await rest(self.clock, 0.0 if timing.look is None else timing.look.after_s)
        read = await self.rig.measure(look=True)
        await all_hold(self.rig)
        found = await self.journal.call(judged_by_past, self.spec, number, read)
        for name in (n for n, m in found.items() if m.severity >= Severity.INVALID):
            found[name] = replace(found[name], value=nan)  # what a frozen sensor says decides nothing
            told = f"trial {number}: not read before the decision, so what is usual is taken: {found[name].detail}"
            self.desk.alarm(Alarm(Severity.MINOR, name, told, kind="not looked at"))
        await self.journal.call(lambda j: j.looks.keep(number, found))
        self.desk.tell(TrialLooked(number, found))


async def all_hold(rig: CampaignRig) -> None:
    """Raise `ReadBackMismatch` unless all that is driven holds its value, and all else is let go."""
    astray = await rig.verify()
    if astray:
        raise ReadBackMismatch("; ".join(f"{name}: {says}" for name, says in astray.items()), devices=astray)
