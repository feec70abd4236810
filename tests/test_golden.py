"""Golden files: what differs is told, and nothing is kept of tests that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.golden import WRITES, Golden

TESTS = Path(__file__).parent


def test_what_differs_from_what_is_kept_fails(tmp_path):
    """A word more, a number that differs, and something of which nothing is kept."""
    kept = tmp_path / "kept.yaml"
    kept.write_text("here: [the tank is empty, {cost: 2.5}]\n", encoding="utf-8")
    if not WRITES:
        for told in (
            ["the tank is empty!"],
            ["the tank is empty", {"cost": 2.6}],
            ["the tank is empty", {"cost": 2.5}, 1],
        ):
            said = Golden("here", kept, {})
            with pytest.raises(AssertionError):
                [said(what) for what in told]


def test_what_differs_from_run_to_run_is_replaced(tmp_path):
    """Places and ports; errors are told by their sentence."""
    said = Golden("here", tmp_path / "none.yaml", {str(tmp_path): "TMP"})
    with pytest.raises(AssertionError):
        said(ValueError(f"{tmp_path}/a on 127.0.0.1:4711"))
    assert said.came == ["TMP/a on 127.0.0.1:PORT"]


def test_nothing_is_kept_of_tests_that_are_gone():
    """Each golden file stands beside its tests, and each of its entries names one of them."""
    files = list(TESTS.rglob("said/*.yaml"))
    gone = [
        f"{file.relative_to(TESTS)}: {test}"
        for file in files
        for test in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
        if f"def {test.partition('[')[0]}(" not in (file.parents[1] / f"{file.stem}.py").read_text(encoding="utf-8")
    ]
    assert files
    assert gone == []
