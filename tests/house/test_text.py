"""What is written for people has one place, and is not taken apart again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "rigctl"
HOW = {
    "a control set's name is written by rigctl.text.set_label": r"""["'] ?\+ ?["']\.join\((?!\(name)""",
    "and read by set_members": r"""\.split\(["']\+["']""",
    "a unit of 1 is left out by shown_unit": r"""\bunit [=!]= "1\"""",
    "errors have kinds and fields": r"""["'] (not )?in str\((error|refused by)\)""",
    "and are not cut to pieces": r"""\bstr\(error\)\.(remove|starts|ends)""",
    "how a campaign stands is a Status": r"""\b(status|standing)\.get\(["'](phase|why|trial|watch|readings|paused)""",
    "sentences that belong to one are its own": r"""\bline\.startswith\(" "\)""",
    "a sentence and its remedy are two values": r"""\.split\("; ", 1\)""",
    "several reasons are several values": r"""\.split\("; "\)""",
    "what an act was is its verb": r"""\bargument\.(startswith|endswith|partition)\(""",
    "what a ledger line is worth is in its numbers": r"""\bnote\.endswith\(""",
    "what a process was told is JSON": r"""\(\?P<tolerance>""",
}
"""What a reader finds instead, and how it was done before."""


@pytest.mark.parametrize("how", HOW)
def test_text_is_written_in_one_place_and_never_read_back(how):
    """None of the ways in which that was done stands anywhere."""
    lines = (
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.name != "text.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(HOW[how], line)
    )
    assert list(lines) == []
