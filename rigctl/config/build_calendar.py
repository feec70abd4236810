"""Second check, civil time: the zone, hours in which something is allowed, when a simulated campaign begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from rigctl.config.findings import Context
from rigctl.config.forecast import forecast
from rigctl.config.wording import lasting
from rigctl.core.experiment.problem import Problem
from rigctl.errors import KeyPath
from rigctl.plugins import did_you_mean
from rigctl.rig.calendar import Hours, hours_of_week, instant
from rigctl.rig.spec import RigSpec


def zone_of(context: Context) -> str | None:
    """Return the zone if it is one; None (and a finding, where it is given) if not."""
    given = context.config.zone
    if given is None or context.findings.told(("zone",)):
        return None
    try:
        ZoneInfo(given)
    except (ValueError, OSError, KeyError):
        from zoneinfo import available_timezones  # noqa: PLC0415  # reads hundreds of files

        near = did_you_mean(given, sorted(available_timezones()))
        context.findings.add(("zone",), f'got "{given}", must be a time zone such as Europe/Berlin{near}')
        return None
    return given


def build_hours(context: Context, path: KeyPath, texts: Sequence[str] | None) -> Hours | None:
    """Return the hours that a key allows; None where it is not given or does not hold."""
    if texts is None:
        return None
    findings = context.findings
    if context.config.zone is None and not findings.told(("zone",)):
        must = "must say where the rig stands, such as Europe/Berlin: hours of the day are those of its clocks"
        findings.add(("zone",), f"is missing, {must}")
        findings.mute(("zone",))  # told once, whoever needs it
    zone, daily = zone_of(context), []
    for i, text in enumerate(texts):
        at = path if len(texts) == 1 else (*path, i)
        found = findings.attempt(at, None, hours_of_week, text)
        daily += [] if found is None else [found]
    return None if zone is None or not daily else Hours(zone, tuple(daily), ", ".join(texts))


def build_begins(context: Context) -> float | None:
    """Return when a simulated campaign begins, seconds since 1970; and look at the zone, whoever needs it."""
    zone_of(context)
    clock, path = context.config.clock, ("clock", "begins")
    if clock.begins is None:
        return None
    if clock.speedup == 1:
        context.findings.add(path, f'got "{clock.begins}", is for simulated rigs; needs a speedup, or leave it out')
    return context.findings.attempt(path, None, instant, clock.begins)


def with_windows(context: Context, rig: RigSpec, problem: Problem | None) -> RigSpec:
    """Return the rig with how long a trial is expected to take, if hours matter; check that it fits into each."""
    if problem is None or not rig.calendar or context.findings:
        return rig
    rig = replace(rig, expected_s=forecast(rig, problem).likely_s)
    windows: list[tuple[KeyPath, Hours | None]] = [(("allowed",), rig.allowed)]
    windows += [(("safety", "limits", name, "allowed"), limits.allowed) for name, limits in rig.limits.items()]
    for path, hours in windows:
        if hours is not None and hours.opens_s(0.0, rig.expected_s) == math.inf:
            what = f"must be open for as long as a trial is expected to take, {lasting(rig.expected_s)}"
            context.findings.add(path, f'got "{hours.text}", {what}')
    return rig
