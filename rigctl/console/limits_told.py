"""What `rigctl check` says of caps, hours and tariffs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rigctl.campaign.instruments import LAST, MISSES
from rigctl.config.forecast import Forecast
from rigctl.config.load import LoadedConfig
from rigctl.config.wording import joined, lasting
from rigctl.errors import counted
from rigctl.printable import in_full
from rigctl.rig.dead_man import unguarded, unguarded_told
from rigctl.rig.registry import Registry
from rigctl.rig.slewing import Slew, ramp
from rigctl.rig.spec import CapSpec, LateSpec, RigSpec


def sentences(told: Forecast, loaded: LoadedConfig) -> Iterator[str]:
    """Say what holds the rig back, and when, one sentence each."""
    rig = loaded.rig
    alone = unguarded(rig, Registry.installed()) if loaded.wired else ()
    if alone:
        yield unguarded_told(alone)
    yield from _follows(rig)
    for cap in rig.caps:
        yield _cap(cap, told)
    if rig.late is not None:
        yield from _late(rig.late)
    if rig.allowed is not None:
        yield f"Trials run {rig.allowed}; otherwise the campaign waits, everything safe."
    for name, limits in rig.limits.items():
        if limits.allowed is not None:
            yield f"{name} is driven {limits.allowed} only."
        if limits.slew is not None:
            yield _slew(name, limits.slew, limits.high - limits.low)
    for meter in rig.meters:
        if meter.tariff is not None:
            rates = ", ".join(f"{rate.name} {rate.price:f}" for rate in meter.tariff.rates)
            yield f"The price of {meter.name} goes by the hour: {rates}; on average {in_full(float(meter.price), 4)}."


def _follows(rig: RigSpec) -> Iterator[str]:
    """Say how far each controlled variable may be from its setpoint, and which are not compared with theirs."""
    moved = [v for v in rig.variables if v.actuator]
    spans = [(v.name, v.follows) for v in moved if v.follows is not None]
    if spans:
        said = [f"{n} {f'{f.least:.3g} to ' * (f.least < f.most)}{f.most:.3g} {f.unit}".rstrip() for n, f in spans]
        yield f"A controlled variable must be measured within this distance of its setpoint: {', '.join(said)}."
        yield f"After {MISSES} misses in its last {LAST} trials no trial controls it until you have looked at it."
    if blind := [v.name for v in moved if v.follows is None]:
        yield f"No sensor of its own tells whether {' or '.join(blind)} follows its setpoint."


def _late(late: LateSpec) -> Iterator[str]:
    names, within = joined(late.names), lasting(late.within_s)
    if late.how == "hand":
        yield f"A person says {names} within {within} of a trial: `rigctl outcome TRIAL VALUE`; then it ends without."
    else:
        yield f"{names} is read {lasting(late.after_s)} after a trial, and tried again until {within} after it."
    meanwhile = "The next trial waits for it" if late.hold else f"Up to {counted(late.pending, 'trial')} may await it"
    ends = "waits for what is awaited, then ends" if late.wait_at_end else "ends while some are awaited"
    yield f"{meanwhile}; a campaign that is over {ends}."


def _slew(name: str, slew: Slew, span: float) -> str:
    way = ramp(0.0, span, slew)
    takes = f", {lasting(slew.longest_s(span))}" if slew.longest_s(span) > 0 else ""
    return f"{name} moves in steps: at most {counted(len(way), 'step')}{takes} from end to end."


def _cap(cap: CapSpec, told: Forecast) -> str:
    spans = [(cap.per_trial_ml, "a trial"), *((ml, words) for _, ml, words in cap.windows)]
    spans.append((cap.per_campaign_ml, "the campaign"))
    most = joined([f"{ml:g} mL in {words}" for ml, words in spans if ml is not None])
    whose = cap.name if cap.pumps == (cap.name,) else f"{cap.name} ({', '.join(cap.pumps)})"
    found = told.capped.get(cap.name)
    if found is None:
        return f"{whose} gives at most {most}."
    daily = "" if math.isinf(found.per_day) else f"about {counted(math.floor(found.per_day), 'trial')} a day"
    in_all = "" if found.in_all is None else f"about {counted(found.in_all, 'trial')} in all"
    allows = joined([words for words in (daily, in_all) if words])
    return f"{whose} gives at most {most}{f': that allows {allows}' if allows else ''}."
