"""The drawings of a report, each with the numbers it is drawn of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from markupsafe import Markup

from rigctl.core.recommend import Option, Recommendation
from rigctl.core.worth import Reference
from rigctl.page import figures, words
from rigctl.page.course import Axis, Tracks
from rigctl.page.shown import Facts, Study
from rigctl.page.svg import Scale, axis_row, drawing, range_row

ROW = 24
"""Pixels that a way of running takes."""
NAMES = 32
"""Percent of a drawing that their names take."""
AXES: Final[tuple[Axis, ...]] = ("money", "trial")
WAYS: Final[Mapping[str, str]] = MappingProxyType(
    {"nothing": "all left alone", "everything": "all controlled", "today": "today's practice"}
)
"""What a reference is called."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Holds one drawing and the numbers it shows."""

    name: str
    """Of its files, without a suffix."""
    group: str
    """Which part of the report it belongs to."""
    title: str
    drawing: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def drawings(facts: Facts, study: Study | None) -> tuple[Drawn, ...]:
    """Return every drawing there is something for."""
    found = [_money(facts)]
    if facts.course.rows:
        tracks = Tracks.of(facts.course.rows, maximise=facts.labels.outcome.maximise)
        found += [*_course(facts, tracks), *_readings(facts, study)]
    if study is not None and study.recommendation is not None:
        found += [_ways(facts, study.recommendation), *_model(facts, study)]
    front = _front(facts, study)
    return (*found, front) if front is not None else tuple(found)


def _ways(facts: Facts, found: Recommendation) -> Drawn:
    """Return every way of running on one outcome axis, the recommended one first."""
    ways: list[tuple[str, Option | Reference, str]] = [
        *((" + ".join(o.control_set), o, "open") for o in (found.choice, *found.alternatives)),
        *((WAYS[r.what], r, "out") for r in found.worth.references),
    ]
    ways[0] = (ways[0][0], found.choice, "chosen")
    axis = Scale.around([*(v for _, o, _ in ways for v in (o.low, o.high)), found.threshold], 0.0, 100.0)
    marks = [(found.choice.expected, "today"), (found.threshold, "line")]
    parts = [
        _row(name, i, range_row(axis, (o.low, o.expected, o.high), marks, kind, f"{name}: {words.number(o.expected)}"))
        for i, (name, o, kind) in enumerate(ways)
    ]
    parts.append(_row("", len(ways), axis_row(axis, 6)))
    title = f"Expected {facts.labels.outcome.name} of each way of running"
    told = f"recommended: {'+'.join(found.choice.control_set)}, {words.number(found.choice.expected)}"
    return Drawn(
        "ways",
        "ways",
        title,
        drawing(len(ways) * ROW + 16, title, told, Markup().join(parts)),
        ("way", "expected", "low", "high", "cost_per_trial", "trials"),
        tuple((name, o.expected, o.low, o.high, o.cost_per_trial, o.trials) for name, o, _ in ways),
    )


def _row(name: str, place: int, row: Markup) -> Markup:
    text = Markup('<text class="label" x="0" y="{}">{}</text>').format(place * ROW + 16, name)
    inner = Markup('<svg x="{}%" y="{}" width="{}%" height="{}">{}</svg>')
    return text + inner.format(NAMES, place * ROW, 100 - NAMES, ROW, row)


def _money(facts: Facts) -> Drawn:
    columns = ("meter", "kind", "quantity", "unit", "amount", "partly_estimated")
    rows = tuple((p.meter, p.kind, p.quantity, p.unit, p.amount, p.estimated) for p in facts.money.parts)
    gauge = figures.fuel(facts.money, facts.labels.currency)
    return Drawn("money", "money", "Money by meter", gauge, columns, rows)


def _course(facts: Facts, tracks: Tracks) -> Iterator[Drawn]:
    name = facts.labels.outcome.name
    sets = ["+".join(tracks.sets[i]) for i in tracks.played]
    columns = ("trial", "money", "hours", name, "best", "control_set")
    series = (tracks.trial, tracks.money, tracks.time_h, tracks.outcome, tracks.best)
    rows = tuple(zip(*(values.tolist() for values in series), sets, strict=True))
    for axis in AXES:
        title = f"{name} against {axis}, and the best so far"
        yield Drawn(f"course-{axis}", "course", title, figures.course(facts, tracks, axis), columns, rows)
    yield Drawn("played", "course", "Control set played, by trial", figures.strip(tracks, "trial"), columns, rows)


def _readings(facts: Facts, study: Study | None) -> Iterator[Drawn]:
    rows = facts.course.rows
    bands = facts.bands if study is None else study.bands
    supplies = () if study is None else study.supplies
    for name, unit in facts.labels.units.items():
        drawing_ = figures.reading(rows, name, unit, bands.get(name), supplies)
        told = tuple((r.trial, r.measured.get(name), name in r.control_set) for r in rows)
        yield Drawn(f"reading-{name}", "readings", name, drawing_, ("trial", name, "controlled"), told)


def _model(facts: Facts, study: Study) -> Iterator[Drawn]:
    for s in study.slices:
        rows = tuple(zip(s.at, s.mean, s.low, s.high, s.tried, strict=True))
        columns = (s.variable, "expected", "low", "high", "tried")
        yield Drawn(f"model-{s.variable}", "model", s.variable, figures.model_slice(s, facts.labels), columns, rows)


def _front(facts: Facts, study: Study | None) -> Drawn | None:
    expected = None if study is None or study.recommendation is None else study.recommendation.front
    shown = figures.front(facts, expected)
    if shown is None:
        return None
    first, second = (o.name for o in facts.labels.outcomes[:2])
    rows = tuple((r.trial, "+".join(r.control_set), r.outcome, r.further.get(second)) for r in facts.recorded)
    return Drawn(
        "trade-off", "front", f"{first} against {second}", shown, ("trial", "control_set", first, second), rows
    )
