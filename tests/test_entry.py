"""The program's first lines find whatever streams they are given fit to be used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.console.conftest import BENCH


def rigctl(folder, *arguments, **more):
    return subprocess.run(
        [sys.executable, "-m", "rigctl", *arguments], cwd=folder, capture_output=True, text=True, check=False, **more
    )


@pytest.mark.slow
def test_whoever_closes_standard_input_is_nobody_to_be_asked(tmp_path):
    """A verb that asks at a terminal says what it needs instead."""
    answer = rigctl(tmp_path, "init", preexec_fn=lambda: os.close(0))
    assert (answer.returncode, answer.stderr[:13]) == (2, "rigctl: init:")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "ascii:surrogateescape"])
def test_what_a_terminal_cannot_show_is_written_out(tmp_path, encoding):
    """A letter that the terminal's encoding lacks ends no verb."""
    (tmp_path / "Gewächshaus.yaml").write_text(BENCH, encoding="utf-8")
    answer = rigctl(tmp_path, "check", "Gewächshaus.yaml", env={**os.environ, "PYTHONIOENCODING": encoding})
    assert (answer.returncode, answer.stdout.split(" is valid")[0]) == (0, r"Gew\xe4chshaus.yaml"), answer.stderr
