"""Figures as data, before anything is drawn: panels of lines with a band, the same for every format.

`layouts` makes them as the papers laid theirs out, `html` and `static` draw them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rigctl.bench.figures.style import order_of
from rigctl.bench.tables.curves import Curve
from rigctl.core.arrays import FloatArray

Spread = Literal["standard error", "quartiles"]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One policy in one panel. All arrays (g,), finite."""

    policy: str
    x: FloatArray
    y: FloatArray
    """Mean, or median where the spread is quartiles."""
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    se: FloatArray
    """NaN for a single seed."""
    n: int
    diamond: tuple[float, float] | None = None
    """Where a policy from then on only plays the best set, on average."""

    @classmethod
    def of(cls, curve: Curve, spread: Spread, settled: float | None = None) -> Line:
        """A curve where it is known; the diamond on it at the settled cost."""
        known = np.isfinite(curve.mean)
        mean, se, x = curve.mean[known], curve.se[known], curve.at[known]
        if spread == "quartiles":
            y, low, high = curve.median[known], curve.low[known], curve.high[known]
        else:
            around = np.nan_to_num(se)
            y, low, high = mean, mean - around, mean + around
        diamond = None
        if settled is not None and np.isfinite(settled) and len(x):
            place = int(np.argmin(np.abs(x - settled)))
            diamond = (float(x[place]), float(y[place]))
        return cls(curve.policy, x, y, low, high, mean, se, curve.n, diamond)


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes; without lines it stays blank and says so."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_y: bool = False

    def floor_of_log(self) -> float:
        """The least positive value of any line: bands that reach zero or below are cut there on a log axis."""
        positive = [float(v[v > 0].min()) for line in self.lines for v in (line.y, line.low) if (v > 0).any()]
        smallest = min(positive, default=1e-6)
        means = [float(line.y[line.y > 0].min()) for line in self.lines if (line.y > 0).any()]
        # a band that nearly touches zero would otherwise stretch the axis over decades with nothing in them
        return max(smallest, 0.3 * min(means, default=smallest))


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels in rows and columns, with one legend for all."""

    name: str
    """File name without ending."""
    title: str
    caption: str
    """What is shown, over how many seeds."""
    rows: tuple[tuple[Panel, ...], ...]
    spread: Spread = "standard error"
    share_y: bool = True
    """Panels of a row have the same y axis."""

    def __post_init__(self) -> None:
        if not self.rows or len({len(row) for row in self.rows}) != 1:
            raise ValueError(f"figure {self.name}: got rows of {[len(row) for row in self.rows]} panels, must be equal")

    @property
    def policies(self) -> tuple[str, ...]:
        """Every policy that has a line somewhere, in the order of legends."""
        found = {line.policy for row in self.rows for panel in row for line in panel.lines}
        return tuple(sorted(found, key=order_of))

    @property
    def has_diamonds(self) -> bool:
        """Whether the legend has to explain them."""
        return any(line.diamond for row in self.rows for panel in row for line in panel.lines)
