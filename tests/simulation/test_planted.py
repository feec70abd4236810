from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.simulation.planted import ROOT, patches


def test_there_are_twenty_bugs_at_least():
    """Their numbers are their names."""
    assert len(patches()) >= 20
    assert len({path.name[:2] for path in patches()}) == len(patches())


@pytest.mark.parametrize("patch", patches(), ids=lambda path: path.stem)
def test_a_planted_bug_applies_and_is_a_program(patch, tmp_path):
    """A patch that no longer applies finds nothing, and so does one that cannot even be read."""
    files = re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(["git", "apply", "-p1", patch], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in files:
        changed = (tmp_path / name).read_text(encoding="utf-8")
        assert changed != (ROOT / name).read_text(encoding="utf-8")
        compile(changed, name, "exec")
