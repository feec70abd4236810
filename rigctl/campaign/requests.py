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
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

from rigctl.campaign.acts import ACTS, AlarmAct, Care, InService, Outcome, Said, Shelve, TrialAct, read_as
from rigctl.campaign.caretaker import Caretaker
from rigctl.campaign.control import Answer, Request, Verbs
from rigctl.campaign.desk import CampaignPart
from rigctl.campaign.instruments import to_json
from rigctl.campaign.journal.alarms import AlarmMinded
from rigctl.campaign.journal.people import MANUAL, paused_words
from rigctl.campaign.journal.writer import Journal
from rigctl.errors import JournalError, RigctlError, UsageError, in_words
from rigctl.flaws import got
from rigctl.rig.protocols import Calibration
from rigctl.text import in_full

# Single instruments, driven by a person -------------------------------------------------------------------------------

LIMIT_S = 600.0
"""Wall seconds without an act by hand after which everything is made safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOperation:
    """Something done to one instrument; its fields are the arguments of its command and of the request."""

    operation: ClassVar[str]
    about: ClassVar[str] = "device"
    act: ClassVar[str] = MANUAL
    """Verb of the act that is kept of it."""
    drives: ClassVar[bool] = False
    """Whether the watch may object to it."""
    device: str
    """Its name in the configuration."""

    @property
    def words(self) -> str:
        """Say what is done, e.g. `dose pump 2 mL`."""
        units = {"ml": " mL", "s": " s"}
        given = ((f.name.rpartition("_")[2], getattr(self, f.name)) for f in fields(self))
        told = (f"{in_full(value)}{units.get(unit, '')}" for unit, value in given if isinstance(value, float))
        return " ".join((self.operation, self.device, *told))

    async def do(self, by: Manual) -> Answer:
        """Do it, and return what came of it. Raises as `Manual.act`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(HandOperation):
    """Take one reading of a sensor or meter."""

    operation, act = "read", "read"

    async def do(self, by: Manual) -> Answer:
        reading = await by.rig.hands.read(self.device)
        told = f"{in_full(reading.value)} {reading.unit}" if reading.valid else f"INVALID: {reading.detail}"
        value = reading.value if reading.valid else None
        return {"device": self.device, "value": value, "unit": reading.unit, "outcome": told}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrivingOperation(HandOperation):
    """Something that is done with an instrument that drives."""

    why: str = ""
    """Reason, kept for later readers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Set(DrivingOperation):
    """Let an actuator hold a value, until it is released or nothing was done by hand for 10 minutes."""

    operation, drives = "set", True
    value: float
    """Value to set, in the actuator's unit; on or off for a switch."""

    async def do(self, by: Manual) -> Answer:
        await by.rig.hands.apply(self.device, self.value)
        safe = f"everything is made safe after {by.limit_s / 60:g} min without another act"
        return {"device": self.device, "outcome": f"holds {in_full(self.value)}; {safe}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(DrivingOperation):
    """Let an actuator go."""

    operation = "release"

    async def do(self, by: Manual) -> Answer:
        await by.rig.hands.apply(self.device, None)
        return {"device": self.device, "outcome": "released"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dose(DrivingOperation):
    """Dispense a volume once; it counts towards caps and bottle."""

    operation, drives = "dose", True
    volume_ml: Annotated[float, Said("volume")]
    """A volume such as "2 mL"."""

    async def do(self, by: Manual) -> Answer:
        return await by.dose(self.device, self.volume_ml)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jog(DrivingOperation):
    """Run a pump for a time, e.g. to fill its tubing: a dose of that time at its full rate."""

    operation, drives = "jog", True
    for_s: Annotated[float, Said("duration", "--for")]
    """Time it runs for, e.g. "10 s"."""

    async def do(self, by: Manual) -> Answer:
        return await by.dose(self.device, by.rig.hands.rate_ml_per_min(self.device) * self.for_s / 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate(DrivingOperation):
    """Dispense a volume, ask what was measured of it, and tell the pump."""

    operation = "calibrate"
    volume_ml: Annotated[float, Said("volume", "--volume")] = 10.0
    """Volume to dispense and measure; default: "10 mL"."""
    measured_ml: Annotated[float | None, Said("volume", "--measured")] = None
    """Volume you measured; default: you are asked for it."""

    async def do(self, by: Manual) -> Answer:
        """Tell the pump what was measured, here the volume, of what it has dispensed already."""
        said: Calibration = await by.rig.hands.calibrate(self.device, self.volume_ml)
        await by.care.keep_calibrations({self.device: said}, fresh=True)
        return {"device": self.device, "outcome": f"told {in_full(self.volume_ml)} mL; says {said.detail}"}


BY_HAND: Final[Mapping[str, type[HandOperation]]] = MappingProxyType(
    {kind.operation: kind for kind in (Read, Set, Release, Dose, Jog, Calibrate)}
)


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

    async def act(self, asked: HandOperation, who: str, why: str = "") -> Answer:
        """Do one thing to one instrument.

        Raises:
            UsageError: it cannot be done now, or not to this instrument.
            RigctlError: it was refused, or went wrong; everything is safe then, where something may have moved.
        """
        self._check(asked)
        if self.doing:
            where = f"{asked.operation} {asked.device}"
            raise UsageError(f"{where}: {self.doing} is under way; wait until it is over")
        self.doing = asked.words
        try:
            return await self._carry_out(asked, who, why)
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
        driven = () if self.why_not() else self.rig.driven
        if driven:
            await self.rig.safe()
            said = f"everything made safe, {', '.join(driven)} among it: {why}"
            self.desk.keep("act", lambda j: j.people.act(MANUAL, "rigctl", ", ".join(driven), why, said))
            self._refuse_beside()  # somebody has begun it meanwhile

    def _refuse_beside(self) -> None:
        if self.doing:
            raise UsageError(f"{self.doing} is under way; wait until it is over")

    def status(self) -> Mapping[str, Any]:
        """Return what a person drives, and every instrument's upkeep, for `status`, as far as there is any."""
        by_hand = {"doing": self.doing, "driven": dict(self.rig.driven) if self.why_not() == "" else {}}
        upkeep = to_json(self.spec.rig, self.care.states)
        known = (("by_hand", {n: v for n, v in by_hand.items() if v}), ("upkeep", upkeep))
        return {name: value for name, value in known if value}

    def _check(self, asked: HandOperation) -> None:
        """Raise `UsageError` if this may not be done now."""
        where, why = f"{asked.operation} {asked.device}", self.why_not()
        if why:
            raise UsageError(f"{where}: {why}")
        against = self.objects() if asked.drives else ""
        if against:
            raise UsageError(f"{where}: refused until this is cleared: {against}")

    async def _carry_out(self, asked: HandOperation, who: str, why: str) -> Answer:
        what = asked.words

        def kept(outcome: str) -> Callable[[Journal], object]:
            return lambda journal: journal.people.act(asked.act, who, what, why, outcome)

        await self.journal.call(kept("begun"))
        try:
            self._check(asked)  # everything may have been made safe, or trials go on, since the journal was asked
            answer = await asked.do(self)
        except UsageError as error:  # nothing was sent
            self.desk.keep("act", kept(f"refused: {error}"))
            raise
        except Exception as error:
            text = f"failed: {in_words(error)}"
            report = await self.rig.safe()
            text += "; everything is safe" if report.ok else f"; NOT CONFIRMED SAFE: {', '.join(report.failed)}"
            self.desk.keep("act", kept(text))
            raise RigctlError(f"{what}: {text}") from error
        self.desk.keep("act", kept(str(answer["outcome"])))
        return answer

    async def dose(self, pump: str, volume_ml: float) -> Answer:
        """Dispense a volume once; it counts towards caps and bottle."""
        given_ml = await self.rig.hands.dose(pump, volume_ml)
        self.care.changed = True
        return {"device": pump, "dispensed_ml": given_ml, "outcome": f"{in_full(given_ml, 4)} mL dispensed"}

    # the limit --------------------------------------------------------------------------------------------------------

    def _set_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        if self.rig.driven:
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


# Requests -------------------------------------------------------------------------------------------------------------

NOTED = ("denied", "login", "token")
"""What others do beside a campaign and have it keep: the page's server and `rigctl tools token` write no journal."""


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
    tell_of_outcome: Callable[[int], Awaitable[None]]
    """Tells of what a person has said came of a trial."""

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
            raise UsageError(f"{self.stop.pause}; `rigctl resume` continues the campaign")
        now = request.arguments.get("now") is True
        self.stop.pause = paused_words(request.who, request.why)
        if now:
            self.break_off(self.stop.pause)
        outcome = f"{'breaks off the trial under way; ' if now else ''}begins no trial until it is resumed"
        try:
            await self.journal.call(_keep_act, request, "now" if now else "", outcome)
        except JournalError as error:
            told = f"done, but not kept in the journal, so a restart would not know of it: {error}"
            raise RigctlError(told) from error
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
        act, care = read_as(ACTS[request.verb], request), self.manual.care
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
                await self.tell_of_outcome(act.trial)
            case TrialAct():
                self.stop.corrected = True
            case Care():
                care.changed = True
                if not care.under_way():
                    await care.judge()
                    care.changed = True  # who waits for it decides anew
        return {act.about: getattr(act, act.about), "outcome": outcome}

    async def _manual(self, request: Request) -> Answer:
        operation = request.text("operation")
        if operation not in BY_HAND:
            raise UsageError(got(operation, f"must be one of {', '.join(BY_HAND)}"))
        return await self.manual.act(read_as(BY_HAND[operation], request), request.who, request.why)

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
