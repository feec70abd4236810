"""Draws mutants: every place in a syntax tree where an operator applies, and of these a sample that a seed decides.

Not drawn, because nobody could tell them from the program (or only by its words):

- words: docstrings, f-strings and what they contain, whole functions that only put words together (`WORDS`), and
  what is written to a log;
- types: annotations, `TYPE_CHECKING` blocks, decorators, protocols, base classes, `cast`, type aliases;
- how a container is made: `strict=` of `zip`, `__slots__`, the fields' `field(...)` but for their default;
- two arguments of a call of which one is a text and the other is not: anybody would see that;
- `del` of an argument that is not used, and a statement whose loss leaves a name that was never bound.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
MODULES: Final = (
    "rigctl/rig/guard.py",
    "rigctl/rig/dosing.py",
    "rigctl/rig/testimony.py",
    "rigctl/rig/titration.py",
    "rigctl/rig/safing.py",
    "rigctl/rig/imposing.py",
    "rigctl/rig/conditions.py",
    "rigctl/campaign/closing.py",
    "rigctl/campaign/ledger/charging.py",
    "rigctl/campaign/ledger/rates.py",
    "rigctl/campaign/carry.py",
    "rigctl/campaign/watch.py",
    "rigctl/campaign/obstacles.py",
    "rigctl/campaign/instruments.py",
    "rigctl/campaign/safe_file.py",
    "rigctl/campaign/ledger/plausibility.py",
)
WORDS: Final = frozenset(
    {
        "__str__", "__repr__", "_imbalance", "told", "_told", "_detail", "_why_idle", "_what_is_wrong", "_doubt_words",
        "_serves", "_noted", "said_of",
    }
)  # fmt: skip
"""Functions that only put words together."""
LOGS: Final = frozenset({"debug", "info", "warning", "error", "exception"})
SYMMETRIC: Final = frozenset({"max", "min", "isclose", "isinstance", "cast", "gather", "together", "patch"})
"""Calls whose arguments mean the same in any order, or whose order a type checker sees to."""
NEGATED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
BOUNDARY: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small mistake."""

    module: str
    line: int
    function: str
    operator: str
    was: str
    now: str
    begin: int
    """Bytes of the module's text that are replaced."""
    end: int
    in_function: bool
    """Whether it is executed where its function is called, not where the module is imported."""
    place: int = 1
    """Which of the places in the function where the same is replaced by the same."""

    @property
    def name(self) -> str:
        """Return what it is known by, whatever moves above it in its module."""
        place = f" (place {self.place})" if self.place > 1 else ""
        return f"{self.module}:{self.function}: {self.operator}: {self.was} -> {self.now}{place}"

    def applied(self, text: str) -> str:
        data = text.encode()
        return (data[: self.begin] + self.now.encode() + data[self.end :]).decode()


def drawn(seed: int, count: int) -> list[Mutant]:
    """Return so many mutants of all modules, each as likely as any other; a longer list begins as a shorter one."""
    texts = {module: (ROOT / module).read_text(encoding="utf-8") for module in MODULES}
    everything = [mutant for module, text in texts.items() for mutant in _candidates(module, text)]
    random.Random(f"{seed} mutants").shuffle(everything)
    return list(islice((m for m in everything if _compiles(m.applied(texts[m.module]))), count))


def mutants(module: str, text: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its text, none of them twice."""
    return [mutant for mutant in _candidates(module, text) if _compiles(mutant.applied(text))]


def _candidates(module: str, text: str) -> list[Mutant]:
    """Return the mutants with those that are no program, which only takes time to find out."""
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found: dict[str, Mutant] = {}
    places: Counter[str] = Counter()
    tree = ast.parse(text)
    bodies = [range(f.body[0].lineno, f.end_lineno + 1) for f in ast.walk(tree) if isinstance(f, FUNCTIONS)]
    for node, function, operator, now in _Sites(tree).all():
        begin, end = lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset
        was = text.encode()[begin:end].decode()
        mutant = Mutant(
            module, node.lineno, function, operator, was, now, begin, end, any(node.lineno in b for b in bodies)
        )
        changed = mutant.applied(text)
        if was != now and changed not in found:
            places[mutant.name] += 1
            found[changed] = replace(mutant, place=places[mutant.name])
    return list(found.values())


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


Site = tuple[ast.expr | ast.stmt, str, str, str]
"""What is replaced, in which function, by which operator, and by what."""


class _Sites:
    """Walks a module, leaving out what is not drawn."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._bound: list[set[str]] = []
        """By function that is being walked: the names that are bound more than once in it."""

    def all(self) -> Iterator[Site]:
        yield from self._block(self._tree.body, "")

    def _block(self, body: list[ast.stmt], function: str) -> Iterator[Site]:
        for statement in body:
            yield from self._statement(statement, function)

    def _statement(self, node: ast.stmt, function: str) -> Iterator[Site]:  # noqa: C901, PLR0912  # a branch a kind
        if _is_left_out(node):
            return
        if isinstance(node, FUNCTIONS | ast.ClassDef):
            name = f"{function}.{node.name}".lstrip(".")
            if isinstance(node, ast.ClassDef):
                yield from self._block(node.body, name)
            else:
                yield from self._function(node, name)
            return
        if function and _droppable(node) and self._bound and not (_names(node) - self._bound[-1]):
            yield node, function, "dropped statement", "pass"
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Await):
            yield node.value, function, "removed await", ast.unparse(node.value.value)
        if isinstance(node, ast.If | ast.While):
            yield node.test, function, "skipped branch", "False"
            if isinstance(node, ast.If):
                yield node.test, function, "skipped branch", "True"
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from self._statement(child, function)
            elif isinstance(child, ast.ExceptHandler | ast.match_case):
                yield from self._block(child.body, function)
            elif isinstance(child, ast.expr) and not _is_annotation(node, child):
                yield from self._expression(child, function, awaited=isinstance(node, ast.Expr))
            elif isinstance(child, ast.withitem):
                yield from self._expression(child.context_expr, function)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[Site]:
        counts: dict[str, int] = {argument.arg: 2 for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                counts[inner.id] = counts.get(inner.id, 0) + 1
        self._bound.append({variable for variable, times in counts.items() if times > 1})
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            yield from self._expression(default, name)
        yield from self._block(node.body, name)
        self._bound.pop()

    def _expression(self, node: ast.expr, function: str, *, awaited: bool = False) -> Iterator[Site]:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and _is_logging(node)):
            return
        yield from _of_expression(node, function)
        if isinstance(node, ast.Await) and not awaited:
            yield node, function, "removed await (its value used)", f"({ast.unparse(node.value)})"
        left_out = _left_out_arguments(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword) and child.arg not in ("strict", "encoding", "indent", "default_factory"):
                yield from self._expression(child.value, function)
            elif isinstance(child, ast.comprehension):
                for part in (child.iter, *child.ifs):
                    yield from self._expression(part, function)
            elif isinstance(child, ast.expr) and child not in left_out:
                yield from self._expression(child, function, awaited=False)


def _of_expression(node: ast.expr, function: str) -> Iterator[Site]:  # noqa: C901  # a branch a kind
    """Give the mutants of one expression, not of those within."""
    if isinstance(node, ast.Compare):
        for operator, table in (("comparison", NEGATED), ("boundary", BOUNDARY)):
            for i, sign in enumerate(node.ops):
                if (other := table.get(type(sign))) is not None:
                    ops = [*node.ops[:i], other(), *node.ops[i + 1 :]]
                    changed = ast.Compare(node.left, ops, node.comparators)
                    yield node, function, operator, f"({ast.unparse(changed)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, function, "constant", repr(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        value = node.value
        near = (value + 1, value - 1, 0) if isinstance(value, int) else (value * 2.0, value / 2.0, 0.0)
        for changed_value in near:
            if changed_value != value:
                yield node, function, "constant", f"({changed_value!r})"
    elif isinstance(node, ast.IfExp):
        yield node.test, function, "skipped branch", "False"
        yield node.test, function, "skipped branch", "True"
    elif isinstance(node, ast.Call) and _name_of(node.func) not in SYMMETRIC:
        for i, (one, other) in enumerate(zip(node.args, node.args[1:], strict=False)):
            if isinstance(one, ast.Starred) or isinstance(other, ast.Starred) or _is_text(one) != _is_text(other):
                continue
            args = [*node.args[:i], other, one, *node.args[i + 2 :]]
            yield node, function, "swapped arguments", ast.unparse(ast.Call(node.func, args, node.keywords))


# what is not drawn --------------------------------------------------------------------------------------------------


def _is_left_out(node: ast.stmt) -> bool:
    if isinstance(node, FUNCTIONS):
        return node.name in WORDS
    if isinstance(node, ast.ClassDef):
        return any(_name_of(base) == "Protocol" for base in node.bases)
    if isinstance(node, ast.If):
        return _name_of(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Expr):
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        return isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and _is_logging(call))
    if isinstance(node, ast.Assign | ast.AnnAssign):
        value = node.value.value if isinstance(node.value, ast.Subscript) else None
        return _name_of(value) in ("Literal", "Callable", "Mapping") or "__slots__" in _names(node)
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Delete | ast.Assert | ast.Pass)


def _droppable(node: ast.stmt) -> bool:
    """Tell whether a statement does something that can be left out; a `return` is what a branch is for."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await)
    return isinstance(node, ast.Assign | ast.AugAssign | ast.Raise | ast.Continue | ast.Break)


def _names(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds by itself; an attribute or an element is none."""
    if isinstance(node, ast.AugAssign):
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    flat = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {part.id for part in flat if isinstance(part, ast.Name)}


def _is_annotation(node: ast.stmt, child: ast.expr) -> bool:
    return isinstance(node, ast.AnnAssign) and child is node.annotation


def _left_out_arguments(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Call) and _name_of(node.func) == "cast":
        return node.args[:1]
    return [node.slice] if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice | ast.Tuple) else []


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_logging(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in LOGS


def _name_of(node: ast.expr | None) -> str:
    if isinstance(node, ast.Call):
        return _name_of(node.func)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
