"""`rigctl check`: what is wired to what, what holds trials back, what the budget buys, and what may be doubted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign.safe_file import NoDoses
from rigctl.config.forecast import Forecast, forecast
from rigctl.config.load import LoadedConfig
from rigctl.console import output
from rigctl.console.options import require_devices, require_linux
from rigctl.console.output import ShownColumn, table
from rigctl.core.experiment.money import to_units
from rigctl.errors import ConfigError, RigctlError, counted
from rigctl.flaws import Flaw
from rigctl.notify.services import parsed
from rigctl.rig.clocks import RealClock
from rigctl.rig.dead_man import unguarded, unguarded_told
from rigctl.rig.limits import DAY_S, CapSpec
from rigctl.rig.protocols import Reading
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig
from rigctl.rig.slewing import Slew, ramp
from rigctl.rig.spec import LAST, MISSES, CareSpec, MeterSpec, OutcomeSpec, RigSpec, TrialTiming, VariableWiring
from rigctl.rig.values import News, SafeTimes
from rigctl.telling import NotifySpec, Secret
from rigctl.text import in_full, joined, lasting, percent, settings, shown_unit

if TYPE_CHECKING:
    from rich.console import Console


COARSE: Final = 0.05
"""Of what a trial uses: a counter with larger steps does not tell its cost."""
LIKELY_TOTAL_KWH: Final = 1e5
"""What an energy meter may have counted when nobody has asked it."""
SLOW_S: Final = 2.0
"""Telling everything to go safe should take no longer than this, wall seconds."""


# what holds it back ---------------------------------------------------------------------------------------------------


def held_back(told: Forecast, loaded: LoadedConfig) -> Iterator[str]:
    """Say what holds the rig back, and when, one sentence each."""
    rig = loaded.rig
    alone = unguarded_told(unguarded(rig), rig) if loaded.wired else ""
    if alone:
        yield alone
    yield from (
        f"Only what keeps {f.label} with a probability of {percent(f.probability)} or more is recommended."
        for f in loaded.problem.further
        if f.limited
    )
    yield from _follows(rig)
    yield from _caps(rig, told)
    if rig.late is not None:
        yield from _late(rig.late, rig.late_names)
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
            mean = in_full(float(meter.mean_price), 4)
            yield f"The price of {meter.name} goes by the hour: {rates}; on average {mean}."


def _follows(rig: RigSpec) -> Iterator[str]:
    """Say how far each controlled variable may be from its setpoint, and which are not compared with theirs."""
    moved = [v for v in rig.variables if v.actuator]
    spans = [(v.name, v.follows) for v in moved if v.follows is not None]
    if spans:
        said = [f"{n} {f'{f.least:.3g} to ' * (f.least < f.most)}{f.most:.3g} {f.unit}".rstrip() for n, f in spans]
        yield f"A controlled variable must be measured within this distance of its setpoint: {', '.join(said)}."
        yield f"After {MISSES} misses in its last {LAST} trials no trial controls it until you have looked at it."
    blind = [v.name for v in moved if v.follows is None]
    if blind:
        yield f"No sensor of its own tells whether {' or '.join(blind)} follows its setpoint."


def _late(late: OutcomeSpec, outcomes: Sequence[str]) -> Iterator[str]:
    names, within = joined(outcomes), lasting(late.until_s)
    if late.by == "hand":
        yield f"Within {within} of a trial a person says {names}: `rigctl trial outcome TRIAL VALUE`; else it has none."
    else:
        yield f"{names} is read {lasting(late.due_s)} after a trial, and tried again until {within} after it."
    meanwhile = (
        "The next trial waits for it" if late.then == "hold" else f"Up to {counted(late.pending, 'trial')} may await it"
    )
    ends = "waits for what is awaited, then ends" if late.at_end == "wait" else "ends while some are awaited"
    yield f"{meanwhile}; a campaign that is over {ends}."


def _slew(name: str, slew: Slew, span: float) -> str:
    way = ramp(0.0, span, slew)
    takes = f", {lasting(slew.longest_s(span))}" if slew.longest_s(span) > 0 else ""
    return f"{name} moves in steps: at most {counted(len(way), 'step')}{takes} from end to end."


def _caps(rig: RigSpec, told: Forecast) -> Iterator[str]:
    """Tell of caps, but not of one of 24 hours alone where the time allows no more trials anyway."""
    for cap in rig.caps:
        found = told.capped.get(cap.name)
        ample = found is None or found.per_day * told.likely_s > DAY_S
        if not ample or [span.key for span in cap.most_ml] != ["per_day"]:
            yield _cap(cap, told)


def _cap(cap: CapSpec, told: Forecast) -> str:
    most = joined([f"{in_full(ml)} mL in {span.words}" for span, ml in cap.most_ml.items()])
    whose = cap.name if cap.pumps == (cap.name,) else f"{cap.name} ({', '.join(cap.pumps)})"
    found = told.capped.get(cap.name)
    if found is None:
        return f"{whose} gives at most {most}."
    daily = "" if math.isinf(found.per_day) else f"about {counted(math.floor(found.per_day), 'trial')} a day"
    in_all = "" if found.in_all is None else f"about {counted(found.in_all, 'trial')} in all"
    allows = joined([words for words in (daily, in_all) if words])
    return f"{whose} gives at most {most}{f': that allows {allows}' if allows else ''}."


# the plan -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WiredTo:
    """Says what serves a variable, an outcome or a meter; empty where nothing does."""

    name: str
    unit: str
    sensor: str
    sensor_bus: str
    actuator: str = ""
    actuator_bus: str = ""
    reading: str | None = None
    """None: it was not asked."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Holds what a configuration amounts to."""

    wires: tuple[WiredTo, ...]
    meters: tuple[WiredTo, ...]
    forecast: Forecast


def plan(loaded: LoadedConfig, readings: Mapping[str, Reading] | None = None) -> Plan:
    """Return the plan of a configuration; `readings` are by variable, outcome and meter, if they were asked."""
    rig, problem = loaded.rig, loaded.problem
    buses = _bus_names(loaded)

    def bus(device: str | None) -> str:
        spec = rig.devices.get(device or "")
        return "" if spec is None else buses.get(spec.url, spec.url)

    def both(devices: Sequence[str]) -> str:
        return " / ".join(dict.fromkeys(map(bus, devices)))

    def read(name: str) -> str | None:
        return None if readings is None else _said(readings.get(name))

    def moved_by(v: VariableWiring) -> str:
        return " / ".join(" + ".join((name, *rig.partners.get(name, ()))) for name in v.actuators)

    units = {v.name: v.unit for v in problem.space.variables}
    wires = [
        WiredTo(v.name, units[v.name], v.sensor, bus(v.sensor), moved_by(v), both(v.actuators), read(v.name))
        for v in rig.variables
    ]
    wires += [WiredTo(o.name, o.unit, o.sensor or "", bus(o.sensor), reading=read(o.name)) for o in rig.outcomes]
    meters = [WiredTo(m.name, m.kind, m.device or "", bus(m.device), reading=read(m.name)) for m in rig.meters]
    return Plan(tuple(wires), tuple(meters), forecast(rig, problem, loaded.max_trials))


def _bus_names(loaded: LoadedConfig) -> Mapping[str, str]:
    named = loaded.document.data.get("buses")
    return {url: name for name, url in named.items()} if isinstance(named, Mapping) else {}


def _said(reading: Reading | None) -> str:
    if reading is None:
        return ""
    return f"{in_full(reading.value)} {reading.unit}" if reading.valid else f"INVALID: {reading.detail}"


def lines(found: Plan, loaded: LoadedConfig, width: int) -> Sequence[str]:
    """Write the plan in lines of `width` columns; a name is never cut, so a line with long ones may be longer."""
    out: list[str] = []
    if loaded.wired:
        out += _table(("variable", "unit", "sensor", "bus", "actuator", "bus", "reads"), found.wires, width)
        out += ["", *_table(("meter", "kind", "device", "bus", "actuator", "bus", "reads"), found.meters, width), ""]
    return [*out, *_sentences(found.forecast, loaded), *held_back(found.forecast, loaded)]


def _table(heads: Sequence[str], wires: Sequence[WiredTo], width: int) -> Iterator[str]:
    rows = [(w.name, w.unit, w.sensor, w.sensor_bus, w.actuator, w.actuator_bus, w.reading or "") for w in wires]
    columns = zip(heads, zip(*rows, strict=True), strict=True)
    return table([ShownColumn(head, cells, left=True) for head, cells in columns if any(cells)], width)


def _sentences(told: Forecast, loaded: LoadedConfig) -> list[str]:
    out = [] if not told.least_s else [_duration(told, loaded), *_looking(loaded)]
    out += [*_worth(loaded), *_referring(loaded), *_stopping(loaded)]
    if not told.meters:
        unknown = "The cost of a trial is not known yet; give known_costs if you know it."
        return [*out, unknown, *_limited(told, loaded)]
    out.append(_cost(told, loaded.currency))
    bought = _bought(told, loaded)
    return [*out, *([bought] if bought else []), *_limited(told, loaded)]


def _limited(told: Forecast, loaded: LoadedConfig) -> list[str]:
    """Say what one trial may cost; ask for that where nothing else says what the first ones cost."""
    ceiling, currency = loaded.problem.cost_ceiling, loaded.currency
    if ceiling is not None:
        stopped = "; a trial that costs more is broken off" if loaded.wired else ""
        return [f"A trial may cost {in_full(ceiling, 6)} {currency} at most{stopped}."]
    ask = (
        f"Limit what one trial may cost: `budget: {{total: {in_full(told.budget, 6)} {currency}, max_per_trial: ...}}`."
    )
    return [] if told.meters and not told.unknown else [ask]


def _duration(told: Forecast, loaded: LoadedConfig) -> str:
    timing = loaded.rig.timing
    looks = timing.look_s
    begins = [("prepare", timing.prepare_s), ("look", looks), ("settle", timing.settle_s)]
    parts = [*begins, ("measure", told.least_s - sum(s for _, s in begins))]
    of = ", ".join(f"{name} {lasting(s)}" for name, s in parts if s)
    likely = f", likely {lasting(told.likely_s)} with its doses" if told.likely_s > told.least_s else ""
    return f"A trial takes at least {lasting(told.least_s)} ({of}){likely}."


def _looking(loaded: LoadedConfig) -> list[str]:
    look = loaded.rig.timing.look
    if look is None:
        return []
    first = "The rig is prepared and its variables are read before each decision"
    return [f"{first}; after a restart a decision goes on for {lasting(look.counts_for_s)} at most."]


def _worth(loaded: LoadedConfig) -> list[str]:
    """Say what was understood of the outcome's worth; at a bench by hand people may look without being told to."""
    if loaded.worth is None or (loaded.wired and loaded.rig.timing.look is None):
        return []
    one = shown_unit(loaded.outcome_unit) or "unit of outcome"
    worth = f"{in_full(loaded.worth, 4)} {loaded.currency}"
    return [f"`recommend` says in money what looking earns: one {one} is worth {worth}."]


def _stopping(loaded: LoadedConfig) -> list[str]:
    """Say what ends the campaign early."""
    worth = loaded.problem.stop_worth
    if worth is None:
        return []
    one = shown_unit(loaded.outcome_unit) or "unit of outcome"
    better = f"one {one} better is worth {in_full(worth, 4)} {loaded.currency}"
    return [f"The campaign ends early once no trial is expected to be worth its cost: {better}."]


def _referring(loaded: LoadedConfig) -> list[str]:
    """Say which trials play the reference, and what."""
    reference, space = loaded.problem.reference, loaded.problem.space
    if reference is None:
        return []
    when = f"Trials {reference.every}, {2 * reference.every} and so on play"
    if reference.control_set is None:
        return [f"{when} what would be recommended at the first of them, again and again."]
    at = settings(space.setpoints(reference.control_set, reference.setting), space.units)
    return [f"{when} the reference: {at}."]


def _cost(told: Forecast, currency: str) -> str:
    if told.likely == told.least and not told.unknown:
        return f"A trial costs {in_full(told.least, 3)} {currency}."
    least = f"A trial costs at least {in_full(told.least, 3)} {currency}"
    if told.likely is None:
        return f"{least}; what {joined(told.unknown)} will charge is not known before the first trials."
    besides = ""
    if told.unknown:
        besides = f", plus what {joined(told.unknown)} will charge (an energy meter's `rated` tells it)"
    likely = "" if told.likely == told.least else f", likely {in_full(told.likely, 3)} {currency}"
    return f"{least}{likely}{besides}."


def _bought(told: Forecast, loaded: LoadedConfig) -> str:
    most, likely = told.buys(told.least), told.buys(told.likely)
    if likely is None:
        return ""
    budget = f"{in_full(told.budget, 6)} {loaded.currency}"
    at_most = f" (at most {most})" if most is not None and most != likely else ""
    before = f", not counting {joined(told.unknown)}" if told.unknown else ""
    bought = f"{budget} buys about {counted(likely, 'trial')}{before}{at_most}"
    if told.days is None:
        return f"{bought}."
    wall = ""
    if loaded.rig.speedup != 1:
        wall = f" of rig time, {lasting(told.days * 86400 / loaded.rig.speedup)} at this speed"
    return f"{bought}; running these trials takes {lasting(told.days * 86400)}{wall}."


def plan_json(found: Plan, loaded: LoadedConfig) -> Mapping[str, Any]:
    told = found.forecast
    return {
        "wiring": found.wires,
        "metering": [{"name": m.name, "kind": m.unit, "device": m.sensor, "bus": m.sensor_bus} for m in found.meters],
        "trial": {"least_s": told.least_s, "likely_s": told.likely_s},
        "cost": {
            "currency": loaded.currency,
            "least": told.least,
            "max_per_trial": loaded.problem.cost_ceiling,
            "likely": told.likely,
            "unknown": told.unknown,
            "meters": told.meters,
        },
        "stop": {"worth": loaded.problem.stop_worth},
        "buys": {
            "trials_at_most": told.buys(told.least),
            "trials_likely": told.buys(told.likely),
            "days": told.days,
        },
        "caps": told.capped,
    }


# who hears of a campaign ----------------------------------------------------------------------------------------------


def tells(loaded: LoadedConfig) -> Mapping[str, Any] | None:
    """Return who is told what, for programs; None where nobody is to be told."""
    telling = loaded.telling
    if not telling:
        return None
    found: dict[str, Any] = {}
    if telling.notify is not None:
        found["notify"] = _notify(telling.notify)
    if telling.metrics is not None:
        found["metrics"] = {
            "textfile": telling.metrics.textfile,
            "port": telling.metrics.port,
            "installed": find_spec("prometheus_client") is not None,
        }
    return found


def _notify(spec: NotifySpec) -> Mapping[str, Any]:
    answer: dict[str, Any] = {"installed": find_spec("apprise") is not None}
    answer |= {"at_least": spec.at_least, "daily": spec.daily, "zone": spec.zone}
    if spec.urls is not None:
        try:
            found = parsed(spec.urls.lines())
            names = [service.name for service in found.services]
            answer["urls"] = {"in": str(spec.urls), "services": names, "not_understood": list(found.refused)}
        except RigctlError as error:
            answer["urls"] = {"in": str(spec.urls), "services": [], "trouble": str(error)}
    if spec.alive is not None:
        answer["alive"] = {
            "in": str(spec.alive.url),
            "every_s": spec.alive.every_s,
            "trouble": _trouble(spec.alive.url),
        }
    return answer


def _trouble(secret: Secret) -> str | None:
    try:
        secret.lines()
    except RigctlError as error:
        return str(error)
    return None


def _receivers(notify: Mapping[str, Any], *, troubles: bool) -> str:
    """Return who gets messages, from which severity on, and what is wrong with their URLs."""
    urls = notify["urls"]
    names = ", ".join(urls["services"]) or "nobody"
    refused = ", ".join(map(str, urls.get("not_understood", ())))
    wrong = f"; URL {refused} of it not understood" if refused else ""
    why = f": {urls['trouble']}" if troubles and "trouble" in urls else ""
    daily = f", and every day at {notify['daily']}" if notify["daily"] else ""
    return f"tells {names} ({urls['in']}) from {notify['at_least']} on{daily}{wrong}{why}"


def who_is_told(found: Mapping[str, Any] | None, *, troubles: bool = True) -> Iterator[str]:
    """Yield for people who is told what, and what is wrong with that unless it is told elsewhere."""
    notify, metrics = (found or {}).get("notify"), (found or {}).get("metrics")
    if notify is not None and not notify["installed"]:
        yield "tells nobody: apprise is not installed; pip install 'rigctl[notify]'"
    elif notify is not None and "urls" in notify:
        yield _receivers(notify, troubles=troubles)
    if notify is not None and "alive" in notify:
        alive = notify["alive"]
        why = f": {alive['trouble']}" if troubles and alive["trouble"] else ""
        yield f"gives a sign of life every {alive['every_s'] / 60:g} min ({alive['in']}){why}"
    if metrics is not None:
        places = [metrics["textfile"], metrics["port"] and f"http://127.0.0.1:{metrics['port']}/metrics"]
        missing = "" if metrics["installed"] else ": prometheus-client is not installed; pip install 'rigctl[notify]'"
        yield f"metrics: {' and '.join(filter(None, places))}{missing}"


# the check ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """Holds what was found; nothing of it speaks against running the rig."""

    loaded: LoadedConfig
    times: SafeTimes
    warnings: tuple[str, ...]
    plan: Plan
    answers: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    """By device, if they were asked: whether all is well, and what it said."""

    @property
    def silent(self) -> bool:
        """Tell whether a device did not answer as it should."""
        return not all(well for well, _ in self.answers.values())


def checked(loaded: LoadedConfig, *, probe: bool = False) -> Checked:
    """Look at a configuration that was loaded to be run, and with `probe` ask its devices; nothing is written.

    Raises:
        ConfigError: everything cannot be told to go safe within `safety.safe_within`.
        UsageError: there are no devices to ask.
    """
    if probe:
        require_devices(loaded)
        require_linux(str(loaded.path))
    if not loaded.wired:
        return Checked(loaded, SafeTimes(0.0, 0.0), loaded.warnings, plan(loaded))
    rig = Rig(loaded.rig, Registry.installed(), RealClock(loaded.rig.speedup), NoDoses(), News())
    times = rig.time_to_safe()
    slow = _slow(loaded, times)
    asked = asyncio.run(_asked(rig)) if probe else None
    totals, answers = ({}, {}) if asked is None else (asked.totals, asked.answers)
    readings = None if asked is None else {**asked.readings, **asked.totals}
    warnings = (*loaded.warnings, *slow, *_coarse(loaded, totals), *_doubted(loaded, readings or {}))
    return Checked(loaded, times, warnings, plan(loaded, readings), answers)


def _slow(loaded: LoadedConfig, times: SafeTimes) -> tuple[str, ...]:
    most_s, path, document = loaded.rig.safe_within_s, ("safety", "safe_within"), loaded.document
    slowest = max(times.by_bus, key=lambda url: times.by_bus[url][0], default="")
    takes = f"{times.told_s:.2f} s until everything on {slowest} has been told to go safe"
    remedy = "a faster line, fewer actuators on it, or devices with shorter timeouts"
    if most_s is not None and times.told_s > most_s:
        flaw = Flaw(f", but it may take {takes}", remedy=f"give {remedy}, or more time", got=f"{most_s:g} s")
        raise ConfigError([document.mistake(path, flaw)])
    flaw = Flaw(f"it may take {takes}, should be at most {SLOW_S:g} s: {remedy}")
    return (str(document.mistake(path, flaw)),) if times.told_s > SLOW_S else ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """Holds what the devices said, and what was read of them as a trial would read it."""

    answers: Mapping[str, tuple[bool, str]]
    readings: Mapping[str, Reading]
    """By variable and outcome."""
    totals: Mapping[str, Reading]
    """By meter."""


async def _asked(rig: Rig) -> _Asked:
    try:
        return _Asked(await rig.probe(), await rig.snapshot(), await rig.meters())
    finally:
        await rig.close()


def _doubted(loaded: LoadedConfig, readings: Mapping[str, Reading]) -> Iterator[str]:
    """Warn of variables that are now where the file says they never are."""
    for variable in loaded.problem.space.variables:
        reading = readings.get(variable.name)
        if reading is not None and not reading.valid:
            flaw = Flaw(f"no trial could use its reading now: {reading.detail}")
            yield str(loaded.document.mistake(("variables", variable.name), flaw))


def _coarse(loaded: LoadedConfig, totals: Mapping[str, Reading]) -> Iterator[str]:
    """Warn of counters that cannot tell what a trial uses, where they stand now, else where they may stand."""
    spec = loaded.rig
    for i, meter in enumerate(spec.meters):
        device = spec.devices.get(meter.device or "")
        if device is None:
            continue
        asked = totals.get(meter.name)
        known = asked is not None and asked.valid
        total = asked.value if asked is not None and known else LIKELY_TOTAL_KWH * (meter.kind == "energy")
        why = _too_coarse(meter, device.options.grain_at(total), total, spec.timing)
        guessed = "" if known else ", as it may have counted by now; --probe asks it"
        if why:
            yield str(loaded.document.mistake(("meters", i), Flaw(f"{why}{guessed}")))


def _too_coarse(meter: MeterSpec, step: float, total: float, timing: TrialTiming) -> str:
    hours = timing.takes_s / 3600
    most = [meter.max_per_trial, None if meter.rated_per_h is None else meter.rated_per_h * hours]
    used = min((m for m in most if m is not None), default=math.inf)
    unit = "kWh" if meter.kind == "energy" else "mL"
    if step <= COARSE * used:
        return ""
    steps = f"{meter.device} counts in steps of {step:.2g} {unit} at {in_full(total)} {unit}"
    return f"{steps}: too coarse for a trial of at most {used:.2g} {unit}"


def to_json(found: Checked, *, probed: bool) -> Mapping[str, Any]:
    loaded, times = found.loaded, found.times
    space, rig = loaded.problem.space, loaded.rig
    return {
        "rig": loaded.name,
        "budget": to_units(loaded.problem.budget),
        "currency": loaded.currency,
        "policy": {"name": loaded.policy_name, **loaded.policy_options},
        "variables": {v.name: {"unit": v.unit, "low": v.low, "high": v.high} for v in space.variables},
        "control_sets": [c.names for c in space.control_sets],
        "outcome": {"name": rig.outcome_name, "unit": loaded.outcome_unit, "maximise": loaded.problem.maximise},
        "further_outcomes": [{"name": f.name, "unit": f.unit, "maximise": f.maximise} for f in loaded.problem.further],
        "devices": {name: {"driver": d.driver, "url": d.url} for name, d in rig.devices.items()},
        "meters": [m.name for m in rig.meters],
        **plan_json(found.plan, loaded),
        "interlocks": {i.name: {"when": str(i.when), "for_s": i.for_s, "then": i.then} for i in rig.watch.interlocks},
        "safe": {
            "told_s": times.told_s,
            "confirmed_s": times.confirmed_s,
            "buses": {url: {"told_s": t, "confirmed_s": c} for url, (t, c) in times.by_bus.items()},
        },
        "follows": {v.name: v.follows for v in rig.variables if v.actuator},
        "starts": rig.starts,
        "care": rig.care,
        "tells": tells(loaded),
        "warnings": found.warnings,
        "probe": {name: said for name, (_, said) in found.answers.items()} if probed else None,
    }


def counted_of(care: CareSpec) -> str:
    """Say what of a device is counted, and how often it is calibrated."""
    bottle, tubing, every_s, slope = care.inventory, care.tubing, care.calibration.every_s, care.calibration.slope
    warned = "" if bottle is None else f"warned of at {counted(bottle.warn_at, 'dose')}"
    said = [
        "" if bottle is None else f"a bottle of {in_full(bottle.volume_ml)} mL, {warned}",
        "" if tubing is None else f"tubing for {tubing.replace_after_ml / 1000:g} L",
        "" if every_s is None else f"calibrated every {lasting(every_s)}",
        "" if slope == CareSpec().calibration.slope else f"slopes of {in_full(slope[0])} to {in_full(slope[1])} %",
    ]
    return "; ".join(filter(None, said))


def show(found: Checked, console: Console) -> None:
    """Print what a check found, each line broken at spaces where the terminal is narrower."""
    for text, style in _shown(found, console.width):
        output.lines(console, output.wrapped(text, console.width), style)


def _shown(found: Checked, width: int) -> Iterator[tuple[str, str]]:
    """Yield each line and its style."""
    loaded, times = found.loaded, found.times
    space, rig = loaded.problem.space, loaded.rig
    urls = len({d.url for d in rig.devices.values()})
    buses = f"{counted(len(rig.devices), 'device')} on {urls} {'bus' if urls == 1 else 'buses'}"
    wired = f"{buses}, {counted(len(rig.meters), 'meter')}" if rig.devices else "trials by hand"
    included = joined(sorted({*loaded.document.files.values()} - {str(loaded.path)}))
    yield (
        (
            f"{loaded.path}{included and f', with {included},'} is valid: {counted(space.dimension, 'variable')}, "
            f"{counted(len(space.control_sets), 'control set')}, {wired}, policy {loaded.policy_name}"
        ),
        "",
    )
    yield from ((line, "") for line in lines(found.plan, loaded, width))
    if times.by_bus:
        sent, confirmed = f"{times.told_s:.2f} s", f"{times.confirmed_s:.2f} s"
        yield f"safe: stop commands sent within {sent}, confirmed by read-back within {confirmed}", ""
        for url, (told_s, confirmed_s) in times.by_bus.items():
            yield f"  {told_s:6.2f} s {confirmed_s:6.2f} s  {url}", ""
    if rig.starts is not None and times.by_bus:
        most, good = counted(rig.starts.at_most, "start"), lasting(rig.starts.good_after_s)
        yield f"If {most} in a row fail within {good}, rigctl waits for you.", ""
    for interlock in rig.watch.interlocks:
        held = f" for {interlock.for_s:g} s" if interlock.for_s else ""
        yield f"interlock {interlock.name}: {interlock.when}{held}: {interlock.then}", ""
    yield from ((f"{name}: {counted_of(care)}", "") for name, care in rig.care.items())
    yield from ((line, "") for line in who_is_told(tells(loaded), troubles=False))
    yield from ((f"warning: {text}", "yellow") for text in found.warnings)
    for name, (well, said) in found.answers.items():
        yield f"  {name:16} {said.removeprefix(f'{name}: ')}", "" if well else "bold red"
