"""What the watch makes of what it sees: rules over a frozen snapshot. Pure; the loop only gathers and acts.

A rule names the subjects it objects to. An objection that has stood for the rule's time is a finding; it stands until
it is over, which an interlock may judge by another condition (hysteresis). What follows from a finding is its rule's
action.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rigctl.rig.conditions import Condition
from rigctl.rig.spec import Action, InterlockSpec, RigSpec, WatchSpec
from rigctl.rig.values import RigGlance, SeenReading
from rigctl.text import Names, in_full, shown_value, words_of

LATE_S = 3.0
VERY_LATE_S = 10.0
"""Wall seconds by which a look may come late: told beyond the first, held beyond the second."""
JOURNAL_S = 5.0
"""Wall seconds that a call of the journal may take."""
LOW_BYTES, LOW_SHARE = 200 * 2**20, 0.1
FULL_BYTES, FULL_SHARE = 20 * 2**20, 0.01
"""Space on the disk below which it is told, and below which the campaign holds; or so much of a small one."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Holds everything a rule may look at."""

    now_s: float
    rig: RigGlance = field(default_factory=RigGlance)
    """Without readings as long as the rig is not open, so that nothing can be judged."""
    late_s: float = 0.0
    """Wall seconds by which this look came late."""
    journal_s: float = 0.0
    """Wall seconds the journal's oldest call has been waiting."""
    missing: str = ""
    """What is wrong with the files under us: journal or lock deleted or replaced."""
    civil_s: float | None = None
    """Civil time, seconds since 1970; None: it is not known."""
    wall: str = ""
    """What is wrong with the wall clock."""
    untold: str = ""
    """Why people cannot be told of anything."""
    free_bytes: float = math.inf
    disk_bytes: float = math.inf


Objections = Mapping[str, str]
"""Subject -> what is wrong with it now."""


@dataclass(frozen=True, slots=True)
class WatchRule:
    """Watches one thing."""

    name: str
    then: Action
    objects: Callable[[Snapshot], Objections]
    for_s: float = 0.0
    """Rig seconds an objection must have stood."""
    over: Callable[[Snapshot], bool] | None = None
    """Whether what was found is over; None: as soon as there is no objection."""
    judged: Callable[[Snapshot], bool] = lambda _: True
    """Whether it can be said already if there is an objection; an interlock needs a first reading for that."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Holds an objection that has stood long enough."""

    rule: str
    subject: str
    then: Action
    why: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.why}"


@dataclass(frozen=True, slots=True)
class Standing:
    """Holds what the watch remembers from one look to the next."""

    since: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(rule, subject) -> rig time from which it has been objected to without a break."""
    found: Mapping[tuple[str, str], Finding] = field(default_factory=dict)
    unjudged: frozenset[str] = frozenset()
    """Rules of which it cannot be said yet whether they object."""

    def demanding(self, *actions: Action) -> tuple[Finding, ...]:
        return tuple(f for f in self.found.values() if f.then in actions)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says what one look has brought."""

    standing: Standing
    new: tuple[Finding, ...] = ()
    over: tuple[Finding, ...] = ()


def judge(rules: Sequence[WatchRule], before: Standing, seen: Snapshot) -> Verdict:
    """Hold the snapshot against every rule."""
    since: dict[tuple[str, str], float] = {}
    found: dict[tuple[str, str], Finding] = {}
    for rule in rules:
        objections = rule.objects(seen)
        for subject, why in objections.items():
            key = (rule.name, subject)
            since[key] = before.since.get(key, seen.now_s)
            if key in before.found or seen.now_s - since[key] >= rule.for_s:
                found[key] = before.found.get(key, Finding(rule.name, subject, rule.then, why))
        if rule.over is not None and not rule.over(seen):
            found |= {k: f for k, f in before.found.items() if k[0] == rule.name}
    new = tuple(f for k, f in found.items() if k not in before.found)
    over = tuple(f for k, f in before.found.items() if k not in found)
    found_by = {f.rule for f in found.values()}
    unjudged = frozenset(r.name for r in rules if r.name not in found_by and not r.judged(seen))
    return Verdict(Standing(since, found, unjudged), new, over)


# the rules --------------------------------------------------------------------------------------------------------


def rules_of(spec: WatchSpec) -> tuple[WatchRule, ...]:
    """Return the configuration's interlocks and the rules that every rig has."""
    return (
        *map(_interlock, spec.interlocks),
        WatchRule("read-back", "fail", lambda s: s.rig.astray),
        WatchRule("pump", "fail", lambda s: s.rig.strays),
        WatchRule("step", "trip", lambda s: s.rig.steps),
        WatchRule("stale sensor", "hold", _stale),
        WatchRule("frozen sensor", "hold", _frozen),
        WatchRule("bus", "hold", lambda s: s.rig.stuck),
        WatchRule("journal", "hold", _journal),
        WatchRule("files", "hold", lambda s: {"": s.missing} if s.missing else {}),
        WatchRule("wall clock", "warn", lambda s: {"": s.wall} if s.wall else {}),
        WatchRule("disk", "warn", lambda s: _space(s, min(LOW_BYTES, LOW_SHARE * s.disk_bytes))),
        WatchRule("disk full", "hold", lambda s: _space(s, min(FULL_BYTES, FULL_SHARE * s.disk_bytes))),
        WatchRule("telling", "warn", lambda s: {"": s.untold} if s.untold else {}),
        WatchRule("watch late", "warn", lambda s: _late(s, LATE_S)),
        WatchRule("watch very late", "hold", lambda s: _late(s, VERY_LATE_S)),
    )


def hours_rule(spec: RigSpec) -> WatchRule:
    """Return the rule that nothing is driven outside its hours, should a trial take longer than it was expected to."""
    own = {name: limits.allowed for name, limits in spec.limits.items() if limits.allowed is not None}

    def objects(seen: Snapshot) -> Objections:
        now_s, driven = seen.civil_s, seen.rig.driven
        if now_s is None:
            return {}
        closed = {n: f"{n} may be driven {h} only" for n, h in own.items() if n in driven and not h.is_open(now_s)}
        if spec.allowed is not None and driven and not spec.allowed.is_open(now_s):
            closed[""] = f"trials may run {spec.allowed} only"
        return closed

    return WatchRule("hours", "fail", objects)


def _interlock(spec: InterlockSpec) -> WatchRule:
    def objects(seen: Snapshot) -> Objections:
        holds = spec.when.holds(_values(seen.rig))
        if holds:
            return {"": f"{spec.when}: {_told(spec.when, seen.rig)}"}
        unknown = _unknown(spec, seen.rig) if holds is None else ""
        if unknown:
            return {"": f"{spec.when}: cannot be judged, {unknown}"}
        return {}

    def over(seen: Snapshot) -> bool:
        if spec.until is None:
            return spec.when.holds(_values(seen.rig)) is False
        return spec.until.holds(_values(seen.rig)) is True

    def judged(seen: Snapshot) -> bool:
        return spec.then == "warn" or spec.when.holds(_values(seen.rig)) is not None

    return WatchRule(f"interlock {spec.name}", spec.then, objects, spec.for_s, over, judged)


def _values(rig: RigGlance) -> dict[str, float | None]:
    """Return the readings that may be gone by; a stale one counts as none."""
    return {name: None if seen.too_old else seen.value for name, seen in rig.readings.items()}


def _unknown(spec: InterlockSpec, rig: RigGlance) -> str:
    """Say which readings are missing for longer than they may; nothing while there is time for a first one."""
    return "; ".join(
        f"no valid reading of {name} for {seen.age_s:.0f} s" + (f" ({seen.detail})" if seen.detail else "")
        for name, seen in sorted(rig.readings.items())
        if name in spec.when.names and seen.too_old
    )


def _told(when: Condition, rig: RigGlance) -> str:
    names = Names({}, {}, {one.name: one.levels for one in when.comparisons})
    shown = {n: rig.readings[n] for n in sorted(when.names) if n in rig.readings}
    return ", ".join(f"{n} reads {_read(n, seen, names)}" for n, seen in shown.items())


def _read(name: str, seen: SeenReading, names: Names) -> str:
    if seen.value is None:
        return "nothing"
    return shown_value(name, seen.value, names) if words_of(name, names) else f"{in_full(seen.value)} {seen.unit}"


def _stale(seen: Snapshot) -> Objections:
    """Object to readings older than the configuration allows, interlock or not; of a quiet line once, to the line."""
    lines = {name: line for line, names in seen.rig.quiet.items() for name in names}
    told: dict[str, str] = {}
    for name, r in seen.rig.readings.items():
        if r.must_be_fresh and r.too_old:
            who = ", ".join(seen.rig.quiet.get(lines.get(name, ""), (name,)))
            why = f"{who}: no valid reading for {r.age_s:.0f} s" + (f" ({r.detail})" if r.detail else "")
            told.setdefault(lines.get(name, name), why)
    return told


def _frozen(seen: Snapshot) -> Objections:
    return {
        name: f"{name}: reads {r.value!r} {r.unit} without any change for {r.same_for_s:.0f} s"
        for name, r in seen.rig.readings.items()
        if r.frozen_after_s is not None and r.same_for_s >= r.frozen_after_s
    }


def _journal(seen: Snapshot) -> Objections:
    if seen.journal_s < JOURNAL_S:
        return {}
    return {"": f"a call of the journal has not returned for {seen.journal_s:.0f} s; is the disk all right?"}


def _space(seen: Snapshot, least: float) -> Objections:
    if seen.free_bytes >= least:
        return {}
    return {"": f"{seen.free_bytes / 2**20:.0f} MiB left on the disk of the state directory; free some"}


def _late(seen: Snapshot, most_s: float) -> Objections:
    return {"": f"it looked {seen.late_s:.1f} s late"} if seen.late_s > most_s else {}
