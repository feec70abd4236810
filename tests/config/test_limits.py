"""What no configuration can be is refused before anything spends time on it."""

import json
import os
from pathlib import Path

import pytest

from rigctl.config.document import LONGEST_TEXT, MOST_BYTES, MOST_VALUES
from rigctl.config.load import load
from rigctl.errors import ConfigError
from tests.config.conftest import loaded
from tests.config.texts import SMALL

PRICE = "price: 4.2 EUR/L"
HUGE = {
    "keys": SMALL + "\n".join(f"k{i}: 1" for i in range(MOST_VALUES)),
    "a list": f"{SMALL}x: [{'1,' * MOST_VALUES}1]",
    "a word": f"{SMALL}x: {'y' * (LONGEST_TEXT + 1)}",
    "a key": f"{SMALL}? {'y' * (LONGEST_TEXT + 1)}\n: 1",
    "depth": f"{SMALL}x: {'[' * 1000}",
    "text": "#" * (MOST_BYTES + 1),
    "digits": SMALL.replace(PRICE, f"price: {'9' * 400} EUR/L"),
    "an exponent": SMALL.replace(PRICE, "price: 1e400 EUR/L"),
    "a price": SMALL.replace(PRICE, "price: 1e15 EUR/L"),
    "a time in days": SMALL.replace("20 min", "1e299 Yday"),
    "a time": SMALL.replace("20 min", "1e400 s"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HUGE)
def test_what_is_too_much_is_told_once_and_in_few_words(kind):
    """It repeats but the beginning of what was written."""
    with pytest.raises(ConfigError) as refused:
        loaded(HUGE[kind])
    (mistake,) = refused.value.mistakes
    assert mistake.flaw.allowed or mistake.flaw.remedy
    assert len(str(mistake)) < 500


def test_a_file_without_end_is_not_read_to_its_end():
    """As much is read as a configuration may have, and a byte."""
    with pytest.raises(ConfigError) as refused:
        load(Path("/dev/zero"))
    assert [m.file for m in refused.value.mistakes] == ["/dev/zero"]


def test_a_sample_is_a_file_and_has_an_end(tmp_path):
    """The same of a file that a configuration names; nobody waits at a pipe for who never comes."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long.csv").write_text("ca\n" + "1\n" * 5_000_001)
    for name in ("/dev/zero", tmp_path / "pipe", tmp_path / "long.csv"):
        with pytest.raises(ConfigError) as refused:
            loaded(SMALL.replace("natural: uniform", f"natural: {{empirical: {{file: {name}, column: ca}}}}"))
        assert [m.path[-1] for m in refused.value.mistakes] == ["file"]


@pytest.mark.parametrize(
    "name", ["../up", "/etc/rig", "a/b", "..", ".", "", "a\0b", "tank\n", "x" * 61, "a\u202eb", "ä"]
)
@pytest.mark.parametrize(
    ("place", "usual", "path"),
    [
        ("rig: {}", "tank", ("rig",)),
        ("name: {}, unit: cm2/day", "growth", ("outcome", "name")),
        ("{}: {{unit: mM, range: [0, 7.7]", "ca", ("variables", None)),
    ],
)
def test_a_name_leads_to_no_other_directory(place, usual, path, name):
    """Of a rig, whose directory it names; of an outcome and a variable, whose figures it names."""
    assert SMALL.count(place.format(usual)) == 1
    with pytest.raises(ConfigError) as refused:
        loaded(SMALL.replace(place.format(usual), place.format(json.dumps(name))))
    assert tuple(name if key is None else key for key in path) in [m.path for m in refused.value.mistakes]
