"""How a campaign stands, for programs and for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rigctl.campaign import control
from rigctl.campaign.answered import given
from rigctl.campaign.instruments import as_last_known, said_of, wrong_with
from rigctl.campaign.journal import Reader, open_reader
from rigctl.campaign.journal.alarms import worst
from rigctl.campaign.journal.glance import BY_HAND
from rigctl.campaign.journal.rows import CampaignRow, TrialRow
from rigctl.campaign.status import AGAIN, Status, ending
from rigctl.campaign.trial import State
from rigctl.config.load import load_rig
from rigctl.console.output import number
from rigctl.core.experiment.money import to_units
from rigctl.errors import JournalError, RigctlError, UsageError, counted
from rigctl.text import set_label, settings, shown_unit, told_utc

LAST_ACTS = 5
ACT = ("utc", "who", "verb", "argument", "why", "outcome")
"""Of an act, for programs."""


def status(directory: Path) -> Mapping[str, Any]:
    """Return what a running campaign says of itself, else what its journal says.

    Raises:
        UsageError: there is no campaign here.
        JournalError: the journal cannot be read.
    """
    try:
        told = control.ask(directory, "status")
    except UsageError:  # nobody is running it
        told = None
    if told is not None:
        beside: Mapping[str, Any] = {}
        with suppress(UsageError, JournalError), open_reader(directory) as reader:  # the campaign itself has answered
            beside = _beside(reader, reader.campaign(), reader.trials(), directory)
        return {"running": True, **told, **beside}
    with open_reader(directory) as reader:
        row, trials = reader.campaign(), reader.trials()
        runs = [start for start in reader.starts() if start.ended not in BY_HAND]
        last, trip = trials[-1] if trials else None, reader.trips.latched()
        return {
            "running": False,
            "rig": row.rig,
            "currency": row.currency,
            "trials": sum(t.state.charged for t in trials),
            "spent": to_units(row.spent),
            "budget": to_units(row.budget),
            **({"production": {"batches": row.batches, "spent": to_units(row.operated)}} if row.batches else {}),
            "alarms": len(reader.alarms.rows()),
            "last_trial": None if last is None else {"trial": last.trial, "state": last.state.value},
            **({"ended": runs[-1].ended} if runs else {}),
            **({} if trip is None else {"tripped": f"{told_utc(trip.utc)}: {trip.reason}"}),
            **_beside(reader, row, trials, directory),
            **_upkeep(reader, directory),
        }


def _beside(reader: Reader, row: CampaignRow, trials: Sequence[TrialRow], directory: Path) -> Mapping[str, Any]:
    """Return what the journal says of a campaign, running or not: what it found and awaits, acts and alarms."""
    answer = given(directory, reader.people.last_correction())
    answered = {} if answer is None else {"answer": {"told": answer.told, "trial": answer.trial}}
    found = {**_measured_best(row, trials), **answered}
    return {**found, **_awaited(trials), **_people(reader, trials), **_alarms(reader)}


def _measured_best(campaign: CampaignRow, trials: Sequence[TrialRow]) -> Mapping[str, Any]:
    """Return the best that a journal has measured, without its configuration: a trial; of several outcomes a front."""
    known = [t for t in trials if t.state is State.RECORDED and t.outcome is not None and not t.voided]
    if json.loads(campaign.identity.get("further_outcomes", "[]")):
        return _measured_front(campaign, known)
    sign = 1.0 if json.loads(campaign.identity["outcome.maximise"]) else -1.0
    best = max(known, key=lambda t: sign * (t.outcome or 0.0), default=None)
    if best is None:
        return {}
    unit = json.loads(campaign.identity.get("outcome.unit", '""'))
    which = {"trial": best.trial, "control_set": best.control_set}
    return {"best_trial": {**which, "outcome": best.outcome, "name": campaign.outcome, "unit": unit}}


def _measured_front(campaign: CampaignRow, known: Sequence[TrialRow]) -> Mapping[str, Any]:
    import numpy as np  # noqa: PLC0415 - as below

    from rigctl.core.multi_objective.trade_off import (  # noqa: PLC0415 - the model, where there is one outcome of no use
        hypervolume,
        non_dominated,
        reference_point,
    )

    further = json.loads(campaign.identity["further_outcomes"])
    rows = [t for t in known if len(t.further) == len(further)]
    if not rows:
        return {}
    names = {"maximise": "outcome.maximise", "floor": "floor"}  # where the identity has the same of the first one
    first = {key: json.loads(campaign.identity[name]) for key, name in names.items()}
    signs = np.array([1.0 if outcome["maximise"] else -1.0 for outcome in (first, *further)])
    floors = np.array([np.nan if outcome["floor"] is None else outcome["floor"] for outcome in (first, *further)])
    values = signs * np.array([[t.outcome, *t.further.values()] for t in rows], dtype=float)
    kept = np.flatnonzero(non_dominated(values))
    volume = hypervolume(values, reference_point(values, signs * floors))
    return {"pareto_trials": [rows[i].trial for i in kept], "hypervolume": volume}


def _awaited(trials: Sequence[TrialRow]) -> Mapping[str, Any]:
    """Return the trials whose outcome is still to come, if there are any, and when the first of them is due."""
    found = {row.trial: row.awaited for row in trials if row.state is State.AWAITING}
    due = min((one.due_utc for one in found.values() if one is not None), default=None)
    return {"awaiting": list(found), "first_due": None if due is None else told_utc(due)} if found else {}


def _alarms(reader: Reader) -> Mapping[str, Any]:
    """Say how many alarms are active, and which is the worst; nothing while none is."""
    found = reader.alarms.folded().shown(reader.alarms.now_s(), datetime.now(UTC).isoformat())
    first = worst(found)
    if first is None:
        return {}
    told = f"{first.source}: {first.message} (alarm {first.alarm}, {counted(first.count, 'time')})"
    active = sum(alarm.active for alarm in found)
    return {"active_alarms": active, "worst_alarm": f"{first.severity.name} {told}"}


def _upkeep(reader: Reader, directory: Path) -> Mapping[str, Any]:
    """Return what is known of the instruments, and who has paused it; nothing of it where there is none."""
    paused = reader.people.pause()
    try:
        known = as_last_known(reader, load_rig(reader.campaign().config_text, directory / "configuration"))
    except RigctlError:  # the configuration does not hold any more
        known = []
    return {name: found for name, found in (("paused", paused), ("upkeep", known)) if found}


def _people(reader: Reader, trials: Sequence[TrialRow]) -> Mapping[str, Any]:
    """Count the trials that people did or corrected, and name what they did last; what there is none of is left out."""
    counts = {
        "done_by_hand": sum(t.origin == "manual" and not t.imported for t in trials),
        "imported": sum(t.imported for t in trials),
        "void": sum(t.voided for t in trials),
        "amended": sum(any(c.kind == "amend" for c in t.corrected) for t in trials),
    }
    last = [{name: getattr(act, name) for name in ACT} for act in reader.people.acts()[-LAST_ACTS:]]
    return {name: found for name, found in {**counts, "acts": last}.items() if found}


NAMES: Mapping[str, str] = {
    "pareto_trials": "trials that no other beats in every outcome",
    "hypervolume": "hypervolume, measured",
    "alarms": "alarms so far",
    "first_due": "first outcome due",
}
ORDER = (
    *("rig", "running", "ended", "tripped", "phase", "paused", "spent"),
    *("trial", "doses", "why", "readings", "last_trial", "best_trial", "answer"),
)
"""What people read first."""
NOT_SAID = f"unknown: it was killed, or is only starting; {AGAIN} makes everything safe first, then goes on"
FOR_PROGRAMS = ("ok", "pid", "speedup", "watch", "buses", "decision_s", "currency", "budget", "trials")


def for_people(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a status in words, the most important first; what there is none of is left out."""
    words = {NAMES.get(name, name): value for name, value in status.items() if name not in FOR_PROGRAMS}
    if status.get("running", True):
        words |= _running(Status.of(status))
    if words.get("phase") == "running":
        del words["phase"]
    words |= {name: say(status) for name, say in SAID.items() if status.get(name) is not None or name in words}
    if "upkeep" in words:
        words |= _instruments(words.pop("upkeep"))
    words |= {"version": words.pop("version", "")}
    words = {name: words[name] for name in ORDER if name in words} | words
    return {name: told for name, told in words.items() if told or told is False}


def _spent(status: Mapping[str, Any]) -> str:
    if status["spent"] is None:
        return ""
    amount = f"{status['spent']:.2f} of {status['budget']:.2f} {status['currency']}"
    return f"{amount}, {counted(status['trials'], 'trial')}"


def _ended(status: Mapping[str, Any]) -> str:
    return NOT_SAID if status["ended"] is None else ending(status["ended"])


def _last(status: Mapping[str, Any]) -> str:
    last = status["last_trial"]
    return "" if last is None else f"{last['trial']}, {last['state'].lower()}"


def _best(status: Mapping[str, Any]) -> str:
    best = status["best_trial"]
    outcome = f"{best['name']} {number(best['outcome'])} {shown_unit(best['unit'])}".rstrip()
    return f"{best['trial']}, {set_label(best['control_set'])}: {outcome}"


def _answer(status: Mapping[str, Any]) -> str:
    told, trial = status["answer"]["told"], status["answer"]["trial"]
    return f"as of trial {trial}: {told}"


def _acts(status: Mapping[str, Any]) -> str:
    return "; ".join(map(_act, status["acts"]))


SAID: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "ended": _ended,
    "spent": _spent,
    "last_trial": _last,
    "best_trial": _best,
    "answer": _answer,
    "acts": _acts,
}
"""How people are told what programs get in parts."""


def _running(status: Status) -> Mapping[str, Any]:
    """Put in words how a campaign that runs stands."""
    from rigctl.console import progress  # noqa: PLC0415 - the live board, where nothing runs of no use

    words: dict[str, Any] = {"readings": progress.readings_words(status.readings)}
    trial = status.trial
    if trial is None:
        return words
    units = {name: seen.unit for name, seen in status.readings.items()}
    chosen = f": control {set_label(trial.control_set)} at {settings(trial.setpoints, units)}"
    chosen = chosen if trial.control_set else ""  # while it looks nothing is chosen
    doses = (f"{n} {d.count}, {number(d.volume_ml)} mL" for n, d in trial.doses.items())
    said = f"{trial.trial} {trial.phase}{chosen}; {progress.step_words(trial, status.speedup)}"
    return {"trial": said, "doses": "; ".join(doses), "why": trial.reason, **words}


def _act(act: Mapping[str, Any]) -> str:
    """Say what somebody did, e.g. `2026-03-01 12:00 Anna: stop (enough), ends after the trial under way`."""
    did = f"{told_utc(act['utc'])} {act['who']}: {act['verb']} {act['argument']}".rstrip()
    return did + (f" ({act['why']})" if act["why"] else "") + (f", {act['outcome']}" if act["outcome"] else "")


def _instruments(upkeep: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return a sentence per instrument of whose upkeep something is known."""
    found = {entry["device"]: "; ".join((*said_of(entry), *wrong_with(entry))) for entry in upkeep}
    return {name: text for name, text in found.items() if text}
