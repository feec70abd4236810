"""What a distribution's parameters must be, told in the variable's own unit: the core knows them on the unit cube."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rigctl.core.marginals.moments import largest_sd

WIDEST = 1 - 1e-6
"""Of the spread that no truncated normal reaches."""


def misplaced(
    kind: str,
    given: Mapping[Any, float],
    unit: str,
    setpoints: tuple[float, float],
    natural: tuple[float, float] | None = None,
) -> dict[str, str]:
    """Return what is wrong with the parameters of a distribution, by parameter (empty: with all of them).

    Args:
        kind: `uniform`, `truncated_normal` or `empirical`.
        given: by name, in `unit`.
        unit: the variable's.
        setpoints: its lowest and highest setpoint, in `unit`.
        natural: its lowest and highest value when left alone, in `unit`; None: those of the setpoints.
    """
    low, high = natural or setpoints
    name = "range" if natural is None else "natural_range"
    within = f"within the {name}, {low:g} to {high:g} {unit}"
    apart = "" if natural else "; if it is elsewhere when left alone, say where: natural_range: [low, high]"
    if kind == "uniform":
        return _uneven(given.get("low", low), given.get("high", high), (low, high), unit, within + apart)
    if kind == "truncated_normal" and "mean" in given:
        mean, sd, span = given["mean"], given["sd"], high - low
        if not low < mean < high:
            return {"mean": f"got {mean:g} {unit}, must lie {within}{apart}"}
        most = largest_sd((mean - low) / span) * span
        if not 0 < sd < most * WIDEST:
            must = f"must be more than 0 and less than {most:.3g} {unit} for a mean of {mean:g} {unit}"
            return {"sd": f"got {sd:g} {unit}, {must}; for a wider spread write natural: uniform"}
    elif kind == "truncated_normal" and not given["scale"] > 0:
        return {"scale": f"got {given['scale']:g} {unit}, must be more than nothing"}
    return {}


def _uneven(first: float, last: float, bounds: tuple[float, float], unit: str, within: str) -> dict[str, str]:
    if not first < last:
        remedy = f"; write {{low: {last:g}, high: {first:g}}}" if first > last else ""
        return {"": f"got {first:g} to {last:g} {unit}, must rise from low to high{remedy}"}
    if first < bounds[0] or last > bounds[1]:
        return {"": f"got {first:g} to {last:g} {unit}, must lie {within}"}
    return {}
