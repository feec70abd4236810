"""The reference section -> trials that play one setting again and again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rigctl.config.findings import Context, unknown
from rigctl.core.asking import OFF_GRID
from rigctl.core.experiment.problem import ReferenceTrials
from rigctl.core.experiment.space import Space, Variable

if TYPE_CHECKING:
    from rigctl.config.sections import ReferenceSection

_TRIALS: Final = re.compile(r"\s*(\d{1,6})\s*trials?\s*")
FEWEST: Final = 5
"""Trials between two of them: more often they would take the place of what a campaign is for."""


def build_reference(
    context: Context, variables: Sequence[Variable], sets: Sequence[Sequence[str]]
) -> ReferenceTrials | None:
    """Return the trials that are repeated; None where none are asked for, or something of them does not hold.

    Args:
        context: with the section.
        variables: those that hold.
        sets: the control sets, by name.
    """
    section, findings = context.config.reference, context.findings
    if section is None:
        return None
    before = findings.count
    every = _TRIALS.fullmatch(section.every)
    if every is None or int(every[1]) < FEWEST:
        what = f'got "{section.every}", must be a whole number of trials, at least "{FEWEST} trials"'
        findings.add(("reference", "every"), what)
    second = section.second_sensor or ""
    units = {f.name: f.unit for f in context.config.further_outcomes}
    if second and second not in units:
        findings.add(("reference", "second_sensor"), unknown(second, sorted(units), "one of further_outcomes: "))
    elif second and units[second] != context.config.outcome.unit:
        what = f'got "{second}" in {units[second]}, must have the outcome\'s unit, {context.config.outcome.unit}'
        findings.add(("reference", "second_sensor"), what)
    found = _setting(context, variables, sets)
    if findings.count > before or every is None:
        return None
    if found is None:
        return ReferenceTrials(int(every[1]), second_sensor=second)
    return ReferenceTrials(int(every[1]), *found, second)


def _setting(
    context: Context, variables: Sequence[Variable], sets: Sequence[Sequence[str]]
) -> tuple[int, tuple[float, ...]] | None:
    """Return which control set it is, and where on the unit cube; None where none is given, or it does not hold."""
    section, findings = context.config.reference, context.findings
    if section is None:
        return None
    for name in section.at:
        if name not in section.control:
            findings.add(("reference", "at", name), f'got "{name}", must be among those in reference.control')
    if not section.control:
        return None
    labels = ["+".join(s) for s in sets]
    if sets and frozenset(section.control) not in map(frozenset, sets):
        got = "+".join(section.control)
        findings.add(("reference", "control"), unknown(got, labels, "a control set: "))
        return None
    by_name = {v.name: v for v in variables}
    if not sets or not all(name in by_name for name in section.control):
        return None  # told where they stand
    places = {name: _place(context, section, by_name[name]) for name in section.control}
    space = Space.of(variables, sets)
    index = space.index_of(section.control)
    found = [places[name] for name in space.control_sets[index].names]
    whole = tuple(u for u in found if u is not None)
    return (index, whole) if len(whole) == len(found) else None


def _place(context: Context, section: ReferenceSection, v: Variable) -> float | None:
    """Return where a setpoint is, unit interval; None where it is missing or cannot be set."""
    findings, path = context.findings, ("reference", "at", v.name)
    if v.name not in section.at:
        findings.add(path[:2], f"has no value for {v.name}, which is controlled in it; give it")
        return None
    value = findings.attempt(path, None, context.units.to, section.at[v.name], v.unit, f"in {v.unit}, like {v.name}")
    if value is None:
        return None
    u = (value - v.low) / (v.high - v.low)
    if not v.low <= value <= v.high:
        findings.add(path, f"got {value:g}, must be within {v.low:g} to {v.high:g} {v.unit}")
        return None
    if v.steps and abs(u * v.steps - round(u * v.steps)) > OFF_GRID * v.steps:
        findings.add(path, f"got {value:g}, must be on a step of {v.step:g} {v.unit}; {v.setpoint(u):g} is the nearest")
        return None
    return u
