"""Second check, civil time: the zone, hours in which something is allowed, when a simulated campaign begins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from rigctl.config.findings import Context
from rigctl.config.forecast import forecast
from rigctl.config.wording import lasting
from rigctl.core.experiment.problem import Problem
from rigctl.errors import KeyPath
from rigctl.kinds import Kind
from rigctl.plugins import did_you_mean
from rigctl.rig.calendar import Hours, Rate, Tariff, gaps, hours_of_week, instant
from rigctl.rig.spec import RigSpec


def zone_of(context: Context, *, needed: bool = False) -> str | None:
    """Return the zone if it is one; None (and a finding, where it is given or needed) if not."""
    given, findings = context.config.zone, context.findings
    if findings.told(("zone",)):
        return None
    if given is None:
        if needed:
            must = "must say where the rig stands, such as Europe/Berlin: hours of the day are those of its clocks"
            findings.add(("zone",), f"is missing, {must}")
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
    zone, daily = zone_of(context, needed=True), []
    for i, text in enumerate(texts):
        at = path if len(texts) == 1 else (*path, i)
        found = findings.attempt(at, None, hours_of_week, text)
        daily += [] if found is None else [found]
    return None if zone is None or not daily else Hours(zone, tuple(daily), ", ".join(texts))


def build_tariff(context: Context, path: KeyPath, prices: Sequence[Mapping[str, Any]], kind: Kind) -> Tariff | None:
    """Return prices by time of use; None (and a finding) where an hour has none, or two."""
    findings, before = context.findings, context.findings.count
    rates = tuple(_rate(context, (*path, i), given, kind) for i, given in enumerate(prices))
    zone = zone_of(context, needed=True)
    if zone is None or findings.count > before:
        return None
    if [rate for rate in rates if not rate.during][1:]:
        findings.add(path, "must have one price without `during` at most: it holds at all other hours")
        return None
    none, two = gaps(rates)
    if none or two:
        what = f"has no price on {none}; add one without `during`" if none else f"has two prices on {two}"
        findings.add(path, f"{what}; every hour must have one")
        return None
    return Tariff(zone, rates)


def _rate(context: Context, path: KeyPath, given: Mapping[str, Any], kind: Kind) -> Rate:
    price = context.findings.attempt((*path, "price"), Decimal(0), context.units.price, given["price"], kind)
    during = given.get("during")
    hours = build_hours(context, (*path, "during"), during)
    name = given.get("name") or (", ".join(during) if during else "otherwise")
    return Rate(str(name), price, () if hours is None else hours.daily)


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
