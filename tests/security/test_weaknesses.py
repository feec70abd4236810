import re

from tests.security.weaknesses import REASON, ROOT, SOURCES, unknown


def test_every_exception_from_the_rules_has_its_reason():
    """In the code that is installed; `python -m tests.security.weaknesses` holds bandit's findings against them."""
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"noqa: .*\bS\d+", line) and not REASON.search(line)
    ]
    assert bare == []


def test_what_is_not_marked_is_told(golden):
    """A finding at a line without its own number, and one that is marked."""
    here = "rigctl/campaign/deciding.py"
    lines = (ROOT / here).read_text(encoding="utf-8").splitlines()
    marked = next(n for n, line in enumerate(lines, start=1) if "S301" in line)
    found = {"filename": here, "issue_text": "pickle", "line_number": 1}
    assert list(unknown(iter([{**found, "test_id": "B301", "line_range": [marked]}]))) == []
    golden(unknown(iter([{**found, "test_id": "B301", "line_range": [1]}])))
    assert list(unknown(iter([{**found, "test_id": "B602", "line_range": [marked]}])))
