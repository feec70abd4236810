"""What people may do to a campaign that runs, each act kept in the journal with who did it.

What makes the rig safer is done first and kept then; what lets it go on is kept first. A pause is what the journal's
acts say: the next process reads it there, so it outlives this one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rigctl.campaign.acts import KINDS, Tending, check, tend
from rigctl.campaign.awaiting import Awaiting, give, give_all_the_same, give_up
from rigctl.campaign.control import LARGEST, Answer, Request, Verbs
from rigctl.campaign.corrections import amend, restore, void
from rigctl.campaign.desk import Desk
from rigctl.campaign.events import AlarmMinded
from rigctl.campaign.journal.people import Shelving
from rigctl.campaign.journal.rows import ActRow, Amendment
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.manual import Manual
from rigctl.campaign.people import paused_words
from rigctl.campaign.runner import StopRequest
from rigctl.codec import typed
from rigctl.errors import JournalError, RigctlError, UsageError
from rigctl.printable import one_line

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
            "ack": self._acknowledge,
            "shelve": self._shelve,
            "unshelve": self._shelve,
            "void": self._void,
            "amend": self._amend,
            "outcome": self._outcome,
            "note": self._note,
            "manual": self._manual,
            **dict.fromkeys(KINDS, self._tend),
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
            await self.journal.call(_act, request, "now" if now else "", outcome)
        except JournalError as error:
            raise RigctlError(f"pause: {NOT_KEPT}, so a restart would not know of it: {error}") from error
        return {"paused": self.stop.pause}

    async def _resume(self, request: Request) -> Answer:
        if not self.stop.pause:
            raise UsageError("resume: nobody has paused this campaign; `rigctl status` says what it does")
        await self.manual.end("resumed")
        was = self.stop.pause
        await self.journal.call(_act, request, "", f"goes on; was {was}")
        self.stop.pause = ""
        return {"resumed": was}

    async def _acknowledge(self, request: Request) -> Answer:
        alarm = request.number("alarm")
        await self.journal.call(lambda j: j.people.acknowledge(alarm, request.who, request.why))
        kind, source = await self.journal.call(lambda j: j.read.alarm_rows.key(alarm))
        self.desk.tell(AlarmMinded("ack", kind, source, 0.0, request.who, request.why))
        return {"acknowledged": alarm}

    async def _shelve(self, request: Request) -> Answer:
        alarm, seconds = request.number("alarm"), 0.0
        if request.verb == "shelve":
            seconds = float(request.number("seconds"))
        kind, source = await self.journal.call(lambda j: j.read.alarm_rows.key(alarm))
        verb: Shelving = "shelve" if request.verb == "shelve" else "unshelve"
        said = await self.journal.call(lambda j: j.people.mind_alarm(verb, alarm, request.who, request.why, seconds))
        self.desk.tell(AlarmMinded(verb, kind, source, seconds, request.who, request.why))
        return {"alarm": alarm, "outcome": said}

    async def _void(self, request: Request) -> Answer:
        trial, do = request.number("trial"), restore if request.arguments.get("undo") is True else void
        said = await self.journal.call(do, trial, request.who, request.why)
        self.stop.corrected = True
        return {"trial": trial, "outcome": said}

    async def _amend(self, request: Request) -> Answer:
        trial = request.number("trial")
        becomes = _amendment(trial, request.arguments.get("becomes"))
        said = await self.journal.call(amend, trial, becomes, request.who, request.why)
        self.stop.corrected = True
        return {"trial": trial, "outcome": said}

    async def _outcome(self, request: Request) -> Answer:
        trial, given = request.number("trial"), request.arguments.get("outcomes")
        if request.arguments.get("lost") is True:
            said = await self.journal.call(give_up, trial, request.who, request.why)
        else:
            if not isinstance(given, Mapping):
                raise UsageError(f"outcome: trial {trial}: outcomes: got {given!r:.40}, must be numbers by name")
            work = give_all_the_same if request.arguments.get("force") is True else give
            said = await self.journal.call(work, trial, given, request.who, request.why)
        await self.awaiting.tell(trial)
        return {"trial": trial, "outcome": said}

    async def _tend(self, request: Request) -> Answer:
        care = self.manual.care
        volume_ml, ago_s = request.arguments.get("volume_ml"), request.arguments.get("ago_s", 0.0)
        for name, value in (("volume_ml", volume_ml), ("ago_s", ago_s)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise UsageError(f"{request.verb}: {name}: got {value!r}, must be a number")
        device, part = request.text("device"), request.text("part")
        asked = Tending(request.verb, device, request.why, part, volume_ml, float(ago_s))
        check(care.spec.rig, asked)
        if asked.verb == "in-service":
            await care.recognise(device)
        outcome = await self.journal.call(tend, care.spec.rig, asked, request.who)
        care.changed = True
        if not care.under_way():
            await care.look()
            care.changed = True  # who waits for it decides anew
        return {"device": device, "outcome": outcome}

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
        self.desk.keep("act", lambda j: _act(j, request, argument, outcome))


def _amendment(trial: int, given: Any) -> Amendment:
    """Return what somebody wants amended; what it says is checked where the trial is known.

    Raises:
        UsageError: it has not the form of an amendment.
    """
    try:
        becomes = typed(Amendment, given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"amend: trial {trial}: becomes: must be what is amended, by field ({error})") from error
    named = (becomes.values, becomes.outcomes)
    amount = 0 if becomes.amount is None else becomes.amount
    if not (all(isinstance(values, Mapping) for values in named) and isinstance(becomes.note, str | None)):
        raise UsageError(f"amend: trial {trial}: becomes: values and outcomes must be by name, and note text")
    if not isinstance(amount, int) or isinstance(amount, bool) or abs(amount) > LARGEST:
        raise UsageError(f"amend: trial {trial}: cost: got {amount!r:.40}, must be whole micro-units of money")
    return replace(becomes, note=None if becomes.note is None else one_line(becomes.note))


def _act(journal: Journal, request: Request, argument: str, outcome: str) -> None:
    journal.act(request.verb, request.who, argument, request.why, outcome)


def _reason(what: str, request: Request) -> str:
    return f"{what}: {request.why}" if request.why else what


def act_json(act: ActRow) -> Mapping[str, Any]:
    """Return an act for programs."""
    return {name: getattr(act, name) for name in ("utc", "who", "verb", "argument", "why", "outcome")}
