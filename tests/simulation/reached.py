"""How often seeds come to a planted mistake, so that one that is not found can be told from one that is not met.

Before each statement that a patch has changed a counter is put, in the copy; the rarest of them says most.
"""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

COUNT = "__import__('tests.simulation.reached', fromlist=['passed']).passed()[{number}] += 1"
Bodies = Iterator[list[ast.stmt]]


@cache
def passed() -> Counter[int]:
    """Return how often each counter was passed in this process."""
    return Counter()


def changed(before: str, after: str) -> set[int]:
    """Return the lines of a program that were not in it before; where some only went, the line that follows."""
    found: set[int] = set()
    pairs = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for kind, _, _, begins, ends in pairs.get_opcodes():
        if kind != "equal":
            found |= set(range(begins, max(ends, begins + 1)))
    return {line + 1 for line in found}


def instrumented(source: str, lines: set[int], first: int) -> tuple[str, int]:
    """Return a program that counts how often these lines are come to, and the number after its last counter."""
    tree, number = ast.parse(source), first
    for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]:
        for body in _bodies(function):
            for statement in [s for s in body if lines & _own(s) and not _is_text(s)]:
                body.insert(body.index(statement), ast.parse(COUNT.format(number=number)).body[0])
                number += 1
    return ast.unparse(ast.fix_missing_locations(tree)), number


def instrument(copy: Path, root: Path, names: Iterable[str]) -> int:
    """Put counters into these files of a copy, where they are not as in the tree; return how many."""
    number = 0
    for name in names:
        after = (copy / name).read_text(encoding="utf-8")
        lines = changed((root / name).read_text(encoding="utf-8"), after)
        text, number = instrumented(after, lines, number)
        (copy / name).write_text(text, encoding="utf-8")
    return number


def told(counted: Mapping[int, int], counters: int) -> str:
    """Say how often it was come to: the rarest of its statements, and the most frequent one where that differs."""
    times = [counted.get(number, 0) for number in range(counters)]
    if not times:  # a constant of a module
        return "always"
    return str(min(times)) if min(times) == max(times) else f"{min(times)} to {max(times)}"


def _bodies(function: ast.AST) -> Bodies:
    """Give every list of statements of a function, but not of those within."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _bodies(node)
    for kind in ("body", "orelse", "finalbody"):
        body = getattr(function, kind, None)
        if isinstance(body, list):
            yield body


def _own(statement: ast.stmt) -> set[int]:
    """Return the lines of a statement less those of the statements within."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return set()
    within = {
        line
        for body in _bodies(statement)
        for inner in body
        for line in range(inner.lineno, (inner.end_lineno or inner.lineno) + 1)
    }
    return set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)) - within


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
