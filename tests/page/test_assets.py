import re
from hashlib import sha256

import pytest

from rigctl.errors import RigctlError
from rigctl.page import render


@pytest.mark.parametrize("name", render.MEDIA)
def test_every_file_is_there(name):
    """Each file that may be asked for is in the package, says what it is, and asks for nothing from elsewhere."""
    data, media = render.asset(name)
    assert data
    assert media == render.MEDIA[name]
    if name not in render.VENDORED and name != "icon.svg":
        assert re.findall(rb"[a-z]+://|url\(|@import|\W//\w", data) == []


def test_vendored_files_are_those_that_were_checked(monkeypatch, golden):
    """A file that others wrote is refused if a byte of it has changed."""
    data, _ = render.asset("uPlot.iife.min.js")
    assert sha256(data).hexdigest() == render.VENDORED["uPlot.iife.min.js"]
    monkeypatch.setattr(render, "VENDORED", {"uPlot.iife.min.js": sha256(data + b" ").hexdigest()})
    with golden.raises(RigctlError):
        render.asset("uPlot.iife.min.js")


@pytest.mark.parametrize("name", ["", "../facts.py", "page.html", "x" * 500])
def test_nothing_else_is_given_away(name, golden):
    """What is not on the list is not read."""
    with golden.raises(render.UnknownAsset):
        render.asset(name)
