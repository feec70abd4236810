"""What people do to a campaign's journal: each act once, as data.

An act is asked for over the control socket or on the page while a campaign runs, and applied to the journal directly
while none does; either way it is in the audit. Its fields are the arguments of the request and of the command, their
docstrings the help. `requests` says what a running campaign does besides. A refusal does not name the verb: whoever
asks adds it.

A trial that is over is left out, taken in again, or amended where it was recorded wrongly. Nothing is erased: the
correction stands beside the record, says who made it and why, and holds from the next decision on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, cast, get_type_hints

from rigctl.campaign.control import LARGEST, Request
from rigctl.campaign.instruments import astray, out_of_service
from rigctl.campaign.journal.beside import CAMPAIGN
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import Amendment, CampaignRow, Kind, TrialRow, UpkeepKind, UpkeepRow
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.trial import State
from rigctl.codec import fields_of, typed
from rigctl.core.experiment.money import to_units
from rigctl.errors import UsageError, counted
from rigctl.flaws import Flaw, got
from rigctl.printable import one_line
from rigctl.rig.spec import CareSpec, RigSpec
from rigctl.text import Names, in_full, lasting, shown_name, shown_value

T = TypeVar("T")

TUBING: Final = "tubing"
MOST: Final = 1e300
"""No quantity is larger; what is not finite is not below it either."""


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
    """Reason, kept for later readers."""

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
    """Number of the alarm in `rigctl alarm list`."""


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
        row = over(journal, self)
        if self.undo and not row.voided:
            raise UsageError(f"trial {self.trial}: is not void; `rigctl journal export` lists trials and what they are")
        if not self.undo and row.voided:
            last = [c for c in row.corrected if c.kind == "void"][-1]
            raise UsageError(f"trial {self.trial}: {last.who} has voided it already, {last.utc}: {last.why}")
        kind: Kind = "restore" if self.undo else "void"
        journal.people.correct(self.trial, kind, Amendment(), Amendment(), who=self.who, why=self.why)
        if self.undo:
            return f"trial {self.trial} counts again from the next decision on"
        cost = f"{in_full(to_units(row.cost), 6)} {journal.read.campaign().currency}"
        spent = "" if row.imported else f"; its cost of {cost} stays spent"
        return f"trial {self.trial} is left out from the next decision on{spent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amend(TrialAct):
    """Correct what was recorded of a trial; what it was before stays visible."""

    verb = "amend"
    becomes: Amendment
    """All outcomes None: it failed."""

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        campaign, row, becomes = journal.read.campaign(), over(journal, self), self.becomes
        if (becomes.values or becomes.outcomes) and row.state not in (State.RECORDED, State.FAILED):
            raise UsageError(f"trial {self.trial}: is {row.state}, not measured; only cost and note can change")
        was = _as_it_is(row, becomes, names_of(campaign)[1])
        if was == becomes:
            raise UsageError(f"trial {self.trial}: is so already; nothing to amend")
        _check(row, becomes, names_of(campaign))
        journal.people.correct(self.trial, "amend", was, becomes, who=self.who, why=self.why)
        return f"trial {self.trial}: {'; '.join(changes(was, becomes, campaign.currency, campaign.names))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(TrialAct):
    """Say what came of it, or that nothing comes."""

    verb = "outcome"
    outcomes: Mapping[str, float] | None = None
    lost: bool = False
    force: bool = False
    """Although it was given up."""

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        row, outcomes = journal.read.trial(self.trial), self.outcomes
        if self.lost:
            missing = _awaited_names(journal.read, row)
            if not self.why.strip():
                raise UsageError(f"trial {self.trial}: say why none comes, with --why: it is read by others later")
            journal.awaited.come(self.trial, dict.fromkeys(missing), self.who, self.why, act=self.verb)
            return f"trial {self.trial}: ends without an outcome; its cost stays spent"
        if outcomes is None:
            raise UsageError(got(None, "must be numbers by name", where=f"trial {self.trial}: outcomes"))
        if self.force and given_up(row):
            why = self.why or "its outcome came after it was given up"
            return Amend(trial=self.trial, becomes=Amendment(outcomes=outcomes), who=self.who, why=why).apply(
                journal, rig
            )
        awaits(journal.read, row, outcomes)
        for name, value in outcomes.items():
            _check_finite(f"trial {self.trial}: {name}", value)
        came = {name: float(value) for name, value in outcomes.items()}
        journal.awaited.come(self.trial, came, self.who, self.why, act=self.verb)
        said = ", ".join(f"{name} {in_full(value)}" for name, value in outcomes.items())
        left = len(journal.awaited.waiting())
        return f"trial {self.trial}: {said}; {counted(left, 'outcome') if left else 'no outcome'} still awaited"


def over(journal: Journal, act: TrialAct) -> TrialRow:
    """Return the trial that an act corrects.

    Raises:
        UsageError: there is none, it is not over, or the act gives no reason.
    """
    row = journal.read.trial(act.trial)
    if row.state is State.AWAITING:
        raise UsageError(
            f"trial {act.trial}: awaits its outcome; `rigctl trial outcome {act.trial} VALUE` records it, "
            "with --lost that none comes; then it can be corrected"
        )
    if not row.state.final:
        raise UsageError(f"trial {act.trial}: is under way ({row.state}); it can be corrected when it is over")
    if not act.why.strip():
        raise UsageError(f"trial {act.trial}: say why, with --why: a correction is read by others later")
    return row


def names_of(campaign: CampaignRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a campaign's variables, and of its outcomes in order."""
    further = json.loads(campaign.identity.get("further_outcomes", "[]"))
    return tuple(json.loads(campaign.identity["variables.names"])), (campaign.outcome, *(f["name"] for f in further))


def changes(was: Amendment, becomes: Amendment, currency: str, names: Names) -> tuple[str, ...]:
    """Say what is amended, one phrase each."""

    def said(name: str, value: float | None) -> str:
        return "nothing" if value is None else shown_value(name, value, names, 6)

    before = {**was.values, **was.outcomes}
    after = {**becomes.values, **becomes.outcomes}.items()
    parts = [f"{shown_name(n, names)} {said(n, before.get(n))} -> {said(n, v)}" for n, v in after]
    if becomes.amount is not None:
        old = "nothing" if was.amount is None else in_full(to_units(was.amount), 6)
        parts.append(f"cost {old} -> {in_full(to_units(becomes.amount), 6)} {currency}")
    if becomes.note is not None:
        parts.append(f'note "{was.note or ""}" -> "{becomes.note}"')
    return tuple(parts)


def _as_it_is(row: TrialRow, becomes: Amendment, outcomes: Sequence[str]) -> Amendment:
    """Return what stands now where something is amended."""
    measured = {outcomes[0]: row.outcome, **row.further}
    amount = row.by_hand.amount if row.imported and row.by_hand is not None else row.cost
    return Amendment(
        values={name: row.measured.get(name) for name in becomes.values},
        outcomes={name: measured.get(name) for name in becomes.outcomes},
        amount=None if becomes.amount is None else amount,
        note=None if becomes.note is None else row.remark,
    )


def _check(row: TrialRow, becomes: Amendment, names: tuple[Sequence[str], Sequence[str]]) -> None:
    variables, outcomes = names
    for kind, known, given in (("variable", variables, becomes.values), ("outcome", outcomes, becomes.outcomes)):
        for name in given:
            if name not in known:
                raise UsageError(f"{name}: is no {kind} of this campaign; known: {', '.join(known)}")
    for name, value in {**becomes.values, **becomes.outcomes}.items():
        if value is not None:
            _check_finite(name, value)
    if becomes.amount is not None and becomes.amount < 0:
        raise UsageError(got(to_units(becomes.amount), "must not be negative", where="cost"))
    _check_whole(row, becomes, names)


def _check_finite(where: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
        raise UsageError(got(value, "must be a finite number", where=where))


def _check_whole(row: TrialRow, becomes: Amendment, names: tuple[Sequence[str], Sequence[str]]) -> None:
    """Refuse an amendment that leaves a trial with an outcome, but without something that it needs."""
    variables, outcomes = names
    first = {outcomes[0]: row.outcome, **row.further, **becomes.outcomes}
    measured = {**row.measured, **becomes.values}
    if all(first.get(name) is None for name in outcomes):
        return
    missing = [n for n in variables if measured.get(n) is None] + [n for n in outcomes if first.get(n) is None]
    if missing and (becomes.values or becomes.outcomes):
        raise UsageError(
            f"trial {row.trial}: {', '.join(missing)}: is missing, but the trial has an outcome; give it with "
            "--values, or take the outcome away with --failed"
        )


def given_up(row: TrialRow) -> bool:
    """Tell whether a trial ended without the outcome it awaited."""
    return row.awaited is not None and row.state is State.FAILED


def awaits(reader: Reader, row: TrialRow, outcomes: Iterable[str]) -> None:
    """Raise `UsageError` unless these are the outcomes that a trial awaits, all of them."""
    said, missing = tuple(outcomes), _awaited_names(reader, row)
    if set(said) != set(missing):
        allowed = f"must be all that it awaits: {', '.join(missing)}"
        raise UsageError(Flaw("", allowed, got=", ".join(said) or "nothing", where=f"trial {row.trial}"))


def _awaited_names(reader: Reader, row: TrialRow) -> tuple[str, ...]:
    """Return the outcomes that a trial awaits; raises UsageError if it awaits none."""
    number = row.trial
    if row.state is State.AWAITING:
        first, *further = names_of(reader.campaign())[1]
        known = {first: row.outcome, **{name: row.further.get(name) for name in further}}
        return tuple(name for name, value in known.items() if value is None)
    if row.awaited is not None and row.came is not None and row.state is State.FAILED:
        raise UsageError(
            f"trial {number}: was given up on {row.came.utc}: {row.came.why}; "
            "--force records its outcome all the same, as an amendment"
        )
    if row.state.final and row.outcome is not None:
        amended = [c for c in row.corrected if c.becomes.outcomes]
        said = amended[-1] if amended else row.came
        by = "" if said is None else f" by {said.who} on {said.utc}"
        raise UsageError(
            f"trial {number}: has its outcome already, {in_full(row.outcome)}{by}; "
            f"`rigctl trial amend {number} --outcome VALUE --why TEXT` corrects it"
        )
    raise UsageError(f"trial {number}: is {row.state} and awaits none; `rigctl trial outcome` lists those that do")


def void_misses(journal: Journal, rig: RigSpec) -> bool:
    """Void the trials that show a variable astray, each once; return whether there were any.

    A trial that awaits its outcome is voided when that has come; one that a person has taken in again stays.
    """
    found = [(trial, one.missed(trial)) for one in astray(journal.read, rig).values() for trial in one.misses]
    rows = {trial: journal.read.trial(trial) for trial, _ in found}
    fresh = [n for n, row in rows.items() if row.state.final and not any(c.kind != "amend" for c in row.corrected)]
    for trial in fresh:
        Void(trial=trial, who=CAMPAIGN, why="; ".join(why for number, why in found if number == trial)).apply(
            journal, rig
        )
    return bool(fresh)


# To instruments -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Care(Act):
    """Something done to an instrument."""

    about = "device"
    kind: ClassVar[UpkeepKind]
    """What an `UpkeepRow` is kept of; the act's fields are the row's."""
    device: str
    """Its name in the configuration."""

    def check(self, rig: RigSpec) -> None:
        """Raise UsageError where this cannot be said of this device."""
        if self.device not in rig.devices:
            known = ", ".join(rig.devices)
            raise UsageError(got(self.device, f"must be a device of this rig: {known}"))

    def outcome(self, rig: RigSpec) -> str:
        raise NotImplementedError

    def apply(self, journal: Journal, rig: RigSpec | None) -> str:
        if rig is None:
            raise UsageError(Flaw("", "must be one that has the device", got="no configuration", where=self.device))
        self.check(rig)
        out = out_of_service(journal.read).get(self.device, "")
        if self.kind == "out" and out:
            raise UsageError(f"{self.device}: is out of service already, {out}")
        if self.kind == "in" and not out and self.device not in astray(journal.read, rig):
            raise UsageError(f"{self.device}: is in service; `rigctl status` lists what is not")
        blank, outcome = {"kind": self.kind, "part": "", "volume_ml": None, "age_s": 0.0}, self.outcome(rig)
        journal.people.keep(UpkeepRow, blank | fields_of(self), outcome, verb=self.verb)
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
    """Volume in the bottle now, e.g. "350 mL"; default: it is full."""

    def check(self, rig: RigSpec) -> None:
        Care.check(self, rig)
        if rig.care.get(self.device, CareSpec()).inventory is None:
            bottled = ", ".join(n for n, care in rig.care.items() if care.inventory is not None)
            allowed = f"must be one with it{f', such as {bottled}' if bottled else ''}"
            remedy = "" if bottled else "write `inventory: {volume: 500 mL}` under the pump"
            raise UsageError(Flaw("", allowed, remedy, "a device without `inventory`", self.device))
        if self.volume_ml is not None and not 0 < self.volume_ml < float("inf"):
            raise UsageError(Flaw("", "must be more than nothing", "", f"{in_full(self.volume_ml)} mL", self.device))

    def outcome(self, rig: RigSpec) -> str:
        inventory = rig.care[self.device].inventory
        volume_ml = inventory.volume_ml if self.volume_ml is None and inventory is not None else self.volume_ml
        return f"{self.device} has {in_full(volume_ml or 0.0)} mL in its bottle; doses are counted from now on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced(Care):
    """Say that a part of an instrument was replaced, such as a pump's tubing."""

    verb, kind = "replaced", "replaced"
    part: str
    """Part that was replaced, e.g. tubing."""

    def check(self, rig: RigSpec) -> None:
        Care.check(self, rig)
        if not self.part:
            raise UsageError(Flaw("", f"must say what was replaced, e.g. {TUBING}", got="no part", where=self.device))

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
            raise UsageError(Flaw("", "must be in the past", got="a date to come", where=self.device))

    def outcome(self, rig: RigSpec) -> str:
        every_s = rig.care.get(self.device, CareSpec()).calibration.every_s
        when = "just now" if self.age_s == 0 else f"{lasting(self.age_s)} ago"
        due = "" if every_s is None else f"; the next is due in {lasting(max(0.0, every_s - self.age_s))}"
        return f"{self.device} was calibrated {when}{due}"


_KINDS: Final[tuple[type[Act], ...]] = (
    *(Acknowledge, Shelve, Unshelve, Void, Amend, Outcome),
    *(OutOfService, InService, Refilled, Replaced, Calibrated),
)
ACTS: Final[Mapping[str, type[Act]]] = MappingProxyType({kind.verb: kind for kind in _KINDS})
"""All of them, by verb."""


# What is asked for ----------------------------------------------------------------------------------------------------


def read_as(kind: type[T], request: Request) -> T:
    """Return what a request asks for as this dataclass, by the names and types of its fields.

    What an act says is checked where it is applied.

    Raises:
        UsageError: the request has not the form of that.
    """
    hints, given = get_type_hints(kind), {"who": request.who, "why": request.why}
    own = fields(cast("Any", kind))
    for field in (f for f in own if f.name not in given and (f.default is MISSING or f.name in request.arguments)):
        value = _READ[hints[field.name]](request, field.name)
        if value is None and hints[field.name] is float:
            if field.default is MISSING:
                raise UsageError(f"{field.name} is missing")
            continue
        given[field.name] = value
    return kind(**{f.name: given[f.name] for f in own if f.name in given})


def _number(request: Request, name: str) -> float | None:
    value = request.arguments.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise UsageError(got(value, "must be a number", where=name))
    return None if value is None else float(value)


def _by_name(request: Request, name: str) -> Mapping[str, float] | None:
    value = request.arguments[name]
    if not isinstance(value, Mapping | None):
        raise UsageError(got(value, "must be numbers by name", where=name))
    return value


def _amendment(request: Request, name: str) -> Amendment:
    try:
        becomes = typed(Amendment, request.arguments.get(name))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{name}: must be what is amended, by field ({error})") from error
    named = (becomes.values, becomes.outcomes)
    amount = 0 if becomes.amount is None else becomes.amount
    if not (all(isinstance(values, Mapping) for values in named) and isinstance(becomes.note, str | None)):
        raise UsageError(f"{name}: values and outcomes must be by name, and note text")
    if not isinstance(amount, int) or isinstance(amount, bool) or abs(amount) > LARGEST:
        raise UsageError(got(amount, "must be whole micro-units of money", where=f"{name}: cost"))
    note = None if becomes.note is None else one_line(becomes.note)
    return Amendment(becomes.values, becomes.outcomes, becomes.amount, note)


_READ: Final[Mapping[Any, Any]] = MappingProxyType(
    {
        int: Request.number,
        str: Request.text,
        bool: lambda request, name: request.arguments[name] is True,
        float: _number,
        float | None: _number,
        Mapping[str, float] | None: _by_name,
        Amendment: _amendment,
    }
)
"""By a field's type: what reads it from a request."""
