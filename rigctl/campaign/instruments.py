"""Which instruments are not to be used now, why, and which control sets cannot be played because of that.

What people have said of a device, what is left in its bottle, what it says of its calibration, and whether it brings
its variable to a setpoint is its state, read from the journal. An objection says what is wrong with that, and which use
of the device it forbids. A control set that needs a device for such a use is not offered to the policy, with the
reason. A sensor that says the same trial after trial, while everything else changes, is not believed (fault 64).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, Final, Literal

from rigctl.campaign.journal.past import utc_now, wall_since_s
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import CalibrationRow, MeasurementRow, TrialRow, UpkeepRow
from rigctl.campaign.journal.writer import Journal
from rigctl.core.experiment.space import ControlSet, Space
from rigctl.errors import counted
from rigctl.rig.imposing import given_volumes
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import LAST, MISSES, CareSpec, FollowSpec, RigSpec, SensorRules, VariableWiring
from rigctl.rig.values import Measurement
from rigctl.text import in_full, lasting

# State and objections (pure) ------------------------------------------------------------------------------------------

Use = Literal["any", "dosing", "control"]
"""What a control set may need a device for: whatever it does; to judge doses by; to reach a setpoint with."""
HOURS, SPENT = "hours", "cap"
"""Kinds of objections that time alone ends, and that nothing ends as long as this process runs."""
DUE_SOON = 0.9
"""Share of the time between two calibrations after which the next is worth a word."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What is known of the upkeep of a device; None: it is not known, or not counted."""

    out: str = ""
    """Who has taken it out of service, and why; empty: it is in service."""
    left_ml: float | None = None
    """In its bottle."""
    dose_ml: float | None = None
    """Of its usual dose."""
    trial_ml: float = 0.0
    """The most it has given in one of the last trials."""
    tubing_ml: float | None = None
    """What its tubing has seen."""
    points: int | None = None
    """Of how many points its calibration is."""
    slopes: tuple[float, ...] = ()
    """Percent of an ideal probe's."""
    calibrated_ago_s: float | None = None
    """Rig seconds since it was last calibrated, as far as is known."""

    closed: str = ""
    """When it may be driven, if that is not now for as long as a trial takes."""
    astray: str = ""
    """Why it is not believed to bring its variable to a setpoint."""
    check: str = ""
    """What to do about that."""
    spent: str = ""
    """What it may give in the whole campaign, if a trial may take more than is left of it."""

    @property
    def doses_left(self) -> int | None:
        """Return for how many usual doses the bottle is good."""
        return None if self.left_ml is None or not self.dose_ml else max(0, int(self.left_ml / self.dose_ml))


@dataclass(frozen=True, slots=True)
class Objection:
    """Something that is wrong with a device, or soon will be."""

    device: str
    kind: str
    why: str
    remedy: str
    forbids: frozenset[Use] = frozenset()
    """Nothing: it is only to be told."""

    @property
    def severity(self) -> Severity:
        return Severity.MAJOR if self.forbids else Severity.MINOR

    def __str__(self) -> str:
        return f"{self.device} {self.why}"


_ANY: frozenset[Use] = frozenset({"any"})
_DOSING: frozenset[Use] = frozenset({"dosing"})
_CONTROL: frozenset[Use] = frozenset({"control"})
_NONE: frozenset[Use] = frozenset()


def objections(rig: RigSpec, states: Mapping[str, DeviceState]) -> tuple[Objection, ...]:
    """Return what is wrong with the devices in these states, in their order."""
    judges = frozenset(d.sensor for d in rig.dosing.values())
    return tuple(
        found
        for device, state in states.items()
        for found in _about(device, state, rig.care.get(device, CareSpec()), judges=device in judges)
    )


def _about(device: str, state: DeviceState, care: CareSpec, *, judges: bool) -> Iterator[Objection]:
    if state.out:
        yield Objection(device, "out", f"is out of service, {state.out}", f"`rigctl device in-service {device}`", _ANY)
        return
    yield from _runs_out(device, state, care)
    if state.astray:
        yield Objection(device, "does not follow", state.astray, state.check, _CONTROL)
    if state.closed:
        yield Objection(device, HOURS, f"may be driven {state.closed} only", "wait, or allow more hours", _ANY)
    if state.spent:
        yield Objection(device, SPENT, state.spent, "raise the cap of the campaign, and start it again", _ANY)
    forbids = _DOSING if judges else _NONE
    calibrate = f"calibrate it, then `rigctl device calibrated {device}`"
    if state.points == 0:
        yield Objection(device, "uncalibrated", "is not calibrated", calibrate, forbids)
    low, high = care.calibration.slope
    if any(not low <= slope <= high for slope in state.slopes):
        told = " and ".join(f"{in_full(slope)}" for slope in state.slopes)
        why = f"has slopes of {told} %, must be {in_full(low)} to {in_full(high)} %"
        yield Objection(device, "slope", why, f"clean or replace the probe, and {calibrate}", forbids)
    every_s, ago_s = care.calibration.every_s, state.calibrated_ago_s
    if every_s is None or ago_s is None:
        return
    if ago_s > every_s:
        why = f"was calibrated {lasting(ago_s)} ago, must be every {lasting(every_s)}"
        yield Objection(device, "overdue", why, calibrate, forbids)
    elif ago_s > DUE_SOON * every_s:
        yield Objection(device, "due", f"must be calibrated within {lasting(every_s - ago_s)}", calibrate)


def _runs_out(device: str, state: DeviceState, care: CareSpec) -> Iterator[Objection]:
    refill = f"refill it, then `rigctl device refilled {device}`"
    left_ml, doses = state.left_ml, state.doses_left
    if left_ml is not None:
        trial_ml = state.trial_ml or state.dose_ml or 0.0
        left = f"has {in_full(max(0.0, left_ml), 4)} mL left in its bottle"
        if left_ml <= 0 or left_ml < trial_ml:
            yield Objection(device, "empty", f"{left}, and a trial may take {in_full(trial_ml, 4)} mL", refill, _ANY)
        elif care.inventory is not None and doses is not None and doses <= care.inventory.warn_at:
            yield Objection(device, "low", f"{left}, good for {counted(doses, 'dose')}", refill)
    tubing, seen_ml = care.tubing, state.tubing_ml
    if tubing is not None and seen_ml is not None and seen_ml >= tubing.replace_after_ml:
        good_for = f"which is good for {in_full(tubing.replace_after_ml / 1000)} L"
        why = f"has pumped {in_full(seen_ml / 1000, 4)} L through its tubing, {good_for}"
        yield Objection(device, "tubing", why, f"replace it, then `rigctl device replaced {device} tubing`")


# From devices to control sets ------------------------------------------------------------------------------------


def unavailable(rig: RigSpec, sets: Sequence[ControlSet], found: Iterable[Objection]) -> Mapping[int, str]:
    """Return the control sets that need a device for a use that an objection forbids, and why, in words."""
    return {number: "; ".join(map(str, why)) for number, why in against(rig, sets, found).items()}


def against(
    rig: RigSpec, sets: Sequence[ControlSet], found: Iterable[Objection]
) -> Mapping[int, tuple[Objection, ...]]:
    """Return what speaks against each control set that cannot be played."""
    forbidding = [o for o in found if o.forbids]
    needs = [needed(rig, chosen.names) for chosen in sets]
    whys = (tuple(o for o in forbidding if o.forbids & uses.get(o.device, _NONE)) for uses in needs)
    return {number: why for number, why in enumerate(whys) if why}


def needed(rig: RigSpec, controlled: Sequence[str]) -> Mapping[str, frozenset[Use]]:
    """Return what a trial that controls these variables needs, and for what: what every trial does is part of it."""
    given = [name for name, volume in rig.volumes.items() if volume.otherwise_ml > 0]
    used = {*(o.sensor or "" for o in rig.outcomes), *(v.sensor for v in rig.variables)}
    used |= {m.device for m in rig.meters if m.device is not None and m.device not in rig.pumps}
    used |= {step.actuator for step in rig.timing.prepare}
    used |= {pump for name in given for pump in (name, *rig.volumes[name].with_)}
    judged: set[str] = set()
    chosen = [variable for variable in rig.variables if variable.name in controlled]
    controls = {variable.actuator for variable in chosen}
    for variable in chosen:
        dosing = [rig.dosing[name] for name in variable.actuators if name in rig.dosing]
        used |= {*variable.actuators, *rig.pumps_of(variable), *(d.treatment for d in dosing if d.treatment)}
        judged |= {d.sensor for d in dosing}
    uses = ((used, _ANY), (judged, _DOSING), (controls, _CONTROL))
    return {name: _NONE.union(*(use for names, use in uses if name in names)) for name in (used | judged) - {""}}


# Variables that do not follow their setpoints (fault 83) --------------------------------------------------------------
#
# A healthy variable may miss in 1 of 20 trials: four misses in five are then chance once in 33,000 windows. One that
# does not move misses in 81 %. Neither setpoint nor reading says where its trials were, so they are void (decision
# 0019).


BEFORE, ENOUGH = 40, 10
"""Trials before these that say how near it is usually kept; with fewer than ENOUGH the widest default holds."""
USUAL_SHARE, SLACK = 0.9, 2.0
"""The default is twice the distance that nine in ten of them kept to."""


@dataclass(frozen=True, slots=True)
class Astray:
    """A controlled variable that does not follow its setpoint."""

    wired: VariableWiring
    misses: Mapping[int, float]
    """How far from its setpoint it was measured, engineering units, by trial."""
    last: int
    """Number of trials among which these are."""
    within: float
    unit: str

    @property
    def why(self) -> str:
        """Continue a sentence that begins with the actuator."""
        missed = f"{len(self.misses)} of its last {counted(self.last, 'trial')}"
        far = f"more than {self._span(self.within)} away (up to {self._span(max(self.misses.values()))})"
        return f"does not bring {self.wired.name} to its setpoint: {missed} measured it {far}"

    @property
    def remedy(self) -> str:
        check = f"check {self.wired.actuator}, its line and {self.wired.sensor}, then `rigctl device in-service"
        return f"{check} {self.wired.actuator}`; if it may be so far off, set `follows` of {self.wired.name} first"

    def missed(self, trial: int) -> str:
        """Say how far off the variable was in one of these trials."""
        off = f"measured {self._span(self.misses[trial])} from its setpoint, {self._span(self.within)} is allowed"
        return f"{self.wired.name} did not follow: {off}"

    def _span(self, value: float) -> str:
        return f"{in_full(value, 3)} {self.unit}".rstrip()


def allowed(follows: FollowSpec, before: Sequence[float]) -> float:
    """Return how far from its setpoint a variable may be, by how far off it was in the trials `before`."""
    if len(before) < ENOUGH:
        return follows.most
    usual = sorted(before)[ceil(USUAL_SHARE * len(before)) - 1]
    return min(max(SLACK * usual, follows.least), follows.most)


def follows_judged(wired: VariableWiring, follows: FollowSpec, off: Sequence[tuple[int, float]]) -> Astray | None:
    """Judge a variable by the trials that controlled it, in order, and how far from its setpoint each was measured."""
    before, last = off[:-LAST], off[-LAST:]
    within = allowed(follows, [distance for _, distance in before])
    misses = {trial: distance for trial, distance in last if distance > within}
    return Astray(wired, misses, len(last), within, follows.unit) if len(misses) >= MISSES else None


def astray(reader: Reader, rig: RigSpec) -> Mapping[str, Astray]:
    """Return the controlled variables that do not follow, by their actuator, since it was last put back in service."""
    back_s = {row.device: row.at_s for row in reader.people.kept(UpkeepRow) if row.kind == "in"}
    found = {}
    for wired in rig.variables:
        if wired.follows is not None and wired.actuator is not None:
            off = reader.upkeep.off_setpoint(wired.name, back_s.get(wired.actuator, -inf), BEFORE + LAST)
            one = follows_judged(wired, wired.follows, off)
            if one is not None:
                found[wired.actuator] = one
    return found


# What the journal knows of every device -------------------------------------------------------------------------------

Ago = Callable[[float, str, str], float]
"""Rig seconds since an instant: campaign time, UTC, epoch."""
_FAR_S = float("inf")


def by_wall(speedup: float) -> Ago:
    """Return the way to say how long ago something was where no clock of the campaign's runs."""

    def ago_s(_at_s: float, utc: str, _epoch: str) -> float:
        return wall_since_s(utc, utc_now(), speedup)

    return ago_s


def states_now(journal: Journal, rig: RigSpec) -> Mapping[str, DeviceState]:
    """Return the state of every device that something is known of, for the process that runs the campaign."""
    return states(journal.read, rig, lambda *instant: journal.time.since(*instant).longest_s)


def states(reader: Reader, rig: RigSpec, ago_s: Ago) -> Mapping[str, DeviceState]:
    rows = reader.people.kept(UpkeepRow)
    said, since = reader.upkeep.calibrations(), reader.upkeep.calibrated()
    found: dict[str, DeviceState] = {}
    adrift = astray(reader, rig)
    for device in rig.devices:
        care, own = rig.care.get(device, CareSpec()), [row for row in rows if row.device == device]
        last = {row.kind: row for row in own}
        bottle = _bottle(reader, rig, device, care, last.get("refilled"))
        tubing = next((r for r in reversed(own) if r.kind == "replaced" and r.part == "tubing"), None)
        pumped = None if care.tubing is None else reader.doses.of_pump(device, 0.0 if tubing is None else tubing.at_s)
        state = DeviceState(
            out=_out(own),
            tubing_ml=None if pumped is None else pumped[0],
            calibrated_ago_s=_calibrated_ago_s(since.get(device), last.get("calibrated"), ago_s),
        )
        if bottle is not None:
            dearest_ml = reader.doses.dearest_of_last_ml(device)
            state = replace(state, left_ml=bottle[0], dose_ml=bottle[1], trial_ml=dearest_ml)
        if device in said:
            state = replace(state, points=said[device].points, slopes=said[device].slopes)
        if device in adrift:
            state = replace(state, astray=adrift[device].why, check=adrift[device].remedy)
        if state != DeviceState():
            found[device] = state
    return found


def _calibrated_ago_s(since: CalibrationRow | None, by_hand: UpkeepRow | None, ago_s: Ago) -> float | None:
    """Return how long ago a device was calibrated, by what it said and by what a person did; None: nobody knows."""
    ago = _FAR_S
    if since is not None:
        ago = ago_s(since.at_s, since.utc, since.epoch)
    if by_hand is not None:
        ago = min(ago, by_hand.age_s + ago_s(by_hand.at_s, by_hand.utc, by_hand.epoch))
    return None if ago == _FAR_S else ago


def out_of_service(reader: Reader) -> Mapping[str, str]:
    """Return the devices that people have taken out of service, with who and why."""
    by_device: dict[str, list[UpkeepRow]] = {}
    for row in reader.people.kept(UpkeepRow):
        by_device.setdefault(row.device, []).append(row)
    out = {device: _out(rows) for device, rows in by_device.items()}
    return {device: said for device, said in out.items() if said}


def _out(rows: list[UpkeepRow]) -> str:
    last = next((row for row in reversed(rows) if row.kind in ("out", "in")), None)
    if last is None or last.kind == "in":
        return ""
    return f"by {last.who}: {last.why}" if last.why else f"by {last.who}"


def _bottle(
    reader: Reader, rig: RigSpec, pump: str, care: CareSpec, filled: UpkeepRow | None
) -> tuple[float, float | None] | None:
    """Return what is left in a pump's bottle, and its usual dose; None where nobody has said what it holds."""
    if care.inventory is None:
        return None
    full_ml = care.inventory.volume_ml if filled is None or filled.volume_ml is None else filled.volume_ml
    used_ml, doses = reader.doses.of_pump(pump, 0.0 if filled is None else filled.at_s)
    limits = rig.limits.get(pump)
    largest_ml = None if limits is None else limits.per_dose_ml
    return full_ml - used_ml, used_ml / doses if doses and used_ml > 0 else largest_ml


def barred(reader: Reader, rig: RigSpec, space: Space) -> Mapping[int, str]:
    """Return the control sets that cannot be played because of what is known of the instruments, and why."""
    return unavailable(rig, space.control_sets, objections(rig, states(reader, rig, by_wall(rig.speedup))))


def to_json(rig: RigSpec, known: Mapping[str, DeviceState]) -> list[dict[str, Any]]:
    """Return every device's upkeep for programs, as `status` has it; what is not known is left out."""
    found = objections(rig, known)
    out = []
    for device, state in known.items():
        about = [o for o in found if o.device == device]
        every_s, ago_s = rig.care.get(device, CareSpec()).calibration.every_s, state.calibrated_ago_s
        entry: dict[str, Any] = {
            "device": device,
            "out_of_service": state.out or None,
            "left_ml": _rounded(state.left_ml, 3),
            "doses_left": state.doses_left,
            "tubing_ml": _rounded(state.tubing_ml, 3),
            "calibration_points": state.points,
            "slopes": list(state.slopes) or None,
            "calibrated_days_ago": _rounded(ago_s, 2, 86400),
            "calibration_due_days": None if every_s is None or ago_s is None else _rounded(every_s - ago_s, 2, 86400),
            "objections": [{"kind": o.kind, "why": o.why, "remedy": o.remedy, "holds": bool(o.forbids)} for o in about],
        }
        out.append({name: value for name, value in entry.items() if value is not None and value != []})
    return out


def _rounded(value: float | None, digits: int, per: float = 1.0) -> float | None:
    return None if value is None else round(value / per, digits)


def said_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is known of a device's upkeep, from an entry of `to_json`, one phrase each."""
    said = []
    if "left_ml" in entry:
        doses = f", good for {counted(entry['doses_left'], 'dose')}" if "doses_left" in entry else ""
        said.append(f"{in_full(max(0.0, entry['left_ml']), 4)} mL left{doses}")
    if "tubing_ml" in entry:
        said.append(f"{in_full(entry['tubing_ml'] / 1000, 4)} L through its tubing")
    if "calibration_points" in entry:
        slopes = f", slopes {' and '.join(f'{in_full(s)}' for s in entry['slopes'])} %" if "slopes" in entry else ""
        points = entry["calibration_points"]
        said.append(
            f"calibrated at {points} {'point' if points == 1 else 'points'}{slopes}" if points else "not calibrated"
        )
    if "calibration_due_days" in entry:
        due = entry["calibration_due_days"]
        said.append(f"calibration due in {due:.3g} d" if due >= 0 else f"calibration overdue by {-due:.3g} d")
    return tuple(said)


def wrong_with(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with a device, with the remedy, one sentence each."""
    return tuple(f"{o['why']}; {o['remedy']}" for o in entry.get("objections", ()))


def as_last_known(reader: Reader, rig: RigSpec) -> list[dict[str, Any]]:
    """Return every device's upkeep as `to_json`, for who looks on while nobody runs the campaign."""
    return to_json(rig, states(reader, rig, by_wall(rig.speedup)))


# Hours, and caps of the campaign --------------------------------------------------------------------------------------


def limited(
    journal: Journal, rig: RigSpec, states: Mapping[str, DeviceState], civil_s: float | None, exhausted: Iterable[str]
) -> Mapping[str, DeviceState]:
    """Return the states with what hours and caps say; `exhausted` pumps have met a cap of the campaign already."""
    found = dict(states)
    for device, limits in rig.limits.items():
        hours = limits.allowed
        if hours is not None and civil_s is not None and hours.opens_s(civil_s, rig.expected_s) > civil_s:
            found[device] = replace(found.get(device, DeviceState()), closed=str(hours))
    for cap in rig.caps:
        if cap.per_campaign_ml is None:
            continue
        left_ml = cap.per_campaign_ml - journal.doses.given_ml(cap.pumps, -math.inf)
        whose = "" if cap.pumps == (cap.name,) else f" from {cap.name}"
        for pump in cap.pumps:
            takes_ml = journal.doses.dearest_trial_ml(pump)
            if left_ml <= 0 or left_ml < takes_ml or pump in exhausted:
                why = f"may give {in_full(max(0.0, left_ml), 4)} mL more{whose} in the campaign"
                enough = f", and a trial may take {in_full(takes_ml, 4)} mL" if takes_ml > left_ml > 0 else ""
                found[pump] = replace(found.get(pump, DeviceState()), spent=f"{why}{enough}")
    return found


def without(rig: RigSpec, sets: Sequence[ControlSet], found: Sequence[Objection], *kinds: str) -> bool:
    """Tell whether a control set could be played if there were no objections of these kinds."""
    return len(unavailable(rig, sets, [o for o in found if o.kind not in kinds])) < len(sets)


def reopens_s(rig: RigSpec, sets: Sequence[ControlSet], found: Sequence[Objection], civil_s: float | None) -> float:
    """Return the civil time at which the first hours open that keep every control set from being played.

    Infinity where one can be played now, or hours are not what keeps them.
    """
    if civil_s is None or without(rig, sets, found) or not without(rig, sets, found, HOURS):
        return math.inf
    hours = [rig.limits[o.device].allowed for o in found if o.kind == HOURS]
    return min((h.opens_s(civil_s, rig.expected_s) for h in hours if h is not None), default=math.inf)


def caps_reached(rig: RigSpec, sets: Sequence[ControlSet], found: Sequence[Objection]) -> str:
    """Say why the caps of the campaign have ended it; empty if something can be played, or will be."""
    if without(rig, sets, found, HOURS) or not without(rig, sets, found, HOURS, SPENT):
        return ""
    return "; ".join(f"{o.device} {o.why}" for o in found if o.kind == SPENT)


def needed_ml(
    journal: Journal, rig: RigSpec, control_set: Sequence[str], setpoints: Mapping[str, float]
) -> Mapping[str, float]:
    """Return what a trial is likely to take, by pump: what they give by plan, or the most they ever gave."""
    given = given_volumes(rig, setpoints)
    dosed = [p for v in rig.variables if v.name in control_set for p in rig.pumps_of(v) if p not in given]
    return {**{pump: journal.doses.dearest_trial_ml(pump) for pump in dosed}, **given}


def room_for(journal: Journal, rig: RigSpec, volumes_ml: Mapping[str, float]) -> tuple[tuple[float, str], ...]:
    """Return for each cap's window that counts when so much more, by pump, fits it, rig time, and what does not now."""
    found = []
    for cap in rig.caps:
        more_ml = sum(volumes_ml.get(pump, 0.0) for pump in cap.pumps)
        for span_s, most_ml, words in cap.windows if more_ml > 0 else ():
            needed = min(more_ml, most_ml)
            why = f"{cap.name}: {in_full(needed)} mL more would be beyond its cap of {in_full(most_ml)} mL in {words}"
            found.append((journal.doses.room_at_s(cap.pumps, needed, most_ml, span_s), why))
    return tuple(found)


# Frozen sensors -------------------------------------------------------------------------------------------------------

SENSOR: Final = "sensor"
"""Who says what came of a trial, where its outcome was read later."""


def judged_by_past(
    journal: Journal, spec: RigSpec, trial: int, now: Mapping[str, Measurement]
) -> dict[str, Measurement]:
    """Judge what was measured in a trial, or before it: INVALID where a sensor has not moved over so many trials.

    How many its rule says.
    """
    looked_back = max(_frozen_after(spec).values(), default=1) - 1
    trials = range(max(trial - looked_back, 1), trial)
    return _unless_frozen(spec, now, [{m.name: m for m in journal.read.measurements(n)} for n in trials])


def judged_late(journal: Journal, spec: RigSpec, trial: int, read: Mapping[str, Measurement]) -> dict[str, Measurement]:
    """Judge outcomes that were read after their trial likewise, by those that came to other trials in this way."""
    looked_back = max(_frozen_after(spec).values(), default=1) - 1
    came = [r for r in journal.read.trials() if r.trial != trial and r.came is not None and r.came.who == SENSOR]
    past = [_with_outcomes(journal, spec, row) for row in came[max(len(came) - looked_back, 0) :]]
    own = {m.name: m for m in journal.read.measurements(trial) if m.value is not None}
    beside = {n: Measurement(m.value, m.spread or 0.0, m.count) for n, m in own.items() if m.value is not None}
    judged = _unless_frozen(spec, {**beside, **read}, past)
    return {name: judged[name] for name in read}


def _with_outcomes(journal: Journal, spec: RigSpec, row: TrialRow) -> Mapping[str, MeasurementRow]:
    outcomes = {spec.outcome_name: row.outcome, **row.further}
    return {m.name: m for m in journal.read.measurements(row.trial)} | {
        name: MeasurementRow(row.trial, name, True, outcomes.get(name), 0.0, 1, 0, Severity.NONE, "")
        for name in spec.late_names
    }


def _unless_frozen(
    spec: RigSpec, now: Mapping[str, Measurement], past: Sequence[Mapping[str, MeasurementRow]]
) -> dict[str, Measurement]:
    """Judge the measurements: INVALID where a sensor has not moved by a bit over as many trials as its rule says.

    Judged are outcomes, probes that doses are judged by, and sensors whose rules say so; and only if something else was
    different in those trials, for the same setting may give the same reading. `past`: what was measured in the trials
    before, by name, the last one last.
    """
    judged = dict(now)
    for name, trials in _frozen_after(spec).items():
        before = past[max(len(past) - (trials - 1), 0) :]
        if trials > 1 and len(before) == trials - 1 and name in now and _is_frozen(now, name, before):
            detail = f"reads {now[name].value!r} to the last digit in {trials} trials in a row: the sensor is frozen"
            judged[name] = replace(now[name], severity=Severity.INVALID, detail=detail)
    return judged


def _is_frozen(now: Mapping[str, Measurement], name: str, before: Sequence[Mapping[str, MeasurementRow]]) -> bool:
    measured, rows = now[name], [trial.get(name) for trial in before]
    if measured.severity >= Severity.INVALID or measured.spread != 0:
        return False
    same = all(row is not None and row.value == measured.value and not row.spread for row in rows)
    if not same:
        return False
    said = [(n, m.value) for n, m in now.items()] + [(n, row.value) for t in before for n, row in t.items()]
    return any(len({v for n, v in said if n == other and v is not None}) > 1 for other, _ in said if other != name)


def _frozen_after(spec: RigSpec) -> Mapping[str, int]:
    """Return after how many trials each sensor counts as frozen; those that never do are not there."""
    probes = {v.name for v in spec.variables if any(name in spec.dosing for name in v.actuators)}
    names = (*spec.outcome_names, *sorted(probes | set(spec.watch.rules)))
    rules = {name: spec.watch.rules.get(name, SensorRules()).frozen_after_trials for name in names}
    return {name: trials for name, trials in rules.items() if trials is not None}
