"""Charging and closing a trial, however it ended; and booking what was used before it began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import fsum, inf
from typing import TYPE_CHECKING

from rigctl.campaign.desk import CampaignPart
from rigctl.campaign.journal.past import booked_ago_s, off_s
from rigctl.campaign.journal.rows import MeasurementRow, StartRow, TrialRow
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.ledger.charging import Interlude, baseless, charge, idle_between, idle_in_trial, total
from rigctl.campaign.ledger.lines import COUNTED, IdleLine
from rigctl.campaign.ledger.plausibility import Consumption, doubts, slept_s, slept_through
from rigctl.campaign.trial import Event, State
from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.problem import Problem
from rigctl.errors import DeviceError
from rigctl.rig.metering import CIVIL, is_own
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import RigSpec

if TYPE_CHECKING:
    from rigctl.rig.rig import Rig

DIED = "while no process was in charge"
SLEPT = "while the machine slept, or the journal could not be written"
UNKNOWN_OFF = "the machine was off, how long its clock cannot tell: no hours are booked for that"
REMEDY = "look at its unit and wiring, and at `rated` in the configuration; what was charged meanwhile is estimated"


async def close_open_trial(
    campaign: CampaignPart, event: Event, why: str, *, ended_s: float | None = None
) -> TrialRow | None:
    """Settle open doses, then end the trial under way (if any) with this event, charged by the meters.

    What the journal says counts, not what the caller remembers: a commit may have gone through although its caller was
    cancelled. Everything must be safe already, so that the counters stand still; instruments are read, never commanded.
    The event is FAIL, ABANDON or LOSE; what is LOST is charged up to the last sign of life of the process that ran it.
    `ended_s` is the campaign time at which the trial ended; None: just now.

    Returns:
        The closed trial; None if there was none, or it had moved nothing and can still be carried out.
    """
    rig, journal, spec = campaign.rig, campaign.journal, campaign.spec
    open_doses = await journal.call(lambda j: j.doses.open())
    if open_doses:
        await rig.settle_doses(open_doses)
    trial = await journal.call(lambda j: j.read.open_trial())
    # what was only decided can still be carried out; what has looked waits for no other day
    left_open = (Event.LOSE,) if trial is not None and trial.looks else (Event.LOSE, Event.ABANDON)
    if trial is None or (trial.state is State.PROPOSED and event in left_open):
        return None
    if trial.state is State.MEASURED:
        return await journal.call(record, spec.rig, spec.problem, trial.trial)
    after = {} if _moved_nothing(trial) else await read_meters(rig)
    return await journal.call(_end_unmeasured, spec.rig, trial, event, why=why, after=after, ended_s=ended_s)


async def cancel(campaign: CampaignPart, trial: TrialRow, why: str) -> TrialRow | None:
    """Close a trial that waits to be run, everything safe; it is charged if it has looked. Return it."""
    if not _moved_nothing(trial):
        because = f"cancelled before anything was controlled: {why}"
        return await close_open_trial(campaign, Event.ABANDON, because)
    because = f"cancelled before anything moved: {why}"
    await campaign.journal.call(lambda j: j.finish(trial.trial, State.PROPOSED, Event.ABANDON, (), detail=because))
    return await campaign.journal.call(lambda j: j.read.trial(trial.trial))


def _moved_nothing(trial: TrialRow) -> bool:
    """Tell whether a trial that is under way was decided only: one that has looked was prepared before that."""
    return trial.state is State.PROPOSED and not trial.looks


async def read_meters(rig: Rig) -> Mapping[str, Reading]:
    """Read the counters; return none of them if the rig cannot be asked at all."""
    try:
        return await rig.meters()
    except DeviceError:
        return {}


async def metered_before(campaign: CampaignPart, *, afresh: bool) -> Mapping[str, Reading]:
    """Return where the meters stand: as the last trial left them, so that none misses what was used since.

    They are read `afresh` if something was used in between that is no trial's and is booked by itself. A rig without
    counters has readings, too: those of the clock, by which a trial that was slept through is known.

    Raises:
        DeviceError: one of them cannot be read.
    """
    meters = campaign.spec.rig.meters
    before = {} if afresh else await campaign.journal.call(lambda j: j.past.meters())
    if not before or any(m.name not in before for m in meters if m.kind in COUNTED):
        before = {**await campaign.rig.meters(), **before}
    unread = {name: f"{name}: {r.detail or 'INVALID'}" for name, r in before.items() if not r.valid}
    if unread:
        devices = {m.device for m in meters if m.name in unread and m.device is not None}
        raise DeviceError(f"not started, its cost could not be metered: {'; '.join(unread.values())}", devices=devices)
    return before


async def book_idle(campaign: CampaignPart) -> Micros:
    """Book what was used since the last trial, if the next one does not go on where it ended: before it is decided.

    Returns:
        All that was used beside trials so far.
    """
    journal = campaign.journal
    if await journal.call(lambda j: j.past.unread_meters()[0] > 0 and not j.past.meters()):
        now = await read_meters(campaign.rig)
        await journal.call(lambda j: j.idle.book(idle_since(j, campaign.spec.rig, now)))
    return await journal.call(lambda j: j.read.idle.spent())


def idle_since(journal: Journal, rig: RigSpec, now: Mapping[str, Reading]) -> tuple[IdleLine, ...]:
    """Return what was used since the last trial that was metered, and is not booked yet."""
    past, booked = journal.past, journal.read.idle.since_last_trial()
    last, unread = past.unread_meters()
    charged = {row.meter: row for row in journal.read.ledger(last) if row.estimated}
    left, since_s = past.last_meters(), journal.read.starts()[-1].at_s - journal.time.offset_s
    booked_ml = {
        m.name: journal.doses.given_ml([m.device], left[m.name][0].time_s)
        for m in rig.meters
        if m.kind == "volume" and m.device in rig.pumps and m.name in left and left[m.name][0].time_s >= since_s
    }
    interlude = Interlude(left, now, past.rested_s(), booked, unread, charged, booked_ago_s(past), booked_ml)
    return idle_between(rig.meters, interlude, journal.costs())


def record(journal: Journal, rig: RigSpec, problem: Problem, number: int) -> TrialRow:
    """RECORD a measured trial, or AWAIT what comes later of it; charged either way.

    FAIL it if a reading it needs is INVALID (fault 48), or if the machine slept through much of it (fault 70).
    """
    bad = [f"{name}: {why}" for name, why in unusable(journal, rig, problem, number).items()]
    trial, used = journal.read.trial(number), _metered(journal, rig, number)
    dead = _dead(journal, number, inf)
    slept = slept_through(used.unattended_s - sum(dead), rig.timing.settle_s)
    bad = [slept, *bad] if slept else bad
    past = journal.costs()
    lines = charge(rig.meters, used, trial.control_set, past)
    awaiting = None if bad else rig.late
    event = Event.FAIL if bad else Event.RECORD if awaiting is None else Event.AWAIT
    idle = idle_in_trial(rig.meters, used, lines, past, _why_idle(used) if dead else SLEPT)
    journal.finish(number, State.MEASURED, event, lines, detail="; ".join(bad), idle=idle, awaiting=awaiting)
    return journal.read.trial(number)


def unusable(journal: Journal, rig: RigSpec, problem: Problem, number: int) -> Mapping[str, str]:
    """Return the variables and outcomes whose readings fail a measured trial, and what is wrong with each."""
    readings = {m.name: m for m in journal.read.measurements(number)}
    needed = (*problem.space.names, *(name for name in rig.outcome_names if name not in rig.late_names))
    found = {name: _what_is_wrong(readings.get(name)) for name in needed}
    return {name: wrong for name, wrong in found.items() if wrong}


def cost_so_far(journal: Journal, rig: RigSpec, number: int, now: Mapping[str, Reading]) -> Micros:
    """Return what a trial under way has cost for certain: what meters testify, without any estimate."""
    used = _broken_off(journal, rig, number, now, None)
    lines = charge(rig.meters, used, journal.read.trial(number).control_set, journal.costs())
    return total([line for line in lines if not line.estimated])


def meter_doubts(journal: Journal, rig: RigSpec, number: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return what a person should know of a charged trial's meters, by meter, in words.

    Of those that cannot be believed any more (fault 41, 69): no trial before a person has looked at them. And of those
    for which there was nothing to estimate a line from.
    """
    metered = journal.past.metered_trials(number, 2)
    recent = [(_metered(journal, rig, n), journal.read.trial(n).control_set) for n in metered]
    past = journal.costs()
    found = doubts(rig.meters, recent, past) if metered[-1:] == [number] else {}
    meters = {meter.name: meter for meter in rig.meters}
    lines = [line for line in journal.read.ledger(number) if line.meter in meters]
    doubted = {name: f"trial {number}: cannot be believed: {why}; {REMEDY}" for name, why in found.items()}
    zeros = (line for line in lines if baseless(meters[line.meter], line, past))
    return doubted, {line.meter: f"trial {number}: {line.note}" for line in zeros}


def _metered(journal: Journal, rig: RigSpec, number: int) -> Consumption:
    measured_s = next(e.at_s for e in journal.read.events(number) if e.event is Event.MEASURE)
    return _attended(journal, rig, number, journal.read.meter_readings(number, "after"), measured_s)


def _end_unmeasured(
    journal: Journal,
    rig: RigSpec,
    trial: TrialRow,
    event: Event,
    *,
    why: str,
    after: Mapping[str, Reading],
    ended_s: float | None,
) -> TrialRow:
    number = trial.trial
    if _moved_nothing(trial):  # nor is anything charged
        journal.finish(number, trial.state, event, (), detail=why)
        return journal.read.trial(number)
    lost = event is Event.LOSE
    used = _lost(journal, rig, number, after) if lost else _broken_off(journal, rig, number, after, ended_s)
    past = journal.costs()
    lines = charge(rig.meters, used, trial.control_set, past)
    died = lost or _dead(journal, number, inf)
    idle = idle_in_trial(rig.meters, used, lines, past, _why_idle(used) if died else SLEPT)
    journal.finish(number, trial.state, event, lines, detail=why, after=after, idle=idle)
    return journal.read.trial(number)


def _lost(journal: Journal, rig: RigSpec, number: int, after: Mapping[str, Reading]) -> Consumption:
    """Count a trial's use up to the last sign of life; our own counters began anew with this process."""
    begun_s, alive_s = _begun_s(journal, number), _last_sign_of_life_s(journal, number)
    starts = journal.read.starts()
    last = next(s for s in reversed(starts) if s.at_s <= begun_s[-1])
    dead_s, (gone_s, known) = sum(_dead(journal, number, alive_s)), off_s(journal.past, last.start, starts[-1].start)
    return Consumption(
        _anew(journal.read.meter_readings(number, "before")),
        _in_campaign_time(journal, after),
        alive_s - begun_s[0] - dead_s,
        _booked_ml(journal, rig, number),
        unattended_s=max(0.0, journal.time.now_s() - alive_s) + gone_s + dead_s,
        guessed_s=0.0 if known else gone_s,
        began_s=begun_s[0],
    )


def _why_idle(used: Consumption) -> str:
    """Say why nobody was in charge of a trial whose process had died, and what is not known of that."""
    return f"{DIED}; {UNKNOWN_OFF}" if used.guessed_s > 0 else DIED


def _anew(before: Mapping[str, Reading]) -> Mapping[str, Reading]:
    """Return readings without our own counters, which began anew with another process."""
    return {name: reading for name, reading in before.items() if not is_own(name) or name == CIVIL}


def _broken_off(
    journal: Journal, rig: RigSpec, number: int, after: Mapping[str, Reading], ended_s: float | None
) -> Consumption:
    now_s = journal.time.now_s()
    ended_s = now_s if ended_s is None else ended_s
    used = _attended(journal, rig, number, _in_campaign_time(journal, after), ended_s)
    return replace(used, unattended_s=used.unattended_s + max(0.0, now_s - ended_s))


def _attended(journal: Journal, rig: RigSpec, number: int, after: Mapping[str, Reading], ended_s: float) -> Consumption:
    """Return what a trial that this process ends has used; while the machine slept nobody was in charge of it.

    Nor was anybody between its look and its first move, if the process died there and another one goes on with it.
    """
    before, dead = journal.read.meter_readings(number, "before"), _dead(journal, number, ended_s)
    before = dict(_anew(before)) if dead else before
    begun_s = _begun_s(journal, number)[0]
    took_s = ended_s - begun_s
    away_s = min(max(0.0, took_s), slept_s(before, after) + sum(dead))
    booked_ml = _booked_ml(journal, rig, number)
    taken_up = _taken_up(journal, number, ended_s)
    gone_s, known = off_s(journal.past, min(taken_up) - 1, max(taken_up)) if taken_up else (0.0, True)
    return Consumption(
        before,
        after,
        took_s - away_s,
        booked_ml,
        unattended_s=away_s + gone_s,
        guessed_s=0.0 if known else gone_s,
        began_s=begun_s,
    )


def _in_campaign_time(journal: Journal, readings: Mapping[str, Reading]) -> dict[str, Reading]:
    return {name: replace(r, time_s=r.time_s + journal.time.offset_s) for name, r in readings.items()}


def _booked_ml(journal: Journal, rig: RigSpec, number: int) -> dict[str, float]:
    """Sum a trial's doses by volume meter that is a doser's own counter; one that is still open counts in full."""
    doses = journal.read.doses.rows(number)
    dosers = {*rig.pumps, *(d.actuator for d in doses)}
    return {
        m.name: fsum(d.volume_ml if d.dispensed_ml is None else d.dispensed_ml for d in doses if d.actuator == m.device)
        for m in rig.meters
        if m.kind == "volume" and m.device in dosers
    }


def _begun_s(journal: Journal, number: int) -> tuple[float, ...]:
    """Return when a trial began, to look or to move; and when it began to move, if it has looked before that."""
    return tuple(e.at_s for e in journal.read.events(number) if e.event in (Event.LOOK, Event.ARM))


def _dead(journal: Journal, number: int, until_s: float) -> tuple[float, ...]:
    """Return for how long no process was in charge of a trial that has looked, campaign seconds, each time until then.

    Only between its decision and its first move can another process take it up.
    """
    starts, dead, steps = journal.read.starts(), [], journal.read.events(number)
    for start in _taken_up(journal, number, until_s).values():
        signs = [s.seen_s for s in starts if s.at_s < start.at_s] + [e.at_s for e in steps if e.at_s < start.at_s]
        dead.append(max(0.0, start.at_s - max(signs)))
    return tuple(dead)


def _taken_up(journal: Journal, number: int, until_s: float) -> Mapping[int, StartRow]:
    """Return the processes that began after a trial's look until then, before its first move; by number."""
    steps = journal.read.events(number)
    if steps[0].event is not Event.LOOK:
        return {}
    until_s = min([until_s, *(e.at_s for e in steps if e.event is Event.ARM)])
    return {s.start: s for s in journal.read.starts() if steps[0].at_s < s.at_s <= until_s}


def _last_sign_of_life_s(journal: Journal, number: int) -> float:
    """Return when the process that ran a trial recorded its last step, dose or heartbeat, campaign time.

    What later processes added while they settled the past does not count.
    """
    armed_s, starts = _begun_s(journal, number)[-1], journal.read.starts()
    next_start_s = min((s.at_s for s in starts if s.at_s > armed_s), default=inf)
    beats = [s.seen_s for s in starts if s.at_s <= armed_s]
    doses = [t for d in journal.read.doses.rows(number) for t in (d.at_s, d.settled_s) if t is not None]
    steps = [e.at_s for e in journal.read.events(number)]
    return max(t for t in (armed_s, *beats, *doses, *steps) if t < next_start_s)


def _what_is_wrong(reading: MeasurementRow | None) -> str:
    if reading is None:
        return "not measured"
    if reading.value is not None and reading.severity < Severity.INVALID:
        return ""
    return reading.detail or f"INVALID, {reading.count} of {reading.count + reading.invalid} samples could be used"
