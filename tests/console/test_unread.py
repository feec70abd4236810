"""Tables that cannot be read: what people are told of them."""

from __future__ import annotations

from pathlib import Path

import pytest

VERBS = (
    ("outcome", "bench.yaml", "--from", "{}"),
    ("import", "bench.yaml", "{}"),
    ("ingest", "bench.yaml", "{}"),
    ("suggest", "bench.yaml", "--history", "{}"),
)


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_table_that_is_not_there_is_told_with_where_it_was_looked_for(ingested, words):
    """And which one may have been meant; in the words of no system."""
    here = Path.cwd()
    near, none = (ingested.rigctl(*(w.format(name) for w in words), code=2).err for name in ("trails.csv", "q/z.csv"))
    assert f'trails.csv: cannot be read: there is no such file in {here}; did you mean "trials.csv"?' in near
    assert f"q/z.csv: cannot be read: there is no folder {here}/q" in none
    assert "Errno" not in near + none


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_folder_is_no_table(ingested, words):
    """It is said to be one."""
    Path("folder.csv").mkdir()
    assert (
        "folder.csv: is a folder, must be a table saved as CSV"
        in ingested.rigctl(*(w.format("folder.csv") for w in words), code=2).err
    )


def test_what_the_system_says_is_told_without_its_numbers(ingested):
    """Where a state directory, or a backup, cannot be written."""
    Path("file").write_text("", encoding="utf-8")
    for words in (
        ("backup", "--state", "state/bench", "--to", "/proc"),
        ("ingest", "bench.yaml", "trials.csv", "--state", "/proc/no"),
    ):
        told = ingested.rigctl(*words, code=1).err
        assert "No such file or directory" in told
        assert "Errno" not in told
