"""Figures as data, before anything is drawn: panels of lines with a band, the same for every format.

`layouts` makes them as the papers laid theirs out, `draw` draws them, `page` makes them pages to look into. A policy
has one look in every figure and format: colour and line style, as `labels.yaml` has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import numpy as np

from rigctl.bench.asking.labels import listed, plain_label
from rigctl.core.experiment.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd

Spread = Literal["standard error", "quartiles"]
Dash = Literal["solid", "dash", "dot", "dashdot"]
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")
PALETTE = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "grey": "#7F7F7F",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a policy's line looks."""

    name: str
    """In legends."""
    colour: str
    dash: Dash = "solid"


def style_of(policy: str) -> Style:
    """Return the look of a policy label; of one not listed, a fixed function of its letters."""
    said = listed().get(plain_label(policy))
    if said is not None:
        return Style(said["name"], PALETTE[said["colour"]], said.get("line", "solid"))
    number, colours = crc32(policy.encode()), tuple(PALETTE.values())
    return Style(policy, colours[number % len(colours)], DASHES[1 + number // len(colours) % (len(DASHES) - 1)])


def order_of(policy: str) -> tuple[int, str]:
    """Return a key that sorts policies as they are listed; others after them, by name."""
    labels = list(listed())
    return (labels.index(plain_label(policy)) if plain_label(policy) in labels else len(labels), policy)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
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
    def of(cls, policy: str, curve: pd.DataFrame, n: int, spread: Spread, settled: float | None = None) -> Curve:
        """Return the line of a `curve_of` n seeds, with the diamond at the settled cost."""
        x = curve.index.to_numpy(dtype=float)
        mean, se, low, median, high = (curve[name].to_numpy() for name in ("mean", "se", "low", "median", "high"))
        y = median
        if spread == "standard error":
            around = np.nan_to_num(se)
            y, low, high = mean, mean - around, mean + around
        diamond = None
        if settled is not None and isfinite(settled) and len(x):
            place = int(np.argmin(np.abs(x - settled)))
            diamond = (float(x[place]), float(y[place]))
        return cls(policy, x, y, low, high, mean, se, n, diamond)

    def told_at(self, x: float) -> str:
        """Return mean ± standard error and number of seeds at a place, or nothing where there is no line."""
        place = int(np.searchsorted(self.x, x, side="right")) - 1
        if place < 0:
            return ""
        mean, se = self.mean[place], self.se[place]
        settled = f", only the best set from {self.diamond[0]:.3g} on" if self.diamond and self.diamond[0] <= x else ""
        return f"{mean:.4g}{f' ± {se:.2g}' if isfinite(se) else ''} (n = {self.n}){settled}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes; without lines it stays blank and says so."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Curve, ...]
    log_y: bool = False

    def floor(self) -> float:
        """Return the least value shown: bands that reach zero or below are cut at a positive one on a log axis."""
        if not self.log_y:
            return -np.inf
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
    share_y: bool = True
    """Panels of a row have the same y axis."""

    def __post_init__(self) -> None:
        if not self.rows or len({len(row) for row in self.rows}) != 1:
            raise ValueError(f"figure {self.name}: got rows of {[len(row) for row in self.rows]} panels, must be equal")

    @property
    def policies(self) -> tuple[str, ...]:
        """Return every policy that has a line somewhere, in the order of legends."""
        found = {line.policy for row in self.rows for panel in row for line in panel.lines}
        return tuple(sorted(found, key=order_of))

    @property
    def has_diamonds(self) -> bool:
        return any(line.diamond for row in self.rows for panel in row for line in panel.lines)
