"""Facts as HTML: the whole page, each of its sections, and the series that a script may draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from rigctl.campaign.journal.alarms import AlarmState, pressing
from rigctl.core.advice.answer_words import Advice, advise, held
from rigctl.errors import RigctlError, counted
from rigctl.page import figures, words
from rigctl.page.figures import Tracks
from rigctl.page.manual import slug
from rigctl.page.shown import Facts, Study
from rigctl.printable import printable
from rigctl.text import joined, lasting, shown_name, shown_set, shown_way

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context


def page(facts: Facts, study: Study | None, *, acting: str | None = None) -> str:
    """Return the whole document; `acting` is the token that its forms carry, for whoever may act; None: no forms."""
    parts = sections(facts, study, acting=acting)
    return filled("page.html", facts=facts, parts=parts, titles=SECTIONS, words=words, acting=acting)


def sections(facts: Facts, study: Study | None, *, acting: str | None = None) -> Mapping[str, str]:
    """Return the inner HTML of each live section by its id; arguments as for `page`. A part with nothing is empty."""
    tracks = kept(facts, "tracks", (), lambda: Tracks.of(facts.course.rows, facts.labels))
    known = {
        "facts": facts,
        "study": study,
        "acting": acting,
        "words": words,
        "labels": facts.labels,
        "signs": words.SEVERITIES,
        "best": kept(facts, "best", (), lambda: facts.best),
    }
    out = {}
    for name in SECTIONS:
        shown = view(name, facts, study, tracks)
        out[name] = "" if shown is None else filled(f"{name}.html", **known, **shown)
    return out


def filled(template: str, **given: object) -> str:
    """Return a page, or a part of one, from its template; `asset` there names a file that goes with it."""
    return environment().get_template(template).render(asset=tagged, **given)


def _label(context: Context, members: Sequence[str]) -> str:
    return shown_set(members, context["labels"].units, " + ") or "nothing"


def _printable(value: object) -> object:
    # markup is ours, and made of texts that came through here
    return printable(value) if type(value) is str else value


@cache  # templates are compiled once per process
def environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context  # noqa: PLC0415 - only when something is shown

    found = Environment(
        loader=PackageLoader("rigctl.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    found.filters["slug"] = slug
    found.filters["zip"] = lambda one, other: zip(one, other, strict=True)
    found.filters["label"] = pass_context(_label)
    found.globals.update(
        bar=figures.bar,
        counted=counted,
        held=held,
        joined=joined,
        shown_name=shown_name,
        lasting=lasting,
        shown_way=shown_way,
    )
    return found


# What each template is given ------------------------------------------------------------------------------------------


MOST_ALARMS = 20
"""Alarms that are listed beside the log."""
View = Mapping[str, Any] | None
T = TypeVar("T")


def kept(facts: Facts, name: str, of: object, draw: Callable[[], T]) -> T:
    """Return a drawing of all trials, made anew only when they, the names or what else it is of have changed."""
    state = (facts.course.event, facts.course.correction, len(facts.course.rows), facts.labels, of)
    was = facts.drawn.get(name)
    if was is None or was[0] != state:
        was = facts.drawn[name] = state, draw()
    found: T = was[1]
    return found


def _now(facts: Facts, study: Study | None, _: Tracks) -> View:
    return {"sentence": words.headline(facts, study), "say": words.answer_in(facts.labels, study)}


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
    say = words.answer_in(facts.labels, study)
    today = None if say is None else say.answer.run.expected
    rows, axis = figures.why_rows(facts.why, facts.labels, today)
    sets = list(zip(facts.why.sets, rows, strict=True))
    return {"rows": sets, "axis": axis, "today": today, "reads": figures.reads(facts.why, facts.labels.units)}


def _money(facts: Facts, study: Study | None, _: Tracks) -> View:
    fills = figures.FILLS
    return {
        "gauge": figures.fuel(facts.money, facts.labels.currency),
        "parts": [(fills[i % len(fills)], part) for i, part in enumerate(facts.money.parts)],
        "say": words.answer_in(facts.labels, study),
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
        lambda: [(axis, figures.AXES[axis], figures.trend(facts, tracks, axis)) for axis in figures.axes(tracks)],
    )
    return {"drawings": drawn}


def _readings(facts: Facts, study: Study | None, _: Tracks) -> View:
    if not facts.course.rows:
        return None
    bands = facts.bands if study is None or study.trouble else study.bands
    supplies = () if study is None else study.supplies
    rows, units = facts.course.rows, facts.labels.units
    drawn = kept(
        facts,
        "readings",
        (bands, supplies),
        lambda: [(name, figures.reading(rows, name, units, bands.get(name), supplies)) for name in units],
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
    say = words.answer_in(facts.labels, study)
    return {"say": say, "ways": figures.ways(say) if say is not None else None, "worth": worth_of(facts, study)}


def worth_of(facts: Facts, study: Study | None) -> Sequence[Advice]:
    """Return what the recommendation is worth, and what each variable does; nothing before there is one."""
    if study is None or study.recommendation is None:
        return ()
    return advise(study.recommendation, words.answer(facts.labels, study.recommendation))


_VIEWS: Mapping[str, tuple[str, Callable[[Facts, Study | None, Tracks], View]]] = MappingProxyType(
    {
        "now": ("Now", _now),
        "course": ("Trend", _course),
        "trial": ("Trial", _trial),
        "advice": ("Recommendation", _advice),
        "money": ("Money", _money),
        "why": ("Why this control set", _why),
        "awaited": ("Outcomes awaited", lambda facts, *_: {} if facts.awaited else None),
        "readings": ("Readings", _readings),
        "model": ("Model prediction", _model),
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


# Files beside the page ------------------------------------------------------------------------------------------------


MEDIA: Mapping[str, str] = MappingProxyType(
    {
        "page.css": "text/css; charset=utf-8",
        "page.js": "text/javascript; charset=utf-8",
        "icon.svg": "image/svg+xml",
        "uPlot.min.css": "text/css; charset=utf-8",
        "uPlot.iife.min.js": "text/javascript; charset=utf-8",
        "uPlot.LICENSE": "text/plain; charset=utf-8",
    }
)
"""All that may be asked for, and what it is."""
VENDORED: Mapping[str, str] = MappingProxyType(
    {
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    }
)
"""SHA-256 of what others wrote: uPlot 1.6.32 (MIT), from https://github.com/leeoniya/uPlot."""


class UnknownAsset(RigctlError):
    """Something was asked for that is not part of the page."""


def tagged(name: str) -> str:
    """Return a file's name with its hash, by which a browser may keep it for good."""
    return f"{name}?v={sha256(asset(name)[0]).hexdigest()[:16]}"


def asset(name: str) -> tuple[bytes, str]:
    """Return a file's bytes and its media type.

    Raises:
        UnknownAsset: there is none of that name.
        RigctlError: what others wrote is not as it was checked.
    """
    if name not in MEDIA:
        raise UnknownAsset(f"{name[:80]!r}: no such file of the page; there are {', '.join(MEDIA)}")
    data = files("rigctl.page").joinpath("static", name).read_bytes()
    expected = VENDORED.get(name)
    if expected is not None and sha256(data).hexdigest() != expected:
        raise RigctlError(f"{name}: is not the file that was checked (SHA-256 {expected}); install rigctl again")
    return data, MEDIA[name]
