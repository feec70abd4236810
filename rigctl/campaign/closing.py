"""Charging and closing a trial, however it ended."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, inf

from rigctl.campaign.journal.rows import MeasurementRow, TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.ledger import Consumption, charge
from rigctl.campaign.protocols import CampaignRig
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.trial import Event, State
from rigctl.core.policy import Problem
from rigctl.errors import DeviceError
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import RigSpec


async def close_open_trial(
    spec: CampaignSpec,
    rig: CampaignRig,
    journal: JournalThread,
    event: Event,
    why: str,
    *,
    ended_s: float | None = None,
) -> TrialRow | None:
    """Settle open doses, then end the trial under way (if any) with this event, charged by the meters.

    What the journal says counts, not what the caller remembers: a commit may have gone through although its caller was
    cancelled. Everything must be safe already, so that the counters stand still.

    Args:
        spec: the campaign.
        rig: read, never commanded.
        journal: where the trial is.
        event: FAIL, ABANDON or LOSE.
        why: for people.
        ended_s: campaign time at which the trial ended, if that was not just now. A LOST trial's time is charged up to
            the last sign of life of the process that ran it.

    Returns:
        The closed trial; None if there was none, or it had moved nothing and can still be carried out.
    """
    open_doses = await journal.call(lambda j: j.doses.open())
    if open_doses:
        await rig.settle_doses(open_doses)
    trial = await journal.call(lambda j: j.read.open_trial())
    if trial is None or (trial.state is State.PROPOSED and event is not Event.FAIL):
        return None
    if trial.state is State.MEASURED:
        return await journal.call(record, spec.rig, spec.problem, trial.trial)
    after = {} if trial.state is State.PROPOSED else await read_meters(rig)
    return await journal.call(_end_unmeasured, spec.rig, trial, event, why=why, after=after, ended_s=ended_s)


async def read_meters(rig: CampaignRig) -> Mapping[str, Reading]:
    """The counters now; none of them if the rig cannot be asked at all."""
    try:
        return await rig.meters()
    except DeviceError:
        return {}


def record(journal: Journal, rig: RigSpec, problem: Problem, number: int) -> TrialRow:
    """RECORD a measured trial, or FAIL it if a reading it needs is INVALID (fault 48); charged either way."""
    readings = {m.name: m for m in journal.read.measurements(number)}
    needed = (*problem.space.names, *rig.outcome_names)
    bad = [f"{name}: {_what_is_wrong(readings.get(name))}" for name in needed if not _usable(readings.get(name))]
    trial = journal.read.trial(number)
    used = Consumption(
        before=journal.read.meter_readings(number, "before"),
        after=journal.read.meter_readings(number, "after"),
        elapsed_s=_event_s(journal, number, Event.MEASURE) - _event_s(journal, number, Event.ARM),
        booked_ml=_booked_ml(journal, rig, number),
    )
    lines = charge(rig.meters, used, trial.control_set, journal.past_lines())
    journal.finish(number, State.MEASURED, Event.FAIL if bad else Event.RECORD, lines, detail="; ".join(bad))
    return journal.read.trial(number)


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
    if trial.state is State.PROPOSED:  # nothing has moved, nothing is charged
        journal.finish(number, trial.state, event, (), detail=why)
        return journal.read.trial(number)
    if event is Event.LOSE:  # a process that died says nothing of when
        ended_s = _last_sign_of_life_s(journal, number)
    elapsed_s = (journal.time.now_s() if ended_s is None else ended_s) - _event_s(journal, number, Event.ARM)
    before = journal.read.meter_readings(number, "before")
    used = Consumption(before, after, elapsed_s, _booked_ml(journal, rig, number))
    lines = charge(rig.meters, used, trial.control_set, journal.past_lines())
    journal.finish(number, trial.state, event, lines, detail=why, after=after)
    return journal.read.trial(number)


def _booked_ml(journal: Journal, rig: RigSpec, number: int) -> dict[str, float]:
    """By volume meter that is a doser's own counter: the trial's doses; one that is still open counts in full."""
    doses = journal.read.doses(number)
    dosers = {*rig.dosing, *(d.actuator for d in doses)}
    return {
        m.name: fsum(d.volume_ml if d.dispensed_ml is None else d.dispensed_ml for d in doses if d.actuator == m.device)
        for m in rig.meters
        if m.kind == "volume" and m.device in dosers
    }


def _event_s(journal: Journal, number: int, event: Event) -> float:
    """Campaign time of a trial's event."""
    return next(e.at_s for e in journal.read.events(number) if e.event is event)


def _last_sign_of_life_s(journal: Journal, number: int) -> float:
    """Campaign time of the last that the process which ran this trial recorded: a step, a dose or a heartbeat.

    What later processes added while they settled the past does not count.
    """
    armed_s, starts = _event_s(journal, number, Event.ARM), journal.read.starts()
    next_start_s = min((s.at_s for s in starts if s.at_s > armed_s), default=inf)
    beats = [s.seen_s for s in starts if s.at_s <= armed_s]
    doses = [t for d in journal.read.doses(number) for t in (d.at_s, d.settled_s) if t is not None]
    steps = [e.at_s for e in journal.read.events(number)]
    return max(t for t in (armed_s, *beats, *doses, *steps) if t < next_start_s)


def _usable(reading: MeasurementRow | None) -> bool:
    return reading is not None and reading.value is not None and reading.severity < Severity.INVALID


def _what_is_wrong(reading: MeasurementRow | None) -> str:
    if reading is None:
        return "not measured"
    return reading.detail or f"INVALID, {reading.count} of {reading.count + reading.invalid} samples could be used"
