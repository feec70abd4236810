import re
from itertools import pairwise
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.core.advice.answer import WayToRun
from rigctl.core.advice.answer_words import AnswerWords
from rigctl.page import figures
from rigctl.page.svg import Drawing, Scale, gauge, label_of, nice_ticks, range_row


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 12))
def test_ticks_are_round_and_inside(low, span, most):
    """Ticks rise, lie in the range, are few, and their step is 1, 2 or 5 times a power of ten."""
    high = low + span
    if not high > low:
        return
    ticks = nice_ticks(low, high, most)
    assert len(ticks) <= most + 1
    assert all(low - 1e-6 * span <= t <= high + 1e-6 * span for t in ticks)
    steps = [b - a for a, b in pairwise(ticks)]
    assert all(step > 0 for step in steps)
    for step in steps[:1]:
        digits = f"{step:.0e}"
        assert digits[0] in "125" or abs(low) / span > 1e6


def test_ticks_of_nothing():
    """An empty or endless range has no axis to speak of."""
    assert nice_ticks(2.0, 2.0) == (2.0,)
    assert nice_ticks(float("nan"), 1.0) == ()


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0"), (1500.0, "1\u202f500"), (-3.0, "\u22123"), (0.25, "0.25"), (1e-9, "1e\u221209")]
)
def test_ticks_are_said_as_people_do(value, said):
    """Thousands are set apart, and a minus is a minus."""
    assert label_of(value) == said


def test_a_drawing_says_what_it_shows():
    """A drawing is well-formed, has role, title and description, and text in it is text."""
    figure = Drawing.over((0, 10), [1.0, 5.0, float("nan"), 2.0])
    figure.line([0, 1, 2, 3], [1.0, 5.0, float("nan"), 2.0], "best")
    figure.band([0, 1], [1, 2], [3, 4], "band")
    figure.dots([0, 1], [1.0, float("nan")], "dot")
    figure.upright(3.0, "grid", "<place>")
    figure.axes("<mM>", [(0.0, "a&b")])
    root = ET.fromstring(figure.markup("<script>alert(1)</script>", 'says "x"'))  # noqa: S314 - our own
    assert root.attrib["role"] == "img"
    assert root.find("title").text == "<script>alert(1)</script>"
    assert root.find("desc").text == 'says "x"'
    line, band, dots = root.iter("path")
    assert line.attrib["d"].count("M") == 2  # broken where a value is missing
    assert band.attrib["d"].endswith("Z")
    assert dots.attrib["d"].count("h.1") == 1
    assert not [e for e in root.iter() if "style" in e.attrib]


def test_a_scale_of_one_value_has_room():
    """A single value, or none, still has an axis around it."""
    alone = Scale.around([5.0], 0, 100)
    assert alone(5.0) == pytest.approx(50)
    assert Scale.around([float("nan")], 0, 100)(0.5) == pytest.approx(50)


def test_a_row_stands_on_the_common_axis(golden):
    """Band, mean and lines are where the axis says; what is outside of it is not drawn."""
    axis = Scale(0.0, 10.0, 0.0, 100.0)
    row = str(range_row(axis, (2.0, 3.0, 4.0), [(5.0, "today"), (11.0, "line")], "chosen", "k: 2 to 4"))
    golden(row)
    assert 'class="mean" x1="30%" x2="30%"' in row
    assert 'class="today" x1="50%"' in row
    assert 'class="line"' not in row
    golden(row)


def test_a_gauge_is_never_overfull(golden):
    """Parts are in proportion to the whole, and end with it even where more was spent."""
    bar = str(gauge([("fill-1", 5.0), ("fill-2", 10.0)], 10.0, "spent", ""))
    assert sum(map(float, re.findall(r'class="fill-\d" x="[\d.]+%" width="([\d.]+)%', bar))) == 100.0
    golden(bar)


def test_a_way_far_off_does_not_stretch_the_axis_of_the_others():
    """What can be told apart near the way to run stays apart; one far beyond is an arrow at the edge."""
    near = [
        WayToRun("setting", (name,), {}, v, v - 0.1, v + 0.1, 1.0, "known", None)
        for name, v in (("a", 13.5), ("b", 13.3))
    ]
    far = WayToRun("nothing", (), {}, -400.0, -500.0, -300.0, 0.0, "known", None)
    say = AnswerWords(SimpleNamespace(ways=(*near, far), run=near[0], decimals=1), "growth", "cm2", "EUR", {})
    rows, axis = figures.ways(say)
    at = [float(re.search(r'class="mean" x1="([^"%]+)', str(row))[1]) for row in rows[:-1]]
    assert at[0] - at[1] > 15
    assert "\u25c2" in rows[-1]
    assert 'class="mean"' not in rows[-1]
    assert "400" not in axis
