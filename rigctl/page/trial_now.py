"""The trial under way as its steps: what is set, what is measured, what was dosed, and what is left of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.rows import DoseRow, EventRow, TrialRow
from rigctl.campaign.status import Status
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.core.experiment.money import to_units
from rigctl.page.shown import Pair, Phase, Pump, Step, TrialNow
from rigctl.page.words import STILL, clock, worded
from rigctl.rig.limits import DAY_S
from rigctl.text import shown_name

STEPS = ("decide", "prepare", "set", "settle", "measure", "book")
LOOKING = ("prepare", "look", "decide", "set", "settle", "measure", "book")
"""The same of a trial that looks before it is decided."""
AT = {State.PROPOSED: "prepare", State.ARMED: "prepare", State.RUNNING: "settle", State.MEASURED: "book"}
AT_LOOKING = {**AT, State.LOOKING: "prepare", State.PROPOSED: "set", State.ARMED: "set"}
"""What a trial of this state begins with; a campaign that answers says what it does now."""
DOSES = 1000
"""As many doses of one trial are counted at most."""


def trial_now(
    reader: Reader, row: TrialRow, loaded: LoadedConfig | None, status: Status | None, now: datetime, *, phase: Phase
) -> TrialNow:
    """Return where the last trial stands; while everything is safe, and no campaign tells of it, it goes on no more."""
    told = status.trial if status is not None and status.trial is not None and status.trial.trial == row.trial else None
    under_way, left = not row.state.charged, told is None and phase.word in STILL
    step = (AT_LOOKING if _looks(row) else AT).get(row.state, "")
    usual_s = 0.0 if loaded is None else loaded.rig.timing.takes_s
    readings = {} if status is None or not under_way else _readings(status, loaded)
    return TrialNow(
        trial=row.trial,
        control_set=row.control_set,
        state=row.state.value,
        under_way=under_way,
        steps=_course(reader, row, told.step if told is not None and told.step in LOOKING else step, left=left),
        left_s=None if told is None else told.takes_yet_s(usual_s),
        pairs=_pairs(row, {**readings, **row.measured}, loaded),
        pumps=_pumps(reader, row, loaded),
        outcome=row.outcome,
        cost=to_units(row.cost),
        step_left_s=None if told is None else told.step_left_s,
        note=row.note
        or (row.because if row.state in (State.FAILED, State.ABANDONED, State.LOST) else _awaits(row, now)),
        read=_read(row, loaded),
    )


def _awaits(row: TrialRow, now: datetime) -> str:
    """Say until when its outcome is awaited; empty: it is not."""
    if row.state is not State.AWAITING or row.awaited is None:
        return ""
    return f"its outcome is awaited until {clock(row.awaited.due_utc, now)}"


def _looks(row: TrialRow) -> bool:
    return row.state is State.LOOKING or bool(row.looks)


def _read(row: TrialRow, loaded: LoadedConfig | None) -> str:
    """Say what the variables read before the decision."""
    units = {} if loaded is None else loaded.problem.space.units
    told = {n: "not read" if look.value is None else worded(n, look.value, units) for n, look in row.looks.items()}
    return ", ".join(f"{shown_name(name, units)} {text}" for name, text in told.items())


def _pairs(row: TrialRow, values: Mapping[str, float], loaded: LoadedConfig | None) -> tuple[Pair, ...]:
    units = {} if loaded is None else loaded.problem.space.units
    return tuple(
        Pair(shown_name(name, units), worded(name, at, units), worded(name, values.get(name), units))
        for name, at in row.setpoints.items()
    )


def _readings(status: Status, loaded: LoadedConfig | None) -> Mapping[str, float]:
    """Return the watch's last readings, by variable."""
    told = status.readings
    seen = {} if loaded is None else {v.name: told.get(v.name) or told.get(v.sensor) for v in loaded.rig.variables}
    return {name: s.value for name, s in seen.items() if s is not None and s.value is not None}


def _steps(row: TrialRow, at: str, state: Literal["now", "stopped"] = "now") -> tuple[Step, ...]:
    """Return all steps; empty: the trial is over, and went through them all."""
    steps = LOOKING if _looks(row) else STEPS
    if at not in steps:
        return tuple(Step(name, "done") for name in steps)
    here = steps.index(at)
    return tuple(Step(s, "done" if i < here else state if i == here else "coming") for i, s in enumerate(steps))


def _course(reader: Reader, row: TrialRow, step: str, *, left: bool) -> tuple[Step, ...]:
    """Return the steps of a trial: under way, done, or stopped short of its record; none where a person did it."""
    if row.origin == "manual":
        return ()
    if not row.state.charged:
        return _steps(row, step, "stopped" if left else "now")
    before = reader.last(EventRow, 2, row.trial)[-1].state
    at = (AT_LOOKING if _looks(row) else AT).get(before, "prepare")
    done = row.state in (State.RECORDED, State.AWAITING) or row.awaited is not None
    return _steps(row, "") if done else _steps(row, at, "stopped")


def _pumps(reader: Reader, row: TrialRow, loaded: LoadedConfig | None) -> tuple[Pump, ...]:
    doses: dict[str, list[DoseRow]] = {}
    for dose in reader.last(DoseRow, DOSES, row.trial):
        doses.setdefault(dose.actuator, []).append(dose)
    day = reader.doses.by_pump_ml(reader.last(EventRow, 1, row.trial)[0].at_s - DAY_S)
    limits = {} if loaded is None else loaded.rig.limits
    capped = {name for name, limit in limits.items() if limit.per_day_ml is not None}
    return tuple(
        Pump(
            name=name,
            trial_ml=sum(_given(dose) for dose in doses.get(name, ())),
            doses=len(doses.get(name, ())),
            day_ml=day.get(name, 0.0),
            per_dose_ml=limits[name].per_dose_ml if name in limits else None,
            per_day_ml=limits[name].per_day_ml if name in limits else None,
        )
        for name in sorted({*doses, *day, *capped})
    )


def _given(dose: DoseRow) -> float:
    return dose.volume_ml if dose.dispensed_ml is None else dose.dispensed_ml
