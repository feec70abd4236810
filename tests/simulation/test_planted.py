from __future__ import annotations

import ast
import builtins
import shutil
import subprocess

import pytest

from tests.simulation.planted import ROOT, files, patches
from tests.simulation.reached import changed, instrumented, passed, told


def test_there_are_twenty_bugs_at_least():
    """Their numbers are their names."""
    assert len(patches()) >= 20
    assert len({path.name[:2] for path in patches()}) == len(patches())


@pytest.mark.parametrize("patch", patches(), ids=lambda path: path.stem)
def test_a_planted_bug_applies_and_is_a_program(patch, tmp_path):
    """A patch that no longer applies finds nothing, and so does one that cannot be read, or names what is not there."""
    for name in files(patch):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(["git", "apply", "-p1", patch], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in files(patch):
        changed = (tmp_path / name).read_text(encoding="utf-8")
        assert changed != (ROOT / name).read_text(encoding="utf-8")
        tree = ast.parse(changed)
        assert _names(tree, ast.Load) <= _names(tree, ast.Store) | _bound(tree) | set(dir(builtins)), patch.name


def _names(tree, context):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


def _bound(tree):
    """Everything that anything in it is called by other than assignment."""
    defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    found = {node.name for node in ast.walk(tree) if isinstance(node, defined)} | {"__file__", "__name__"}
    found |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    found |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler | ast.MatchAs) and node.name}
    imported = (a for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for a in node.names)
    return found | {(alias.asname or alias.name).partition(".")[0] for alias in imported}


def test_what_is_planted_is_counted_when_it_is_come_to():
    """A statement that was changed, added, or follows one that went; the rarest says how often all of it was met."""
    before = "def f(x):\n    'Say it.'\n    if x:\n        return 1\n    y = 2\n    z = 3\n    return y + z\n"
    after = "def f(x):\n    'Do.'\n    if x > 1:\n        return 1\n    z = 3\n    return z\n"
    text, counters = instrumented(after, changed(before, after), 0)
    there: dict[str, object] = {}
    exec(compile(text, "planted", "exec"), there)  # noqa: S102 - our own
    passed().clear()
    assert [there["f"](x) for x in (0, 1, 2)] == [3, 3, 1]
    assert (counters, told(passed(), counters)) == (3, "2 to 3")
    assert (told({}, counters), told({}, 0)) == ("0", "always")
    passed().clear()
