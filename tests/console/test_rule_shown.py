"""How a rule is shown on the terminal, on the page, in a report and to programs."""

import json
import re
from dataclasses import replace

import pytest

from rigctl.console import report as shown
from rigctl.console.output import told
from rigctl.core.advice.rule import Between, LookWorth, Rule, RuleLine, Setting, Slope, Trust
from rigctl.core.advice.worth import FixedSetting, Gain
from rigctl.core.experiment.persistence import ReadBefore
from rigctl.page.render import sections
from rigctl.page.report import Report, document, report
from rigctl.page.shown import ShownLabels
from tests.console.test_golden import loaded, recommendation, said, screen
from tests.page.conftest import NOON, finished  # noqa: F401  # a fixture
from tests.page.conftest import told as opened

ACID = RuleLine(
    (Between("ph", None, 5.8),),
    ("nh4", "k"),
    (Setting("nh4", 1.9, (Slope("ca", 2.6, 0.1),), 0.0, 4.0), Setting("k", 9.3, (), 0.0, 12.0)),
    0.06,
    13.5,
    13.4,
    13.6,
    0.37,
    9,
)
OTHERWISE = RuleLine(
    (Between("ph", 5.8, None),), ("ph",), (Setting("ph", 5.6, (), 4.0, 8.0),), 0.94, 13.7, 13.6, 13.8, None, 7
)
RULE = Rule(
    (ACID, OTHERWISE),
    13.69,
    13.6,
    13.78,
    0.75,
    13.74,
    0.71,
    0.05,
    0.2,
    LookWorth(
        FixedSetting(("ca", "k"), {"ca": 2.6, "k": 9.3}, 13.49, 13.4, 13.58, 0.71),
        Gain(0.27, 0.12, 0.42),
        Gain(0.2, 0.1, 0.3),
        Gain(0.25, 0.1, 0.4),
    ),
    (Trust("ph", 0.97, 0.02, 36), Trust("ca", 0.0, 0.1, 3)),
)
SAYS = (
    "ph below 5.8",
    "ph from 5.8",
    "nh4 1.9 + 0.1 x (ca - 2.6)",
    "Costs aside, the rule is better by 0.10 to 0.30",
    "than the best fixed setting (ca+k).",
    "Costs aside, the best rule is better by 0.12 to 0.42",
    "would be better by 0.05",
    "20% of the gain from looking",
    "by this share: ph 97%, ca not known yet.",
)
READ = (
    ReadBefore("ph", 5.9, 0.02, 0.97, 36, 5.9, 0.1, 5.8, 0.4),
    ReadBefore("ca", None, 0.0, 0.0, 3, 2.6, 0.9, 2.6, 0.9),
    ReadBefore("k", 9.3, 0.1, 0.0, 12, 7.5, 2.6, 7.5, 2.6),
    ReadBefore("nh4", 1.2, 0.0, 0.5, 0, 1.4, 0.5, 1.6, 0.6),
)
READS = (
    ("ph pH", "5.900 ± 0.020", "controlled", "5.80 ± 0.40"),
    ("ca mM", "not read", "2.60 ± 0.90", "2.60 ± 0.90"),
    ("k mM", "9.30 ± 0.10", "7.5 ± 2.6", "7.5 ± 2.6", "not by 12 trials"),
    ("nh4 mM", "1.2", "1.40 ± 0.50", "1.60 ± 0.60", "50 % as configured"),
)


def with_rule(found):
    return replace(found, rule=RULE)


@pytest.mark.parametrize("width", [60, 200])
def test_the_terminal_shows_the_rule(width):
    """Every line of it, whole, at any width; and nothing of it where nothing is read first."""
    console, labels = screen(width), ShownLabels.of(loaded())
    shown.show(with_rule(recommendation()), labels, console, details=True)
    text = re.sub(r"\s+", " ", said(console))
    assert [part for part in SAYS if part not in text] == []
    assert max(map(len, said(console).split("\n"))) <= width
    plain = screen(width)
    shown.show(recommendation(), labels, plain)
    assert "ooking" not in said(plain)


def test_what_is_best_at_what_was_read_now_stands_first(golden):
    """What to control, where, and what that gives; only that nothing changes where the readings tell nothing."""
    plain = recommendation()
    other = replace(plain.choice, control_set=("ph",), setpoints={"ph": 5.6}, expected=12.5, low=12.1, high=12.9)
    for now in (other, plain.choice):
        console = screen(80)
        shown.show(replace(plain, now=now), ShownLabels.of(loaded()), console)
        golden(said(console).splitlines()[:8])
        assert told(shown.to_json(replace(plain, now=now)))["now"]["setpoints"] == dict(now.setpoints)


def test_programs_are_given_the_rule():
    """With every number that it takes to follow it."""
    answer = json.loads(json.dumps(told(shown.to_json(with_rule(recommendation())))))["rule"]
    assert answer["lines"][0]["when"] == [{"reading": "ph", "low": None, "high": 5.8}]
    assert answer["lines"][0]["settings"][0]["slopes"] == [{"reading": "ca", "about": 2.6, "per_unit": 0.1}]
    assert answer["looking"]["gain"] == {"expected": 0.2, "low": 0.1, "high": 0.3}
    assert "rule" not in shown.to_json(recommendation())


def plain(html):
    """What somebody reads: without markup and drawings."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"<title>[^<]*</title><desc>[^<]*</desc>", " ", html)))


@pytest.mark.slow
def test_page_and_report_show_rule_and_reading(finished):  # noqa: F811  # the fixture
    """What to control at which readings, what it is worth, what was last read and how far that is believed."""
    with opened(finished) as (facts, campaign):
        found = report(campaign.reader, campaign.loaded, NOON)
    study = replace(found.study, recommendation=with_rule(found.study.recommendation))
    facts = replace(facts, why=replace(facts.why, control_set=("ph",), reads=READ))
    page = sections(facts, study)
    whole = document(replace(found, facts=facts, study=study))
    for html in (page["advice"], whole):
        assert [part for part in SAYS if part not in plain(html)] == []
    for html in (page["why"], whole):
        rows = [plain(row).strip() for row in re.findall(r"<tr>.*?</tr>", html, flags=re.DOTALL)]
        assert [told for told in READS if not any(all(part in row for part in told) for row in rows)] == []
        assert f"Readings taken before trial {facts.why.trial} was decided" in plain(html)
    assert "ooking first" not in sections(facts, found.study)["advice"]
    assert "Read before" not in sections(replace(facts, why=replace(facts.why, reads=())), study)["why"]
    assert isinstance(found, Report)
