"""The page's drawings, and trials as series: thinned so that a page stays small, with every extreme kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from rigctl.campaign.journal.rows import TrialRow
from rigctl.core.advice.answer_words import AnswerWords
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.persistence import ReadBefore
from rigctl.core.multi_objective.trade_off import Front, non_dominated
from rigctl.errors import counted
from rigctl.page.facts import RECENT
from rigctl.page.shown import Facts, Money, ShownLabels, Slice, Supply, Why
from rigctl.page.svg import (
    GUTTER,
    TEXT,
    WIDE,
    Drawing,
    Scale,
    axis_row,
    drawing,
    gauge,
    label_of,
    nice_ticks,
    range_row,
    short,
)
from rigctl.page.words import between, money, number, way_label, with_unit, worded
from rigctl.text import Names, shown_name, shown_set, shown_value, words_of

Axis = Literal["money", "trial", "time"]
AXES: Mapping[Axis, str] = MappingProxyType({"money": "money spent", "trial": "trial", "time": "rig time"})
"""Along what trials are shown, and how it is named."""
COLUMNS = 80
"""What a drawing tells apart: a phone has no more."""
READING_COLUMNS = 40
COST_COLUMNS = 48
LANE = 24
"""Pixels of a lane of the strip that says which set was played."""
REACH = 3.0
"""Intervals, as wide as is usual among the ways, that the axis goes on beyond the way to run."""
WIDE_LANE = 32
"""The same where each trial is a dot."""
FILLS = ("fill-1", "fill-2", "fill-3", "fill-4", "fill-5", "fill-6")


def why_axis(why: Why, today: float | None) -> Scale:
    """Return the one axis on which all control sets stand, to percent; those that are ruled out do not stretch it."""
    marks = [v for s in why.sets if s.eligible or s.chosen for v in s.band or ()]
    return Scale.around([*marks, *(v for v in (today, why.threshold) if v is not None)], 0.0, 100.0)


def why_rows(why: Why, labels: ShownLabels, today: float | None) -> tuple[tuple[Markup, ...], Markup]:
    """Return one row per control set, and the axis below them."""
    axis, unit = why_axis(why, today), labels.outcome.unit
    marks = [(v, kind) for v, kind in ((today, "today"), (why.threshold, "line")) if v is not None]
    rows = []
    for s in why.sets:
        told = f"{s.label} at {s.at}: {between(*s.band[::2], unit)}" if s.band else f"{s.label}: nothing known yet"
        kind = "chosen" if s.chosen else "open" if s.eligible else "out"
        rows.append(range_row(axis, s.band, marks, kind, told))
    return tuple(rows), axis_row(axis, 6)


def ways(say: AnswerWords) -> tuple[tuple[Markup, ...], Markup]:
    """Return one row per way of running, in their order, and the axis below them; ways far off do not stretch it."""
    run, found = say.answer.run, say.answer.ways
    reach = REACH * float(np.median([way.high - way.low for way in found])) or np.inf
    ends = np.asarray([v for way in found for v in (way.low, way.high)])
    axis = Scale.around(np.clip(ends, run.low - reach, run.high + reach), 0.0, 100.0)
    kinds = ["chosen" if way is run else "open" if way.kind in ("setting", "rule") else "out" for way in found]
    rows = (
        range_row(
            axis, (w.low, w.expected, w.high), [(run.expected, "today")], k, f"{way_label(say, w)}: {say.span(w)}"
        )
        for w, k in zip(found, kinds, strict=True)
    )
    return tuple(rows), axis_row(axis)


def reads(why: Why | None, names: Names) -> list[tuple[ReadBefore, bool, Markup]]:
    """Return what was read before a decision, by variable: whether it is controlled, and a row of its own axis."""
    found = () if why is None else why.reads
    held = frozenset(() if why is None else why.control_set)
    return [(read, read.variable in held, _read_row(read, names, held=read.variable in held)) for read in found]


def _read_row(read: ReadBefore, names: Names, *, held: bool) -> Markup:
    """Return what a variable read, against where it usually is and where it is expected; each its mean and two sd.

    Empty of a category, whose levels have no order.
    """
    if words_of(read.variable, names):
        return Markup()
    name = shown_name(read.variable, names)
    usual = read.usual_mean - 2 * read.usual_sd, read.usual_mean + 2 * read.usual_sd
    expected = None if held else (read.mean - 2 * read.sd, read.mean, read.mean + 2 * read.sd)
    marks = [] if read.value is None else [(read.value, "today")]
    axis = Scale.around([*usual, *(expected or ()), *(value for value, _ in marks)], 0.0, 100.0)
    told = f"{name} read {number(read.value)}, usually {between(*usual)}"
    told += "; controlled" if expected is None else f"; expected {between(*expected[::2])}"
    return range_row(axis, expected, marks, "open", told, behind=usual)


def fuel(budget: Money, currency: str) -> Markup:
    """Return the budget as a gauge, stacked by meter."""
    parts = [(f"{FILLS[i % len(FILLS)]}", part.cost) for i, part in enumerate(budget.parts)]
    told = ", ".join(f"{part.meter} {money(part.cost, currency)}" for part in budget.parts)
    title = f"{money(budget.spent)} of {money(budget.budget, currency)} spent"
    title += f", and {money(budget.operated, currency)} by production" if budget.operated else ""
    return gauge(parts, max(budget.budget + budget.operated, budget.all), title, told)


# Course -----------------------------------------------------------------------------------------------------------


def trend(facts: Facts, tracks: Tracks, axis: Axis) -> Markup:
    """Return outcomes, costs and what was controlled, one below the other."""
    return course(facts, tracks, axis) + costs(facts, tracks, axis) + strip(tracks, axis, facts.labels.units)


def course(facts: Facts, tracks: Tracks, axis: Axis) -> Markup:
    """Return outcomes and the best so far along money, trials or time."""
    xs, labels = tracks.along(axis), facts.labels
    low, high = _span(xs, axis)
    figure = Drawing.over((low, high), tracks.outcome, 190)
    figure.axes(labels.outcome.unit, _ticks(low, high, axis, labels.currency))
    shown = thinned(xs, tracks.outcome, COLUMNS)
    figure.dots(xs[shown], tracks.outcome[shown], "dot")
    better = np.r_[[True] * min(len(xs), 1), np.diff(tracks.best) != 0] & np.isfinite(tracks.best)
    bx, by = xs[better], tracks.best[better]
    told = "none so far"
    if len(bx):
        figure.steps(np.r_[bx, xs[-1]], np.r_[by, by[-1]], "best")
        told = f"best so far {with_unit(float(by[-1]), labels.outcome.unit)}, trial {tracks.trial[better][-1]:.0f}"
        figure.text("100%", figure.y(float(by[-1])) - 5, told, "end", "label found")
    counts = counted(int(np.isfinite(tracks.outcome).sum()), "outcome")
    return figure.markup(f"{labels.outcome.label} against {AXES[axis]}", f"{counts}; {told}")


def costs(facts: Facts, tracks: Tracks, axis: Axis) -> Markup:
    """Return what each trial cost and the mean of the last ten, on the axis of the drawing above; empty: none did."""
    xs, currency = tracks.along(axis), facts.labels.currency
    paid = np.flatnonzero(tracks.cost > 0)
    if not paid.size:
        return Markup()
    x, y = xs[paid], tracks.cost[paid]
    total, n = np.r_[0.0, np.cumsum(y)], np.arange(1, len(y) + 1)
    mean = (total[n] - total[np.maximum(n - RECENT, 0)]) / np.minimum(n, RECENT)
    low, high = _span(xs, axis)
    figure = Drawing.over((low, high), np.r_[0.0, y], 100)
    figure.levels(f"{currency} a trial")
    shown = thinned(x, y, COST_COLUMNS)
    figure.dots(x[shown], y[shown], "dot")
    shown = np.unique(np.linspace(0, len(x) - 1, COST_COLUMNS).astype(int))
    figure.line(x[shown], mean[shown], "cost")
    told = f"{money(float(mean[-1]), currency)}, mean of the last {counted(min(len(y), RECENT), 'trial')}"
    figure.text("100%", TEXT - 2, told, "end", "label money")
    return figure.markup(f"cost of a trial against {AXES[axis]}", told)


def axes(tracks: Tracks) -> tuple[Axis, ...]:
    """Return along what trials lie apart: what was imported or done by hand may have cost nothing, and at no time."""
    places = {
        "money": tracks.money,
        "time": np.round(tracks.time_h * 60.0),
    }  # what was written down at once, was not then
    return tuple(a for a in AXES if a == "trial" or 2 * len(np.unique(places[a])) > len(tracks.trial))


def by_set(facts: Facts, tracks: Tracks) -> Markup:
    """Return the outcome of every trial, one lane per control set, with the mean of each."""
    known, labels, told = np.isfinite(tracks.outcome), facts.labels, []
    figure = Drawing(Scale.around(tracks.outcome, 0, WIDE), Scale(0, 1, 0, 1), WIDE_LANE * len(tracks.sets) + TEXT + 6)
    for lane, chosen in enumerate(tracks.sets):
        ys, at = tracks.outcome[known & (tracks.played == lane)], WIDE_LANE * lane + 22
        mean = f", mean {with_unit(float(ys.mean()), labels.outcome.unit)}" if len(ys) else ""
        told.append(f"{shown_set(chosen, labels.units, ' + ') or 'nothing'}: {counted(len(ys), 'trial')}{mean}")
        figure.text("0", at - 10, told[-1])
        figure.dots(ys, np.full(len(ys), at), "dot")
        if len(ys):
            figure.line((ys.mean(),) * 2, (at - 7, at + 7), "best")
    ticks = figure.x.ticks(5)
    figure.places([(t, label_of(t) + (f" {labels.outcome.unit}" if t == ticks[-1] else "")) for t in ticks])
    return figure.markup(f"{labels.outcome.label} by control set", "; ".join(told))


def strip(tracks: Tracks, axis: Axis, names: Names) -> Markup:
    """Return which control set was played when, one lane per set, on the axis of the drawing above."""
    xs = tracks.along(axis)
    low, high = _span(xs, axis)
    starts, ends = (xs - 0.5, xs + 0.5) if axis == "trial" else (np.r_[low, xs[:-1]] if len(xs) else xs, xs)
    figure = Drawing(Scale(low, high, GUTTER, WIDE), Scale(0, 1, 0, 1), LANE * len(tracks.sets) + 2)
    gap = (high - low) / COLUMNS
    for lane, chosen in enumerate(tracks.sets):
        figure.text("0", LANE * lane + 12, shown_set(chosen, names, " + ") or "nothing")
        figure.line((low, high), (LANE * lane + 22,) * 2, "grid")
        figure.stretches(runs(tracks.played == lane, starts, ends, gap), LANE * lane + 18, "played")
    counts = np.bincount(tracks.played, minlength=len(tracks.sets))
    told = "; ".join(
        f"{shown_set(s, names) or 'nothing'}: {counted(int(n), 'trial')}"
        for s, n in zip(tracks.sets, counts, strict=True)
    )
    return figure.markup(f"control set played against {AXES[axis]}", told)


def _span(xs: FloatArray, axis: Axis) -> tuple[float, float]:
    low = 0.0 if axis != "trial" else 0.5
    high = float(xs[-1]) + (0.5 if axis == "trial" else 0.0) if len(xs) else 1.0
    return low, high if high > low else low + 1.0


def _ticks(low: float, high: float, axis: Axis, currency: str) -> list[tuple[float, str]]:
    factor, unit = (1.0, "") if axis == "trial" else (1.0, currency) if axis == "money" else _hours(high)
    places = [t * factor for t in nice_ticks(low / factor, high / factor, 5)]
    if axis == "trial":
        places = [p for p in places if p == int(p) and p >= 1] or [1.0]
    return [(p, f"{label_of(p / factor)} {unit if p == places[-1] else ''}".rstrip()) for p in places]


def _hours(high: float) -> tuple[float, str]:
    return (1 / 60, "min") if high < 2 else (1.0, "h") if high < 72 else (24.0, "days")


# Readings and model -----------------------------------------------------------------------------------------------


def reading(
    rows: Sequence[TrialRow], name: str, names: Names, band: tuple[float, float] | None, supplies: Sequence[Supply]
) -> Markup:
    """Return a variable's readings by trial, against its normal band, with the stretches it was controlled in."""
    xs, ys, held = readings(rows, name)
    unit, words = names[name], words_of(name, names)
    band = None if words else band  # whose levels have no order
    low, high = _span(xs, "trial")
    alone, set_to = np.where(held, np.nan, ys), np.where(held, ys, np.nan)
    figure = Drawing.over((low, high), np.r_[ys, np.array(band or [*words])], 120)
    if band is not None:
        figure.band((low, high), (band[0], band[0]), (band[1], band[1]), "normal")
    figure.axes(unit, _ticks(low, high, "trial", ""), words)
    for values, kind in ((alone, "dot"), (set_to, "held")):
        shown = thinned(xs, values, READING_COLUMNS)
        figure.dots(xs[shown], values[shown], kind)
    figure.stretches(runs(held, xs - 0.5, xs + 0.5, (high - low) / READING_COLUMNS), 105, "played")
    mine = [s for s in supplies if s.variable == name and not words]
    for s in mine:
        figure.line((s.first - 0.5, s.last + 0.5), (s.mean, s.mean), "supply")
    began = {row.trial: row.started_utc[:10] for row in rows} if mine else {}
    for s in mine[1:]:
        figure.upright(s.first - 0.5, "change", f"supply changed {began.get(s.first, '')}, trial {s.first}")
    known = np.flatnonzero(np.isfinite(ys))
    last = float(ys[known[-1]]) if known.size else None
    normal = "" if band is None else f"; normally {between(*band, unit)}"
    told = f"last {worded(name, last, names)}{normal}; controlled in {counted(int(held.sum()), 'trial')}"
    return figure.markup(f"readings of {shown_name(name, names)}", told)


def model_slice(found: Slice, labels: ShownLabels) -> Markup:
    """Return what is expected along one variable; dashed, without a filled band, where nothing was tried.

    Each level of a category stands by itself.
    """
    xs, tried, words = np.array(found.at), np.array(found.tried), words_of(found.variable, labels.units)
    mean, low, high = (np.array(v) for v in (found.mean, found.low, found.high))
    if words:
        wide = 0.3 * (xs[1] - xs[0])
        xs = np.array([xs - wide, xs + wide]).T.ravel()
        mean, low, high, tried = (np.repeat(v, 2) for v in (mean, low, high, tried))
    figure = Drawing.over((xs[0], xs[-1]), [*low, *high], 130)
    for where, kinds in ((~tried, ("unsure", "guess")), (tried, ("band", "mean"))):
        for begin, end in [(i, i + 2) for i in np.flatnonzero(where)[::2]] if words else _pieces(where):
            figure.band(xs[begin:end], low[begin:end], high[begin:end], kinds[0])
            figure.line(xs[begin:end], mean[begin:end], kinds[1])
    ticks = nice_ticks(found.at[0], found.at[-1], 4)
    if found.unit and len(ticks) > 2 and ticks[-1] - ticks[-2] < 0.2 * (found.at[-1] - found.at[0]):
        ticks = (*ticks[:-2], ticks[-1])  # where the unit stands
    places = [*words.items()] or [(t, f"{label_of(t)} {found.unit if t == ticks[-1] else ''}") for t in ticks]
    figure.axes(labels.outcome.unit, places)
    if found.chosen is not None:
        figure.upright(found.chosen, "today")
    at = "uncontrolled"
    if found.chosen is not None:
        at = f"recommended at {shown_value(found.variable, found.chosen, labels.units)}"
    told = f"{at}; tried at {tried.mean():.0%} of its range; expected {between(min(mean), max(mean))}"
    return figure.markup(f"{labels.outcome.label} expected against {shown_name(found.variable, labels.units)}", told)


def _pieces(where: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return where something holds as (begin, end), each reaching one point into what follows, so that none gapes."""
    edges = np.flatnonzero(np.diff(np.r_[False, where, False].astype(int)))
    return [(int(b), min(int(e) + 1, len(where))) for b, e in zip(edges[::2], edges[1::2], strict=True)]


def front(facts: Facts, expected: Front | None) -> Markup | None:
    """Return the trade-off of the first two outcomes: trials, and those no other beats; None where there is one."""
    if len(facts.labels.outcomes) < 2:
        return None
    first, second = facts.labels.outcomes[:2]
    rows = [(r.outcome, r.further[second.name]) for r in facts.recorded if second.name in r.further]
    values = np.array(rows, dtype=float).reshape(-1, 2)
    points = [(p.expected[0], p.expected[1]) for p in expected.points] if expected is not None else []
    ends = np.array([*values, *points], dtype=float).reshape(-1, 2)
    figure = Drawing.over(Scale.around(ends[:, 0], GUTTER, WIDE), ends[:, 1], 220)
    ticks = figure.x.ticks(4)
    figure.axes(
        f"{second.unit} {second.label}".strip(),
        [(t, label_of(t) + (f" {first.unit} {first.label}" if t == ticks[-1] else "")) for t in ticks],
    )
    seen = values[spread_out(values)]
    figure.dots(seen[:, 0], seen[:, 1], "dot")
    kept = values[non_dominated(values * np.array(facts.labels.signs[:2]))] if len(values) else values
    figure.dots(kept[:, 0], kept[:, 1], "held")
    if points:
        line = np.array(sorted(points))
        figure.steps(line[:, 0], line[:, 1], "best")
    told = f"{counted(len(rows), 'trial')}; no other trial beats {len(kept)} of them in both outcomes"
    return figure.markup(f"{first.label} against {second.label}", told)


def bar(share: float, told: str) -> Markup:
    """Return a small bar, full at 1."""
    width = short(100 * min(max(share, 0.0), 1.0))
    kind = "over" if share >= 0.9 else "some"
    inner = Markup('<rect class="{}" width="{}%" height="6"/><rect class="frame" width="100%" height="6"/>')
    return drawing(6, told, "", inner.format(kind, width), "bar")


# Trials as series -----------------------------------------------------------------------------------------------------


def thinned(xs: FloatArray, ys: FloatArray, columns: int) -> IntArray:
    """Return which points (n,) to draw: of every column first, last, lowest and highest; none is lost that stands out.

    `xs` rise; `ys` are NaN where there is no value; `columns` are as many as can be told apart.
    """
    known = np.flatnonzero(np.isfinite(ys) & np.isfinite(xs))
    if len(known) <= 2 * columns:
        return known
    x, y = xs[known], ys[known]
    span = x[-1] - x[0]
    column = np.minimum(((x - x[0]) / span * columns).astype(int), columns - 1) if span > 0 else np.zeros(len(x), int)
    # sorted by column, then by value: the extremes of a column are its ends
    order = np.lexsort((y, column))
    first = np.flatnonzero(np.r_[True, np.diff(column[order]) > 0])
    last = np.r_[first[1:], len(order)] - 1
    kept = np.unique(np.r_[order[first], order[last], 0, len(known) - 1])
    return np.asarray(known[kept])


def spread_out(points: FloatArray, cells: int = 40) -> IntArray:
    """Return which points (n, 2) to draw in a plane: one of each cell that has any, so that no region is lost."""
    if len(points) <= cells * cells // 4:
        return np.arange(len(points))
    low = points.min(axis=0)
    span = points.max(axis=0) - low
    cell = ((points - low) / np.where(span > 0, span, 1.0) * (cells - 1)).astype(int)
    return np.asarray(np.unique(cell[:, 0] * cells + cell[:, 1], return_index=True)[1])


@dataclass(frozen=True, slots=True, eq=False)
class Tracks:
    """All trials as arrays (n,), in order."""

    trial: FloatArray
    cost: FloatArray
    """Currency units."""
    money: FloatArray
    """Spent after it, currency units."""
    time_h: FloatArray
    """Campaign hours at its end."""
    outcome: FloatArray
    """NaN where there is none."""
    best: FloatArray
    """The best outcome so far of trials within all limits; NaN before the first."""
    played: IntArray
    """Which of `sets`."""
    sets: tuple[tuple[str, ...], ...]
    """That were played, the smallest first."""

    @classmethod
    def of(cls, rows: Sequence[TrialRow], labels: ShownLabels) -> Tracks:
        cost = np.array([to_units(row.cost) for row in rows], dtype=float)
        outcome = np.array([row.outcome if row.recorded else np.nan for row in rows], dtype=float)
        pick = np.fmax if labels.outcome.maximise else np.fmin
        kept = np.where([labels.keeps(row) for row in rows], outcome, np.nan)
        sets = sorted({row.control_set for row in rows}, key=lambda names: (len(names), names))
        number = {names: i for i, names in enumerate(sets)}
        return cls(
            trial=np.array([row.trial for row in rows], dtype=float),
            cost=cost,
            money=np.cumsum(cost),
            time_h=np.array([row.changed_s for row in rows], dtype=float) / 3600.0,
            outcome=outcome,
            best=pick.accumulate(kept) if len(rows) else outcome,
            played=np.array([number[row.control_set] for row in rows], dtype=int),
            sets=tuple(sets),
        )

    def along(self, axis: Axis) -> FloatArray:
        return {"money": self.money, "trial": self.trial, "time": self.time_h}[axis]


def readings(rows: Sequence[TrialRow], variable: str) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return trials, what was measured of a variable (NaN: nothing), and whether it was controlled, (n,) each."""
    trials = np.array([row.trial for row in rows], dtype=float)
    values = np.array([row.measured.get(variable, np.nan) for row in rows], dtype=float)
    return trials, values, np.array([variable in row.control_set for row in rows], dtype=bool)


def runs(where: NDArray[np.bool_], starts: FloatArray, ends: FloatArray, gap: float) -> list[tuple[float, float]]:
    """Return the stretches in which something holds; those with less than a gap between them are one."""
    held = np.flatnonzero(where)
    if not held.size:
        return []
    begins, stops = starts[held], ends[held]
    apart = np.flatnonzero(begins[1:] - stops[:-1] > gap)
    return list(zip(begins[np.r_[0, apart + 1]].tolist(), stops[np.r_[apart, -1]].tolist(), strict=True))


# Series for a script --------------------------------------------------------------------------------------------------


SERIES_COLUMNS = 600
"""Points per series are at most four times as many."""


def series(facts: Facts) -> Mapping[str, Any]:
    """Return the course and the readings as columns: `x` and `y`, null where there is no value.

    Numbers have six digits: more cannot be told apart on any screen.
    """
    labels, rows = facts.labels, facts.course.rows
    tracks = Tracks.of(rows, labels)
    shown = thinned(tracks.trial, tracks.outcome, SERIES_COLUMNS)
    return {
        "trials": len(rows),
        "course": {
            "x": {
                "money": {"label": labels.currency, "values": _plain(tracks.money[shown])},
                "trial": {"label": "trial", "values": _plain(tracks.trial[shown])},
                "time": {"label": "h", "values": _plain(tracks.time_h[shown])},
            },
            "label": labels.outcome.label,
            "unit": labels.outcome.unit,
            "outcome": _plain(tracks.outcome[shown]),
            "best": _plain(tracks.best[shown]),
        },
        "readings": [_reading(facts, name, unit) for name, unit in labels.units.items()],
    }


def _reading(facts: Facts, name: str, unit: str) -> Mapping[str, Any]:
    xs, ys, held = readings(facts.course.rows, name)
    shown = thinned(xs, ys, SERIES_COLUMNS)
    words = words_of(name, facts.labels.units)
    return {
        "name": name,
        "unit": unit,
        "words": {f"{n:g}": word for n, word in words.items()},
        "band": None if words else facts.bands.get(name),
        "x": _plain(xs[shown]),
        "alone": _plain(np.where(held, np.nan, ys)[shown]),
        "held": _plain(np.where(held, ys, np.nan)[shown]),
    }


def _plain(values: FloatArray) -> list[float | None]:
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values]
