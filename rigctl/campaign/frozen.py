"""Sensors that say the same trial after trial, while everything else changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rigctl.campaign.journal.rows import MeasurementRow
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import RigSpec, SensorRules
from rigctl.rig.values import Measurement

Before = Sequence[Mapping[str, MeasurementRow]]
"""What was measured in the trials before, by name, the last one last."""


def looked_back(spec: RigSpec) -> int:
    """Return how many earlier trials have to be known to judge the next one."""
    return max(_judged(spec).values(), default=1) - 1


def judged_by_past(spec: RigSpec, now: Mapping[str, Measurement], past: Before) -> Mapping[str, Measurement]:
    """Judge the measurements: INVALID where a sensor has not moved by a bit over as many trials as its rule says.

    Judged are outcomes, probes that doses are judged by, and sensors whose rules say so; and only if something else was
    different in those trials, for the same setting may give the same reading.
    """
    trials = _judged(spec)
    return {name: _as_found(now, name, past, trials[name]) if name in trials else m for name, m in now.items()}


def _as_found(now: Mapping[str, Measurement], name: str, past: Before, trials: int) -> Measurement:
    measured = now[name]
    if measured.severity >= Severity.INVALID or len(past) < trials - 1 or trials < 2:
        return measured
    before = past[len(past) - (trials - 1) :]
    same = measured.spread == 0 and all(_same(trial.get(name), measured) for trial in before)
    if not same or not _something_changed(now, name, before):
        return measured
    detail = f"reads {measured.value!r} to the last digit in {trials} trials in a row: the sensor is frozen"
    return replace(measured, severity=Severity.INVALID, detail=detail)


def _same(row: MeasurementRow | None, measured: Measurement) -> bool:
    return row is not None and row.value == measured.value and not row.spread


def _something_changed(now: Mapping[str, Measurement], but: str, before: Before) -> bool:
    others = [name for name in now if name != but]
    return any(
        (row := trial.get(name)) is not None and row.value is not None and row.value != now[name].value
        for trial in before
        for name in others
    )


def _judged(spec: RigSpec) -> Mapping[str, int]:
    """Return after how many trials each sensor counts as frozen; those that never do are not there."""
    probes = {v.name for v in spec.variables if v.actuator in spec.dosing}
    names = (*spec.outcome_names, *sorted(probes | set(spec.watch.rules)))
    rules = {name: spec.watch.rules.get(name, SensorRules()).frozen_after_trials for name in names}
    return {name: trials for name, trials in rules.items() if trials is not None}
