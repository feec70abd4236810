"""Prints how large the house is and how its rooms hang together: `python -m tests.house.measure [ROOT]`.

Every figure is taken from the source text, nothing is imported, so any checkout can be measured.
"""

from __future__ import annotations

import argparse
import ast
import gc
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeGuard

PRODUCT = ("rigctl", "drivers", "sim_rig")
NO_RIG_NEEDS = ("rigctl/bench", "sim_rig")
"""What a rig does not need: the bench and the simulator."""
PACKAGES = ("rigctl/campaign", "rigctl/console", "rigctl/core")
CONCEPTS = {
    "look": r"looks?|looking",
    "awaited outcome": r"awaited|awaiting",
    "alarm": r"alarms?",
    "production": r"production|operate|operating|batch|batches",
    "upkeep": r"upkeep|maintenance",
}
"""Words, by concept, that make an identifier one of that concept's."""
READ_BACK = {
    "a control set's name is written by rigctl.text.set_label": r"""["'] ?\+ ?["']\.join\((?!\(name)""",
    "and read by set_members": r"""\.split\(["']\+["']""",
    "a unit of 1 is left out by shown_unit": r"""\bunit [=!]= "1\"""",
    "errors have kinds and fields": r"""\bin (str\(|refused by\b)""",
    "and are not cut": r"""\bstr\((error|refused|problem)\)\.(remove|starts|ends|r?partition|r?split|find)""",
    "what was got, allowed and to be done are fields of a Flaw": r"""\(\?P<(got|allowed|remedy)>""",
    "and its sentence is made in one place": r"""(UsageError|ConfigError|\.add|complain)\(.*["' ]got [^"]*[,;] must""",
    "and is not asked how it begins": r"""\.(starts|ends)with\(f?["'](got|must|is missing|unknown)\b""",
    "what a parser found is in its fields": r"""(findall|search|match|split|partition)\([^)]*\[["']msg["']\]\)""",
    "a reason, note or answer is said as it stands": (
        r"""\b(why|reason|note|text|said|told|message|what)\.r?(partition|split)\(f?["'](: |\. |, )["']"""
    ),
    "and whoever writes it knows for whom": r"""\bnote\.\w*partition\(""",
    "what a file says of itself is JSON": r"""re\.compile\(r?["']# [A-Z]\w+ """,
    "a command is not cut out of a line": r"""\.remove(prefix|suffix)\(((\w+\.)?HEAD\)|["'][A-Z]\w+:)""",
    "how a campaign stands is a Status": r"""\b(status|standing)\.get\(["'](phase|why|trial|watch|readings|paused)""",
    "sentences that belong to one are its own": r"""\bline\.startswith\(" "\)""",
    "a sentence and its remedy are two values": r"""\.split\("; ", 1\)""",
    "several reasons are several values": r"""\.split\("; "\)""",
    "what an act was is its verb": r"""\bargument\.(startswith|endswith|partition)\(""",
    "what a ledger line is worth is in its numbers": r"""\bnote\.endswith\(""",
    "what a process was told is JSON": r"""\(\?P<tolerance>""",
}
"""What a reader finds instead, and how it was done before."""
SQL = re.compile(r"(SELECT|PRAGMA|INSERT|UPDATE) ")
LOOKS = re.compile(
    "all|any|approx|compile|count|dict|endswith|enumerate|find|findall|fullmatch|get|index|isdisjoint|issubset|len|list"
    "|match|max|min|next|partition|removeprefix|removesuffix|replace|search|set|sorted|split|startswith|sub|sum|tuple|zip"
)
"""Functions and methods that look into a text or collection."""
NO_WORDS = re.compile(r"""<[^>]*>|[\w-]+="[^"]*"?|`[^`]*`?|\w{3} [\d-]{10} \d\d:\d\d \w+""")
"""What is no wording: markup, commands, points in time."""
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.Assert,
    ast.comprehension,
    ast.match_case,
)

Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Source:
    """A file of Python, its path relative to the root of the checkout."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        gc.disable()  # nothing of a tree is garbage, and searching it while it grows takes longer than all else
        try:
            return ast.parse(self.text)
        finally:
            gc.freeze()
            gc.enable()

    @cached_property
    def statements(self) -> list[ast.AST]:
        """All statements, and what they are grouped by; a tenth of the nodes."""
        return list(statements_in(self.tree))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(names_in(self.nodes))

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def module(self) -> str:
        parts = Path(self.path).with_suffix("").parts
        if parts[0] == "drivers":
            parts = parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def read(root: Path, folders: tuple[str, ...]) -> list[Source]:
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    return [Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node, clauses of `try` and `match` among them."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            yield inner
            yield from statements_in(inner)


def imported(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Yield the modules of the house that a file imports: at its head, in functions, or for the type checker alone."""
    for node in source.statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module


def import_graph(sources: Iterable[Source]) -> Graph:
    by_module = {source.module: source for source in sources}
    known = frozenset(by_module)
    return {name: frozenset(imported(source, known)) - {name} for name, source in by_module.items()}


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import one another (strongly connected components; Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def floors(graph: Graph) -> int:
    circle_of = {member: circle[0] for circle in circles(graph) for member in circle}
    below: dict[str, set[str]] = defaultdict(set)
    for node, others in graph.items():
        mine = circle_of.get(node, node)
        below[mine] |= {circle_of.get(other, other) for other in others} - {mine}
    heights: dict[str, int] = {}

    def height(node: str) -> int:
        if node not in heights:
            heights[node] = 1 + max((height(other) for other in below[node]), default=0)
        return heights[node]

    return max((height(node) for node in list(below)), default=0)


def within(graph: Graph, package: str) -> Graph:
    depth = package.count(".") + 2
    rooms: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        if name.startswith(package + "."):
            room = ".".join(name.split(".")[:depth])
            inner = (".".join(other.split(".")[:depth]) for other in others if other.startswith(package + "."))
            rooms[room] |= set(inner) - {room}
    return {room: frozenset(others) for room, others in rooms.items()}


def complexity(function: ast.AST) -> int:
    total = 1
    for node in ast.walk(function):
        total += isinstance(node, BRANCHES)
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
    return total


def read_back(source: Source, how: str) -> Iterator[str]:
    """Yield the lines of a file that take apart what was written for people, in one of the ways of READ_BACK."""
    if Path(source.path).name != "text.py" and re.search(READ_BACK[how], source.text):  # text.py writes it
        for number, line in enumerate(source.text.splitlines(), 1):
            if re.search(READ_BACK[how], line):
                yield f"{source.path}:{number}: {line.strip()}"


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in source.statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.alias(name=name):
                pass
            case _:
                continue
        yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)


def knows(source: Source, words: str) -> bool:
    pattern = re.compile(rf"(?:^|_|\.)(?:{words})(?:$|_|\.)", re.IGNORECASE)
    return any(pattern.search(name) for name in source.names)


def kinds(sources: Iterable[Source]) -> frozenset[str]:
    found = set()
    for node in (node for source in sources for node in source.nodes):
        match node:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=named):
                pass
            case ast.keyword(arg="kind", value=named):
                pass
            case ast.Call(func=ast.Name(id="WatchRule" | "Phase" | "Finding"), args=[named, *_]):
                pass
            case _:
                continue
        found |= {inner.value for inner in ast.walk(named) if isinstance(inner, ast.Constant)}
    return frozenset(text for text in found if isinstance(text, str))


def compared(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts in an assertion, and in the `match` of what must be raised; none of any other node."""
    tested = node.test if isinstance(node, ast.Assert) else None
    tested = node.value if isinstance(node, ast.keyword) and node.arg == "match" else tested
    left = [] if tested is None else [tested]
    while left:
        inner = left.pop()
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner
        left += [inner.func] if asked_of(inner) else ast.iter_child_nodes(inner)


def asked_of(node: ast.AST) -> TypeGuard[ast.Call]:
    """Tell whether a call is of what is tested, whose texts are given to it, and no look into what came of that."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return not LOOKS.fullmatch(name)


@cache
def given(source: Source) -> list[str]:
    """Return the texts that a file's tests give to what they test, or write themselves: all but expected ones."""
    apart = {id(text) for node in source.nodes for text in compared(node)}
    for node in source.nodes:
        if isinstance(node, ast.Expr):  # a docstring
            apart.add(id(node.value))
        for decorator in getattr(node, "decorator_list", ()):
            apart |= set(map(id, ast.walk(decorator)))
    texts = (node for node in source.nodes if isinstance(node, ast.Constant) and id(node) not in apart)
    return [text.value for text in texts if isinstance(text.value, str)]


@dataclass(frozen=True)
class Pins:
    """What is a sentence of the product's where a test compares with it, and what only looks like one."""

    names: frozenset[str]
    """A kind of alarm, say, is a name; and so is what the tests' own helpers call something."""
    calls: frozenset[str]
    """What a driver is asked for, by the names of its methods: a test's driver keeps `valve read_back` of it."""

    @classmethod
    def of(cls, product: Sequence[Source], helpers: Sequence[Source]) -> Pins:
        protocols = [source for source in product if source.path == "rigctl/rig/protocols.py"]
        calls = frozenset(f.name for source in protocols for f in functions(source))
        return cls(kinds(product).union(*map(given, helpers)), calls)

    def are_in(self, source: Source, words: int) -> dict[str, list[ast.Constant]]:
        """Return the sentences of so many words or more that each of a file's tests compares with."""
        own = "\n".join(given(source))
        bodies = (top.body if isinstance(top, ast.ClassDef) else [top] for top in source.tree.body)
        tests = (node for body in bodies for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        found = {
            test.name: [
                text for node in ast.walk(test) for text in compared(node) if self._pinned(text.value, words, own)
            ]
            for test in tests
        }
        return {name: texts for name, texts in found.items() if texts}

    def _pinned(self, text: str, words: int, own: str) -> bool:
        _, _, call = text.partition(" ")
        if not call.strip() or call in self.calls or text in self.names or text in own or SQL.match(text):
            return False
        return len(re.findall(r"[A-Za-z][\w-]+", NO_WORDS.sub("", text))) >= words


def table(root: Path) -> list[tuple[str, str]]:
    """Measure a checkout: names of measures and their figures, in the order in which they are printed."""
    product = read(root, PRODUCT)
    tests = read(root, ("tests",))
    graph = import_graph(product)
    is_test = {source.path: Path(source.path).name.startswith("test_") for source in tests}
    rows = [
        ("product lines", sum(source.lines for source in product)),
        ("of that what a rig needs", sum(s.lines for s in product if not s.path.startswith(NO_RIG_NEEDS))),
        ("test lines", sum(source.lines for source in tests)),
        ("helpers of tests, lines", sum(source.lines for source in tests if not is_test[source.path])),
        ("circles of imports", len(circles(graph))),
    ]
    printed = [(name, str(figure)) for name, figure in rows]
    for package in PACKAGES:
        rooms = within(graph, package.replace("/", "."))
        figures = (len(rooms), floors(rooms), sum(len(others) for others in rooms.values()))
        printed.append((f"{package}: rooms, floors, arrows", ", ".join(map(str, figures))))
    for concept, words in CONCEPTS.items():
        printed.append((f"files that know of: {concept}", str(sum(knows(source, words) for source in product))))
    pins = Pins.of(product, [source for source in tests if not is_test[source.path]])
    for words in (2, 4):
        found = [texts for s in tests if is_test[s.path] for texts in pins.are_in(s, words).values()]
        printed.append((f"tests that pin a text of {words} words; texts", f"{len(found)}; {sum(map(len, found))}"))
    classes = Counter(node.name for s in product for node in s.nodes if isinstance(node, ast.ClassDef))
    shared = sum(count > 1 for name, count in classes.items() if not name.startswith("_"))
    worst = max((complexity(function), f"{s.path}:{function.name}") for s in product for function in functions(s))
    ours = [source for source in product if not source.path.startswith("sim_rig")]  # which shares no code
    walrus = sum(isinstance(node, ast.NamedExpr) for source in product for node in source.nodes)
    printed += [
        ("class names used more than once", str(shared)),
        ("cyclomatic maximum", f"{worst[0]} ({worst[1]})"),
        ("walrus operators", str(walrus)),
        ("sentences read back", str(sum(1 for s in ours for how in READ_BACK for _ in read_back(s, how)))),
    ]
    return printed


def main() -> None:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[2])
    root = parser.parse_args().root
    measured = table(root)
    width = max(len(name) for name, _ in measured)
    for name, figure in measured:
        print(f"{name:{width}}  {figure}")
    for circle in circles(import_graph(read(root, PRODUCT))):
        print(f"circle: {', '.join(circle)}")


if __name__ == "__main__":
    main()
