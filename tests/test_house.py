"""The standards of the house, measured; offenders are named."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.house.measure import PRODUCT, Source, circles, complexity, functions, import_graph, read

ROOT = Path(__file__).parent.parent
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_CLASS_METHODS = 20
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
STEPS = ("ruff check .", "ruff format --check .", "mypy", "lint-imports --no-cache")
ASSERTING = ("assert_", "check_", "expect_")
"""What helpers that assert are called, here and in numpy."""


def sources() -> list[Source]:
    return read(ROOT, PRODUCT) + read(ROOT, ("tests",))


def test_files_are_short():
    """No file is longer than the house allows."""
    assert [f"{s.path}: {s.lines} lines" for s in sources() if s.lines > MAX_FILE_LINES] == []


def test_functions_are_short_and_classes_small():
    """No function is longer, and no class has more methods, than the house allows."""
    offenders = []
    for source in sources():
        for node in source.statements:
            if isinstance(node, ast.ClassDef):
                size, most = sum(isinstance(n, FUNCTION) for n in node.body), MAX_CLASS_METHODS
            elif isinstance(node, FUNCTION):
                size, most = (node.end_lineno or node.lineno) - node.lineno + 1, MAX_FUNCTION_LINES
            else:
                continue
            if size > most:
                offenders.append(f"{source.path}:{node.lineno} {node.name}: {size}")
    assert offenders == []


def test_no_function_has_more_than_eighteen_ways_through_it():
    """Functions inside it counted with it, which the linter does not."""
    found = {f"{s.path}:{f.name}": complexity(f) for s in read(ROOT, PRODUCT) for f in functions(s)}
    assert {name: ways for name, ways in found.items() if ways > 18} == {}


def test_nobody_imports_in_a_circle():
    """Neither lazily nor for types alone."""
    assert circles(import_graph(read(ROOT, PRODUCT))) == []


def calls(node: ast.AST) -> set[str]:
    """Return the names, without what is before their last dot, of what is called in it."""
    functions = [found.func for found in ast.walk(node) if isinstance(found, ast.Call)]
    return {
        f.attr if isinstance(f, ast.Attribute) else f.id for f in functions if isinstance(f, ast.Attribute | ast.Name)
    }


def asserts(node: ast.AST) -> bool:
    """Tell whether something in it can fail as a statement: `assert` about what is not a constant, or `raises`."""
    checked = (found.test for found in ast.walk(node) if isinstance(found, ast.Assert))
    return any(not isinstance(test, ast.Constant | ast.Tuple) for test in checked) or bool(
        calls(node) & {"raises", "warns"}
    )


def checks(test: ast.AST, helpers: dict[str, bool]) -> bool:
    """Tell whether a test asserts: itself, by numpy, a golden file, or a helper of the tests that is named for it."""
    if "golden" in calls(test):
        return True
    named = {name for name in calls(test) if name.startswith(ASSERTING)}
    return asserts(test) or any(helpers.get(name, hasattr(np.testing, name)) for name in named)


def test_every_test_has_a_sentence_and_a_check():
    """Each test promises something in its docstring, and none is without an assertion."""
    found = [(source, node) for source in read(ROOT, ("tests",)) for node in functions(source)]
    helpers = {node.name: asserts(node) for _, node in found if node.name.startswith(ASSERTING)}
    tests = [(s, n) for s, n in found if Path(s.path).name.startswith("test_") and n.name.startswith("test_")]
    offenders = [
        f"{source.path}:{node.lineno} {node.name}"
        for source, node in tests
        if ast.get_docstring(node) is None or not checks(node, helpers)
    ]
    assert tests
    assert offenders == []


@pytest.mark.parametrize(
    ("source", "sound"),
    [
        ('"It asserts, raises, expects; check_this."; x = 1', False),
        ("x = 1  # assert x", False),
        ("assert True", False),
        ("assert (x, 'is true')", False),
        ("rig.check_setpoint(x)", False),
        ("assert_allclose(x, y)", True),
        ("assert x", True),
        ("with pytest.raises(ValueError): f()", True),
        ("assert_same_play(x, y)", True),
        ("assert_nothing(x)", False),
    ],
)
def test_words_are_no_assertions(source, sound):
    """What makes a check a check is a statement, not a word in a docstring, a comment or a helper's name."""
    assert checks(ast.parse(source), {"assert_same_play": True, "assert_nothing": False}) == sound


@cache
def importers() -> dict[str, set[str]]:
    """Return which files of the product import a library, by its name."""
    found: dict[str, set[str]] = {}
    for source in read(ROOT, PRODUCT):
        if source.path.startswith("sim_rig/"):
            continue
        for node in source.statements:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                found.setdefault(name.split(".")[0], set()).add(source.path)
    return found


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("pymodbus", {"drivers/rigctl_drivers/modbus_frames.py"}),
        ("serial", {"drivers/rigctl_drivers/byte_line.py"}),
        ("sqlite3", None),
    ],
)
def test_each_awkward_library_is_behind_one_door(library, allowed):
    """Pymodbus and pyserial are imported by one controller module each, SQL stays in the journal."""
    found = importers()[library]
    assert found == allowed if allowed else all("journal" in path for path in found), found


def test_the_gate_runs_the_readme_command():
    """`.ci/run` finds the README's test command, so that they cannot drift apart, and leaves out no checker."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.split("<!-- tests -->")[1].split("```sh\n")[1].split("```")[0].strip()
    assert block.endswith(".venv/bin/pytest")
    gate = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "<!-- tests -->" in gate
    run = {line.strip() for line in gate.splitlines()}
    assert [step for step in STEPS if f".venv/bin/{step}" not in run] == []
    for part in ("static", "simulation"):  # else what they found is lost
        assert f'wait "${part}" || {{ cat build/{part}; exit 1; }}' in run


def test_linear_algebra_keeps_to_one_thread():
    """Here as on the command line: the last bits of a decision depend on it, and many tests compare them."""
    import sklearn.gaussian_process  # noqa: F401 - only loaded libraries are listed
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert pools
    assert {pool["num_threads"] for pool in pools} == {1}


def test_no_kept_sentence_shows_an_object_of_the_program():
    """A method that was not called, or an object without words of its own, is no word for people."""
    kept = [p for p in ROOT.glob("tests/**/*") if {"golden", "said"} & set(p.parts) and p.suffix in (".txt", ".yaml")]
    assert len(kept) > 50
    odd = re.compile(r"<bound method|<function |<built-in| object at 0x")
    assert [str(p) for p in kept if odd.search(p.read_text(encoding="utf-8"))] == []
