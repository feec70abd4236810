"""Which devices are not to be used now, and which control sets cannot be played because of that. Pure.

What people have said of a device, what is left in its bottle and what it says of its calibration is its state; an
objection says what is wrong with that, and which use of the device it forbids. A control set that needs a device for
such a use is not offered to the policy, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rigctl.core.experiment.space import ControlSet
from rigctl.errors import counted
from rigctl.printable import in_full
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import CareSpec, RigSpec

Use = Literal["any", "dosing", "control"]
"""What a control set may need a device for: whatever it does; to judge doses by; to reach a setpoint with."""
HOURS, SPENT = "hours", "cap"
"""Kinds of objections that time alone ends, and that nothing ends as long as this process runs."""
DUE_SOON = 0.9
"""Share of the time between two calibrations after which the next is worth a word."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What is known of the upkeep of a device; None: it is not known, or not counted."""

    out: str = ""
    """Who has taken it out of service, and why; empty: it is in service."""
    left_ml: float | None = None
    """In its bottle."""
    dose_ml: float | None = None
    """Of its usual dose."""
    trial_ml: float = 0.0
    """The most it has given in one of the last trials."""
    tubing_ml: float | None = None
    """What its tubing has seen."""
    points: int | None = None
    """Of how many points its calibration is."""
    slopes: tuple[float, ...] = ()
    """Percent of an ideal probe's."""
    calibrated_ago_s: float | None = None
    """Rig seconds since it was last calibrated, as far as is known."""

    closed: str = ""
    """When it may be driven, if that is not now for as long as a trial takes."""
    astray: str = ""
    """Why it is not believed to bring its variable to a setpoint."""
    check: str = ""
    """What to do about that."""
    spent: str = ""
    """What it may give in the whole campaign, if a trial may take more than is left of it."""

    @property
    def doses_left(self) -> int | None:
        """Return for how many usual doses the bottle is good."""
        return None if self.left_ml is None or not self.dose_ml else max(0, int(self.left_ml / self.dose_ml))


@dataclass(frozen=True, slots=True)
class Objection:
    """Something that is wrong with a device, or soon will be."""

    device: str
    kind: str
    why: str
    remedy: str
    forbids: frozenset[Use] = frozenset()
    """Nothing: it is only to be told."""

    @property
    def severity(self) -> Severity:
        return Severity.MAJOR if self.forbids else Severity.MINOR

    def __str__(self) -> str:
        return f"{self.device} {self.why}"


_ANY: frozenset[Use] = frozenset({"any"})
_DOSING: frozenset[Use] = frozenset({"dosing"})
_CONTROL: frozenset[Use] = frozenset({"control"})
_NONE: frozenset[Use] = frozenset()


def objections(rig: RigSpec, states: Mapping[str, DeviceState]) -> tuple[Objection, ...]:
    """Return what is wrong with the devices in these states, in their order."""
    judges = frozenset(d.sensor for d in rig.dosing.values())
    return tuple(
        found
        for device, state in states.items()
        for found in _about(device, state, rig.care.get(device, CareSpec()), judges=device in judges)
    )


def _about(device: str, state: DeviceState, care: CareSpec, *, judges: bool) -> Iterator[Objection]:
    if state.out:
        yield Objection(device, "out", f"is out of service, {state.out}", f"`rigctl in-service {device}`", _ANY)
        return
    yield from _runs_out(device, state, care)
    if state.astray:
        yield Objection(device, "does not follow", state.astray, state.check, _CONTROL)
    if state.closed:
        yield Objection(device, HOURS, f"may be driven {state.closed} only", "wait, or allow more hours", _ANY)
    if state.spent:
        yield Objection(device, SPENT, state.spent, "raise the cap of the campaign, and start it again", _ANY)
    forbids = _DOSING if judges else _NONE
    calibrate = f"calibrate it, then `rigctl calibrated {device}`"
    if state.points == 0:
        yield Objection(device, "uncalibrated", "is not calibrated", calibrate, forbids)
    low, high = care.slope
    if any(not low <= slope <= high for slope in state.slopes):
        told = " and ".join(f"{slope:g}" for slope in state.slopes)
        why = f"has slopes of {told} %, must be {low:g} to {high:g} %"
        yield Objection(device, "slope", why, f"clean or replace the probe, and {calibrate}", forbids)
    every_s, ago_s = care.calibrate_every_s, state.calibrated_ago_s
    if every_s is None or ago_s is None:
        return
    if ago_s > every_s:
        why = f"was calibrated {days(ago_s)} ago, must be every {days(every_s)}"
        yield Objection(device, "overdue", why, calibrate, forbids)
    elif ago_s > DUE_SOON * every_s:
        yield Objection(device, "due", f"must be calibrated within {days(every_s - ago_s)}", calibrate)


def _runs_out(device: str, state: DeviceState, care: CareSpec) -> Iterator[Objection]:
    refill = f"refill it, then `rigctl refilled {device}`"
    left_ml, doses = state.left_ml, state.doses_left
    if left_ml is not None:
        trial_ml = state.trial_ml or state.dose_ml or 0.0
        left = f"has {max(0.0, left_ml):.4g} mL left in its bottle"
        if left_ml <= 0 or left_ml < trial_ml:
            yield Objection(device, "empty", f"{left}, and a trial may take {trial_ml:.4g} mL", refill, _ANY)
        elif doses is not None and doses <= care.warn_doses:
            yield Objection(device, "low", f"{left}, good for {counted(doses, 'dose')}", refill)
    if care.tubing_ml is not None and state.tubing_ml is not None and state.tubing_ml >= care.tubing_ml:
        good_for = f"which is good for {care.tubing_ml / 1000:g} L"
        why = f"has pumped {state.tubing_ml / 1000:.4g} L through its tubing, {good_for}"
        yield Objection(device, "tubing", why, f"replace it, then `rigctl replaced {device} tubing`")


def days(seconds: float) -> str:
    """Say a time as people do who calibrate instruments."""
    return f"{in_full(seconds / 86400, 3)} d" if seconds >= 86400 else f"{seconds / 3600:.3g} h"


# From devices to control sets ---------------------------------------------------------------------------------------


def unavailable(rig: RigSpec, sets: Sequence[ControlSet], found: Iterable[Objection]) -> Mapping[int, str]:
    """Return the control sets that need a device for a use that an objection forbids, and why, in words."""
    against = [o for o in found if o.forbids]
    barred = {}
    for number, chosen in enumerate(sets):
        needs = needed(rig, chosen.names)
        why = [str(o) for o in against if o.forbids & needs.get(o.device, _NONE)]
        if why:
            barred[number] = "; ".join(why)
    return barred


def needed(rig: RigSpec, controlled: Sequence[str]) -> Mapping[str, frozenset[Use]]:
    """Return what a trial that controls these variables needs, and for what: what every trial does is part of it."""
    given = [name for name, volume in rig.volumes.items() if volume.otherwise_ml > 0]
    used = {rig.outcome_sensor, *(o.sensor for o in rig.further), *(v.sensor for v in rig.variables)}
    used |= {m.device for m in rig.meters if m.device is not None and m.device not in rig.pumps}
    used |= {step.actuator for step in rig.timing.prepare}
    used |= {pump for name in given for pump in (name, *rig.volumes[name].partners)}
    judged: set[str] = set()
    controls = {v.actuator for v in rig.variables if v.name in controlled}
    for variable in rig.variables:
        if variable.name in controlled:
            dosing = [rig.dosing[name] for name in variable.actuators if name in rig.dosing]
            used |= {*variable.actuators, *rig.pumps_of(variable), *(d.treatment for d in dosing if d.treatment)}
            judged |= {d.sensor for d in dosing}
    return {
        name: (_ANY if name in used else _NONE)
        | (_DOSING if name in judged else _NONE)
        | (_CONTROL if name in controls else _NONE)
        for name in (used | judged) - {""}
    }
