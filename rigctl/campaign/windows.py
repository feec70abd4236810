"""Which devices must not be used now, because of permitted hours or the campaign's caps, and until when."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rigctl.campaign.eligibility import HOURS, SPENT, DeviceState, Objection, unavailable
from rigctl.campaign.journal.writer import Journal
from rigctl.core.experiment.space import ControlSet
from rigctl.rig.spec import RigSpec


def limited(
    journal: Journal, rig: RigSpec, states: Mapping[str, DeviceState], civil_s: float | None, exhausted: Iterable[str]
) -> Mapping[str, DeviceState]:
    """Return the states with what hours and caps say; `exhausted` pumps have met a cap of the campaign already."""
    found = dict(states)
    for device, limits in rig.limits.items():
        hours = limits.allowed
        if hours is not None and civil_s is not None and hours.opens_s(civil_s, rig.expected_s) > civil_s:
            found[device] = replace(found.get(device, DeviceState()), closed=str(hours))
    for cap in rig.caps:
        if cap.per_campaign_ml is None:
            continue
        left_ml = cap.per_campaign_ml - journal.doses.given_ml(cap.pumps, -math.inf)
        whose = "" if cap.pumps == (cap.name,) else f" from {cap.name}"
        for pump in cap.pumps:
            takes_ml = journal.doses.dearest_trial_ml(pump)
            if left_ml <= 0 or left_ml < takes_ml or pump in exhausted:
                why = f"may give {max(0.0, left_ml):.4g} mL more{whose} in the campaign"
                enough = f", and a trial may take {takes_ml:.4g} mL" if takes_ml > left_ml > 0 else ""
                found[pump] = replace(found.get(pump, DeviceState()), spent=f"{why}{enough}")
    return found


def without(rig: RigSpec, sets: Sequence[ControlSet], found: Sequence[Objection], *kinds: str) -> bool:
    """Tell whether a control set could be played if there were no objections of these kinds."""
    return len(unavailable(rig, sets, [o for o in found if o.kind not in kinds])) < len(sets)


def reopens_s(rig: RigSpec, sets: Sequence[ControlSet], found: Sequence[Objection], civil_s: float | None) -> float:
    """Return the civil time at which the first hours open that keep every control set from being played.

    Infinity where one can be played now, or hours are not what keeps them.
    """
    if civil_s is None or without(rig, sets, found) or not without(rig, sets, found, HOURS):
        return math.inf
    hours = [rig.limits[o.device].allowed for o in found if o.kind == HOURS]
    return min((h.opens_s(civil_s, rig.expected_s) for h in hours if h is not None), default=math.inf)


def over(rig: RigSpec, sets: Sequence[ControlSet], found: Sequence[Objection]) -> str:
    """Say why the caps of the campaign have ended it; empty if something can be played, or will be."""
    if without(rig, sets, found, HOURS) or not without(rig, sets, found, HOURS, SPENT):
        return ""
    return "; ".join(f"{o.device} {o.why}" for o in found if o.kind == SPENT)
