"""Figure files: valid, self-contained, the same data and colours in each format."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from rigctl.bench.asking.options import listed, predefined
from rigctl.bench.figures.draw import drawn, page_of, write_figure
from rigctl.bench.figures.layouts import PALETTE, Curve, Figure, Panel, figures_of, style_of
from rigctl.bench.papers.paper import PAPERS, grid_of
from rigctl.bench.tables.results import curve_of, function_and_d, trials_of
from rigctl.errors import UsageError
from tests.bench.tables import frame, rows

pytestmark = pytest.mark.slow

C_SETTING = ("hartmann3", "moderate-known", 0.04, 4.0)


def some_figure() -> Figure:
    table = frame(
        [
            rows(policy, seed, [0.8, 0.4 / (seed + 1), 0.125], setting=C_SETTING, sets=["x1", "x1+x2", "x1+x2"])
            for policy in ("etc-50", "ucb-psq")
            for seed in (0, 1)
        ]
    )
    return figures_of("ucb-cvs", table)[0]


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(some_figure())


class References(HTMLParser):
    """Everything a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fetching = {"src", "href", "xlink:href", "srcset", "data"}
        self.found += [f"{tag} {n}={v}" for n, v in attrs if n in fetching and not (v or "").startswith("#")]


def test_every_format_is_written_under_the_figures_name(tmp_path):
    """Three files, each of its own kind; in version control they do not change unless the results do."""
    files = write_figure(some_figure(), tmp_path / "new")
    assert [f.name for f in files] == ["ucb-cvs-fig2.html", "ucb-cvs-fig2.png", "ucb-cvs-fig2.svg"]
    assert files[1].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ET.fromstring(files[2].read_text(encoding="utf-8")).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314
    assert files[0].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    for kind in ("png", "svg"):
        assert drawn(some_figure(), kind)[0] == drawn(some_figure(), kind)[0]
    assert page_of(some_figure()) == page_of(some_figure())


def test_an_unknown_format_or_layout_is_refused(tmp_path: Path, golden) -> None:
    """The message names those there are, and offers the nearest."""
    with golden.raises(UsageError):
        write_figure(some_figure(), tmp_path, ["pdf"])
    with golden.raises(UsageError):
        figures_of("gitins", frame([rows("a", 0, [0.5])]))


def test_the_page_fetches_nothing(page, golden):
    """No scripts, nothing from elsewhere; hovering shows mean ± standard error: 0.4 and 0.2 give 0.3 ± 0.1 over two."""
    references = References()
    references.feed(page)
    assert references.found == []
    assert "<script" not in page
    assert "url(http" not in page
    assert len(page) < 200_000
    drawing = ET.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])  # noqa: S314
    read = ["".join(title.itertext()) for title in drawing.iter("{http://www.w3.org/2000/svg}title")]
    golden(next(told for told in read if "ETC-50: 0.3" in told))


def test_a_policy_has_one_colour_in_every_format(page):
    """The style's colour stands in page and SVG; each has a box, whose rule finds its marks in the drawing."""
    svg = drawn(some_figure(), "svg")[0].decode()
    for policy in ("etc-50", "ucb-psq"):
        colour = style_of(policy).colour
        assert colour.lower() in svg.lower()
        assert f"background:{colour}" in page
        assert colour.lower() in page
    for i, policy in enumerate(some_figure().policies):
        assert re.search(f'id="show-{i}" checked><span[^>]*></span>{style_of(policy).name}<', page)
        assert f'body:has(#show-{i}:not(:checked)) [id^="policy-{i}-"]' in page
        assert set(re.findall(f'id="policy-{i}-0-0-([a-z]+)"', page)) == {"band", "line", "diamond"}


def test_no_two_policies_of_a_paper_look_alike() -> None:
    """Colour and line style together tell every policy of every paper's figures apart."""
    for paper in PAPERS:
        labels = {spec.label for block in grid_of(paper).blocks for spec in block.policies}
        looks = {(style_of(label).colour, style_of(label).dash) for label in labels}
        assert len(looks) == len(labels), paper


def test_every_predefined_label_has_a_style_of_its_own() -> None:
    """A label of the bench has a name in legends, and those that are listed look different in one figure.

    Third-party policies keep their look from run to run.
    """
    assert all(style_of(label).name not in predefined() for label in predefined())
    looks = [(style_of(label).colour, style_of(label).dash) for label in listed()]
    assert len(set(looks)) == len(looks)
    assert style_of("somebody-elses") == style_of("somebody-elses")
    assert style_of("somebody-elses").colour in PALETTE.values()
    assert style_of("somebody-elses").dash != "solid"


def test_a_diamond_marks_where_only_the_best_set_is_played():
    """Both seeds play x1 once, at a cost of 1; bands and lines are cut at a positive floor, not lost."""
    panel = some_figure().rows[0][0]
    assert [line.diamond[0] for line in panel.lines if line.diamond] == [1.0, 1.0]
    assert some_figure().has_diamonds
    runs = trials_of(frame([rows("a", s, [0.5, 0.0]) for s in (0, 1)]))
    line = Curve.of("a", curve_of(runs, "simple"), 2, "standard error")
    panel = Panel("", "", "", (line,), log_y=True)
    assert 0 < panel.floor() <= 0.5
    (axes,) = drawn(Figure("f", "t", "c", ((panel,),)), "svg")[1].axes
    shown = np.asarray(axes.lines[0].get_ydata())
    assert shown.min() == panel.floor()
    assert shown.max() == 0.5


def test_c_figures_are_laid_out_as_in_the_paper():
    """In the paper's order, what was not run stays blank; figure 3 has all policies of those settings only."""
    settings = [
        ("airfoil", "cheap-known", 0.02, 50.0),
        ("gp-sample3", "expensive-known", 0.02, 50.0),
        ("gp-sample3", "cheap-known", 0.04, 50.0),
    ]
    (figure,) = figures_of("ucb-cvs", frame([rows("etc-50", 0, [0.5], setting=s) for s in settings]))
    columns = [("cheap-known", 0.02), ("cheap-known", 0.04), ("expensive-known", 0.02)]
    wanted = [[f"{n}\n{c} costs, variance {v:g}" for c, v in columns] for n in ("gp-sample3", "airfoil")]
    assert [[p.title for p in row] for row in figure.rows] == wanted
    assert [[len(p.lines) for p in row] for row in figure.rows] == [[0, 1, 1], [1, 0, 0]]
    assert all(p.log_y for row in figure.rows for p in row)
    setting = ("gp-sample3", "moderate-known", 0.04, 50.0)
    other = ("hartmann3", "moderate-known", 0.04, 50.0)
    plain = [rows("etc-50", 0, [0.5], setting=s) for s in (setting, other)]
    table = frame([*plain, rows("ucb-psq-per-cost", 0, [0.5], setting=setting)])
    second, third = figures_of("ucb-cvs", table)
    assert second.policies == ("etc-50",)
    assert third.policies == ("etc-50", "ucb-psq-per-cost")
    assert len(third.rows) == 1


def test_p_figures_show_quartiles_and_m_figures_go_by_trial():
    """1, 2, 6 have median 2 and quartiles 1.5 and 4; cumulated dear input and hypervolume against t."""
    setting = ("ackley16", "varying", 0.0, 10.0)
    table = frame([rows("pbgi", s, [v], setting=setting, best=7.0) for s, v in enumerate((1.0, 2.0, 6.0))])
    figures = figures_of("gittins", table)
    line = figures[0].rows[0][0].lines[0]
    assert (line.y[-1], line.low[-1], line.high[-1], line.mean[-1]) == (2.0, 1.5, 4.0, 3.0)
    assert [f.name for f in figures] == ["gittins-fig5", "gittins-fig16"]
    assert function_and_d("rosenbrock16") == ("rosenbrock", 16)
    table = frame([rows("ca-mobo", 0, [0.5, 0.5], dear_input=[0.1, 0.3], hypervolume=[0.4, 0.6])])
    (figure,) = figures_of("ca-mobo", table)
    dear, volume = figure.rows[0]
    assert dear.lines[0].y.tolist() == pytest.approx([0.0, 0.1, 0.3])
    assert volume.lines[0].y.tolist() == pytest.approx([0.4, 0.6])
    assert dear.x_label == "trial t"


@pytest.mark.parametrize("paper", [*PAPERS, "overview"])
def test_every_layout_is_drawn_from_any_results(paper: str) -> None:
    """Whatever a directory holds, each layout yields figures that can be drawn."""
    for figure in figures_of(paper, frame([rows("etc-ada", 0, [0.5, 0.2])])):
        assert drawn(figure, "svg")[0]
