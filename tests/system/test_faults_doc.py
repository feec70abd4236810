"""The page on faults says what the tests show."""

import ast
import re
from functools import cache

import pytest

from tests.system.stack import ROOT

PAGE = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
ROWS = {
    int(cells[1]): cells[-2] if "not yet" not in cells[3] else ""
    for cells in ([c.strip() for c in line.split("|")] for line in PAGE.splitlines())
    if len(cells) > 3 and cells[1].isdigit()
}
"""Row number -> the tests that show it; empty where nothing is done yet."""


@cache
def functions(path: str) -> set[str]:
    """The names of a test module's functions."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.slow
def test_every_test_named_on_the_page_exists():
    """None that the page refers to is missing."""
    named = [name.partition("::") for name in sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE)))]
    assert len(named) > len(ROWS)
    assert [path for path, _, _ in named if not (ROOT / path).exists()] == []
    assert [f"{path}::{test}" for path, _, test in named if test and test not in functions(path)] == []


def test_every_fault_has_its_row():
    """All faults are on the page, each with a test or an honest `not yet`."""
    assert set(range(1, 99)) <= set(ROWS)
    silent = [number for number, shown in ROWS.items() if not shown]
    assert silent == []


def test_every_test_of_a_fault_on_the_real_stack_is_on_the_page():
    """What `tests/system` shows, the page says."""
    files = sorted((ROOT / "tests/system").glob("test_*.py"))
    tests = [
        f"{f.relative_to(ROOT).as_posix()}::{n}"
        for f in files
        for n in functions(str(f))
        if re.match(r"test_faults?_\d", n)
    ]
    assert [test for test in tests if f"`{test}`" not in PAGE] == []


def test_the_page_claims_no_safety_integrity():
    """The page and the README say that rigctl is no safety system."""
    assert "not SIL-rated" in PAGE
    assert "not a safety system" in (ROOT / "README.md").read_text(encoding="utf-8")
