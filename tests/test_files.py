"""Files are put in place whole, or not at all."""

from __future__ import annotations

import errno
import os

import pytest

from rigctl.files import whole


def test_what_is_written_takes_the_name_at_the_end(tmp_path):
    """Until then the older one has it; who may read it stays as it was."""
    kept = tmp_path / "kept"
    kept.write_text("older", encoding="utf-8")
    kept.chmod(0o640)
    with whole(kept) as new:
        new.write_text("newer", encoding="utf-8")
        assert kept.read_text(encoding="utf-8") == "older"
    assert kept.read_text(encoding="utf-8") == "newer"
    assert kept.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [kept]


def test_what_goes_wrong_leaves_the_older_one(tmp_path):
    """And nothing beside it."""
    kept = tmp_path / "kept"
    kept.write_text("older", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError), whole(kept) as new:
        new.write_text("newer \udcff", encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == "older"
    assert list(tmp_path.iterdir()) == [kept]


def test_a_link_stays_one(tmp_path):
    """What it leads to is replaced."""
    kept, link = tmp_path / "kept", tmp_path / "link"
    link.symlink_to(kept)
    for text in ("older", "newer"):
        with whole(link) as new:
            new.write_text(text, encoding="utf-8")
        assert (link.is_symlink(), kept.read_text(encoding="utf-8")) == (True, text)


def test_the_longest_name_can_be_written(tmp_path):
    """What stands beside it meanwhile has a name of its own."""
    kept = tmp_path / ("n" * 255)
    with whole(kept) as new:
        new.write_text("newer", encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == "newer"


@pytest.mark.parametrize("links", [True, False])
def test_nothing_is_replaced_where_that_is_not_meant(tmp_path, monkeypatch, links):
    """Also on a file system that knows no links, such as a stick's."""

    def link(old, new):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", link)
    kept = tmp_path / "kept"
    with whole(kept, replace=False) as new:
        new.write_text("older", encoding="utf-8")
    with pytest.raises(FileExistsError), whole(kept, replace=False) as new:
        new.write_text("newer", encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == "older"
    assert list(tmp_path.iterdir()) == [kept]
