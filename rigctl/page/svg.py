"""A small writer of drawings as inline SVG: marks have classes instead of colours, and text keeps its size.

Horizontal places are percentages, vertical ones pixels, so that a drawing fills whatever is there and its text stays
readable on a phone. What has to be a path lies in an inner drawing that is stretched; its strokes keep their width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log10

import numpy as np
from markupsafe import Markup, escape

from rigctl.core.experiment.arrays import FloatArray
from rigctl.printable import printable

WIDE = 1000
"""Units across an inner drawing."""
GUTTER = 75
"""Of them, to the left of the first value: for the numbers of the levels."""
TEXT = 12
"""Pixels a line of text takes."""


def nice_ticks(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """Return round numbers within a range, at most so many: steps of 1, 2 or 5 times a power of ten."""
    if not (isfinite(low) and isfinite(high) and high > low):
        return (low,) if isfinite(low) else ()
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough * (1 - 1e-9))
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return tuple(round(i * step, 12 - floor(log10(step))) for i in range(first, last + 1))


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to places."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float] | FloatArray, start: float, end: float, margin: float = 0.06) -> Scale:
        """Return a scale that holds all finite values, with room at both ends; of none, from 0 to 1."""
        known = np.asarray(values, dtype=float)
        known = known[np.isfinite(known)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        room = margin * (high - low) if high > low else max(abs(high), 1.0) * 0.1
        return cls(low - room, high + room, start, end)

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> tuple[float, ...]:
        return nice_ticks(self.low, self.high, most)


def short(value: float) -> str:
    """Write a place: one decimal is finer than a pixel, and a page of drawings stays small."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"


def label_of(value: float) -> str:
    """Write a tick as people do: `0.25`, `1 500`, `-3`."""
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}".replace("-", "\u2212")
    text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    return text.replace(",", "\u202f").replace("-", "\u2212")


@dataclass(slots=True)
class Drawing:
    """Collects the marks of one drawing; x in the data's units, y likewise."""

    x: Scale
    """To WIDE."""
    y: Scale
    """To pixels, downwards."""
    height: float
    _behind: list[Markup] = field(default_factory=list)
    _paths: list[str] = field(default_factory=list)
    _marks: list[Markup] = field(default_factory=list)

    @classmethod
    def over(cls, xs: Scale | tuple[float, float], ys: Sequence[float] | FloatArray, height: float = 150) -> Drawing:
        """Return an empty drawing with room for these values, for text above and for ticks below."""
        x = xs if isinstance(xs, Scale) else Scale(*xs, GUTTER, WIDE)
        return cls(x, Scale.around(ys, height - TEXT - 8, TEXT + 6), height)

    # what is stretched ------------------------------------------------------------------------------------------------

    def line(self, xs: Sequence[float] | FloatArray, ys: Sequence[float] | FloatArray, kind: str) -> None:
        """Draw a line through points; it is broken where a value is missing."""
        self._path(self._through(xs, ys), kind)

    def steps(self, xs: Sequence[float] | FloatArray, ys: Sequence[float] | FloatArray, kind: str) -> None:
        """Draw a line that keeps each value until the next point."""
        places = [(self.x(x), self.y(y)) for x, y in zip(xs, ys, strict=True) if isfinite(y)]
        if places:
            first, rest = places[0], places[1:]
            self._path(f"M{first[0]:.0f} {short(first[1])}" + "".join(f"H{x:.0f}V{short(y)}" for x, y in rest), kind)

    def band(
        self,
        xs: Sequence[float] | FloatArray,
        low: Sequence[float] | FloatArray,
        high: Sequence[float] | FloatArray,
        kind: str,
    ) -> None:
        """Fill what lies between two lines."""
        back = "".join(f"L{self.x(x):.0f} {short(self.y(v))}" for x, v in reversed(list(zip(xs, low, strict=True))))
        there = self._through(xs, high)
        if there and len(xs) > 1:
            self._path(f"{there}{back}Z", kind)

    def _through(self, xs: Sequence[float] | FloatArray, ys: Sequence[float] | FloatArray) -> str:
        parts, pen = [], "M"
        for x, y in zip(xs, ys, strict=True):
            if not isfinite(y):
                pen = "M"
                continue
            parts.append(f"{pen}{self.x(x):.0f} {short(self.y(y))}")
            pen = "L"
        return "".join(parts)

    def _path(self, places: str, kind: str) -> None:
        if places:
            self._paths.append(f'<path class="{escape(kind)}" d="{places}"/>')

    # what keeps its shape ---------------------------------------------------------------------------------------------

    def dots(self, xs: Sequence[float] | FloatArray, ys: Sequence[float] | FloatArray, kind: str) -> None:
        """Draw dots: lines of next to no length, with ends that are not stretched.

        Of no length at all, those with square ends are not printed by browsers.
        """
        known = ((x, y) for x, y in zip(xs, ys, strict=True) if isfinite(x + y))
        self._path("".join(f"M{self.x(x):.0f} {self.y(y):.0f}h.1" for x, y in known), kind)

    def stretches(self, found: Sequence[tuple[float, float]], at: float, kind: str) -> None:
        """Draw parts of a strip, so many pixels from the top; the shortest can still be seen."""
        ends = ((self.x(begin), self.x(end)) for begin, end in found)
        self._path("".join(f"M{a:.0f} {short(at)}H{max(b, a + 2):.0f}" for a, b in ends), kind)

    def upright(self, at: float, kind: str, text: str = "") -> None:
        """Draw a vertical line through all of it, named at its top."""
        x, line = self._across(at), Markup('<line x1="{}" x2="{}" y1="{}" y2="{}" class="{}"/>')
        self._marks.append(line.format(x, x, TEXT + 2, short(self.height - TEXT - 6), kind))
        if text:
            self.text(x, TEXT - 2, text, _anchor(self.x(at)))

    def text(self, x: str, y: float, text: str, anchor: str = "start", kind: str = "label") -> None:
        """Write something at a place given in percent and pixels."""
        # texts start at their place where nothing else is said
        ends = Markup("") if anchor == "start" else Markup(' text-anchor="{}"').format(anchor)
        self._marks.append(Markup('<text class="{}" x="{}" y="{}"{}>{}</text>').format(kind, x, short(y), ends, text))

    def axes(self, unit: str, ticks_x: Sequence[tuple[float, str]], words: Mapping[float, str] | None = None) -> None:
        """Draw levels at round numbers or a category's words, the unit above them, and places along the bottom."""
        self.levels(unit, words)
        self.places(ticks_x)

    def levels(self, unit: str, words: Mapping[float, str] | None = None) -> None:
        ticks = words or {t: label_of(t) for t in self.y.ticks(max(2, round(self.height / 28)))}
        for value in (t for t in ticks if self.y(t) <= self.height - TEXT - 6):
            y = short(self.y(value))
            self._behind.append(Markup('<line class="grid" x2="100%" y1="{}" y2="{}"/>').format(y, y))
            self.text("0", self.y(value) + 4, ticks[value])
        if unit:
            self.text("0", TEXT - 2, unit)

    def places(self, ticks_x: Sequence[tuple[float, str]]) -> None:
        for at, text in ticks_x:
            self.text(self._across(at), self.height - 2, text, _anchor(self.x(at)))

    def _across(self, value: float) -> str:
        return f"{short(self.x(value) / 10)}%"

    def markup(self, title: str, told: str) -> Markup:
        """Return the drawing; `title` and `told` say to those who cannot see it what it shows."""
        inner = Markup("".join(self._paths))  # noqa: S704 - numbers, and escaped classes
        stretched = Markup('<svg viewBox="0 0 {} {}" width="100%" height="{}" preserveAspectRatio="none">{}</svg>')
        height = short(self.height)
        paths = stretched.format(WIDE, height, height, inner) if self._paths else Markup()
        return drawing(self.height, title, told, Markup().join((*self._behind, paths, *self._marks)))


def drawing(height: float, title: str, told: str, inner: Markup, kind: str = "figure") -> Markup:
    """Return marks as one accessible drawing as wide as there is room."""
    desc = Markup("<desc>{}</desc>").format(printable(told)) if told else ""
    opening = Markup('<svg class="{}" role="img" width="100%" height="{}"><title>{}</title>{}{}</svg>')
    return opening.format(kind, short(height), printable(title), desc, inner)


def _anchor(place: float) -> str:
    return "start" if place < 0.06 * WIDE else "end" if place > 0.94 * WIDE else "middle"


def range_row(
    axis: Scale,
    band: tuple[float, float, float] | None,
    marks: Sequence[tuple[float, str]],
    kind: str,
    told: str,
    *,
    behind: tuple[float, float] | None = None,
) -> Markup:
    """Return one row on a common axis: a thin band from lower to upper, a tick at the mean, and upright lines.

    `axis` makes percent. `band` is lower, mean and upper (None: not known); `marks` are where upright lines are, and of
    which class; `kind` is the row's class; `told` says the same in words. `behind` is lower and upper of a taller band
    of class `normal` behind it; None: there is none.
    """
    parts = []
    if behind is not None:
        left, right = (axis(v) for v in behind)
        tall = Markup('<rect class="normal" x="{}%" width="{}%" y="2" height="18"/>')
        parts.append(tall.format(short(left), short(right - left)))
    parts += [
        Markup('<line class="{}" x1="{}%" x2="{}%" y1="0" y2="22"/>').format(name, short(axis(at)), short(axis(at)))
        for at, name in marks
        if axis.low <= at <= axis.high
    ]
    if band is not None:
        low, mean, high = (min(max(axis(v), 0.0), 100.0) for v in band)
        place = Markup('<text x="{}" y="16" text-anchor="{}">{}</text>')
        if band[1] < axis.low:
            parts.append(place.format(0, "start", "\u25c2"))
        elif band[1] > axis.high:
            parts.append(place.format("100%", "end", "\u25b8"))
        else:
            width = short(max(high - low, 0.4))
            parts.append(Markup('<rect class="band" x="{}%" width="{}%" y="7" height="8"/>').format(short(low), width))
            parts.append(Markup('<line class="mean" x1="{0}%" x2="{0}%" y1="3" y2="19"/>').format(short(mean)))
    return drawing(22, told, "", Markup().join(parts), f"range {kind}")


def axis_row(axis: Scale, most: int = 4) -> Markup:
    """Return round numbers below rows of the same axis."""
    texts = (
        Markup('<text class="label" x="{}%" y="11" text-anchor="{}">{}</text>').format(
            short(axis(t)), _anchor(axis(t) * 10), label_of(t)
        )
        for t in axis.ticks(most)
    )
    return Markup('<svg class="axis" aria-hidden="true" width="100%" height="14">{}</svg>').format(Markup().join(texts))


def gauge(parts: Sequence[tuple[str, float]], whole: float, title: str, told: str) -> Markup:
    """Return a horizontal bar of parts (class, amount), the rest of the whole left open."""
    scale, at, found = Scale(0.0, whole or 1.0, 0.0, 100.0), 0.0, []
    for kind, amount in parts:
        left, right = min(scale(at), 100.0), min(scale(at + amount), 100.0)
        found.append(
            Markup('<rect class="{}" x="{}%" width="{}%" y="1" height="20"/>').format(
                kind, f"{left:.2f}", f"{max(right - left, 0.0):.2f}"
            )
        )
        at += amount
    frame = Markup('<rect class="frame" x="0" width="100%" y="1" height="20"/>')
    return drawing(22, title, told, Markup().join((*found, frame)), "gauge")
