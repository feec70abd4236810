"""Counts the small mistakes in a module that its tests would notice: every night, or by hand.

    pip install -e '.[dev,mutation]'
    python -m tests.mutation.run                          # all modules of modules.yaml
    python -m tests.mutation.run rigctl/core/money.py     # some of them

mutmut makes the mutants, one small change of a function each, and runs the module's tests on each, in a copy of the
tree. Fails (exit 1) below 95 % killed, or where equivalent.yaml, the mutants that no test can kill, is out of date.

Two rules say what is not counted:

1. The wording of messages: a string with a space in it. Strings without one (`"off"`, `"volume"`) are values.
2. Types for the checker: the first argument of `typing.cast`.

mutmut passes over decorated functions and over constants of the module. In the copy a decorator is therefore written
as the call that it is (`f = property(f)`), and each numeric constant is mutated here.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
LEAST_SHARE = 0.95
SURVIVED, UNTESTED, UNCHECKED = 0, 33, None
"""mutmut's marks of a mutant that no test has noticed: all passed, none reached it, not run."""
PYTEST = ["-n", "0", "-q", "-x", "--no-header", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
SLOWER, SLOWER_S = 5.0, 5.0
"""A mutant with which the tests take five times as long as before, and 25 s more, counts as endless."""
CONSTANT_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place."""

    function: str
    """As `Class.method`; empty for a constant of the module."""
    was: str
    now: str
    killed: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One module's mutants."""

    module: str
    mutants: list[Mutant]
    equivalent: list[dict[str, str]]
    """The entries of equivalent.yaml."""

    def survivors(self) -> list[Mutant]:
        """Those that nobody has excused."""
        return [m for m in self.mutants if not m.killed and not self._excused(m)]

    def rotten(self) -> list[dict[str, str]]:
        """The entries without a surviving mutant."""
        alive = {_key(m.function, m.was, m.now) for m in self.mutants if not m.killed}
        return [e for e in self.equivalent if _key(e["function"], e["was"], e["now"]) not in alive]

    def killed(self) -> int:
        return sum(m.killed for m in self.mutants)

    def share(self) -> float:
        """Of the mutants that can be killed."""
        killed = self.killed()
        return killed / max(killed + len(self.survivors()), 1)

    def _excused(self, mutant: Mutant) -> bool:
        excused = {_key(e["function"], e["was"], e["now"]) for e in self.equivalent}
        return _key(mutant.function, mutant.was, mutant.now) in excused


def _key(function: str, was: str, now: str) -> tuple[str, str, str]:
    return function, " ".join(was.split()), " ".join(now.split())


# The copy ---------------------------------------------------------------------------------------------------------


def copy_tree(to: Path) -> None:
    """Copy what git knows or would add; nothing here is ever changed."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def undecorated(source: str) -> str:
    """The same module with `f = property(f)` after a function instead of the decorator before it."""

    def written_out(body: list[ast.stmt]) -> Iterator[ast.stmt]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                node.body = list(written_out(node.body))
            yield node
            if isinstance(node, ast.FunctionDef) and len(node.decorator_list) == 1:
                decorator = ast.unparse(node.decorator_list.pop())
                yield ast.parse(f"{node.name} = {decorator}({node.name})").body[0]

    tree = ast.parse(source)
    tree.body = list(written_out(tree.body))
    return ast.unparse(tree)


def configure(tree: Path, module: str, tests: list[str]) -> None:
    """Tell mutmut about one module; its file must go on as pytest's configuration."""
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    options = {
        "source_paths": ["rigctl"],
        "only_mutate": [module],
        "also_copy": ["drivers", "sim_rig", "tests", "config", "docs"],
        "pytest_add_cli_args": PYTEST,
        "pytest_add_cli_args_test_selection": tests,
        "timeout_multiplier": SLOWER,
        "timeout_constant": SLOWER_S,
    }
    asked = "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
    (tree / "pyproject.toml").write_text(f"{lines}\n[tool.mutmut]\n{asked}", encoding="utf-8")


# The mutants ------------------------------------------------------------------------------------------------------


def run_module(module: str, tests: list[str], equivalent: list[dict[str, str]]) -> Result:
    """Mutate one module in a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        constants = list(mutated_constants(tree, module, tests))
        original = (ROOT / module).read_text(encoding="utf-8")
        (tree / module).write_text(undecorated(original), encoding="utf-8")
        configure(tree, module, tests)
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", "1"]
        done = subprocess.run(command, cwd=tree, env=_environment(tree), capture_output=True, text=True, check=False)
        found = tree / "mutants" / f"{module}.meta"
        if not found.exists() or done.returncode != 0:
            raise SystemExit(f"{module}: mutmut failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        codes = json.loads(found.read_text(encoding="utf-8"))["exit_code_by_key"]
        source = (tree / "mutants" / module).read_text(encoding="utf-8")
    return Result(module, constants + list(mutated_functions(source, codes)), equivalent)


def mutated_functions(source: str, codes: dict[str, int | None]) -> Iterator[Mutant]:
    """What mutmut has changed, read from the file with all its mutants, and whether a test noticed."""
    tree = ast.parse(source)
    bodies = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    for key, code in codes.items():
        name = key.rsplit(".", 1)[1]
        stem = name.rsplit("__mutmut_", 1)[0]
        original, mutant = bodies[f"{stem}__mutmut_orig"], bodies[name]
        if _counted(original) == _counted(mutant):
            continue
        was, now = _changed(original, mutant)
        function = re.sub(r"^x[_ǁ]", "", stem).replace("ǁ", ".")
        yield Mutant(function, was, now, killed=code not in {SURVIVED, UNTESTED, UNCHECKED})


class _Uncounted(ast.NodeTransformer):
    """Blanks what the two rules leave out."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        worded = isinstance(node.value, str) and " " in node.value
        return ast.Constant("") if worded else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "cast":
            node.args = node.args[-1:]
        return node


def _counted(function: ast.AST) -> list[str]:
    tree = _Uncounted().visit(ast.parse(ast.unparse(function)))
    return ast.unparse(tree).splitlines()[1:]


def _changed(original: ast.AST, mutant: ast.AST) -> tuple[str, str]:
    """The lines that differ, but for the function's name."""
    before, after = ast.unparse(original).splitlines()[1:], ast.unparse(mutant).splitlines()[1:]
    lines = list(difflib.ndiff(before, after))
    was = "\n".join(line[2:].strip() for line in lines if line.startswith("- "))
    now = "\n".join(line[2:].strip() for line in lines if line.startswith("+ "))
    return was, now


def mutated_constants(tree: Path, module: str, tests: list[str]) -> Iterator[Mutant]:
    """Each number at the head of the module a little larger: does a test know what it should be?"""
    source = (tree / module).read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
                row, start, end = node.lineno - 1, node.col_offset, node.end_col_offset
                line = lines[row]
                changed = (
                    f"{line[:start]}{node.value * 1.1 if type(node.value) is float else node.value + 1}{line[end:]}"
                )
                (tree / module).write_text("".join([*lines[:row], changed, *lines[row + 1 :]]), encoding="utf-8")
                yield Mutant("", line.strip(), changed.strip(), killed=_fails(tree, tests))
    (tree / module).write_text(source, encoding="utf-8")


def _fails(tree: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", *PYTEST, *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=_environment(tree), capture_output=True, check=False, timeout=CONSTANT_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def _environment(tree: Path) -> dict[str, str]:
    """Import the copy, not what is installed."""
    return {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'drivers'}", "PYTHONDONTWRITEBYTECODE": "1"}


# The table --------------------------------------------------------------------------------------------------------


def report(results: list[Result]) -> bool:
    """Print the table, the survivors and the entries that have rotted; tell whether all is well."""
    print("| module | mutants | killed | equivalent | survived | score |")
    print("|---|---:|---:|---:|---:|---:|")
    for r in results:
        equivalent = len(r.mutants) - r.killed() - len(r.survivors())
        counts = len(r.mutants), r.killed(), equivalent, len(r.survivors())
        print(f"| `{r.module}` | {' | '.join(map(str, counts))} | {r.share():.1%} |")
    for r in results:
        for m in r.survivors():
            print(f"\nsurvived: {r.module}: {m.function or 'constant'}\n  - {m.was}\n  + {m.now}".replace("\n\n", "\n"))
        for e in r.rotten():
            print(f"\nequivalent.yaml: {r.module}: {e['function']}: no such survivor any more:\n  + {e['now']}")
    return all(r.share() >= LEAST_SHARE and not r.rotten() for r in results)


def main() -> int:
    modules = yaml.safe_load((HERE / "modules.yaml").read_text(encoding="utf-8"))
    equivalent = yaml.safe_load((HERE / "equivalent.yaml").read_text(encoding="utf-8")) or {}
    parser = argparse.ArgumentParser(description="Mutates modules and counts what their tests notice.")
    parser.add_argument("module", nargs="*", help="default: all of modules.yaml")
    chosen = parser.parse_args().module or list(modules)
    if unknown := sorted(set(chosen) - set(modules)):
        parser.error(f"not in modules.yaml: {', '.join(unknown)}; there are {', '.join(modules)}")
    results = []
    for module in chosen:
        results.append(run_module(module, modules[module], equivalent.get(module, [])))
        print(f"{module}: {results[-1].share():.1%}", file=sys.stderr, flush=True)
    return 0 if report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
