import re
from html.parser import HTMLParser

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.status import Status
from rigctl.page import render
from rigctl.page.facts import gather
from rigctl.page.figures import series
from rigctl.page.render import SECTIONS, page, sections
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from tests.campaign.records import make_decision, record_trial
from tests.page.conftest import NOON, told

VOID = {"meta", "link", "input", "br", "path", "rect", "line", "circle"}


class Outline(HTMLParser):
    """Checks that elements close in order; collects ids, labels and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.labelled, self.addresses, self.styles = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.labelled += [values[key] for key in ("aria-labelledby", "for") if key in values]
        self.addresses += [values[key] for key in ("href", "src", "action") if key in values]
        self.styles += [tag] if tag == "style" or "style" in values or any(k.startswith("on") for k in values) else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def outline(html):
    found = Outline()
    found.feed(html)
    found.close()
    assert found.open == []
    return found


@pytest.mark.slow
def test_the_whole_page_is_in_order(shown):
    """Elements close in order, ids differ, labels lead somewhere, and nothing leads out or is styled in line."""
    found = outline(page(*shown, acting="t"))
    assert len(found.ids) == len(set(found.ids))
    assert set(found.labelled) <= set(found.ids)
    assert {a.lstrip("#") for a in found.addresses if a.startswith("#")} <= set(found.ids)
    assert not [a for a in found.addresses if "//" in a or a.startswith("/")]
    assert found.styles == []
    named = {a.removeprefix("assets/").partition("?")[0] for a in found.addresses if a.startswith("assets/")}
    assert named <= set(render.MEDIA)


def test_every_section_shows_something(shown):
    """A finished campaign of two outcomes fills all but one: it awaits nothing."""
    parts = sections(*shown)
    assert list(parts) == list(SECTIONS)
    assert [name for name, html in parts.items() if not html] == ["awaited"]
    for html in parts.values():
        outline(html)


def test_sections_are_those_of_the_page(shown):
    """What is sent later is what the page was made of, so that only what changed need be sent."""
    whole, parts = page(*shown), sections(*shown)
    assert all(f'data-live="{name}">{html}</div>' in whole for name, html in parts.items())
    assert parts == sections(*shown)


@pytest.mark.slow
def test_forms_are_for_those_who_may_act(finished):
    """Without a token there is no form that acts; with one, each carries it, while a campaign runs to obey."""
    with told(finished, {"phase": "running", "paused": "paused by eve"}) as (paused, _):
        assert 'method="post"' not in page(paused, None)
        html = page(paused, None, acting='a"b')
    verbs = re.findall(r'action="act/(\w+)"><input type="hidden" name="csrf" value="a&#34;b">', html)
    assert set(verbs) - {"ack", "shelve"} == {"finish", "safe", "resume", "void"}
    with told(finished, {"phase": "running"}) as (facts, _):
        assert 'action="act/pause"' in page(facts, None, acting="t")
    with told(finished) as (facts, _):
        over = page(facts, None, acting="t")
    assert 'method="post"' not in over


def test_hostile_words_stay_words(journal, tmp_path):
    """Names and messages that are HTML are shown, never run."""
    bad = "<script>alert('x')</script>"
    record_trial(journal)
    journal.alarms.add(Alarm(Severity.MAJOR, bad, bad, kind=bad))
    journal.propose(make_decision(2, note=bad))
    with open_reader(tmp_path) as reader:
        facts = gather(reader, None, Status.of({"phase": bad, "why": bad, "trial": None}), NOON)
    html = page(facts, None)
    outline(html)
    assert "<script>alert" not in html
    assert html.count("&lt;script&gt;alert(&#39;x&#39;)") >= 3


def test_an_empty_campaign_says_so(journal, tmp_path, golden):
    """Before the first trial the page stands, and says that there is nothing yet."""
    with open_reader(tmp_path) as reader:
        facts = gather(reader, None, Status.of({"phase": "running"}), NOON)
    html = page(facts, None)
    outline(html)
    assert series(facts)["trials"] == 0
    golden(re.findall("<p[^>]*>(No trial[^<]*)<", html))


def test_series_hold_every_column(shown):
    """Series for the script are as long as their axis, and hold null where there is no value."""
    found = series(shown[0])
    course = found["course"]
    assert {len(x["values"]) for x in course["x"].values()} == {len(course["outcome"])} == {len(course["best"])}
    for reading in found["readings"]:
        assert len(reading["x"]) == len(reading["alone"]) == len(reading["held"])
        assert all((a is None) != (b is None) for a, b in zip(reading["alone"], reading["held"], strict=True))
