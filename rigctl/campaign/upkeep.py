"""What is known of the upkeep of every device: read from the journal, for who decides and for who looks on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rigctl.campaign.eligibility import DeviceState, objections, unavailable
from rigctl.campaign.following import astray
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import UpkeepRow
from rigctl.campaign.journal.writer import Journal
from rigctl.core.experiment.space import Space
from rigctl.errors import counted
from rigctl.rig.spec import CareSpec, RigSpec

Ago = Callable[[float, str, str], float]
"""Rig seconds since an instant: campaign time, UTC, epoch."""
_FAR_S = float("inf")


def by_wall(speedup: float) -> Ago:
    """Return the way to say how long ago something was where no clock of the campaign's runs."""

    def ago_s(_at_s: float, utc: str, _epoch: str) -> float:
        return (datetime.now(UTC) - datetime.fromisoformat(utc)).total_seconds() * speedup

    return ago_s


def states_now(journal: Journal, rig: RigSpec) -> Mapping[str, DeviceState]:
    """Return the state of every device that something is known of, for the process that runs the campaign."""
    return states(journal.read, rig, journal.past.passed_s)


def states(reader: Reader, rig: RigSpec, ago_s: Ago) -> Mapping[str, DeviceState]:
    """Return the state of every device of this rig that something is known of."""
    rows = reader.upkeep.rows()
    said, since = reader.upkeep.calibrations(), reader.upkeep.calibrated()
    found: dict[str, DeviceState] = {}
    adrift = astray(reader, rig)
    for device in rig.devices:
        care, own = rig.care.get(device, CareSpec()), [row for row in rows if row.device == device]
        last = {row.kind: row for row in own}
        bottle = _bottle(reader, rig, device, care, last.get("refilled"))
        tubing = next((r for r in reversed(own) if r.kind == "replaced" and r.part == "tubing"), None)
        pumped = (
            None if care.tubing_ml is None else reader.upkeep.dosed_ml(device, 0.0 if tubing is None else tubing.at_s)
        )
        ago = _FAR_S
        if device in since:
            ago = ago_s(since[device].at_s, since[device].utc, since[device].epoch)
        if (by_hand := last.get("calibrated")) is not None:
            ago = min(ago, by_hand.age_s + ago_s(by_hand.at_s, by_hand.utc, by_hand.epoch))
        state = DeviceState(
            out=_out(own),
            left_ml=None if bottle is None else bottle[0],
            dose_ml=None if bottle is None else bottle[1],
            trial_ml=0.0 if bottle is None else reader.upkeep.dearest_trial_ml(device),
            tubing_ml=None if pumped is None else pumped[0],
            points=said[device].points if device in said else None,
            slopes=said[device].slopes if device in said else (),
            calibrated_ago_s=None if ago == _FAR_S else ago,
            astray=adrift[device].why if device in adrift else "",
            check=adrift[device].remedy if device in adrift else "",
        )
        if state != DeviceState():
            found[device] = state
    return found


def out_of_service(reader: Reader) -> Mapping[str, str]:
    """Return the devices that people have taken out of service, with who and why."""
    by_device: dict[str, list[UpkeepRow]] = {}
    for row in reader.upkeep.rows():
        by_device.setdefault(row.device, []).append(row)
    return {device: said for device, rows in by_device.items() if (said := _out(rows))}


def _out(rows: list[UpkeepRow]) -> str:
    last = next((row for row in reversed(rows) if row.kind in ("out", "in")), None)
    if last is None or last.kind == "in":
        return ""
    return f"by {last.who}: {last.why}" if last.why else f"by {last.who}"


def _bottle(
    reader: Reader, rig: RigSpec, pump: str, care: CareSpec, filled: UpkeepRow | None
) -> tuple[float, float | None] | None:
    """Return what is left in a pump's bottle, and its usual dose; None where nobody has said what it holds."""
    if care.bottle_ml is None:
        return None
    full_ml = care.bottle_ml if filled is None or filled.volume_ml is None else filled.volume_ml
    used_ml, doses = reader.upkeep.dosed_ml(pump, 0.0 if filled is None else filled.at_s)
    limits = rig.limits.get(pump)
    largest_ml = None if limits is None else limits.per_dose_ml
    return full_ml - used_ml, used_ml / doses if doses and used_ml > 0 else largest_ml


def barred(reader: Reader, rig: RigSpec, space: Space) -> Mapping[int, str]:
    """Return the control sets that cannot be played because of what is known of the instruments, and why."""
    return unavailable(rig, space.control_sets, objections(rig, states(reader, rig, by_wall(rig.speedup))))


def to_json(rig: RigSpec, known: Mapping[str, DeviceState]) -> list[dict[str, Any]]:
    """Return every device's upkeep for programs, as `status` has it; what is not known is left out."""
    against = objections(rig, known)
    out = []
    for device, state in known.items():
        care = rig.care.get(device, CareSpec())
        about = [o for o in against if o.device == device]
        entry: dict[str, Any] = {
            "device": device,
            "out_of_service": state.out or None,
            "left_ml": None if state.left_ml is None else round(state.left_ml, 3),
            "doses_left": state.doses_left,
            "tubing_ml": None if state.tubing_ml is None else round(state.tubing_ml, 3),
            "calibration_points": state.points,
            "slopes": list(state.slopes) or None,
            "calibrated_days_ago": None if state.calibrated_ago_s is None else round(state.calibrated_ago_s / 86400, 2),
            "calibration_due_days": None
            if state.calibrated_ago_s is None or care.calibrate_every_s is None
            else round((care.calibrate_every_s - state.calibrated_ago_s) / 86400, 2),
            "objections": [{"kind": o.kind, "why": o.why, "remedy": o.remedy, "holds": bool(o.forbids)} for o in about],
        }
        out.append({name: value for name, value in entry.items() if value is not None and value != []})
    return out


def said_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is known of a device's upkeep, from an entry of `to_json`, one phrase each."""
    said = []
    if "left_ml" in entry:
        doses = f", good for {counted(entry['doses_left'], 'dose')}" if "doses_left" in entry else ""
        said.append(f"{max(0.0, entry['left_ml']):.4g} mL left{doses}")
    if "tubing_ml" in entry:
        said.append(f"{entry['tubing_ml'] / 1000:.4g} L through its tubing")
    if "calibration_points" in entry:
        slopes = f", slopes {' and '.join(f'{s:g}' for s in entry['slopes'])} %" if "slopes" in entry else ""
        points = entry["calibration_points"]
        said.append(
            f"calibrated at {points} {'point' if points == 1 else 'points'}{slopes}" if points else "not calibrated"
        )
    if "calibration_due_days" in entry:
        due = entry["calibration_due_days"]
        said.append(f"calibration due in {due:.3g} d" if due >= 0 else f"calibration overdue by {-due:.3g} d")
    return tuple(said)


def wrong_with(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with a device, with the remedy, one sentence each."""
    return tuple(f"{o['why']}; {o['remedy']}" for o in entry.get("objections", ()))


def as_last_known(reader: Reader, rig: RigSpec) -> list[dict[str, Any]]:
    """Return every device's upkeep as `to_json`, for who looks on while nobody runs the campaign."""
    return to_json(rig, states(reader, rig, by_wall(rig.speedup)))
