"""Numbers, intervals and settings as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10

from rigctl.core.experiment.space import Space
from rigctl.printable import in_full


def unit_names(space: Space) -> Mapping[str, str]:
    """Return the variables' units, as shown."""
    return {v.name: "" if v.unit == "1" else v.unit for v in space.variables}


def settings(at: Mapping[str, float], units: Mapping[str, str]) -> str:
    """Return `k = 9.4 mM, ph = 5.6 pH`."""
    return ", ".join(f"{name} = {in_full(value, 4)} {units[name]}".rstrip() for name, value in at.items())


def plus_minus(mean: float, sd: float) -> str:
    """Two digits of the spread, and as many decimals of the mean: `3380 ± 310`, `11.24 ± 0.15`."""
    if not (isfinite(mean) and 1e-4 < sd < 1e6):
        return f"{mean:.4g} ± {sd:.2g}"
    digit = 1 - floor(log10(sd))
    decimals = max(digit, 0)
    return f"{round(mean, digit):.{decimals}f} ± {round(sd, digit):.{decimals}f}"


def decimals_for(spreads: Sequence[float]) -> int:
    """Return how many decimals show one digit of the smallest of these, at most 6.

    All that is compared is shown with the same ones, so that rounding turns no order round.
    """
    seen = [s for s in spreads if isfinite(s) and s > 0]
    return min(max(-floor(log10(min(seen))), 0), 6) if seen else 2


def ends(low: float, high: float, decimals: int) -> str:
    """Write both ends of an interval, with as many more decimals as tell them apart; equal ones as one number."""
    for places in range(decimals, 7):
        first, last = (written(value, places) for value in (low, high))
        if first != last:
            return f"{first} to {last}"
    return written(high, decimals)


def written(value: float, decimals: int) -> str:
    """Write a number with so many decimals; nothing is never negative."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text
