"""The log: alarms, doses, and how trials began and ended, the newest first."""

from __future__ import annotations

from rigctl.campaign.journal.glance import Glance
from rigctl.campaign.journal.rows import DoseRow, EventRow
from rigctl.campaign.trial import Event
from rigctl.page.shown import Entry, Labels

SAID = {
    Event.PROPOSE: "decided",
    Event.ARM: "meters read, control begins",
    Event.RUN: "set, settling",
    Event.MEASURE: "measured",
    Event.RECORD: "recorded",
    Event.FAIL: "failed",
    Event.ABANDON: "abandoned",
    Event.LOSE: "lost: the process died in mid-trial",
    Event.INGEST: "done by hand",
    Event.INGEST_FAILED: "done by hand, without an outcome",
}


def log_entries(glance: Glance, labels: Labels, most: int, trial: int | None) -> tuple[Entry, ...]:  # noqa: ARG001
    """Return the last so many lines, of one trial or of all, the newest first; alarms are never crowded out."""
    alarms = [
        Entry(a.utc, a.trial, "alarm", a.severity.name, a.source, a.message) for a in glance.alarms(most // 2, trial)
    ]
    doses = [_dose(dose) for dose in glance.doses(most // 3, trial)]
    steps = [_step(event) for event in glance.events(most // 3, trial)]
    return tuple(sorted((*alarms, *doses, *steps), key=lambda entry: entry.utc, reverse=True))[:most]


def _dose(dose: DoseRow) -> Entry:
    given = "" if dose.dispensed_ml is None else f", gave {dose.dispensed_ml:.4g} mL"
    text = f"{dose.volume_ml:.4g} mL asked for{given}" + (f"; {dose.note}" if dose.note else "")
    severity = "MAJOR" if dose.state == "UNKNOWN" else ""
    return Entry(dose.utc, dose.trial, "dose", severity, dose.actuator, text)


def _step(event: EventRow) -> Entry:
    text = SAID.get(event.event, str(event.event).lower()) + (f": {event.detail}" if event.detail else "")
    return Entry(event.utc, event.trial, "step", "", "trial", text)
