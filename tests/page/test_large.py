"""A campaign of 20,000 trials, of which a page shows what a screen can."""

from dataclasses import replace

import pytest

from rigctl.page import render
from rigctl.page.figures import series
from rigctl.page.render import page, sections
from rigctl.page.shown import Course

TRIALS = 20_000
FIRST_VIEW = 150_000
"""Bytes of everything a first look needs."""


@pytest.fixture(scope="module")
def large(shown):
    """The finished campaign, its trials repeated, with outcomes and readings that differ; and what the model says."""
    facts, known = shown
    rows = facts.course.rows
    more = []
    for number in range(TRIALS):
        row, wobble = rows[number % len(rows)], 1 + 0.05 * ((number * 7919) % 101 - 50) / 50
        measured = {name: value * wobble for name, value in row.measured.items()}
        outcome = None if row.outcome is None else row.outcome * wobble
        at_s = 600.0 * number
        more.append(replace(row, trial=number + 1, outcome=outcome, measured=measured, changed_s=at_s))
    return replace(facts, course=Course(tuple(more), event=facts.course.event + 1), drawn={}), known


@pytest.mark.slow
def test_the_first_view_stays_light(large):
    """With every drawing as full as it gets, the first view still is below 150 kB."""
    names = ("page.css", "page.js", "uPlot.min.css", "uPlot.iife.min.js", "icon.svg")
    html = page(*large, acting="t" * 43)
    assert len(html.encode()) + sum(len(render.asset(n)[0]) for n in names) <= FIRST_VIEW
    assert f"Trial {large[0].trial.trial}" in html


@pytest.mark.slow
def test_series_are_thinned(large):
    """Series for the script are as long as a screen is wide, and keep the highest outcome."""
    facts, _ = large
    found = series(facts)
    assert len(found["course"]["outcome"]) <= 1202
    assert max(found["course"]["outcome"]) == pytest.approx(max(r.outcome for r in facts.recorded), rel=1e-5)
    assert found["trials"] == TRIALS


@pytest.mark.slow
def test_drawings_are_made_once(large):
    """While no trial changes, drawings are not made again, whoever looks; one that changes has them made anew."""
    facts, known = large
    first = sections(facts, known)
    course, held = facts.drawn["course"][1], facts.drawn["readings"][1]
    again = sections(facts, known, acting="t")
    assert again["course"] == first["course"]
    assert facts.drawn["course"][1] is course
    assert facts.drawn["readings"][1] is held
    longer = replace(facts, course=replace(facts.course, event=facts.course.event + 1))
    sections(longer, known)
    assert longer.drawn["course"][1] is not course
