"""What no configuration can be is refused before anything spends time on it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rigctl.config.document import LONGEST_TEXT, MAX_DEPTH, MOST_BYTES, MOST_VALUES
from rigctl.config.load import load
from rigctl.errors import ConfigError
from tests.config.conftest import loaded
from tests.config.texts import SMALL

PRICE = "price: 4.2 EUR/L"
HUGE = {
    "keys": (SMALL + "\n".join(f"k{i}: 1" for i in range(MOST_VALUES)), f"more than {MOST_VALUES} keys and values"),
    "a list": (f"{SMALL}x: [{'1,' * MOST_VALUES}1]", f"more than {MOST_VALUES} keys and values"),
    "a word": (f"{SMALL}x: {'y' * (LONGEST_TEXT + 1)}", f"more than {LONGEST_TEXT} characters"),
    "a key": (f"{SMALL}? {'y' * (LONGEST_TEXT + 1)}\n: 1", f"more than {LONGEST_TEXT} characters"),
    "depth": (f"{SMALL}x: {'[' * 1000}", f"nested deeper than {MAX_DEPTH} levels"),
    "text": ("#" * (MOST_BYTES + 1), "larger than 1 MB"),
    "digits": (SMALL.replace(PRICE, f"price: {'9' * 400} EUR/L"), "at most 20 digits"),
    "an exponent": (SMALL.replace(PRICE, "price: 1e400 EUR/L"), "must be finite, less than 1e300"),
    "a price": (SMALL.replace(PRICE, "price: 1e15 EUR/L"), "must be less than 1e12 EUR"),
    "a time in days": (SMALL.replace("20 min", "1e299 Yday"), "must be finite"),
    "a time": (SMALL.replace("20 min", "1e400 s"), "must be finite, less than 1e300"),
}


@pytest.mark.parametrize("kind", HUGE)
def test_what_is_too_much_is_told_in_plain_words(kind):
    """Each says what was got and what is allowed, and repeats but the beginning of what was written."""
    text, what = HUGE[kind]
    with pytest.raises(ConfigError, match=what) as refused:
        loaded(text)
    assert len(str(refused.value)) < 500


def test_a_file_without_end_is_not_read_to_its_end():
    """As much is read as a configuration may have, and a byte."""
    with pytest.raises(ConfigError, match="/dev/zero: is larger than 1 MB"):
        load(Path("/dev/zero"))


def test_a_sample_is_a_file_and_has_an_end(tmp_path):
    """The same of a file that a configuration names; nobody waits at a pipe for who never comes."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long.csv").write_text("ca\n" + "1\n" * 5_000_001)
    for name, what in (("/dev/zero", "no file"), (tmp_path / "pipe", "no file"), (tmp_path / "long.csv", "10 MB")):
        with pytest.raises(ConfigError, match=what):
            loaded(SMALL.replace("natural: uniform", f"natural: {{empirical: {{file: {name}, column: ca}}}}"))


@pytest.mark.parametrize(
    "name", ["../up", "/etc/rig", "a/b", "..", ".", "", "a\0b", "tank\n", "x" * 61, "a\u202eb", "ä"]
)
@pytest.mark.parametrize("place", ["rig: {}", "name: {}, unit: cm2/day", "{}: {{unit: mM, range: [0, 7.7]"])
def test_a_name_leads_to_no_other_directory(place, name):
    """Of a rig, whose directory it names; of an outcome and a variable, whose figures it names."""
    usual = {"rig: {}": "tank", "name: {}, unit: cm2/day": "growth"}.get(place, "ca")
    assert SMALL.count(place.format(usual)) == 1
    with pytest.raises(ConfigError, match=r"must begin with a letter from a to z|must have at most 60 characters"):
        loaded(SMALL.replace(place.format(usual), place.format(json.dumps(name))))
