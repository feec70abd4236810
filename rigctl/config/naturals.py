"""What a distribution's parameters must be, told in the variable's own unit: the core knows them on the unit cube."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rigctl.core.marginals.moments import largest_sd

WIDEST = 1 - 1e-6
"""Of the spread that no truncated normal reaches."""


def misplaced(
    kind: str, given: Mapping[Any, float], unit: str, bounds: tuple[float, float], *, apart: bool = False
) -> dict[str, str]:
    """Return what is wrong with the parameters of a distribution, by parameter (empty: with all of them).

    Args:
        kind: `uniform`, `truncated_normal` or `empirical`.
        given: by name, in `unit`.
        unit: the variable's.
        bounds: its lowest and highest value, in `unit`.
        apart: whether these are its natural range's, and setpoints have another.
    """
    low, high = bounds
    within = f"between {low:g} and {high:g} {unit}"
    if kind == "uniform":
        return _uneven(given.get("low", low), given.get("high", high), unit, bounds, apart=apart)
    if kind == "truncated_normal" and "mean" in given:
        mean, sd, span = given["mean"], given["sd"], high - low
        if not low < mean < high:
            place = "natural_range" if apart else "range"
            elsewhere = "widen it" if apart else "give natural_range if it is elsewhere when left alone"
            remedy = f"{elsewhere}, or give loc and scale for a peak outside it"
            return {"mean": f"got {mean:g} {unit}, must lie {within}, the {place}; {remedy}"}
        most = largest_sd((mean - low) / span) * span
        if not 0 < sd < most * WIDEST:
            must = f"must be more than 0 and less than {most:.3g} {unit} for a mean of {mean:g} {unit}"
            return {"sd": f"got {sd:g} {unit}, {must}; for a wider spread write natural: uniform"}
    elif kind == "truncated_normal" and not given["scale"] > 0:
        return {"scale": f"got {given['scale']:g} {unit}, must be more than nothing"}
    return {}


def _uneven(first: float, last: float, unit: str, bounds: tuple[float, float], *, apart: bool) -> dict[str, str]:
    low, high = bounds
    if not first < last:
        remedy = f"; write {{low: {last:g}, high: {first:g}}}" if first > last else ""
        return {"": f"got {first:g} to {last:g} {unit}, must rise from low to high{remedy}"}
    if first < low or last > high:
        what = f"got {first:g} to {last:g} {unit}, must lie within the "
        if apart:
            return {"": f"{what}natural_range, {low:g} to {high:g} {unit}"}
        remedy = "; give natural_range if it is elsewhere when left alone"
        return {"": f"{what}range, {low:g} to {high:g} {unit}{remedy}"}
    return {}
