"""What people may do to a campaign that runs, each act kept in the journal with who did it.

What makes the rig safer is done first and kept then; what lets it go on is kept first. A pause is what the journal's
acts say: the next process reads it there, so it outlives this one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rigctl.campaign.acts import ACTS, AlarmAct, Care, InService, Outcome, Shelve, TrialAct, act_of
from rigctl.campaign.awaiting import Awaiting
from rigctl.campaign.control import Answer, Request, Verbs
from rigctl.campaign.desk import Desk
from rigctl.campaign.events import AlarmMinded
from rigctl.campaign.journal.rows import ActRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.manual import Manual
from rigctl.campaign.people import paused_words
from rigctl.campaign.runner import StopRequest
from rigctl.errors import JournalError, RigctlError, UsageError

NOTED = ("denied", "login", "token")
"""What others do beside a campaign and have it keep: the page's server and `rigctl token` write no journal."""
NOT_KEPT = "done, but not kept in the journal"


@dataclass(frozen=True, slots=True)
class Requests:
    """Carries out what is asked for over the control socket; used in the event loop only."""

    journal: JournalThread
    desk: Desk
    stop: StopRequest
    finish: Callable[[str], Answer]
    """Ends the campaign after the trial under way; why."""
    go_safe: Callable[[str], Awaitable[Answer]]
    """Ends it now, everything safe; why."""
    break_off: Callable[[str], None]
    """Ends the trial under way, everything safe, and nothing else; why."""
    manual: Manual
    awaiting: Awaiting

    def verbs(self) -> Verbs:
        """Return what may be asked for, by name."""
        return {
            "stop": self._stop,
            "safe": self._safe,
            "pause": self._pause,
            "resume": self._resume,
            "note": self._note,
            "manual": self._manual,
            **dict.fromkeys(ACTS, self._act),
        }

    def _stop(self, request: Request) -> Answer:
        answer = self.finish(_reason("asked to stop", request))
        self._keep(request, outcome="ends after the trial under way")
        return answer

    async def _safe(self, request: Request) -> Answer:
        going = self.go_safe(_reason("asked to go safe", request))
        self._keep(request, outcome="everything goes safe, the campaign ends")
        return await going

    async def _pause(self, request: Request) -> Answer:
        if self.stop.pause:
            raise UsageError(f"pause: {self.stop.pause}; `rigctl resume` lets it go on")
        now = request.arguments.get("now") is True
        self.stop.pause = paused_words(request.who, request.why)
        if now:
            self.break_off(self.stop.pause)
        outcome = f"{'breaks off the trial under way; ' if now else ''}begins no trial until it is resumed"
        try:
            await self.journal.call(_keep_act, request, "now" if now else "", outcome)
        except JournalError as error:
            raise RigctlError(f"pause: {NOT_KEPT}, so a restart would not know of it: {error}") from error
        return {"paused": self.stop.pause}

    async def _resume(self, request: Request) -> Answer:
        if not self.stop.pause:
            raise UsageError("resume: nobody has paused this campaign; `rigctl status` says what it does")
        await self.manual.end("resumed")
        was = self.stop.pause
        await self.journal.call(_keep_act, request, "", f"goes on; was {was}")
        self.stop.pause = ""
        return {"resumed": was}

    async def _act(self, request: Request) -> Answer:
        act, care = act_of(request), self.manual.care
        if isinstance(act, InService):
            act.check(care.spec.rig)
            await care.recognise(act.device)
        outcome = await self.journal.call(act.apply, care.spec.rig)
        match act:
            case AlarmAct():
                kind, source = await self.journal.call(lambda j: j.read.alarm_rows.key(act.alarm))
                seconds = float(act.seconds) if isinstance(act, Shelve) else 0.0
                self.desk.tell(AlarmMinded(act.verb, kind, source, seconds, act.who, act.why))
            case Outcome():
                await self.awaiting.tell(act.trial)
            case TrialAct():
                self.stop.corrected = True
            case Care():
                care.changed = True
                if not care.under_way():
                    await care.look()
                    care.changed = True  # who waits for it decides anew
        return {act.about: getattr(act, act.about), "outcome": outcome}

    async def _manual(self, request: Request) -> Answer:
        return await self.manual.act(request)

    def _note(self, request: Request) -> Answer:
        verb = request.text("act")
        if verb not in NOTED:
            raise UsageError(f"note: act: got {verb!r}, must be one of {', '.join(NOTED)}")
        self._keep(replace(request, verb=verb), request.text("argument"), request.text("outcome"))
        return {}

    def _keep(self, request: Request, argument: str = "", outcome: str = "") -> None:
        """Have an act kept without waiting: a journal that does not return must not delay it."""
        self.desk.keep("act", lambda j: _keep_act(j, request, argument, outcome))


def _keep_act(journal: Journal, request: Request, argument: str, outcome: str) -> None:
    journal.act(request.verb, request.who, argument, request.why, outcome)


def _reason(what: str, request: Request) -> str:
    return f"{what}: {request.why}" if request.why else what


def act_json(act: ActRow) -> Mapping[str, Any]:
    """Return an act for programs."""
    return {name: getattr(act, name) for name in ("utc", "who", "verb", "argument", "why", "outcome")}
