"""A configuration either loads or is refused in the house's words; it never crashes the loader."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from rigctl.errors import ConfigError
from tests.config.conftest import loaded_to_run
from tests.config.texts import SMALL

WORDS = [
    "off",
    "all",
    "5 mM",
    "20 min",
    "3 EUR",
    "4.2 EUR/L",
    "-1 s",
    "1e999",
    ".nan",
    "-.inf",
    "pH",
    "mains",
    "[",
    "{",
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=12),
    st.lists(st.integers(-3, 3), max_size=3),
    st.dictionaries(st.sampled_from(["mean", "sd", "name", "kind", "x"]), st.integers(-3, 3), max_size=2),
)


def expect_loaded_or_refused(text):
    """Anything but a ConfigError whose problems have places fails the test."""
    refused = []
    try:
        loaded_to_run(text)
    except ConfigError as error:
        refused = [error.mistakes]
    assert all(p.where.startswith("rig.yaml") and p.what for problems in refused for p in problems)
    assert () not in refused


def places(node, path=()):
    """Every path in a tree of mappings and lists."""
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


WHOLE = (
    SMALL.replace("actuator: doser,", "actuator: doser, plausible: [3, 10], max_rate: 1 pH/min,")
    + """\
  watch: {every: 1 s, clear_for: 1 min}
  safe_within: 2 s
  interlocks:
    - {name: acid, when: "ph < 4.5 pH and not (ca > 7 mM)", until: "ph > 5 pH", for: 10 s, then: hold}
    - {name: load, when: "mains > 3 kW", then: safe}
"""
)
TREE = yaml.load(WHOLE, Loader=yaml.BaseLoader)  # noqa: S506  # BaseLoader makes nothing but text
PATHS = [path for path in places(TREE) if path]


@given(path=st.sampled_from(PATHS), value=VALUES)
def test_any_value_anywhere_is_taken_or_refused(path, value):
    """Replacing any part of a configuration by anything gives a configuration or a ConfigError."""
    tree = yaml.load(WHOLE, Loader=yaml.BaseLoader)  # noqa: S506
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    expect_loaded_or_refused(yaml.safe_dump(tree, allow_unicode=True))


@given(paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=6, unique=True))
def test_any_missing_parts_are_taken_or_refused(paths):
    """Leaving out any parts of a configuration gives a configuration or a ConfigError."""
    tree = yaml.load(WHOLE, Loader=yaml.BaseLoader)  # noqa: S506
    for path in paths:
        holder = tree
        try:
            for step in path[:-1]:
                holder = holder[step]
            del holder[path[-1]]
        except (KeyError, IndexError):
            continue
    expect_loaded_or_refused(yaml.safe_dump(tree))


@given(at=st.integers(0, len(WHOLE)), cut=st.integers(0, 40), insert=st.text(max_size=8))
def test_any_text_is_taken_or_refused(at, cut, insert):
    """Cutting and inserting text anywhere gives a configuration or a ConfigError."""
    expect_loaded_or_refused(WHOLE[:at] + insert + WHOLE[at + cut :])
