"""`rigctl help`: the manual's pages at the terminal, and that each that is pointed to is there."""

import re
import tomllib

import pytest

from rigctl.console.manual import at_terminal, found
from rigctl.errors import UsageError
from tests.console.conftest import ROOT
from tests.house.measure import read

BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
PACKED = {
    path.stem
    for source, target in BUILD["targets"]["wheel"]["force-include"].items()
    if target.startswith("rigctl/manual/")
    for path in ((ROOT / source).glob("*.md") if (ROOT / source).is_dir() else [ROOT / source])
}


def test_every_page_that_a_message_points_to_is_in_the_wheel():
    """So are those that the templates of `rigctl init` name; at least three do."""
    text = "\n".join(source.text for source in read(ROOT, ("rigctl", "drivers", "sim_rig")))
    text += "".join(path.read_text(encoding="utf-8") for path in (ROOT / "rigctl/config/templates").iterdir())
    named = set(re.findall(r"`rigctl help ([a-z-]+)`", text))
    assert len(named) > 1
    assert named <= PACKED <= set(at_terminal())
    assert not re.findall(r"see docs/", text)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["be-told"], {"# Be told"}),
        (["how-to/after-a-trip.md"], {"# Go on after a trip"}),
        (["wire", "a", "pump"], {"# Wire a dosing pump", "(`rigctl help find-the-numbers`)"}),
        (["plug"], {"# Wire a smart plug"}),
        (["wire"], {"wire-a-plc", "wire-a-meter"}),
        (["DSTART"], {"wire-a-pump", "faults"}),
        ([], {"tutorial", "after-a-trip"}),
        (["stop"], {"Usage: rigctl stop"}),
        (["trial", "explain"], {"Usage: rigctl trial explain"}),
    ],
)
def test_a_page_is_shown_by_its_name_or_by_words_of_it(bench, words, expected):
    """A command's name shows its options; several pages are listed."""
    said = bench.rigctl("help", *words).out
    assert {part for part in expected if part not in said} == set()
    assert "<!--" not in said


@pytest.mark.parametrize(("topic", "meant"), [("lmits", '"limits"'), ("qqqq", "")])
def test_a_topic_that_is_none_is_refused_with_one_that_is_like_it(topic, meant):
    """A slip of the finger is no reason to read a list."""
    with pytest.raises(UsageError) as refused:
        found(topic, at_terminal())
    assert meant in str(refused.value)
    assert (meant == "") == ('"' not in str(refused.value))
