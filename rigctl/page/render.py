"""Facts as HTML: the whole page, each of its sections, and the series that a script may draw."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from rigctl.config.wording import joined, lasting
from rigctl.errors import counted
from rigctl.page import words
from rigctl.page.assets import tagged
from rigctl.page.course import Tracks
from rigctl.page.sections import SECTIONS, kept, view
from rigctl.page.series import series
from rigctl.page.shown import Facts, Study
from rigctl.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["page", "sections", "series"]


def page(facts: Facts, study: Study | None, *, acting: str | None = None) -> str:
    """Return the whole document.

    Args:
        facts: what there is to be shown.
        study: what the model says, if it has been worked out.
        acting: the token that forms carry, for whoever may act; None: there are no forms.
    """
    parts = sections(facts, study, acting=acting)
    return (
        environment()
        .get_template("page.html")
        .render(facts=facts, parts=parts, titles=SECTIONS, words=words, acting=acting, asset=tagged)
    )


def sections(facts: Facts, study: Study | None, *, acting: str | None = None) -> Mapping[str, str]:
    """Return the inner HTML of each live section by its id; arguments as for `page`. A part with nothing is empty."""
    rows, maximise = facts.course.rows, facts.labels.outcome.maximise
    tracks = kept(facts, "tracks", (), lambda: Tracks.of(rows, maximise=maximise))
    known = {
        "facts": facts,
        "study": study,
        "acting": acting,
        "words": words,
        "labels": facts.labels,
        "signs": words.SEVERITIES,
    }
    out = {}
    for name in SECTIONS:
        shown = view(name, facts, study, tracks)
        out[name] = "" if shown is None else environment().get_template(f"{name}.html").render(**known, **shown)
    return out


def _printable(value: object) -> object:
    # markup is ours, and made of texts that came through here
    return printable(value) if type(value) is str else value


@cache  # templates are compiled once per process
def environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only when something is shown

    found = Environment(
        loader=PackageLoader("rigctl.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    found.globals.update(counted=counted, joined=joined, lasting=lasting)
    return found
