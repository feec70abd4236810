"""Exceptions from ruff's S rules, which are bandit's: each stands at its place with its reason."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCES = ("rigctl", "drivers", "sim_rig")
REASON = re.compile(r"noqa: (?:[A-Z]+\d+, )*S\d+(?:, [A-Z]+\d+)*\s*(?:#|-+)\s*\S")


def test_every_exception_from_the_rules_has_its_reason():
    """In the code that is installed."""
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"noqa: .*\bS\d+", line) and not REASON.search(line)
    ]
    assert bare == []
