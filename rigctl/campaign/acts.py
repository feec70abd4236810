"""What people do to a campaign's journal: each act once, as data.

An act is asked for over the control socket or on the page while a campaign runs, and applied to the journal directly
while none does; either way it is in the audit. Its fields are the arguments of the request and of the command, their
docstrings the help. `requests` says what a running campaign does besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, get_type_hints

from rigctl.campaign.control import LARGEST, Request
from rigctl.campaign.corrections import amend, give, give_all_the_same, give_up, restore, void
from rigctl.campaign.instruments import astray, out_of_service
from rigctl.campaign.journal.rows import Amendment, UpkeepKind
from rigctl.campaign.journal.writer import Journal
from rigctl.codec import typed
from rigctl.errors import UsageError
from rigctl.printable import one_line
from rigctl.rig.spec import CareSpec, RigSpec
from rigctl.text import lasting

TUBING: Final = "tubing"


@dataclass(frozen=True, slots=True)
class Said:
    """How a person says a quantity on the command line, in one of its units."""

    quantity: Literal["duration", "volume", "ago"]
    """`ago`: a date in the past, kept as the time since."""
    option: str = ""
    """Empty: it is an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that a person does; whichever process holds the journal applies it."""

    verb: ClassVar[str]
    about: ClassVar[str]
    """The field that names what it is done to, and the group of commands that it is in."""
    who: str = ""
    why: str = ""
    """For whoever reads it later."""

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        """Record it; return what comes of it, in words. What is done to instruments needs the rig.

        Raises:
            UsageError: it cannot be done.
        """
        raise NotImplementedError


# To alarms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmAct(Act):
    """Something done to an alarm."""

    about = "alarm"
    alarm: int
    """Its number, as `rigctl alarm list` shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge(AlarmAct):
    """Say that you have seen an alarm, whether the campaign runs or not."""

    verb = "ack"

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        journal.alarms.acknowledge(self.alarm, self.who, self.why)
        return f"alarm {self.alarm}: acknowledged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelve(AlarmAct):
    """Have nobody told of an alarm for a while; it is still kept, shown and acted upon, and comes back by itself."""

    verb = "shelve"
    seconds: Annotated[int, Said("duration", "--for")] = 3600
    """Rig time that it is shelved for, at most "24 h"; default: "1 h"."""

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        return journal.alarms.mind("shelve", self.alarm, self.who, self.why, float(self.seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unshelve(AlarmAct):
    """Have people told of a shelved alarm again, before its time."""

    verb = "unshelve"

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        return journal.alarms.mind("unshelve", self.alarm, self.who, self.why)


# To trials ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialAct(Act):
    """Something done to a trial."""

    about = "trial"
    trial: int
    """The trial's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Void(TrialAct):
    """Leave a trial out of what the policy learns from; its record and its cost stay."""

    verb = "void"
    undo: bool = False
    """Take a void trial in again."""

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        work = restore if self.undo else void
        return work(journal, self.trial, self.who, self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amend(TrialAct):
    """Correct what was recorded of a trial; what it was before stays visible."""

    verb = "amend"
    becomes: Amendment

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        return amend(journal, self.trial, self.becomes, self.who, self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(TrialAct):
    """Say what came of it, or that nothing comes."""

    verb = "outcome"
    outcomes: Mapping[str, float] | None = None
    lost: bool = False
    force: bool = False
    """Although it was given up."""

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        if self.lost:
            return give_up(journal, self.trial, self.who, self.why)
        if self.outcomes is None:
            raise UsageError(f"outcome: trial {self.trial}: outcomes: got nothing, must be numbers by name")
        work = give_all_the_same if self.force else give
        return work(journal, self.trial, self.outcomes, self.who, self.why)


# To instruments -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Care(Act):
    """Something done to an instrument."""

    about = "device"
    kind: ClassVar[UpkeepKind]
    device: str
    """Its name in the configuration."""

    def check(self, rig: RigSpec) -> None:
        """Raise UsageError where this cannot be said of this device."""
        if self.device not in rig.devices:
            known = ", ".join(rig.devices)
            raise UsageError(f"{self.verb}: got {self.device!r}, must be a device of this rig: {known}")

    def outcome(self, rig: RigSpec) -> str:
        raise NotImplementedError

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        if rig is None:
            raise UsageError(f"{self.verb}: {self.device}: got no configuration, must be one that has the device")
        self.check(rig)
        out = out_of_service(journal.read).get(self.device, "")
        if self.kind == "out" and out:
            raise UsageError(f"{self.device}: is out of service already, {out}")
        if self.kind == "in" and not out and self.device not in astray(journal.read, rig):
            raise UsageError(f"{self.device}: is in service; `rigctl status` lists what is not")
        outcome, own = self.outcome(rig), {f.name: getattr(self, f.name) for f in fields(self)}
        journal.upkeep.keep(self.kind, own.pop("device"), verb=self.verb, outcome=outcome, **own)
        return outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfService(Care):
    """Take an instrument out of service: control sets that need it are not played, the campaign goes on."""

    verb, kind = "out-of-service", "out"

    def outcome(self, rig: RigSpec) -> str:
        return f"{self.device} is out of service from the next trial on; control sets that need it are not played"


@dataclass(frozen=True, slots=True, kw_only=True)
class InService(Care):
    """Put an instrument back in service, once it is recognised."""

    verb, kind = "in-service", "in"

    def outcome(self, rig: RigSpec) -> str:
        return f"{self.device} is in service again from the next trial on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled(Care):
    """Say that a pump's bottle was refilled: its doses are counted anew."""

    verb, kind = "refilled", "refilled"
    volume_ml: Annotated[float | None, Said("volume", "--volume")] = None
    """What is in the bottle now, e.g. "350 mL"; default: it is full."""

    def check(self, rig: RigSpec) -> None:
        Care.check(self, rig)
        if rig.care.get(self.device, CareSpec()).bottle_ml is None:
            bottled = ", ".join(n for n, care in rig.care.items() if care.bottle_ml is not None)
            which = f", such as {bottled}" if bottled else "; write `inventory: {volume: 500 mL}` under the pump"
            raise UsageError(f"refilled: {self.device}: got a device without `inventory`, must be one with it{which}")
        if self.volume_ml is not None and not 0 < self.volume_ml < float("inf"):
            got = f"got a volume of {self.volume_ml:g} mL, must be more than nothing"
            raise UsageError(f"refilled: {self.device}: {got}")

    def outcome(self, rig: RigSpec) -> str:
        volume_ml = rig.care[self.device].bottle_ml if self.volume_ml is None else self.volume_ml
        return f"{self.device} has {volume_ml:g} mL in its bottle; doses are counted from now on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced(Care):
    """Say that a part of an instrument was replaced, such as a pump's tubing."""

    verb, kind = "replaced", "replaced"
    part: str
    """What was replaced, e.g. tubing."""

    def check(self, rig: RigSpec) -> None:
        Care.check(self, rig)
        if not self.part:
            raise UsageError(f"replaced: {self.device}: got no part, must say what was replaced, e.g. {TUBING}")

    def outcome(self, rig: RigSpec) -> str:
        counted = "; its mL are counted from now on" if self.part == TUBING else ""
        return f"{self.device}: {self.part} is new{counted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated(Care):
    """Say that an instrument was calibrated: the next time is counted from then."""

    verb, kind = "calibrated", "calibrated"
    age_s: Annotated[float, Said("ago", "--on")] = 0.0  # days of the calendar: of the rig, too, beside a simulation
    """When that was, e.g. 2026-03-01; default: just now."""

    def check(self, rig: RigSpec) -> None:
        Care.check(self, rig)
        if self.age_s < 0:
            raise UsageError(f"calibrated: {self.device}: got a date to come, must be in the past")

    def outcome(self, rig: RigSpec) -> str:
        every_s = rig.care.get(self.device, CareSpec()).calibrate_every_s
        when = "just now" if self.age_s == 0 else f"{lasting(self.age_s)} ago"
        due = "" if every_s is None else f"; the next is due in {lasting(max(0.0, every_s - self.age_s))}"
        return f"{self.device} was calibrated {when}{due}"


CARE: Final[Mapping[str, type[Care]]] = MappingProxyType(
    {kind.verb: kind for kind in (OutOfService, InService, Refilled, Replaced, Calibrated)}
)
"""What is done to instruments, by verb."""
ACTS: Final[Mapping[str, type[Act]]] = MappingProxyType(
    {kind.verb: kind for kind in (Acknowledge, Shelve, Unshelve, Void, Amend, Outcome)} | dict(CARE)
)
"""All of them."""


# What is asked for ----------------------------------------------------------------------------------------------------


def act_of(request: Request) -> Act:
    """Return the act that a request asks for; what it says is checked where it is applied.

    Raises:
        UsageError: the request has not the form of this act.
    """
    kind, said = ACTS[request.verb], {"who": request.who, "why": request.why}
    hints = get_type_hints(kind)
    given = {
        f.name: _READ[hints[f.name]](request, f.name)
        for f in fields(kind)
        if f.name not in said and (f.default is MISSING or f.name in request.arguments)
    }
    return kind(**said, **given)


def _number(request: Request, name: str) -> float | None:
    value = request.arguments[name]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise UsageError(f"{request.verb}: {name}: got {value!r}, must be a number")
    return None if value is None else float(value)


def _by_name(request: Request, name: str) -> Mapping[str, float] | None:
    value = request.arguments[name]
    if not isinstance(value, Mapping | None):
        raise UsageError(f"{request.verb}: {name}: got {value!r:.40}, must be numbers by name")
    return value


def _amendment(request: Request, name: str) -> Amendment:
    where = f"{request.verb}: {name}"
    try:
        becomes = typed(Amendment, request.arguments.get(name))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{where}: must be what is amended, by field ({error})") from error
    named = (becomes.values, becomes.outcomes)
    amount = 0 if becomes.amount is None else becomes.amount
    if not (all(isinstance(values, Mapping) for values in named) and isinstance(becomes.note, str | None)):
        raise UsageError(f"{where}: values and outcomes must be by name, and note text")
    if not isinstance(amount, int) or isinstance(amount, bool) or abs(amount) > LARGEST:
        raise UsageError(f"{where}: cost: got {amount!r:.40}, must be whole micro-units of money")
    note = None if becomes.note is None else one_line(becomes.note)
    return Amendment(becomes.values, becomes.outcomes, becomes.amount, note)


_READ: Final[Mapping[Any, Any]] = MappingProxyType(
    {
        int: Request.number,
        str: Request.text,
        bool: lambda request, name: request.arguments[name] is True,
        float: lambda request, name: _number(request, name) or 0.0,
        float | None: _number,
        Mapping[str, float] | None: _by_name,
        Amendment: _amendment,
    }
)
"""By a field's type: what reads it from a request."""
