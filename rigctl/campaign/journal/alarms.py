"""Alarms as people see them, made of what the journal holds (pure).

The journal keeps every single time that something was raised. What has the same kind and source is one alarm with a
count, whatever its message says. Its states are those of ISA-18.2: it stands, whether somebody has acknowledged it or
not; it is over, and nobody has seen it yet; or it is settled, and the next time is another alarm.

An alarm that `stands` does so until another one of its key says that it is over, or until a later process begins, which
looks anew. One that has no such end, such as a failed trial, stands until it is acknowledged; if it is only MINOR it is
a note, and over at once. Shelving keeps an alarm from being told of until a given time. Nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from rigctl.campaign.journal.rows import AlarmRow
from rigctl.errors import UsageError
from rigctl.flaws import Flaw
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import Action
from rigctl.text import lasting

LONGEST_SHELF_S: Final = 24 * 3600.0
"""An alarm that may be silent for longer should not be one: shelving is for a shift (ISA-18.2, 7.2.4)."""

AlarmKey = tuple[str, str]
"""Kind and source."""
Condition = Literal["active", "acknowledged", "over", "settled"]
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class AlarmMinded:
    """A person has seen an alarm, has shelved it, or ended that."""

    verb: str
    """`ack`, `shelve` or `unshelve`."""
    kind: str
    source: str
    seconds: float
    """Rig time for which it is shelved."""
    who: str
    why: str
    utc: str = ""
    at_s: float = 0.0
    alarm: int = 0
    """The number that the person named; `kind` and `source` are of that one."""

    @property
    def key(self) -> AlarmKey:
        return self.kind, self.source


@dataclass(frozen=True, slots=True)
class Begun:
    """A process began to run the campaign."""

    utc: str
    at_s: float


AlarmEvent = AlarmRow | AlarmMinded | Begun


@dataclass(frozen=True, slots=True)
class Shelf:
    """Says until when, by whom and why an alarm is shelved."""

    until_s: float
    """Campaign time."""
    until_utc: str
    """Whichever comes first ends it: campaign time stands still between processes, and a wall clock may be set."""
    who: str
    why: str

    def holds(self, now_s: float, now_utc: str) -> bool:
        return now_s < self.until_s and datetime.fromisoformat(now_utc) < datetime.fromisoformat(self.until_utc)


@dataclass(frozen=True, slots=True)
class AlarmState:
    """One alarm: what was raised again and again, and what became of it."""

    alarm: int
    """Its number: of the first time since the last one was settled."""
    severity: Severity
    """The worst since then."""
    kind: str
    source: str
    message: str
    """As it was said last."""
    trial: int | None
    since: str
    """UTC."""
    last: str
    """UTC of the last time."""
    count: int = 1
    until: str = ""
    """UTC from which it is over; empty while it is not."""
    acknowledged: str = ""
    """By whom."""
    acknowledged_utc: str = ""
    why: str = ""
    """What that person said."""
    lasting: bool = False
    """Whether another alarm ends it; else only being acknowledged does."""
    action: Action | Literal[""] = ""
    shelf: Shelf | None = None

    @property
    def note(self) -> bool:
        """Tell whether it says something that nobody need acknowledge."""
        return self.severity < Severity.MAJOR

    @property
    def condition(self) -> Condition:
        if self.acknowledged:
            return "acknowledged" if self.lasting and not self.until else "settled"
        if self.until:
            return "settled" if self.note else "over"
        return "active"

    @property
    def active(self) -> bool:
        """Tell whether its cause has not gone, as far as is known."""
        return self.condition in ("active", "acknowledged")


@dataclass(frozen=True, slots=True)
class Mark:
    """Says up to where the journal has been read: the last rows of three tables."""

    alarm: int = 0
    act: int = 0
    start: int = 0


@dataclass(frozen=True, slots=True)
class Alarms:
    """All alarms of a campaign up to some point of its journal; more is taken in by making a new one."""

    states: Mapping[AlarmKey, AlarmState] = field(default_factory=dict)
    shelves: Mapping[AlarmKey, Shelf] = field(default_factory=dict)
    read: Mark = Mark()
    """Up to where the journal was read for it."""

    def taken(self, events: Iterable[AlarmEvent]) -> Alarms:
        """Return what there is after these, whatever order they come in; all are later than those before them."""
        states, shelves = dict(self.states), dict(self.shelves)
        for event in sorted(events, key=lambda e: (e.at_s, e.utc, _RANK[type(e)])):
            match event:
                case AlarmRow():
                    _raise(states, event)
                case AlarmMinded():
                    _mind(states, shelves, event)
                case Begun():
                    for key, state in states.items():
                        if state.lasting and not state.until:
                            states[key] = replace(state, until=event.utc)
        return Alarms(states, shelves)

    def shown(self, now_s: float, now_utc: str) -> tuple[AlarmState, ...]:
        """Return every alarm: active ones first, the worst of them first, then the latest; shelved ones say so.

        Whether a shelf still holds is asked of campaign time and of the wall clock, `now_utc`, ISO 8601.
        """
        held = {key: shelf for key, shelf in self.shelves.items() if shelf.holds(now_s, now_utc)}
        found = [replace(state, shelf=held.get(key)) for key, state in self.states.items()]
        found.sort(key=lambda a: (a.last, a.alarm), reverse=True)
        return tuple(sorted(found, key=lambda a: (_place(a), -a.severity)))

    def shelved(self, key: AlarmKey, now_s: float, now_utc: str) -> bool:
        """Tell whether people are not to be told of this alarm now."""
        shelf = self.shelves.get(key)
        return shelf is not None and shelf.holds(now_s, now_utc)


_RANK: Final[Mapping[type, int]] = {Begun: 0, AlarmRow: 1, AlarmMinded: 2}
_ORDER: Final[tuple[Condition, ...]] = get_args(Condition)


def _place(alarm: AlarmState) -> float:
    """Return where an alarm is shown: a shelved one after all other active ones."""
    place = _ORDER.index(alarm.condition)
    return place if alarm.shelf is None or not alarm.active else _ORDER.index("acknowledged") + 0.5


def pressing(alarms: Sequence[AlarmState]) -> tuple[AlarmState, ...]:
    """Return those that somebody should look at: not settled, and no mere note that is over."""
    return tuple(alarm for alarm in alarms if alarm.condition != "settled")


def worst(alarms: Sequence[AlarmState]) -> AlarmState | None:
    """Return the worst active alarm, unacknowledged ones first; None where none is active."""
    found = [alarm for alarm in alarms if alarm.active]
    return max(found, key=lambda a: (a.severity, not a.acknowledged), default=None)


def shelved_words(alarm: int, seconds: float) -> str:
    """Return what the audit says of shelving an alarm.

    Raises:
        UsageError: nobody may shelve for so long, or so shortly.
    """
    if not 0 < seconds <= LONGEST_SHELF_S:
        allowed = f"must be more than 0 and at most {LONGEST_SHELF_S:g} s (24 h)"
        raise UsageError(Flaw("", allowed, "shelve it again when it is back", f"{seconds:g} s", f"alarm {alarm}"))
    return f"alarm {alarm} for {lasting(seconds)}"


def _raise(states: dict[AlarmKey, AlarmState], event: AlarmRow) -> None:
    key, before = event.key, states.get(event.key)
    if event.state == "over":
        if before is not None and not before.until:
            states[key] = replace(before, until=event.utc)
        return
    text = "".join(c if c.isprintable() else " " for c in event.message)  # it may be what an instrument has sent
    lasting = event.state == "stands"
    over_at_once = event.utc if not lasting and event.severity < Severity.MAJOR else ""
    # a note that comes again and again is one line, too
    if before is None or (before.condition == "settled" and (before.acknowledged or not before.note)):
        states[key] = AlarmState(
            event.alarm,
            event.severity,
            *key,
            text,
            event.trial,
            since=event.utc,
            last=event.utc,
            until=over_at_once,
            lasting=lasting,
            action=event.action,
        )
        return
    states[key] = replace(
        before,
        severity=max(before.severity, event.severity),
        message=text,
        trial=event.trial,
        last=event.utc,
        count=before.count + 1,
        until=over_at_once,
        lasting=lasting,
        action=event.action,
    )


def _mind(states: dict[AlarmKey, AlarmState], shelves: dict[AlarmKey, Shelf], event: AlarmMinded) -> None:
    key = event.key
    if event.verb == "unshelve":
        shelves.pop(key, None)
        return
    if event.verb == "shelve":
        seconds = min(event.seconds, LONGEST_SHELF_S)
        until = datetime.fromisoformat(event.utc) + timedelta(seconds=seconds)
        shelves[key] = Shelf(event.at_s + seconds, until.isoformat(), event.who, event.why)
        return
    state = states.get(key)
    if state is not None and not state.acknowledged and event.alarm >= state.alarm:  # not an earlier one of the kind
        states[key] = replace(state, acknowledged=event.who, acknowledged_utc=event.utc, why=event.why)
