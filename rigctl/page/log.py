"""The log: alarms, doses, and how trials began and ended, the newest first."""

from __future__ import annotations

from rigctl.campaign.journal.glance import Glance
from rigctl.campaign.journal.rows import ActRow, AlarmRow, DoseRow, EventRow
from rigctl.campaign.trial import Event
from rigctl.page.shown import Entry

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


def log_entries(glance: Glance, most: int, trial: int | None) -> tuple[Entry, ...]:
    """Return the last so many lines, of one trial or of all, the newest first; alarms are never crowded out."""
    alarms = [_alarm(alarm) for alarm in glance.alarms(most // 2, trial)]
    acts = [_act(act) for act in glance.acts(most // 3)] if trial is None else []
    doses = [_dose(dose) for dose in glance.doses(most // 3, trial)]
    steps = [_step(event) for event in glance.events(most // 3, trial)]
    return tuple(sorted((*alarms, *acts, *doses, *steps), key=lambda entry: entry.utc, reverse=True))[:most]


def _alarm(alarm: AlarmRow) -> Entry:
    seen = f" (acknowledged by {alarm.acknowledged})" if alarm.acknowledged else ""
    mark = {"stands": alarm.action, "over": "over", "once": ""}[alarm.state]
    number, text = 0 if alarm.acknowledged else alarm.alarm, f"{alarm.message}{f' ({mark})' if mark else ''}{seen}"
    return Entry(alarm.utc, alarm.trial, "alarm", alarm.severity.name, alarm.source, text, number)


def _act(act: ActRow) -> Entry:
    text = " ".join(word for word in (act.verb, act.argument) if word)
    return Entry(act.utc, None, "act", "", act.who, "; ".join(part for part in (text, act.why, act.outcome) if part))


def _dose(dose: DoseRow) -> Entry:
    given = "" if dose.dispensed_ml is None else f", gave {dose.dispensed_ml:.4g} mL"
    text = f"{dose.volume_ml:.4g} mL asked for{given}" + (f"; {dose.note}" if dose.note else "")
    severity = "MAJOR" if dose.state == "UNKNOWN" else ""
    return Entry(dose.utc, dose.trial, "dose", severity, dose.actuator, text)


def _step(event: EventRow) -> Entry:
    text = SAID.get(event.event, str(event.event).lower()) + (f": {event.detail}" if event.detail else "")
    return Entry(event.utc, event.trial, "step", "", "trial", text)
