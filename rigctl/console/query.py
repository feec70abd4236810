"""The verbs that only look: status, explain, replay, drivers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rigctl.campaign import control
from rigctl.campaign.acts import changes
from rigctl.campaign.answered import given
from rigctl.campaign.instruments import as_last_known
from rigctl.campaign.journal import Reader, open_reader
from rigctl.campaign.journal.alarms import worst
from rigctl.campaign.journal.glance import BY_HAND
from rigctl.campaign.journal.rows import ByHand, CampaignRow, TrialRow
from rigctl.campaign.replay import ReplayedTrial, replay, what_came_of, what_would_change
from rigctl.campaign.requests import act_json
from rigctl.campaign.trial import State
from rigctl.config.profiles import ProfileInfo
from rigctl.console.assemble import OpenCampaign
from rigctl.console.benches.suggest import sentences
from rigctl.console.output import INDENT
from rigctl.core.advice import aftermath
from rigctl.core.advice.aftermath import CameOf
from rigctl.core.advice.flips import Counterfactuals
from rigctl.core.counterfactuals import shown
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.policy import Proposal
from rigctl.core.multi_objective.trade_off import hypervolume, non_dominated, reference_point
from rigctl.errors import JournalError, RigctlError, UsageError, counted
from rigctl.page.campaign import campaign_spec, configured
from rigctl.rig.registry import DriverInfo
from rigctl.text import shown_set, shown_unit, told_utc

LAST_ACTS = 5


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
        return {"running": True, **told, **_front(directory)}
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
            **_found(reader, row, trials, directory),
            **_awaited(trials),
            **_people(reader, trials),
            **_alarms(reader),
            **_upkeep(reader, directory),
        }


def _found(reader: Reader, row: CampaignRow, trials: Sequence[TrialRow], directory: Path) -> Mapping[str, Any]:
    """Return what was found so far: what was measured best, and what was answered last."""
    found, answer = _measured_best(row, trials), given(directory, reader.people.last_correction())
    return {**found, **({} if answer is None else {"answer": {"told": answer.told, "trial": answer.trial}})}


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


def _front(directory: Path) -> Mapping[str, Any]:
    """Return nothing where the journal of a running campaign cannot be read: the campaign itself has answered."""
    try:
        with open_reader(directory) as reader:
            trials = reader.trials()
            beside = {**_awaited(trials), **_people(reader, trials), **_alarms(reader)}
            return {**_found(reader, reader.campaign(), trials, directory), **beside}
    except (UsageError, JournalError):
        return {}


def _alarms(reader: Reader) -> Mapping[str, Any]:
    """Say how many alarms stand, and which is the worst; nothing while none does."""
    found = reader.alarms.folded().shown(reader.alarms.now_s(), datetime.now(UTC).isoformat())
    first = worst(found)
    if first is None:
        return {}
    told = f"{first.source}: {first.message} (alarm {first.alarm}, {counted(first.count, 'time')})"
    standing = sum(alarm.standing for alarm in found)
    return {"standing_alarms": standing, "worst_alarm": f"{first.severity.name} {told}"}


def _upkeep(reader: Reader, directory: Path) -> Mapping[str, Any]:
    """Return what is known of the instruments, and who has paused it; nothing of it where there is none."""
    paused = reader.people.pause()
    try:
        known = as_last_known(reader, configured(reader.campaign(), directory, costs=False).rig)
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
    last = [act_json(act) for act in reader.people.acts()[-LAST_ACTS:]]
    return {name: found for name, found in {**counts, "acts": last}.items() if found}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Says why a trial was chosen."""

    trial: int
    origin: str
    """`policy`, or who else decided."""
    sentences: tuple[str, ...]
    proposal: Proposal | None
    """With the numbers; None for a trial done by hand for which no suggestion was kept."""
    changes: Counterfactuals | None = None
    """What would have changed the choice; None: not looked for, or the decision cannot be made again."""
    came_of: CameOf | None = None
    """What came of it; None while it is under way."""


def explained(
    campaign: OpenCampaign, trial: int | None, *, technical: bool = False, quick: bool = False
) -> Explanation:
    """Return why a trial (None: the last one) was chosen, what would have changed that, and what came of it.

    With `technical` in the terms of the policy's paper; `quick` leaves out what would have changed it, for which some
    60 decisions are made.

    Raises:
        UsageError: no such trial.
    """
    rows = campaign.reader.trials()
    if not rows:
        raise UsageError("explain: the campaign has no trial yet")
    row = rows[-1] if trial is None else campaign.reader.trial(trial)
    corrected = _corrections(row, campaign.loaded.currency)
    if row.proposal is None and row.origin != "manual":
        what = f"ended before it was decided: {row.because}" if row.state.final else "looks, and is not decided yet"
        return Explanation(row.trial, row.origin, (f"Trial {row.trial} {what}.", *corrected), None)
    if row.proposal is None:
        suggested, lines = _by_hand(campaign, row, technical=technical)
        return Explanation(row.trial, row.origin, (*lines, *corrected), suggested)
    lines = sentences(campaign.loaded, row.proposal, technical=technical)
    if row.origin != "policy":
        lines = (f"Trial {row.trial} was not chosen by the policy ({row.origin}): {row.note}", *lines)
    lines += (*corrected, *(f"{label} could not be played then: {why}." for label, why in row.unavailable.items()))
    loaded, spec = campaign.loaded, campaign_spec(campaign.loaded)
    flips = None if quick else what_would_change(campaign.reader, spec, row)
    came_of = what_came_of(campaign.reader, spec, row)
    unit, names = shown_unit(loaded.outcome_unit), loaded.problem.space.units
    if flips is not None:
        lines += ("What would have changed the choice:",)
        lines += tuple(f"  {line}" for line in shown(flips, currency=loaded.currency, unit=unit, names=names))
    if came_of is not None:
        told = aftermath.told(came_of, outcome=loaded.rig.outcome_label, unit=unit, currency=loaded.currency)
        lines += ("What came of it:", *(f"  {line}" for line in told))
    return Explanation(row.trial, row.origin, lines, row.proposal, flips, came_of)


def _by_hand(campaign: OpenCampaign, row: TrialRow, *, technical: bool) -> tuple[Proposal | None, tuple[str, ...]]:
    """Return what was suggested for a trial that a person did, if it was kept, and what to say of the trial."""
    label = shown_set(row.control_set, campaign.loaded.problem.space.units)
    known = row.by_hand or ByHand()
    if known.imported is not None:
        source = campaign.reader.people.imports()[known.imported].source
        return None, (f"Trial {row.trial} is from before the campaign: {label}, from {source}. It was not charged.",)
    if known.suggestion is None:
        return None, (f"Trial {row.trial} was done by hand: {label}.",)
    suggested = campaign.reader.people.suggestions()[known.suggestion].proposal
    how = f"but not as suggested: {known.departed}" if known.departed else "as suggested"
    lines = () if suggested is None else sentences(campaign.loaded, suggested, technical=technical)
    return suggested, (f"Trial {row.trial} was done by hand, {how}.", *lines)


def _corrections(row: TrialRow, currency: str) -> tuple[str, ...]:
    """Say what was corrected of a trial, by whom and why."""
    words = {"void": "is void", "restore": "counts again"}
    found = []
    for made in row.corrected:
        what = words.get(made.kind) or f"was amended: {'; '.join(changes(made.was, made.becomes, currency))}"
        found.append(f"Trial {row.trial} {what} ({made.who}, {made.utc[:16]}: {made.why}).")
    return tuple(found)


def replayed(campaign: OpenCampaign) -> tuple[ReplayedTrial, ...]:
    """Recompute every decision, those that were handed to a person too."""
    trials = replay(campaign.reader, campaign_spec(campaign.loaded))
    return tuple(trial for trial in trials if trial.decided)


def replay_json(trials: Sequence[ReplayedTrial]) -> Mapping[str, Any]:
    """Return how many decisions agree, those that do not, and which were made by what other code."""
    differing, other = [t for t in trials if not t.agrees], _by_other_code(trials)
    return {
        "trials": len(trials),
        "agree": len(trials) - len(differing),
        "differing": differing,
        "other_code": [{"code": code, "trials": numbers} for code, numbers in other.items()],
    }


def _by_other_code(trials: Sequence[ReplayedTrial]) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for trial in trials:
        if trial.code:
            found.setdefault(trial.code, []).append(trial.trial)
    return found


def replay_lines(trials: Sequence[ReplayedTrial]) -> Sequence[str]:
    """Return every difference, other code that may be why, and how many have none, for people."""
    differing = [f"trial {t.trial}: {'; '.join(t.differences)}" for t in trials if not t.agrees]
    other = [
        f"{counted(len(numbers), 'decision')} made by other code may come out differently: {code}"
        for code, numbers in _by_other_code(trials).items()
    ]
    return [
        *differing,
        *other,
        f"{len(trials) - len(differing)} of {counted(len(trials), 'decision')} come out the same",
    ]


def profile_lines(found: Sequence[ProfileInfo]) -> Iterator[str]:
    for profile in found:
        yield f"{profile.driver:8} {', '.join(f'{profile.name}/{quantity}' for quantity in profile.quantities)}"
        about = (("", profile.instrument), ("usual port: ", profile.url), ("read in: ", profile.source))
        yield from (f"{INDENT}{before}{told}" for before, told in about if told)
        yield from (f"{INDENT}{problem}" for problem in profile.problems)
    if not found:
        yield "no profiles"


def driver_lines(found: Sequence[DriverInfo]) -> Sequence[str]:
    return [f"{d.name:10} {', '.join(d.schemes):28} {d.problem or d.summary}" for d in found]
