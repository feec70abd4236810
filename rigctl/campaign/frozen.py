"""Sensors that say the same trial after trial, while everything else changes: they are not believed (fault 64)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.rows import MeasurementRow, TrialRow
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import RigSpec, SensorRules
from rigctl.rig.values import Measurement

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
    return _judged(spec, now, [{m.name: m for m in journal.read.measurements(n)} for n in trials])


def judged_late(journal: Journal, spec: RigSpec, trial: int, read: Mapping[str, Measurement]) -> dict[str, Measurement]:
    """Judge outcomes that were read after their trial likewise, by those that came to other trials in this way."""
    looked_back = max(_frozen_after(spec).values(), default=1) - 1
    came = [r for r in journal.read.trials() if r.trial != trial and r.came is not None and r.came.who == SENSOR]
    past = [_with_outcomes(journal, spec, row) for row in came[max(len(came) - looked_back, 0) :]]
    own = {m.name: m for m in journal.read.measurements(trial) if m.value is not None}
    beside = {n: Measurement(m.value, m.spread or 0.0, m.count) for n, m in own.items() if m.value is not None}
    judged = _judged(spec, {**beside, **read}, past)
    return {name: judged[name] for name in read}


def _with_outcomes(journal: Journal, spec: RigSpec, row: TrialRow) -> Mapping[str, MeasurementRow]:
    outcomes = {spec.outcome_name: row.outcome, **row.further}
    return {m.name: m for m in journal.read.measurements(row.trial)} | {
        name: MeasurementRow(row.trial, name, True, outcomes.get(name), 0.0, 1, 0, Severity.NONE, "")
        for name in spec.late_names
    }


def _judged(
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
