"""`rigctl check`: what a configuration says, how fast its rig is safe, and what devices answer if they are asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign.clock import RealClock
from rigctl.campaign.instruments import days
from rigctl.campaign.safe_file import NoDoses
from rigctl.config.load import LoadedConfig
from rigctl.console import plan as planned
from rigctl.console import telling
from rigctl.console.assemble import require_devices
from rigctl.console.output import duration
from rigctl.console.plan import Plan, plan
from rigctl.core.money import to_units
from rigctl.errors import ConfigError, counted
from rigctl.rig.abilities import Grained
from rigctl.rig.metering import trial_s
from rigctl.rig.protocols import Reading
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig
from rigctl.rig.spec import CareSpec, MeterSpec, TrialTiming
from rigctl.rig.values import SafeTimes

if TYPE_CHECKING:
    from rich.console import Console

COARSE: Final = 0.05
"""Of what a trial uses: a counter with larger steps does not tell its cost."""
LIKELY_TOTAL_KWH: Final = 1e5
"""What an energy meter may have counted when nobody has asked it."""
SLOW_S: Final = 2.0
"""Telling everything to go safe should take no longer than this, wall seconds."""


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
    if not loaded.wired:
        return Checked(loaded, SafeTimes(0.0, 0.0), loaded.warnings, plan(loaded))
    rig = Rig(loaded.rig, Registry.installed(), RealClock(loaded.rig.speedup), NoDoses(), lambda _: None)
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
        what = f"got {most_s:g} s, but it may take {takes}; give {remedy}, or more time"
        raise ConfigError([document.mistake(path, what)])
    what = f"it may take {takes}, should be at most {SLOW_S:g} s: {remedy}"
    return (str(document.mistake(path, what)),) if times.told_s > SLOW_S else ()


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


def _doubted(loaded: LoadedConfig, readings: Mapping[str, Reading]) -> tuple[str, ...]:
    """Warn of variables that are now where the file says they never are."""
    found = []
    for variable in loaded.problem.space.variables:
        reading = readings.get(variable.name)
        if reading is not None and not reading.valid:
            found.append(f"now reads {reading.detail}: no trial could use that")
            found[-1] = str(loaded.document.mistake(("variables", variable.name), found[-1]))
    return tuple(found)


def _coarse(loaded: LoadedConfig, totals: Mapping[str, Reading]) -> tuple[str, ...]:
    """Warn of counters that cannot tell what a trial uses, where they stand now, else where they may stand."""
    registry, spec = Registry.installed(), loaded.rig
    found: list[str] = []
    for i, meter in enumerate(spec.meters):
        device = spec.devices.get(meter.device or "")
        driver = None if device is None else registry.driver(device.driver)
        if device is None or not isinstance(driver, Grained):
            continue
        asked = totals.get(meter.name)
        known = asked is not None and asked.valid
        total = asked.value if asked is not None and known else LIKELY_TOTAL_KWH * (meter.kind == "energy")
        why = _too_coarse(meter, driver.grain(device.options, total), total, spec.timing)
        guessed = "" if known else ", as it may have counted by now; --probe asks it"
        found += [str(loaded.document.mistake(("meters", i), f"{why}{guessed}"))] if why else []
    return tuple(found)


def _too_coarse(meter: MeterSpec, step: float, total: float, timing: TrialTiming) -> str:
    hours = trial_s(timing) / 3600
    most = [meter.max_per_trial, None if meter.rated_per_h is None else meter.rated_per_h * hours]
    used = min((m for m in most if m is not None), default=math.inf)
    unit = "kWh" if meter.kind == "energy" else "mL"
    if step <= COARSE * used:
        return ""
    steps = f"{meter.device} counts in steps of {step:.2g} {unit} at {total:g} {unit}"
    return f"{steps}: too coarse for a trial of at most {used:.2g} {unit}"


# telling ----------------------------------------------------------------------------------------------------------


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
        **planned.to_json(found.plan, loaded),
        "interlocks": {i.name: {"when": str(i.when), "for_s": i.for_s, "then": i.then} for i in rig.watch.interlocks},
        "safe": {
            "told_s": times.told_s,
            "confirmed_s": times.confirmed_s,
            "buses": {url: {"told_s": t, "confirmed_s": c} for url, (t, c) in times.by_bus.items()},
        },
        "follows": {v.name: v.follows for v in rig.variables if v.actuator},
        "starts": rig.starts,
        "care": rig.care,
        "tells": telling.told(loaded),
        "warnings": found.warnings,
        "probe": {name: said for name, (_, said) in found.answers.items()} if probed else None,
    }


def counted_of(care: CareSpec) -> str:
    """Say what of a device is counted, and how often it is calibrated."""
    bottle, tubing, every_s = care.bottle_ml, care.tubing_ml, care.calibrate_every_s
    said = [
        "" if bottle is None else f"a bottle of {bottle:g} mL, warned of at {counted(care.warn_doses, 'dose')}",
        "" if tubing is None else f"tubing for {tubing / 1000:g} L",
        "" if every_s is None else f"calibrated every {days(every_s)}",
        "" if care.slope == CareSpec().slope else f"slopes of {care.slope[0]:g} to {care.slope[1]:g} %",
    ]
    return "; ".join(filter(None, said))


def show(found: Checked, console: Console) -> None:
    loaded, times = found.loaded, found.times
    space, rig = loaded.problem.space, loaded.rig
    lines = len({d.url for d in rig.devices.values()})
    buses = f"{lines} {'bus' if lines == 1 else 'buses'}"
    console.print(
        f"{loaded.path} holds: {counted(space.dimension, 'variable')}, "
        f"{counted(len(space.control_sets), 'control set')}, {counted(len(rig.devices), 'device')} on {buses}, "
        f"{counted(len(rig.meters), 'meter')}, policy {loaded.policy_name}"
    )
    for line in planned.lines(found.plan, loaded, console.width):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if times.by_bus:
        console.print(f"safe: told within {times.told_s:.2f} s, confirmed within {times.confirmed_s:.2f} s")
        for url, (told_s, confirmed_s) in times.by_bus.items():
            console.print(f"  {told_s:6.2f} s {confirmed_s:6.2f} s  {url}", highlight=False, soft_wrap=True)
    if rig.starts is not None and times.by_bus:
        most, good = counted(rig.starts.at_most, "start"), duration(rig.starts.good_after_s)
        console.print(f"starts: held after {most} in a row that end badly within {good}")
    for interlock in rig.watch.interlocks:
        lasting = f" for {interlock.for_s:g} s" if interlock.for_s else ""
        console.print(f"interlock {interlock.name}: {interlock.when}{lasting}: {interlock.then}", soft_wrap=True)
    for name, care in rig.care.items():
        console.print(f"{name}: {counted_of(care)}", highlight=False, soft_wrap=True)
    for line in telling.lines(telling.told(loaded), troubles=False):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    for text in found.warnings:
        console.print(f"warning: {text}", style="yellow", soft_wrap=True, markup=False)
    for name, (well, said) in found.answers.items():
        console.print(f"  {name:16} {said}", style="none" if well else "bold red")
