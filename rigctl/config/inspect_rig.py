"""Third check: is this a rig that should be run? What drivers say against what the file says, and what cannot be meant.

Nothing is opened. A configuration that fails here can still be read, so that old campaigns can be looked at.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from typing import Final

from rigctl.config.devices import built
from rigctl.config.findings import CheckContext
from rigctl.config.forecast import forecast, largest_dose_ml
from rigctl.config.pumps import check_caps
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Variable
from rigctl.errors import ConfigError, KeyPath
from rigctl.flaws import Flaw, got
from rigctl.rig import wiring
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.places import line_of, taken_apart
from rigctl.rig.protocols import ByteLine, ClaimedPlace, DeviceOptions, Doser
from rigctl.rig.registry import Registry
from rigctl.rig.safing import safe_tolerance
from rigctl.rig.spec import DeviceSpec, DosingSpec, RigSpec
from rigctl.rig.testing import ManualClock
from rigctl.rig.titration import OVERSHOOT
from rigctl.rig.values import News
from rigctl.text import in_full, lasting

NEAR: Final = 0.02
"""Of the range: setpoints so near to what nature gives are no reason to refuse a rig."""
ROUNDING: Final = 1e-6
"""Of the range or the setpoint: so much becomes of a number that stands in a float32."""
LOOKED_AT: Final = 97
"""Setpoints of a range that are tried for their rounding; a prime, so that they do not all lie on its steps."""
OFTEN: Final = (1e-4, 1 - 1e-4)
"""Natural values below the first quantile or above the second are as good as never seen."""
HOLDABLE: Final = "narrow the range to what the device can hold, or give it a type or scale that can hold more"
_NUMBERED: Final = re.compile(r"/dev/tty(USB|ACM)\d+")
_REAL: Final = re.compile(r"/dev/(?!pts/)")
"""A port of this machine's own: a pseudo-terminal has a program at its other end, every other port has a plug."""
_WHOLE_LINE: Final = ClaimedPlace("the line", "keeps")


# what drivers say -------------------------------------------------------------------------------------------------


def _roles(context: CheckContext, spec: RigSpec) -> None:
    """Ask the drivers whether each device can do its job."""
    if context.findings:
        return
    try:
        wiring.wired(spec, context.registry, ManualClock(), News())
    except ConfigError as error:
        for found in error.mistakes:
            if not context.findings.told(found.path):
                context.add(found.path, found.flaw)


def _assess(context: CheckContext, spec: RigSpec) -> None:
    """Tell what drivers find out of the code of others that devices name."""
    for name, device in spec.devices.items():
        flaws, caveats = device.options.assess()
        for flaw in flaws:
            context.add(("devices", name), Flaw(flaw))
        for caveat in caveats:
            context.findings.warn(("devices", name), caveat)


# what cannot be meant ---------------------------------------------------------------------------------------------


def _meters(context: CheckContext, spec: RigSpec) -> None:
    if not spec.meters and context.findings.whole("meters"):
        flaw = Flaw("is missing", "must have at least one, e.g. {kind: time, price: 1 EUR/h}: trials would be free")
        context.add(("meters",), flaw)


def _clock(context: CheckContext, spec: RigSpec) -> None:
    if spec.speedup == 1:
        return
    path: KeyPath = ("clock", "speedup")
    urls = dict.fromkeys(d.url for d in spec.devices.values())
    real = [url for url in urls if _REAL.match(taken_apart(url)[1]) or _REAL.match(line_of(url))]
    if real:
        must = f"must be 1, so leave it out: a cap of 24 h would be one of {lasting(86400 / spec.speedup)}"
        context.add(path, got(spec.speedup, must, lead=f", but real instruments are at {', '.join(real)}"))
    else:
        context.findings.warn(
            path, f"{spec.speedup:g} is for simulated rigs: one that does not say that it is simulated will be refused"
        )


def _hearts(context: CheckContext, spec: RigSpec) -> None:
    """Check that a watchdog is fed no more often than the watch looks."""
    for name, device in context.made.items():
        heart = device.heart
        if heart is not None and heart.every_s < spec.watch.every_s:
            must = f"must be at least the {spec.watch.every_s:g} s between two looks of the watch"
            fed = f"a heartbeat every {heart.every_s:.2g} s"
            context.add(("devices", name, *heart.key), Flaw("", must, got=fed))


def _stay_on(context: CheckContext, spec: RigSpec) -> None:
    """Check that a switch without an auto-off is driven only where a person accepts that it may stay on."""
    why = {n: d.options.stays_on() for n, d in spec.devices.items() if n in spec.limits}
    accepted = context.config.safety.stays_on
    for name, reason in why.items():
        if reason and name not in accepted:
            must = "must not be driven: it stays on if the computer, the network or the broker fails"
            remedy = f"use a switch with an auto-off, or accept it with safety: {{stays_on: [{name}]}}"
            context.add(("devices", name), Flaw(reason, must, remedy))
    for i, name in enumerate(accepted):
        if not why.get(name):
            must = f"must be one of {', '.join(n for n in why if why[n]) or 'none'}: switches without an auto-off"
            context.add(("safety", "stays_on", i), got(name, must, "remove it"))


def _setpoints(context: CheckContext, spec: RigSpec) -> None:
    """Check that each actuator can hold whatever it may be sent, and that its safe state is a setpoint like others."""
    prepared = {s.actuator: s.value for s in spec.timing.prepare}
    for name, limits in spec.limits.items():
        path, device = ("safety", "safe_state", name), spec.devices.get(name)
        safe = [limits.safe_state] if isinstance(limits.safe_state, float) else []
        if any(not limits.low <= value <= limits.high for value in safe):
            within = f"[{in_full(limits.low)}, {in_full(limits.high)}]"
            must = f"must lie within the range {within}, or be off: the guard sends nothing else"
            context.add(path, got(limits.safe_state, must))
        if device is None or name in spec.pumps:
            continue
        ends = [limits.low, limits.high] if any(name in v.actuators for v in spec.variables) else []
        values = [*ends, *safe, *filter(None, [prepared.get(name)])]
        found = _misfits(device.options, values) or _astray(device.options, limits, values)
        for flaw in found:
            context.add(("devices", name), flaw)
        too_far = None if found else _too_far(device.options, limits)
        if too_far:
            context.add(("safety", "limits", name, "max_step"), too_far)


def _misfits(options: DeviceOptions, values: Sequence[float]) -> list[Flaw]:
    """Say which setpoints, or values among a device's own options, it cannot hold."""
    named: list[tuple[str, float | None]] = [("setpoint", value) for value in values]
    named += [(name, getattr(options, name, None)) for name in ("safe_value", "release_value")]
    said = [(name, value, options.misfit(value)) for name, value in named if value is not None]
    return [Flaw(f"{name} {in_full(value)} cannot be held: {why}", remedy=HOLDABLE) for name, value, why in said if why]


def _too_far(options: DeviceOptions, limits: ActuatorLimits) -> Flaw | None:
    """Say where a device makes a step of a setpoint that is larger than the actuator may take at once."""
    if limits.slew is None or not math.isfinite(limits.slew.max_step):
        return None
    return _leap(options.rounded, limits.low, limits.high, limits.slew.max_step)


def _astray(options: DeviceOptions, limits: ActuatorLimits, values: Sequence[float]) -> Collection[Flaw]:
    """Say where the guard lets a setpoint pass that a device makes another of, beyond the range or not to be confirmed.

    What lies between two setpoints stays between what the device makes of them, so that the ends speak for all.
    """
    found: dict[Flaw, None] = {}
    for value in values:
        if not limits.low <= value <= limits.high:
            continue  # told already
        held, slack = options.rounded(value), ROUNDING * max(abs(value), limits.high - limits.low)
        told = f"holds {in_full(held)} where {in_full(value)} is sent"
        if not limits.low - slack <= held <= limits.high + slack:
            remedy = "end the range at a step of its register or command, or give it finer ones"
            beyond = f"beyond the range [{in_full(limits.low)}, {in_full(limits.high)}]"
            found[Flaw(f"{told}, {beyond}", remedy=remedy)] = None
        elif value == limits.safe_state and abs(held - value) > safe_tolerance(value):
            lead = f"{told}, so its safe state would never be confirmed"
            found[Flaw(lead, remedy="give one that it can hold")] = None
    return found


def _leap(rounded: Callable[[float], float], low: float, high: float, most: float) -> Flaw | None:
    """Say where a step that the guard lets pass becomes a larger one on its way to the device: just before one of its.

    The next number that it can hold is looked for by halving: what it makes of a setpoint never falls as that rises.
    """
    before, after = low, high
    middle = (before + after) / 2
    while before < middle < after:
        before, after = (before, middle) if rounded(middle) > rounded(low) else (middle, after)
        middle = (before + after) / 2
    slack = ROUNDING * (most + high - low)
    moves = rounded(min(before + most - slack, high)) - rounded(before)
    if moves <= most + slack:
        return None
    step = rounded(after) - rounded(before)
    remedy = f"give a multiple of its {in_full(step)}, or make that finer"
    return got(most, "", remedy, lead=f", but its device moves by {in_full(moves)}")


def _coarse(context: CheckContext, spec: RigSpec, variable: Variable) -> None:
    """Check that what a device makes of a setpoint is near enough to be confirmed, wherever in the range it lies."""
    wired = spec.wiring_of(variable.name)
    device = spec.devices.get(wired.actuator or "")
    if device is None or device.name in spec.pumps or context.findings.told(("devices", device.name)):
        return
    setpoints = [variable.setpoint(i / LOOKED_AT) for i in range(LOOKED_AT + 1)]
    held = {value: device.options.rounded(value) for value in setpoints}
    worst = max(setpoints, key=lambda value: abs(held[value] - value))
    if abs(held[worst] - worst) <= wired.read_back_tolerance:
        return
    what = f"got {in_full(wired.read_back_tolerance)} {variable.unit}".rstrip()
    astray = f"{device.name} holds {in_full(held[worst])} where {in_full(worst)} is sent, and the trial fails"
    remedy = f"give {variable.name} a `step` that it can hold, or a wider tolerance"
    context.findings.warn(("variables", variable.name, "read_back_tolerance"), f"{what}, but {astray}: {remedy}")


def _doses(context: CheckContext, spec: RigSpec) -> None:
    """Check that caps let a dose through, and that a probe is judged before its readings judge doses."""
    for pump in spec.pumps:
        limits, least_ml = spec.limits.get(pump), _least_ml(context, pump)
        caps = {} if limits is None else {"per_dose": limits.per_dose_ml, "per_day": limits.per_day_ml}
        for key, cap_ml in caps.items():
            if cap_ml is not None and (cap_ml == 0 or cap_ml < least_ml):
                least = (
                    f"at least {in_full(least_ml)} mL, the smallest dose of {pump}" if least_ml else "more than nothing"
                )
                flaw = Flaw("", f"must be {least}", got=f"{in_full(cap_ml)} mL")
                context.add(("safety", "limits", pump, key), flaw)
    for pump, dosing in spec.dosing.items():
        _too_coarse(context, spec, dosing, pump)
        served = spec.served_by(pump)
        path = ("variables", "" if served is None else served.name)
        named = ((*path, "plausible"), (*path, "sensor"), ("dosing", pump, "sensor"))
        told = served is None or any(map(context.findings.told, named))
        if not told and dosing.sensor not in spec.plausible:
            flaw = Flaw("is missing", f"must say which readings of {dosing.sensor} can be true: {pump} doses by them")
            context.add((*path, "plausible"), flaw)


def _too_coarse(context: CheckContext, spec: RigSpec, dosing: DosingSpec, pump: str) -> None:
    """Find a tolerance that the smallest dose leaps over: from just outside it to beyond what is accepted then."""
    path: KeyPath = ("dosing", pump)
    if context.findings.told_below(path):
        return
    shares = {pump: 1.0, **spec.partners.get(pump, {})}
    least_ml = max(_least_ml(context, name) / share for name, share in shares.items())
    moves = least_ml * abs(dosing.effect_per_ml)
    least = moves / (1 + OVERSHOOT)
    if dosing.tolerance >= least * (1 - ROUNDING):
        return
    unit = next((v.unit for v in context.config.variables.values() if pump in v.actuators), "")
    weaker = f"{dosing.effect_per_ml * dosing.tolerance / least:.2g} {unit}/mL"
    why = f"the smallest dose, {in_full(least_ml)} mL, moves {dosing.sensor} by {in_full(moves, 3)} {unit}"
    must = f"must be at least {in_full(least, 3)} {unit}: {why}"
    flaw = got(context.findings.given((*path, "tolerance")), must, f"or dilute the stock to an effect of {weaker}")
    context.add((*path, "tolerance"), flaw)


def _least_ml(context: CheckContext, pump: str) -> float:
    made = context.made.get(pump)
    return made.min_dose_ml if isinstance(made, Doser) else 0.0


def _volumes(context: CheckContext, spec: RigSpec, variable: Variable) -> None:
    """Check that whatever volume may be chosen is one that the pump can give, and that its caps let through."""
    pump = spec.wiring_of(variable.name).actuator or ""
    volume = spec.volumes.get(pump)
    if volume is None:
        return
    path: KeyPath = ("variables", variable.name)
    most, least = [], []
    for name, share in {pump: 1.0, **volume.with_}.items():
        limits, least_ml = spec.limits.get(name), _least_ml(context, name)
        whose = "" if name == pump else f"{name} gives {in_full(share)} mL per mL of {pump}, and "
        least.append((least_ml / share, f"{whose}{name} gives no less than {in_full(least_ml)} mL"))
        dose_ml = None if limits is None else limits.per_dose_ml
        if dose_ml is not None:
            most.append((dose_ml / share, f"{whose}safety.limits.{name}.per_dose is {in_full(dose_ml)} mL"))
    for at, given_ml in ((("range",), variable.high), (("doses", "otherwise"), volume.otherwise_ml)):
        cap_ml, why = min(most, default=(given_ml, ""))
        if given_ml > cap_ml:
            must = f"must be at most {in_full(cap_ml)} mL: {why}"
            context.add((*path, *at), Flaw("", must, got=f"{in_full(given_ml)} mL"))
    lowest, (floor_ml, why) = variable.low or variable.step or 0.0, max(least)
    if lowest < floor_ml:
        remedy = f"{why}: begin at {in_full(floor_ml)} mL, or at 0 with a step of at least as much"
        context.add((*path, "range"), Flaw(remedy=remedy, got=f"{in_full(lowest)} mL as the least volume"))


def _reach(context: CheckContext, spec: RigSpec, variable: Variable) -> None:
    """Check that a pump without a treatment brings its variable from where nature leaves it to every setpoint."""
    pump, *others = (*spec.wiring_of(variable.name).actuators, "")
    dosing = spec.dosing.get(pump)
    if dosing is None or dosing.treatment is not None or any(others):  # two of them reach everything
        return
    span, (lowest, highest) = variable.high - variable.low, _natural_ends(variable)
    raises = dosing.effect_per_ml > 0
    wrong = f"{pump} only {'raises' if raises else 'lowers'} {variable.name}"
    remedy = "name a treatment that brings it to the other side first, or narrow the range"
    path: KeyPath = ("dosing", pump, "effect")
    near = max(dosing.tolerance, NEAR * span)
    if (lowest > variable.low + near) if raises else (highest < variable.high - near):
        end, start = (variable.low, lowest) if raises else (variable.high, highest)
        where = f"starts at {'least' if raises else 'most'} at {in_full(start, 4)} {variable.unit}"
        lead = f"{wrong}, which {where}: a setpoint of {in_full(end)} cannot be reached in any trial"
        context.add(path, Flaw(lead, remedy=remedy))
    else:
        side = "below" if raises else "above"
        context.findings.warn(path, f"{wrong}: a trial fails where the setpoint is {side} what it finds; {remedy}")


def _natural_ends(variable: Variable) -> tuple[float, float]:
    """Return the lowest and the highest value that nature may leave a variable at, its unit."""
    import numpy as np  # noqa: PLC0415  # a fraction of a second that only rigs with pumps need

    lowest, highest = variable.low + (variable.high - variable.low) * variable.marginal.quantile(np.array(OFTEN))
    return float(lowest), float(highest)


def _treatments(context: CheckContext, _spec: RigSpec) -> None:
    """Check that a treatment which no step of the preparation follows is given time."""
    if context.config.trial is None or context.config.trial.look is None:
        return
    for pump, dosing in context.config.dosing.items():
        if dosing.treatment is not None and dosing.treat_s is None:
            lead = f"is missing: with a look {dosing.treatment} is switched on after trial.prepare, not before it"
            remedy = f'say how long it is on before {pump} doses, such as "2 min", or "0 s" if it takes none'
            context.add(("dosing", pump, "treat"), Flaw(lead, remedy=remedy))


# what may not share a line, a register or a coil -------------------------------------------------------------------


def _lines(context: CheckContext, spec: RigSpec) -> None:
    """Check that every line is named in one way, and every place on it serves one device only."""
    by_line: dict[str, list[DeviceSpec]] = defaultdict(list)
    for device in spec.devices.values():
        by_line[line_of(device.url)].append(device)
    for first, *others in by_line.values():
        for device in others:
            if device.url != first.url:
                must = "must be one URL and one protocol, for two who open one wire read each other's answers"
                context.add(_bus(device), Flaw(f", the same line as {first.url} of {first.name}", must, got=device.url))
        _, place = taken_apart(first.url)
        if _NUMBERED.fullmatch(place):
            what = f"{place} may be another instrument after the next plugging in; use /dev/serial/by-id/..."
            context.findings.warn(_bus(first), what)
        claims = [(device, _claims(device, context.registry)) for device in (first, *others)]
        for device, own in claims:
            written = Counter(claim.place for claim in own if claim.use == "writes")
            for place in (place for place, times in written.items() if times > 1):
                lead = f"writes {place} for more than one purpose, one over the other"
                context.add(("devices", device.name), Flaw(lead, remedy="give each a place of its own"))
        for (one, held), (other, wanted) in combinations(claims, 2):
            if one.url == other.url:  # else told already
                _at_odds(context, one, held, other, wanted)


def _bus(device: DeviceSpec) -> KeyPath:
    return ("devices", device.name, "bus")


def _claims(device: DeviceSpec, registry: Registry) -> Sequence[ClaimedPlace]:
    """Return what a device uses: a byte line as a whole, unless its driver knows better."""
    claims = device.options.occupies()
    if claims is not None:
        return claims
    made = built(device, registry)
    return (_WHOLE_LINE,) if made is not None and isinstance(made[0], ByteLine) else ()


def _at_odds(
    context: CheckContext,
    first: DeviceSpec,
    held: Sequence[ClaimedPlace],
    second: DeviceSpec,
    wanted: Sequence[ClaimedPlace],
) -> None:
    """Report the first thing that two devices on one line cannot both have, or should know of."""
    if _WHOLE_LINE in held or _WHOLE_LINE in wanted:
        flaw = Flaw(", which cannot be shared", remedy="give each a port of its own", got=f"the line of {first.name}")
        context.add(_bus(second), flaw)
        return
    places = {claim.place: claim for claim in held}
    for claim in wanted:
        other = places.get(claim.place)
        if other is not None and _conflict(context, first.name, other, second.name, claim):
            return


def _conflict(context: CheckContext, first: str, held: ClaimedPlace, second: str, wanted: ClaimedPlace) -> bool:
    """Report what two claims to one place mean; tell whether there was anything to report."""
    path: KeyPath = ("devices", second)
    uses = {held.use, wanted.use}
    if uses == {"shares"} and held.span == wanted.span:
        return False
    if "keeps" in uses or uses == {"writes"}:
        what = "writes" if uses == {"writes"} else "is"
        context.add(path, Flaw(f"{what} {wanted.place}, as {first} does", remedy="each needs a place of its own"))
    elif held.span != wanted.span:
        lead = f"{wanted.use} {wanted.place} as part of {wanted.span}, which {first} {held.use} as part of {held.span}"
        context.add(path, Flaw(lead, remedy="words may not overlap: one of the addresses or types is wrong"))
    elif uses == {"reads"}:
        context.findings.warn(path, f"reads {wanted.place}, as {first} does: both show the same quantity")
    else:
        reader, writer = (first, second) if held.use == "reads" else (second, first)
        context.findings.warn(
            path, f"{wanted.use} {wanted.place}: {reader} reads what {writer} was sent, which is no measurement"
        )
    return True


# what budget and pumps allow --------------------------------------------------------------------------------------


_COUNTED: Final = (
    *("budget", "variables", "control_sets", "trial", "meters"),
    *("devices", "dosing", "safety", "known_costs"),
)
"""Sections that a trial's cost depends on."""


def check_budget(context: CheckContext, spec: RigSpec, problem: Problem) -> None:
    """Find a budget that buys no trial, or fewer than there are control sets."""
    if any(context.findings.told_below((section,)) for section in _COUNTED):
        return
    told = forecast(spec, problem, context.config.max_trials)
    path, budget = ("budget",), context.findings.given(("budget",))
    total = budget["total"] if isinstance(budget, Mapping) else budget
    must = f"must be at least {_up(told.least)} {context.config.currency}, the least that one trial costs"
    if told.least > told.budget:
        because = f": a trial takes at least {lasting(told.least_s)}" if told.least_s else ""
        context.add(path, got(total, f"{must}{because}", "raise it"))
        return
    if problem.cost_ceiling is not None and told.least > problem.cost_ceiling:
        context.add(("budget", "max_per_trial"), got(problem.cost_ceiling, must, "raise it"))
        return
    trials, sets = told.buys(told.likely), len(problem.space.control_sets)
    if trials is not None and trials < sets and context.config.max_trials is None:
        enough = f"{_up(sets * (told.likely or 0.0))} {context.config.currency}"
        lead = f", which likely buys {trials} of the {sets} trials that play every control set once"
        must, remedy = f"must be about {enough} for them", "raise it, or list fewer control sets"
        context.findings.warn(path, got(total, must, remedy, lead=lead))


def _up(amount: float) -> str:
    """Write an amount that is no less."""
    return f"{in_full(math.ceil(amount * 1e3 - 1e-6) / 1e3)}"


def _max_doses(context: CheckContext, spec: RigSpec, variable: Variable) -> None:
    """Find setpoints that a pump does not reach in so many doses of such a size."""
    for pump in spec.wiring_of(variable.name).actuators:
        parts: list[KeyPath] = [
            ("dosing", pump),
            *(("safety", "limits", p) for p in (pump, *spec.partners.get(pump, ()))),
        ]
        most_ml = largest_dose_ml(spec, pump)
        if pump in spec.dosing and most_ml and not any(map(context.findings.told_below, parts)):
            _check_pump(context, spec, variable, pump, most_ml)


def _check_pump(context: CheckContext, spec: RigSpec, variable: Variable, pump: str, most_ml: float) -> None:
    dosing, path = spec.dosing[pump], ("dosing", pump, "max_doses")
    reach = dosing.max_doses * most_ml * abs(dosing.effect_per_ml) + dosing.tolerance
    nearest, furthest, end = _ways(variable, dosing)
    if furthest <= reach:
        return
    needed = math.ceil((furthest - dosing.tolerance) / (most_ml * abs(dosing.effect_per_ml)))
    from_where = "from where its treatment leaves it" if dosing.treatment is not None else "from all natural values"
    moved = f", which move {variable.name} by {in_full(reach - dosing.tolerance, 3)} {variable.unit}"
    must = f"must be {needed} to reach the setpoint {in_full(end)} {from_where}"
    remedy = f"or raise safety.limits.{pump}.per_dose to {_volume(furthest, dosing, most_ml)}, or narrow the range"
    find = context.findings.add if nearest > reach and dosing.treatment is None else context.findings.warn
    find(path, Flaw(moved, must, remedy, got=f"{dosing.max_doses} doses of at most {in_full(most_ml)} mL"))


def _ways(variable: Variable, dosing: DosingSpec) -> tuple[float, float, float]:
    """Return the shortest and the longest way to the furthest setpoint, and this, in the variable's unit.

    A pump goes its own way only: what lies on the other side is another pump's, or refused.
    """
    raises = dosing.effect_per_ml > 0
    end = variable.high if raises else variable.low
    if dosing.treatment is not None:
        return variable.high - variable.low, variable.high - variable.low, end
    nearest, furthest = sorted(max(end - at if raises else at - end, 0.0) for at in _natural_ends(variable))
    return nearest, furthest, end


def _volume(furthest: float, dosing: DosingSpec, most_ml: float) -> str:
    needed = (furthest - dosing.tolerance) / abs(dosing.effect_per_ml) / dosing.max_doses
    return f"{in_full(math.ceil(10 * max(needed, most_ml)) / 10)} mL"


# all of them -----------------------------------------------------------------------------------------------------


_OF_RIGS: Final = (
    *(_roles, _assess, _lines, _meters, _clock),
    *(_hearts, _stay_on, _setpoints, _doses, _treatments),
)
_OF_VARIABLES: Final = (_reach, _max_doses, _volumes, _coarse)


def inspect_rig(context: CheckContext, spec: RigSpec, problem: Problem | None) -> None:
    """Find all that speaks against running this rig, and what a person should know before."""
    for check in _OF_RIGS:
        check(context, spec)
    if problem is not None:
        check_caps(context, spec, problem)
        for variable in problem.space.variables:
            for check_one in _OF_VARIABLES:
                check_one(context, spec, variable)
