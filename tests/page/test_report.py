"""A campaign as one document, its drawings as files, and the document printed."""

import csv
import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from rigctl.errors import RigctlError
from rigctl.page import report_files
from rigctl.page.report import Picture, document, drawings, report
from rigctl.page.study import MOST_TRIALS
from tests.full_disk import full_disk
from tests.page.big_journal import lengthen
from tests.page.conftest import NOON, told
from tests.page.test_render import Outline
from tests.profiles import nightly_beyond

MOST_BYTES = 1_000_000
LONG = [(300, 400), (MOST_TRIALS, MOST_TRIALS + 100), (MOST_TRIALS, 5_000)]
"""From how many trials on some things are left out, and trials; the response of 1,100 takes ten seconds to learn."""
ELSEWHERE = re.compile(r"""(?:src|href|action)=|url\(|@import|<script|https?://(?!www\.w3\.org/)""")
"""What a document would need the network, or a script, for."""


@pytest.fixture(scope="module")
def found(finished):
    """The report of a campaign of the greenhouse that has ended."""
    with told(finished) as (_, campaign):
        return report(campaign.reader, campaign.loaded, NOON)


@pytest.fixture(scope="module")
def html(found):
    return document(found)


@pytest.mark.slow
def test_the_document_needs_nothing_else(html):
    """No script, no address, no file beside it; below a megabyte; elements close in order."""
    assert len(html.encode()) < MOST_BYTES
    assert ELSEWHERE.findall(html) == []
    outline = Outline()
    outline.feed(html)
    assert outline.open == []


@pytest.mark.parametrize(
    "part",
    [
        ": recommendation</h1>",
        "Compared with controlling nothing",
        "control nothing",
        "Changes that would lead to another recommendation",
        "95 % interval",
        "Effect of controlling each variable:",
        "electricity",
        "By control set",
        "Faults and alarms",
        "Configuration and versions",
        "scikit-learn",
        "further_outcomes:",
    ],
)
def test_the_document_says(html, part):
    """What to run, against what, what was paid and learned, what went wrong, how it was configured."""
    assert part in html


def test_every_variable_has_a_lesson(found, html):
    """Also those that the recommendation leaves alone."""
    rows = html.split("Effect of controlling each variable:")[1].split("</ul>")[0]
    assert [f"<li>{name}: " in rows for name in found.facts.labels.units] == [True] * 5


@pytest.mark.slow
def test_people_read_labels_and_programs_names(finished):
    """Where variables and outcomes have labels, their names stand only in what the rig itself has said of a sensor."""
    with told(finished) as (_, campaign):
        problem, rig = campaign.loaded.problem, campaign.loaded.rig
        space = replace(
            problem.space, variables=tuple(replace(v, label=f"L-{v.name}") for v in problem.space.variables)
        )
        rig = replace(rig, outcomes=tuple(replace(o, label=f"L-{o.name}") for o in rig.outcomes))
        loaded = replace(campaign.loaded, problem=replace(problem, space=space), rig=rig)
        found = report(campaign.reader, loaded, NOON)
    names = "|".join((*problem.space.names, *rig.outcome_names))
    read = document(found).split("Configuration and versions")[0].split("</style>")[1]
    text = re.sub(r"<[^>]*>", "|", read)
    named = re.findall(rf".*(?<![\w-])(?:{names})(?![\w-]).*", text)
    assert [line for line in named if "samples excluded" not in line] == []
    series = next(drawn for drawn in drawings(found.facts, found.study) if drawn.group == "readings")
    assert series.title == f"L-{series.columns[1]}"


def test_the_ledger_adds_up_to_what_was_spent(found):
    """By meter and by control set alike, idle time aside."""
    money = found.facts.money
    assert sum(p.cost for p in money.parts) == pytest.approx(money.spent)
    assert sum(s.amount for s in found.sets) + money.idle == pytest.approx(money.spent)
    assert sum(s.trials for s in found.sets) == sum(found.states.values()) == len(found.facts.course.rows)


@pytest.mark.slow
def test_todays_practice_is_compared_where_it_is_given(finished, golden):
    """The way it is run today stands beside all left alone and all controlled."""
    with told(finished) as (_, campaign):
        practice = replace(campaign.loaded, today={"k": 5.0})
        text = document(report(campaign.reader, practice, NOON))
    golden(re.search("<[^>]*>([^<]*practice[^<]*)<", text)[1])


def test_names_are_never_markup(found):
    """What stands in a configuration is shown as it is."""
    labels = replace(found.facts.labels, rig="<script>alert(1)</script>")
    text = document(replace(found, facts=replace(found.facts, labels=labels), config="</pre><img src=x>"))
    assert "<script>" not in text
    assert "<img" not in text


@pytest.mark.slow
@pytest.mark.parametrize(("most", "trials"), nightly_beyond(1, LONG, several=True))
def test_a_report_of_many_trials_is_no_larger(finished, tmp_path, monkeypatch, most, trials):
    """What is listed is counted beyond some lines, what is drawn is thinned; what takes long is left out."""
    for module in ("report", "study"):
        monkeypatch.setattr(f"rigctl.page.{module}.MOST_TRIALS", most)
    shutil.copytree(finished, tmp_path / "long")
    lengthen(tmp_path / "long", trials)
    with told(tmp_path / "long") as (_, campaign):
        found = report(campaign.reader, campaign.loaded, NOON)
    text = document(found)
    assert len(text.encode()) < MOST_BYTES
    assert f"{trials} trials" in text
    assert found.changes == ()


# Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_drawing_is_had_as_svg_png_and_csv(found, tmp_path):
    """The same drawing, its numbers, and a picture of it."""
    files = report_files.write_figures(found.drawings, tmp_path)
    assert sorted(path.name for path in files) == sorted(path.name for path in tmp_path.iterdir())
    names = {one.name for one in found.drawings}
    assert {"ways", "money", "course-money", "played", "reading-ph", "model-ca"} <= names
    assert {path.stem for path in files} == names
    for one in found.drawings:
        drawing = ET.parse(tmp_path / f"{one.name}.svg")  # noqa: S314 - ours
        assert drawing.getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert (tmp_path / f"{one.name}.png").read_bytes().startswith(b"\x89PNG")
        with (tmp_path / f"{one.name}.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        assert tuple(header) == one.columns
        assert len(rows) == len(one.rows) > 0


def test_a_drawing_of_its_own_has_its_colours_in_it(found):
    """Not every program that reads SVG knows variables, and none has the page's style."""
    style = report_files.standalone_style()
    assert "var(" not in style
    used = set(re.findall(r'class="([\w-]+)"', "".join(str(one.drawing) for one in found.drawings)))
    drawn = {kind for kind in used if kind not in {"figure", "axis", "label", "range", "gauge"}}
    assert {kind for kind in drawn if f".{kind}" not in style} == set()


def test_a_variable_may_be_called_as_it_likes(found, tmp_path):
    """A name with a slash stays in the directory."""
    odd = replace(found.drawings[0], name="reading-../../NO3/N")
    report_files.write_figures([odd], tmp_path / "figures")
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]
    assert len(list((tmp_path / "figures").iterdir())) == 3


def test_without_a_browser_printing_is_refused_before_it_takes_time(finished, tmp_path, monkeypatch, golden):
    """It says which would do, and that the HTML file can be printed from any."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with golden.raises(RigctlError):
        report_files.browser()


def test_a_browser_that_does_not_print_is_named(tmp_path, monkeypatch, golden):
    """With what it said; the HTML file is there."""
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\necho cannot open display >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with golden.raises(RigctlError):
        report_files.write_pdf(tmp_path / "report.html", tmp_path / "report.pdf")


@pytest.mark.system
@pytest.mark.skipif(not any(map(report_files.shutil.which, report_files.BROWSERS)), reason="there is no browser here")
def test_a_browser_prints_it(html, tmp_path):
    """Some pages, not one long one, and no header of the browser's."""
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    report_files.write_pdf(tmp_path / "report.html", tmp_path / "report.pdf")
    data = (tmp_path / "report.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert 3 <= data.count(b"/Type /Page\n") + data.count(b"/Type /Page/") + data.count(b"/Type /Page ") <= 12


def test_drawings_without_a_model_are_those_of_the_journal(found):
    """Before the model is worked out."""
    names = [one.name for one in drawings(found.facts, None)]
    assert "money" in names
    assert "ways" not in names
    assert all(isinstance(one, Picture) for one in found.drawings)


def test_a_response_that_has_changed_is_told(found):
    """Under a heading of its own; without a change there is none."""
    changed = "The response has changed at trial 9."
    aged = replace(found, study=replace(found.study, response=(changed,)))
    assert f"<p>{changed}</p>" in document(aged)
    assert document(aged).count("<h3>") == document(found).count("<h3>") + 1


def test_a_drawing_s_numbers_are_no_formulas(found, tmp_path):
    """What a forged journal calls a meter is quoted for spreadsheets."""
    named = replace(found.drawings[1], rows=(("\u200b=1+1", 2.0),), columns=("meter", "amount"))
    table = report_files.write_figures((named,), tmp_path)[0]
    assert table.read_text(encoding="utf-8") == "meter,amount\n'=1+1,2.0\n"


def test_a_full_disk_leaves_the_drawings_that_were_there(found, tmp_path, golden):
    """The older files, whole, and nothing beside them."""
    drawn = found.drawings[1:2]
    old = {file: file.read_bytes() for file in report_files.write_figures(drawn, tmp_path)}
    with full_disk(), pytest.raises(OSError) as refused:
        report_files.write_figures(drawn, tmp_path)
    golden(refused.value)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == old
