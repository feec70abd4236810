"""What people may do to a campaign that runs, each act kept in the journal with who did it.

What makes the rig safer is done first and kept then; what lets it go on is kept first. A pause is what the journal's
acts say: the next process reads it there, so it outlives this one.

A person may also drive single instruments of a rig that runs no trials, through the guard. The intent is in the journal
before the command leaves, the result after it. What is driven so is looked after by the watch like everything else, and
does not stay so for ever: after a while without another act everything is made safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rigctl.campaign.acts import ACTS, AlarmAct, Care, InService, Outcome, Shelve, TrialAct, act_of
from rigctl.campaign.awaiting import Awaiting
from rigctl.campaign.caretaker import Caretaker
from rigctl.campaign.control import Answer, Request, Verbs
from rigctl.campaign.desk import CampaignPart
from rigctl.campaign.journal.alarms import AlarmMinded
from rigctl.campaign.journal.people import MANUAL, paused_words
from rigctl.campaign.journal.rows import ActRow
from rigctl.campaign.journal.writer import Journal
from rigctl.errors import JournalError, RigctlError, UsageError, in_words
from rigctl.flaws import got
from rigctl.rig.protocols import Calibration

# Single instruments, driven by a person -------------------------------------------------------------------------------

LIMIT_S = 600.0
"""Wall seconds without an act by hand after which everything is made safe."""
READ = "read"
"""Verb of the acts that only read an instrument; the others are `MANUAL`."""
DRIVING = ("set", "dose", "jog")
"""What the watch may object to."""


@dataclass(slots=True)
class Manual(CampaignPart):
    """Carries out single acts; mutable, used in the event loop only."""

    care: Caretaker
    why_not: Callable[[], str]
    """Why nothing can be done by hand now, with the remedy; empty if it can."""
    objects: Callable[[], str] = lambda: ""
    """What the watch has against anything being driven now; empty: nothing."""
    limit_s: float = field(default_factory=lambda: LIMIT_S)
    doing: str = ""
    """The act that is under way."""
    _limit: asyncio.TimerHandle | None = None
    _ending: set[asyncio.Task[None]] = field(default_factory=set)

    async def act(self, request: Request) -> Answer:
        """Do one thing to one instrument.

        Raises:
            UsageError: it cannot be done now, or to this instrument, or is nothing that can be done.
            RigctlError: it was refused, or went wrong; everything is safe then, where something may have moved.
        """
        operation, device = request.text("operation"), request.text("device")
        acts = self._acts(request, device)
        if operation not in acts:
            raise UsageError(got(operation, f"must be one of {', '.join(acts)}"))
        self._check(operation, device)
        if self.doing:
            raise UsageError(f"{operation} {device}: {self.doing} is under way; wait until it is over")
        does, told = acts[operation]
        self.doing = " ".join(filter(None, (operation, device, told)))
        try:
            return await self._carry_out(request, does, lambda: self._check(operation, device))
        finally:
            self.doing = ""
            self._set_limit()

    async def end(self, why: str) -> None:
        """Make everything safe if a person drives something; what a trial drives is no hand's.

        Raises:
            UsageError: an act is under way.
        """
        self._refuse_beside()
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        driven = () if self.why_not() else self.rig.hands.driven
        if driven:
            await self.rig.safe()
            said = f"everything made safe, {', '.join(driven)} among it: {why}"
            self._keep(Request(MANUAL, "rigctl", why), ", ".join(driven), said)
            self._refuse_beside()  # somebody has begun it meanwhile

    def _refuse_beside(self) -> None:
        if self.doing:
            raise UsageError(f"{self.doing} is under way; wait until it is over")

    def status(self) -> Mapping[str, Any]:
        """Return what a person drives, and every instrument's upkeep, for `status`, as far as there is any."""
        by_hand = {"doing": self.doing, "driven": dict(self.rig.hands.driven) if self.why_not() == "" else {}}
        known = (("by_hand", {n: v for n, v in by_hand.items() if v}), ("upkeep", self.care.upkeep()))
        return {name: value for name, value in known if value}

    # the acts ---------------------------------------------------------------------------------------------------------

    def _acts(self, request: Request, device: str) -> Mapping[str, tuple[Callable[[], Awaitable[Answer]], str]]:
        """Return by name what can be done, and the words for what it is done with."""
        value, volume_ml, for_s = (_number(request, name) for name in ("value", "volume_ml", "for_s"))
        return {
            READ: (lambda: self._read(device), ""),
            "set": (lambda: self._apply(device, _needed("value", value)), "" if value is None else f"{value:g}"),
            "release": (lambda: self._apply(device, None), ""),
            "dose": (lambda: self._dose(device, _needed("volume", volume_ml)), _ml(volume_ml)),
            "jog": (lambda: self._jog(device, _needed("time", for_s)), "" if for_s is None else f"{for_s:g} s"),
            "calibrate": (lambda: self._calibrate(device, _needed("volume", volume_ml)), _ml(volume_ml)),
        }

    def _check(self, operation: str, device: str) -> None:
        """Raise `UsageError` if this may not be done now."""
        why = self.why_not()
        if why:
            raise UsageError(f"{operation} {device}: {why}")
        against = self.objects() if operation in DRIVING else ""
        if against:
            raise UsageError(f"{operation} {device}: refused as long as this stands: {against}")

    async def _carry_out(
        self, request: Request, does: Callable[[], Awaitable[Answer]], check: Callable[[], None]
    ) -> Answer:
        what, asked = self.doing, replace(request, verb=READ if request.text("operation") == READ else MANUAL)
        await self.journal.call(_keep_act, asked, what, "begun")
        try:
            check()  # everything may have been made safe, or trials go on, since the journal was asked
            answer = await does()
        except UsageError as error:  # nothing was sent
            self._keep(asked, what, f"refused: {error}")
            raise
        except Exception as error:
            text = f"failed: {in_words(error)}"
            report = await self.rig.safe()
            text += "; everything is safe" if report.ok else f"; NOT CONFIRMED SAFE: {', '.join(report.failed)}"
            self._keep(asked, what, text)
            raise RigctlError(f"{what}: {text}") from error
        self._keep(asked, what, str(answer["outcome"]))
        return answer

    def _keep(self, request: Request, what: str, outcome: str) -> None:
        self.desk.keep("act", lambda j: _keep_act(j, request, what, outcome))

    async def _read(self, device: str) -> Answer:
        reading = await self.rig.hands.read(device)
        told = f"{reading.value:.6g} {reading.unit}" if reading.valid else f"INVALID: {reading.detail}"
        return {
            "device": device,
            "value": reading.value if reading.valid else None,
            "unit": reading.unit,
            "outcome": told,
        }

    async def _apply(self, actuator: str, value: float | None) -> Answer:
        await self.rig.hands.apply(actuator, value)
        safe = f"; everything is made safe after {self.limit_s / 60:g} min without another act"
        return {"device": actuator, "outcome": "released" if value is None else f"holds {value:g}{safe}"}

    async def _dose(self, pump: str, volume_ml: float) -> Answer:
        given_ml = await self.rig.hands.dose(pump, volume_ml)
        self.care.changed = True
        return {"device": pump, "dispensed_ml": given_ml, "outcome": f"{given_ml:.4g} mL dispensed"}

    async def _jog(self, pump: str, for_s: float) -> Answer:
        return await self._dose(pump, self.rig.hands.rate_ml_per_min(pump) * for_s / 60.0)

    async def _calibrate(self, pump: str, volume_ml: float) -> Answer:
        said: Calibration = await self.rig.hands.calibrate(pump, volume_ml)
        await self.care.keep_calibrations({pump: said}, fresh=True)
        return {"device": pump, "outcome": f"told {volume_ml:g} mL; says {said.detail}"}

    # the limit --------------------------------------------------------------------------------------------------------

    def _set_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        if self.rig.hands.driven:
            self._limit = asyncio.get_running_loop().call_later(self.limit_s, self._time_is_over)

    def _time_is_over(self) -> None:
        self._limit = None
        if self.doing:  # it sets the limit anew when it is over
            return
        why = f"nothing was done by hand for {self.limit_s / 60:g} min"
        self.desk.minor(MANUAL, f"everything is made safe: {why}", kind="idle")
        task = asyncio.get_running_loop().create_task(self.end(why))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _number(request: Request, name: str) -> float | None:
    value = request.arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(got(value, "must be a number", where=name))
    return float(value)


def _needed(name: str, value: float | None) -> float:
    if value is None:
        raise UsageError(f"{name} is missing")
    return value


def _ml(volume_ml: float | None) -> str:
    return "" if volume_ml is None else f"{volume_ml:g} mL"


# Requests -------------------------------------------------------------------------------------------------------------

NOTED = ("denied", "login", "token")
"""What others do beside a campaign and have it keep: the page's server and `rigctl tools token` write no journal."""
NOT_KEPT = "done, but not kept in the journal"


@dataclass(slots=True)
class Requests(CampaignPart):
    """Carries out what is asked for over the control socket; used in the event loop only."""

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
            raise UsageError(f"{self.stop.pause}; `rigctl resume` lets it go on")
        now = request.arguments.get("now") is True
        self.stop.pause = paused_words(request.who, request.why)
        if now:
            self.break_off(self.stop.pause)
        outcome = f"{'breaks off the trial under way; ' if now else ''}begins no trial until it is resumed"
        try:
            await self.journal.call(_keep_act, request, "now" if now else "", outcome)
        except JournalError as error:
            raise RigctlError(f"{NOT_KEPT}, so a restart would not know of it: {error}") from error
        return {"paused": self.stop.pause}

    async def _resume(self, request: Request) -> Answer:
        if not self.stop.pause:
            raise UsageError("nobody has paused this campaign; `rigctl status` says what it does")
        await self.manual.end("resumed")
        was = self.stop.pause
        await self.journal.call(_keep_act, request, "", f"goes on; was {was}")
        self.stop.pause = ""
        return {"resumed": was}

    async def _act(self, request: Request) -> Answer:
        act, care = act_of(request), self.manual.care
        if isinstance(act, InService):
            act.check(self.spec.rig)
            await care.recognise({act.device: await self.rig.hands.recognise(act.device)})
        outcome = await self.journal.call(act.apply, self.spec.rig)
        match act:
            case AlarmAct():
                kind, source = await self.journal.call(lambda j: j.read.alarms.key(act.alarm))
                seconds = float(act.seconds) if isinstance(act, Shelve) else 0.0
                self.desk.tell(AlarmMinded(act.verb, kind, source, seconds, act.who, act.why))
            case Outcome():
                await self.awaiting.tell(act.trial)
            case TrialAct():
                self.stop.corrected = True
            case Care():
                care.changed = True
                if not care.under_way():
                    await care.judge()
                    care.changed = True  # who waits for it decides anew
        return {act.about: getattr(act, act.about), "outcome": outcome}

    async def _manual(self, request: Request) -> Answer:
        return await self.manual.act(request)

    def _note(self, request: Request) -> Answer:
        verb = request.text("act")
        if verb not in NOTED:
            raise UsageError(got(verb, f"must be one of {', '.join(NOTED)}", where="act"))
        self._keep(replace(request, verb=verb), request.text("argument"), request.text("outcome"))
        return {}

    def _keep(self, request: Request, argument: str = "", outcome: str = "") -> None:
        """Have an act kept without waiting: a journal that does not return must not delay it."""
        self.desk.keep("act", lambda j: _keep_act(j, request, argument, outcome))


def _keep_act(journal: Journal, request: Request, argument: str, outcome: str) -> None:
    journal.people.act(request.verb, request.who, argument, request.why, outcome)


def _reason(what: str, request: Request) -> str:
    return f"{what}: {request.why}" if request.why else what


def act_json(act: ActRow) -> Mapping[str, Any]:
    """Return an act for programs."""
    return {name: getattr(act, name) for name in ("utc", "who", "verb", "argument", "why", "outcome")}
