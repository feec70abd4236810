"""What each section's template is given; nothing where there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from rigctl.campaign.alarms import AlarmState, pressing
from rigctl.core.advise import advise
from rigctl.page import figures, words
from rigctl.page.course import Axis, Tracks
from rigctl.page.shown import Facts, Study

MOST_ALARMS = 20
"""Alarms that are listed beside the log."""
View = Mapping[str, Any] | None
AXES: tuple[tuple[Axis, str], ...] = (("money", "money spent"), ("trial", "trial"), ("time", "time"))
T = TypeVar("T")


def kept(facts: Facts, name: str, of: object, draw: Callable[[], T]) -> T:
    """Return a drawing of all trials, made anew only when they, the names or what else it is of have changed."""
    state = (facts.course.event, len(facts.course.rows), facts.labels, of)
    was = facts.drawn.get(name)
    if was is None or was[0] != state:
        was = facts.drawn[name] = state, draw()
    found: T = was[1]
    return found


def _now(facts: Facts, study: Study | None, _: Tracks) -> View:
    return {"sentence": words.headline(facts, study)}


def _trial(facts: Facts, _: Study | None, __: Tracks) -> View:
    if facts.trial is None:
        return {"pumps": ()}
    pumps = [
        (pump, None if pump.per_day_ml is None else figures.bar(pump.day_ml / pump.per_day_ml, f"{pump.name} per day"))
        for pump in facts.trial.pumps
    ]
    return {"pumps": pumps}


def _why(facts: Facts, study: Study | None, _: Tracks) -> View:
    if facts.why is None or not facts.why.sets:
        return None
    today = None if study is None or study.recommendation is None else study.recommendation.choice.expected
    rows, axis = figures.why_rows(facts.why, facts.labels, today)
    sets = list(zip(facts.why.sets, rows, strict=True))
    return {"rows": sets, "axis": axis, "today": today, "reads": figures.reads(facts.why)}


def _money(facts: Facts, study: Study | None, _: Tracks) -> View:
    fills = figures.FILLS
    return {
        "gauge": figures.fuel(facts.money, facts.labels.currency),
        "parts": [(fills[i % len(fills)], part) for i, part in enumerate(facts.money.parts)],
        "choice": None if study is None or study.recommendation is None else study.recommendation.choice,
    }


def _log(facts: Facts, _: Study | None, __: Tracks) -> View:
    listed = pressing(facts.alarms)
    return {"shown": listed[:MOST_ALARMS], "others": len(listed[MOST_ALARMS:]), "alarm_acts": _alarm_acts}


def _alarm_acts(alarm: AlarmState) -> Sequence[tuple[str, str]]:
    """Return what people may do about an alarm: verbs, and what their buttons say."""
    ack = [] if alarm.acknowledged else [("ack", "Acknowledge")]
    return [*ack, ("shelve", "Shelve for 1 h") if alarm.shelf is None else ("unshelve", "Unshelve")]


def _course(facts: Facts, _: Study | None, tracks: Tracks) -> View:
    if not facts.course.rows:
        return None
    drawn = kept(
        facts,
        "course",
        (),
        lambda: [(axis, name, figures.course(facts, tracks, axis), figures.strip(tracks, axis)) for axis, name in AXES],
    )
    return {"drawings": drawn}


def _readings(facts: Facts, study: Study | None, _: Tracks) -> View:
    if not facts.course.rows:
        return None
    bands = facts.bands if study is None else study.bands
    supplies = () if study is None else study.supplies
    rows, units = facts.course.rows, facts.labels.units
    drawn = kept(
        facts,
        "readings",
        (bands, supplies),
        lambda: [(name, figures.reading(rows, name, unit, bands.get(name), supplies)) for name, unit in units.items()],
    )
    return {"drawings": drawn}


def _model(facts: Facts, study: Study | None, _: Tracks) -> View:
    if study is None or not study.slices:
        return None
    return {"drawings": [(s, figures.model_slice(s, facts.labels)) for s in study.slices]}


def _front(facts: Facts, study: Study | None, _: Tracks) -> View:
    expected = None if study is None or study.recommendation is None else study.recommendation.front
    drawing = figures.front(facts, expected)
    return None if drawing is None else {"drawing": drawing, "front": expected}


def _advice(facts: Facts, study: Study | None, _: Tracks) -> View:
    if study is None or study.recommendation is None:
        return {"found": None, "sentence": ""}
    found = study.recommendation
    options = (found.choice, *found.alternatives)
    widths = [option.high - option.low for option in options]
    decimals = words.decimals_for(min(widths))
    outcome, currency = facts.labels.outcome, facts.labels.currency
    lines = advise(found, outcome=outcome.name, unit=outcome.unit, currency=currency)
    return {
        "found": found,
        "sentence": words.advice(facts.labels, study),
        "options": options,
        "decimals": decimals,
        "alone": next((r for r in found.worth.references if r.what == "nothing"), None),
        "today": next((r for r in found.worth.references if r.what == "today"), None),
        "worth": words.grouped(lines),
    }


_VIEWS: Mapping[str, tuple[str, Callable[[Facts, Study | None, Tracks], View]]] = MappingProxyType(
    {
        "now": ("Now", _now),
        "trial": ("Trial", _trial),
        "why": ("Why this control set", _why),
        "money": ("Money", _money),
        "advice": ("What to run from now on", _advice),
        "awaited": ("Outcomes awaited", lambda facts, *_: {} if facts.awaited else None),
        "course": ("Course", _course),
        "readings": ("Readings", _readings),
        "model": ("What the model expects", _model),
        "front": ("Trade-off", _front),
        "instruments": ("Instruments", lambda facts, *_: {} if facts.instruments else None),
        "log": ("Log", _log),
    }
)
SECTIONS: Mapping[str, str] = MappingProxyType({name: title for name, (title, _) in _VIEWS.items()})
"""Sections by id, in their order, and their titles."""


def view(name: str, facts: Facts, study: Study | None, tracks: Tracks) -> View:
    """Return what a section's template needs; None where there is nothing to show."""
    return _VIEWS[name][1](facts, study, tracks)
