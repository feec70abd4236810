"""Gathers what the page shows from a journal and, where a campaign runs, from what it says of itself.

Cheap after 20,000 trials: of trials only what has changed since the last look is read, and no model is fitted here.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise, takewhile
from math import floor, sqrt
from statistics import fmean, median
from typing import Any, Literal

import numpy as np

from rigctl.campaign.answered import given
from rigctl.campaign.instruments import as_last_known, said_of, wrong_with
from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.glance import CampaignCondition, MeterSum
from rigctl.campaign.journal.rows import ActRow, AlarmRow, CampaignRow, DoseRow, EventRow, StartRow, TrialRow
from rigctl.campaign.status import Status, ending
from rigctl.campaign.trial import Decision, Event, State
from rigctl.config.load import LoadedConfig
from rigctl.core.advice.explain import sentence
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.policy import SetReport
from rigctl.core.experiment.problem import FurtherOutcome
from rigctl.core.experiment.space import Variable
from rigctl.page.shown import (
    Awaited,
    Course,
    Facts,
    Instrument,
    LogEntry,
    Money,
    Phase,
    SetFact,
    ShownLabels,
    ShownOutcome,
    Why,
    WorstActive,
)
from rigctl.page.trial_now import trial_now
from rigctl.text import Names, in_full, settings, shown_name, shown_set

RECENT = 10
"""Trials that a forecast goes by."""
MONTH_S = 365.25 / 12 * 86_400
LOG_LINES = 45
NINE_IN_TEN = (0.05, 0.95)


def gather(
    reader: Reader,
    loaded: LoadedConfig | None,
    status: Status | None,
    now: datetime,
    *,
    before: Facts | None = None,
    log_of: int | None = None,
    alive: bool | None = None,
) -> Facts:
    """Return what there is to be shown now.

    Args:
        reader: of the campaign's journal; it may be kept open between looks.
        loaded: its configuration; None where it does not hold any more: limits and durations are then not shown.
        status: what the running campaign answers; None where none runs.
        now: by the wall clock, aware.
        before: the facts of the last look through the same reader: only trials that changed since are read.
        log_of: the trial whose log is wanted; None: the newest lines of all trials.
        alive: whether the process that runs the campaign lives; None: nobody has looked.

    Raises:
        UsageError: no campaign has been started in the journal.
        JournalError: it cannot be read.
    """
    campaign = reader.campaign()
    labels = labels_of(campaign, loaded)
    condition = reader.glance.condition()
    phase = phase_now(condition, status, now, wired=loaded is None or loaded.wired, alive=alive)
    course = followed(reader, before)
    last = reader.trial(course.rows[-1].trial) if course.rows else None
    produces = last is not None and last.operated
    heard = reader.alarms.folded(None if before is None else before.heard)
    decided = _suggested(reader) if phase.word == "by hand" else _decided(reader)
    return Facts(
        now=now,
        labels=labels,
        phase=phase,
        worst=worst_active(condition, phase, status),
        trial=None if last is None else trial_now(reader, last, loaded, status, now, phase=phase),
        why=None if decided is None else why_of(decided, course.rows, labels),
        money=_money(reader, campaign, course, loaded, going_on=phase.word != "ended" and not produces),
        course=course,
        log=log_entries(reader, LOG_LINES, log_of),
        log_of=log_of,
        charged=sum(row.state.charged for row in course.rows),
        batches=campaign.batches if produces else 0,
        asks=status is not None or phase.word == "no answer",
        alarms=heard.shown(reader.alarms.now_s(), now.isoformat()),
        heard=heard,
        version="" if condition.start is None else condition.start.version,
        speedup=1.0 if loaded is None else loaded.rig.speedup,
        bands=_bands(loaded),
        instruments=instruments(reader, loaded, status),
        awaited=_awaited(reader, course, labels),
        answered=None if reader.directory is None else given(reader.directory, course.correction),
        drawn={} if before is None else before.drawn,
    )


def _awaited(reader: Reader, course: Course, labels: ShownLabels) -> tuple[Awaited, ...]:
    """Return the trials whose outcome is still to come, as many as may be under way."""
    found = []
    for row in (row for row in course.rows if row.state is State.AWAITING):
        due = reader.trial(row.trial).awaited
        known = {labels.outcome.name: row.outcome, **row.further}
        at = settings(reader.trial(row.trial).setpoints, labels.units)
        missing = tuple(o for o in labels.outcomes if known.get(o.name) is None)
        if due is not None:
            found.append(Awaited(row.trial, row.control_set, at, row.changed_utc, due.due_utc, due.how, missing))
    return tuple(sorted(found, key=lambda one: one.due))


def labels_of(campaign: CampaignRow, loaded: LoadedConfig | None) -> ShownLabels:
    """Return names and units, from the configuration or, without one, from what the journal knows of it."""
    if loaded is not None:
        return ShownLabels.of(loaded)
    known = {key: json.loads(value) for key, value in campaign.identity.items()}
    names, outcomes = campaign.names, known.get("further_outcomes", ())
    first = ShownOutcome(campaign.outcome, names[campaign.outcome], bool(known.get("outcome.maximise", True)))
    further = tuple(
        ShownOutcome(
            f["name"],
            names.get(f["name"], ""),
            bool(f.get("maximise", True)),
            limits=FurtherOutcome(f["name"], at_least=f.get("at_least"), at_most=f.get("at_most")).limits,
        )
        for f in outcomes
    )
    units = {name: unit for name, unit in names.items() if name not in (campaign.outcome, *(o.name for o in further))}
    return ShownLabels(campaign.rig, campaign.currency, Names(units, {}, names.levels), (first, *further))


def followed(reader: Reader, before: Facts | None) -> Course:
    """Return all trials as corrected, those that have not changed since the last look as they were."""
    known = Course() if before is None else before.course
    event, correction = reader.glance.last_event(), reader.people.last_correction()
    if (event, correction) == (known.event, known.correction):
        return known
    changed = {row.trial: row for row in reader.changed_trials(known.event, known.correction)}
    meters = _added(known.meters, reader.glance.meters(max((m.last for m in known.meters), default=0)))
    first = min(changed, default=0)
    kept = bisect_left(known.rows, first, key=lambda row: row.trial)
    rest = {row.trial: row for row in known.rows[kept:]} | changed
    rows = (*known.rows[:kept], *(rest[number] for number in sorted(rest)))
    return Course(rows, event, correction, meters)


def _added(one: Sequence[MeterSum], other: Sequence[MeterSum]) -> tuple[MeterSum, ...]:
    """Return the sums of both by meter, the dearest first."""
    sums = {m.meter: m for m in one}
    for more in other:
        was = sums.get(more.meter)
        if was is None:
            sums[more.meter] = more
            continue
        quantity = more.quantity if was.quantity is None else was.quantity + (more.quantity or 0.0)
        sums[more.meter] = replace(
            more,
            quantity=quantity,
            amount=was.amount + more.amount,
            estimated=was.estimated or more.estimated,
            last=max(was.last, more.last),
        )
    return tuple(sorted(sums.values(), key=lambda m: (-m.amount, m.meter)))


def _decided(reader: Reader) -> Decision | None:
    number = reader.glance.last_decided()
    return None if number is None else reader.trial(number)


def _suggested(reader: Reader) -> Decision | None:
    """Return what was last suggested to whoever does the trials."""
    suggestions = reader.people.suggestions()
    return suggestions[max(suggestions)] if suggestions else None


# Why this control set ---------------------------------------------------------------------------------------------


def why_of(trial: Decision, rows: Sequence[TrialRow], labels: ShownLabels) -> Why | None:
    """Return a decision with what was believed of every control set when it was made; None if it has no proposal."""
    proposal = trial.proposal
    if proposal is None:
        return None
    earlier: dict[frozenset[str], list[TrialRow]] = {frozenset(report.control_set): [] for report in proposal.sets}
    for row in takewhile(lambda row: row.trial < trial.trial, rows):
        earlier.setdefault(frozenset(row.control_set), []).append(row)
    facts = [_set_fact(r, trial, earlier[frozenset(r.control_set)], labels) for r in proposal.sets]
    known = any(r.mean is not None for r in proposal.sets)
    read_as = [shown_name(name, labels.units) for name in labels.units]
    return Why(
        trial=trial.trial,
        control_set=trial.control_set,
        phase=proposal.phase,
        reason=sentence(proposal.reason, read_as),
        technical=proposal.technical,
        sets=tuple(sorted(facts, key=lambda f: (f.price is None, f.price or 0.0, len(f.control_set)))),
        threshold=proposal.threshold if known else None,
        notes=tuple(sentence(note, read_as) for note in proposal.notes),
        reads=proposal.read,
    )


def _set_fact(report: SetReport, trial: Decision, mine: Sequence[TrialRow], labels: ShownLabels) -> SetFact:
    prices = [to_units(row.cost) for row in mine if row.recorded and not row.estimated and not row.imported]
    price, half = price_interval(prices)
    band = None
    if report.lower is not None and report.mean is not None and report.upper is not None:
        low, high = sorted((report.lower, report.upper))
        band = low, report.mean, high
    chosen = frozenset(trial.control_set) == frozenset(report.control_set)
    known = (None, None) if price is None or half is None else (max(0.0, price - half), price + half)
    return SetFact(
        control_set=report.control_set,
        label=shown_set(report.control_set, labels.units, " + "),
        at=settings(report.at, labels.units),
        band=band,
        price=report.cost_mean if price is None else price,
        price_low=known[0],
        price_high=known[1],
        least=report.cost_lcb if 0 < report.cost_lcb < (report.cost_mean or 0.0) else None,
        trials=report.trials,
        spend=to_units(sum(row.cost for row in mine)),
        chosen=chosen,
        eligible=report.eligible and not report.ruled_out,
        why_not="" if chosen else report.ruled_out or ("" if report.eligible else "ruled out"),
    )


def price_interval(prices: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean of metered prices and half its 95 % interval (Student's t); None where it is not known."""
    if len(prices) < 2:
        return (prices[0] if prices else None), None
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy, and of no use before two trials

    sd = float(np.std(prices, ddof=1))
    return float(np.mean(prices)), float(stdtrit(len(prices) - 1, 0.975)) * sd / sqrt(len(prices))


# Money and readings -----------------------------------------------------------------------------------------------


def _money(
    reader: Reader, campaign: CampaignRow, course: Course, loaded: LoadedConfig | None, *, going_on: bool
) -> Money:
    sums = _added(course.meters, reader.glance.idle_meters())
    amended = sum(reader.people.adjustments().values())
    if amended > 0:
        sums = (*sums, MeterSum("amended by hand", "manual", "", None, amended, estimated=False))
    rows = course.rows
    amounts = campaign.budget, campaign.spent, reader.idle.spent(), campaign.operated
    budget, spent, idle, operated = map(to_units, amounts)
    over = [row for row in rows[-4 * RECENT :] if row.state.charged][-RECENT:]
    costs = [to_units(row.cost) for row in over if row.recorded and row.cost > 0]
    pace_s = _pace_s(over)
    by_hand = pace_s < 1.0 or any(row.by_hand is not None for row in over)  # what was written down later has no pace
    monthly = None if by_hand else MONTH_S / pace_s
    known = Money(budget, spent, idle, sums, fmean(costs) if costs else None, trials_a_month=monthly, operated=operated)
    if not (costs and going_on):
        return known
    rest = max(0.0, budget - spent)
    most = None
    if loaded is not None and loaded.max_trials is not None:
        done = sum(not row.imported for row in rows) - campaign.batches - reader.batches.cancelled()
        most = max(0, loaded.max_trials - done)
    few, expected, many = (
        min(floor(rest / price), floor(rest / price) if most is None else most)
        for price in (max(costs), fmean(costs), min(costs))
    )
    return replace(known, trials_left=(few, many), days_left=expected * pace_s / 86_400 if pace_s >= 1.0 else None)


def _pace_s(rows: Sequence[TrialRow]) -> float:
    gaps = [later.changed_s - earlier.changed_s for earlier, later in pairwise(rows)]
    return median(gaps) if gaps else 0.0


def _bands(loaded: LoadedConfig | None) -> Mapping[str, tuple[float, float]]:
    if loaded is None:
        return {}
    return {v.name: normal_band(v) for v in loaded.problem.space.variables if not isinstance(v.marginal, Learned)}


def normal_band(variable: Variable) -> tuple[float, float]:
    """Return between what nine in ten readings lie when a variable is left alone, engineering units."""
    low, high = variable.low + (variable.high - variable.low) * variable.marginal.quantile(np.array(NINE_IN_TEN))
    return float(low), float(high)


# The phase, and the worst that stands ---------------------------------------------------------------------------------


SILENT_S = 60.0
"""A process that has not been seen for so long is not running, as far as a journal says."""
IN_ORDER = ("budget", "finished", "trials", "stopped")
"""Endings that nobody need look at."""


def phase_now(
    condition: CampaignCondition, status: Status | None, now: datetime, *, wired: bool, alive: bool | None = None
) -> Phase:
    start, noted, trip = condition.start, condition.phase, condition.trip
    if trip is not None:
        return Phase("tripped", trip.reason, trip.utc, abnormal=True)
    if status is not None:
        word = status.phase
        since = noted.utc if noted is not None and noted.phase.lower() == word else "" if start is None else start.utc
        why = f"after this trial {status.paused}" if word == "running" and status.paused else status.why
        why = "" if word == "running" and not status.paused else why
        return Phase(word, why, since, abnormal=word == "holding", paused=word == "paused" or bool(status.paused))
    if not wired:
        return Phase("by hand")
    if start is None:
        return Phase("not started")
    if start.ended is not None:
        return Phase("ended", start.ended, start.seen_utc, abnormal=start.safe is False or start.ended not in IN_ORDER)
    return _without_answer(start, now, alive)


def _without_answer(start: StartRow, now: datetime, alive: bool | None) -> Phase:
    silent_s = (now - datetime.fromisoformat(start.seen_utc)).total_seconds()
    if not alive and (alive is False or silent_s > SILENT_S):
        return Phase("not running", "the process ended without saying why", start.seen_utc, abnormal=True)
    return Phase("no answer", "the campaign is alive but does not answer", start.seen_utc, abnormal=True)


def worst_active(condition: CampaignCondition, phase: Phase, status: Status | None) -> WorstActive | None:
    """Return the worst thing that stands now; None while all is in order."""
    told = () if status is None else status.active
    order = ("MINOR", "MAJOR", "INVALID")
    if phase.word == "tripped":
        return WorstActive("INVALID", "", phase.why, "")
    if told:
        worst = max(told, key=lambda found: order.index(found.severity))
        return WorstActive(worst.severity, worst.source, worst.message, worst.since, others=len(told) - 1)
    start = condition.start
    if phase.word == "ended" and start is not None and start.safe is False:
        return WorstActive("MAJOR", "safe state", "not everything was confirmed safe at the end", phase.since)
    if phase.abnormal:
        severity: Literal["MINOR", "MAJOR"] = "MINOR" if phase.word == "ended" else "MAJOR"
        return WorstActive(severity, "", ending(phase.why), "")
    return None


# Instruments ----------------------------------------------------------------------------------------------------------


def instruments(reader: Reader, loaded: LoadedConfig | None, status: Status | None) -> tuple[Instrument, ...]:
    """Return the instruments of which something is known, in their order."""
    known: Sequence[Mapping[str, Any]] = () if status is None else status.upkeep or ()
    if not known and loaded is not None:
        known = as_last_known(reader, loaded.rig)
    told = (
        Instrument(
            name=entry["device"],
            says=said_of(entry),
            wrong=wrong_with(entry),
            held=any(objection["holds"] for objection in entry.get("objections", ())),
        )
        for entry in known
    )
    return tuple(one for one in told if one.says or one.wrong or one.held)


# The log --------------------------------------------------------------------------------------------------------------


SAID = {
    Event.LOOK: "meters read, prepared and looked at before it is decided",
    Event.PROPOSE: "decided",
    Event.ARM: "meters read, control begins",
    Event.RUN: "set, settling",
    Event.MEASURE: "measured",
    Event.AWAIT: "its outcome is awaited",
    Event.RECORD: "recorded",
    Event.FAIL: "failed",
    Event.ABANDON: "abandoned",
    Event.LOSE: "lost: the process died in mid-trial",
    Event.INGEST: "done by hand",
    Event.INGEST_FAILED: "done by hand, without an outcome",
}


def log_entries(reader: Reader, most: int, trial: int | None) -> tuple[LogEntry, ...]:
    """Return the last so many lines, of one trial or of all, the newest first; alarms are never crowded out."""
    alarms = [_alarm(alarm) for alarm in reader.alarms.last(most // 2, trial)]
    acts = [_act(act) for act in reader.last(ActRow, most // 3)] if trial is None else []
    doses = [_dose(dose) for dose in reader.last(DoseRow, most // 3, trial)]
    steps = [_step(event) for event in reader.last(EventRow, most // 3, trial)]
    return tuple(sorted((*alarms, *acts, *doses, *steps), key=lambda entry: entry.utc, reverse=True))[:most]


def _alarm(alarm: AlarmRow) -> LogEntry:
    seen = f" (acknowledged by {alarm.acknowledged})" if alarm.acknowledged else ""
    mark = {"stands": alarm.action, "over": "over", "once": ""}[alarm.state]
    number, text = 0 if alarm.acknowledged else alarm.alarm, f"{alarm.message}{f' ({mark})' if mark else ''}{seen}"
    return LogEntry(alarm.utc, alarm.trial, "alarm", alarm.severity.name, alarm.source, text, number)


def _act(act: ActRow) -> LogEntry:
    text = " ".join(word for word in (act.verb, act.argument) if word)
    return LogEntry(act.utc, None, "act", "", act.who, "; ".join(part for part in (text, act.why, act.outcome) if part))


def _dose(dose: DoseRow) -> LogEntry:
    given = "" if dose.dispensed_ml is None else f", gave {in_full(dose.dispensed_ml, 4)} mL"
    what = "that nobody asked for" if dose.state == "FOUND" else f"asked for{given}"
    text = f"{in_full(dose.volume_ml, 4)} mL {what}" + (f"; {dose.note}" if dose.note else "")
    severity = "MAJOR" if dose.state == "UNKNOWN" else ""
    return LogEntry(dose.utc, dose.trial, "dose", severity, dose.actuator, text)


def _step(event: EventRow) -> LogEntry:
    text = SAID.get(event.event, str(event.event).lower()) + (f": {event.detail}" if event.detail else "")
    return LogEntry(event.utc, event.trial, "step", "", "trial", text)
