"""YAML text -> plain data that remembers on which line each key stands.

Scalars follow the YAML 1.2 core schema, not PyYAML's 1.1: `off`, `yes` and `12:30` stay text, `1e3` is a number.
Duplicate keys, anchors, tags and keys that are not text are problems, not surprises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from unicodedata import decimal

import yaml

from rigctl.config.wording import shown, write
from rigctl.errors import ConfigError, KeyPath, Mistake, dotted
from rigctl.plugins import did_you_mean

MAX_DEPTH = 30
MAX_NUMBER_LENGTH = 40
"""Longer digit strings stay text: no quantity of a rig needs them, and Python refuses to read huge ones."""
MOST_VALUES = 20_000
"""Keys, values and list elements together; each costs time in every later check."""
LONGEST_TEXT = 1_000
"""Characters of one key or value: patterns and sentences are made for short ones."""

_SCALARS: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"~|null|Null|NULL|"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda s: int(s, 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)"), lambda s: float(s.replace(".", ""))),
    (re.compile(r"\.(nan|NaN|NAN)"), lambda _: float("nan")),
)


_FOREIGN: re.Pattern[str] = re.compile(r"(?<![/_]|[^\x00-\x7f])(?![0-9])\d")
"""A digit of another script where a number begins or goes on; in a path, and in a word of that script, it may stand."""
_OCTAL: re.Pattern[str] = re.compile(r"[-+]?0[0-7]+")
AFTERWARDS = "; the rest is checked once this is mended"


@dataclass(frozen=True, slots=True)
class Document:
    """Holds a parsed configuration file."""

    file: str
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, tuple[int, int]]
    """Line and column of each key and list element, from 1."""
    origins: Mapping[KeyPath, str] = field(default_factory=dict)
    """What came from the command line instead, and its option."""
    unreadable: frozenset[KeyPath] = frozenset()
    """Keys whose values could not be taken; told already."""
    doubts: tuple[Mistake, ...] = ()
    """What is read in one way here, and may be meant, or read by others, in another."""

    def mistake(self, path: KeyPath, what: str) -> Mistake:
        """Return what is wrong at a path; a missing key is placed where it should have stood."""
        option = next((o for p, o in self.origins.items() if path[: len(p)] == p), None)
        if option is not None:
            return Mistake(option, what, path)
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        return _mistake(self.file, self.lines.get(known, (1, 0)), path, what)


def parse(text: str, file: str) -> tuple[Document, list[Mistake]]:
    """Parse the document; return every mistake in its keys and scalars beside it.

    Raises:
        ConfigError: it is no YAML, no plain mapping at the top, or larger than any configuration.
    """
    refuse_too_long(len(text), file)
    try:
        root = yaml.compose(text, Loader=_PlainLoader)
    except yaml.YAMLError as error:
        slip = slip_of(text, error)
        raise ConfigError([_mistake(file, (slip.line, slip.column), (), f"{slip.what}{AFTERWARDS}")]) from error
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError([_mistake(file, (1, 0), (), _no_mapping(root))])
    reader = _Reader(file)
    if reader.tagged(root, ()):
        raise ConfigError(reader.mistakes)
    data = reader.mapping(root, ())
    document = Document(
        file,
        MappingProxyType(data),
        MappingProxyType(reader.lines),
        unreadable=frozenset(reader.unreadable),
        doubts=tuple(reader.doubts),
    )
    return document, reader.mistakes


class _PlainLoader(yaml.BaseLoader):
    """Composes nodes without resolving scalars; refuses what makes a document larger than its text."""

    depth = 0
    values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it untyped
        mark: yaml.Mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            what = "aliases are not supported; write the value out"
            raise yaml.composer.ComposerError(None, None, what, mark)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise yaml.composer.ComposerError(None, None, f"the anchor &{event.anchor}", mark)
        self.depth += 1
        self.values += 1
        if self.depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", mark)
        if self.values > MOST_VALUES:
            raise yaml.composer.ComposerError(None, None, f"more than {MOST_VALUES} keys and values", mark)
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST_TEXT:
            raise yaml.composer.ComposerError(None, None, f"text of more than {LONGEST_TEXT} characters", mark)
        node = super().compose_node(parent, index)
        if node is not None:
            node.tag = getattr(event, "tag", None) or ""  # as it stands there; what it would mean is ours to say
        self.depth -= 1
        return node


def _no_mapping(root: yaml.Node | None) -> str:
    """Say what stands at the top in place of keys."""
    must = 'must be keys and values that start like "rig: greenhouse"'
    if isinstance(root, yaml.SequenceNode):
        return f"got a list, {must}; remove the dashes"
    if root is None or not root.value:
        return f"got an empty file, {must}; `rigctl init` writes one"
    return f"got {shown(root.value)}, {must}; `rigctl init` writes one"


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, tuple[int, int]] = {}
        self.mistakes: list[Mistake] = []
        self.doubts: list[Mistake] = []
        self.unreadable: set[KeyPath] = set()

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        """Read keys as text; the first of duplicate keys counts."""
        data: dict[str, Any] = {}
        before: tuple[yaml.Node, yaml.Node] | None = None
        for key_node, value_node in node.value:
            if before is not None and _cut_at_a_comma(before[1], key_node, value_node):
                self._cut((*path, before[0].value), before[1], f"{before[1].value},{key_node.value}")
                before = None
                continue
            before = (key_node, value_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self._add(key_node, path, "got a list or mapping as a key, must be a word")
                continue
            here = (*path, key_node.value)
            self.tagged(key_node, here)
            if here in self.lines:
                first = self.lines[here][0]
                self._add(key_node, here, f"duplicate key; it stands already on line {first}; remove one of them")
                continue
            self.lines[here] = _place(key_node)
            if key_node.value == "<<" and key_node.style is None:
                self.unreadable.add(here)
                self._add(key_node, here, "got YAML's merge key, must be written out; repeat the keys you mean")
                continue
            data[key_node.value] = self.value(value_node, here)
        return data

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        if self.tagged(node, path):
            return None
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self.lines[(*path, i)] = _place(item)
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        if _FOREIGN.search(node.value):
            ours = "".join(str(decimal(c)) if c.isdecimal() else c for c in node.value)
            self._add(node, path, f"got {shown(node.value)}, must have the digits 0 to 9{write(ours)}")
            node.value = ours
        return self.scalar(node, path) if getattr(node, "style", None) is None else node.value

    def scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        value = _scalar(node.value)
        if _OCTAL.fullmatch(node.value):
            what = f"got {node.value}, which is read as {value}; write {value}, for other programs read it as octal"
            self.doubts.append(_mistake(self.file, _place(node), path, what))
        return value

    def tagged(self, node: yaml.Node, path: KeyPath) -> bool:
        """Tell whether a tag such as !!str stands before it, and refuse that."""
        if node.tag:
            self.unreadable.add(path)
            short = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._add(node, path, f"got the tag {short}, must be written without one; remove it")
        return bool(node.tag)

    def _cut(self, path: KeyPath, node: yaml.Node, whole: str) -> None:
        self.unreadable.add(path)
        meant = whole.replace(",", ".", 1)
        remedy = f"; write {meant}" if isinstance(_scalar(meant), float) else write(meant)
        self._add(node, path, f'got "{whole}", must have a point: between braces a comma ends a value{remedy}')

    def _add(self, node: yaml.Node, path: KeyPath, what: str) -> None:
        self.mistakes.append(_mistake(self.file, _place(node), path, what))


def _cut_at_a_comma(number: yaml.Node, rest: yaml.Node, nothing: yaml.Node) -> bool:
    """Tell whether `4,2 EUR/L` was meant, of which YAML makes the value 4 and the key `2 EUR/L`."""
    return (
        nothing.start_mark.index == nothing.end_mark.index
        and number.end_mark.index + 1 == rest.start_mark.index
        and re.fullmatch(r"[-+]?\d+", str(number.value)) is not None
        and re.match(r"\d", str(rest.value)) is not None
    )


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _mistake(file: str, place: tuple[int, int], path: KeyPath, what: str) -> Mistake:
    line, column = place
    return Mistake(f"{file}:{line}" + (f": {dotted(path)}" if path else ""), what, path, line, column, file)


def _scalar(text: str) -> Any:
    if len(text) <= MAX_NUMBER_LENGTH:
        for pattern, convert in _SCALARS:
            if pattern.fullmatch(text):
                return convert(text)
    return text


# the file ---------------------------------------------------------------------------------------------------------


MOST_BYTES: Final = 1_000_000
"""Of a file: the largest rig described so far takes 30,000, and a parser takes seconds for each million."""


def read(path: Path) -> str:
    """Return the text of a configuration file.

    Raises:
        ConfigError: there is none, or it is no text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError([Mistake(str(path), _why(path, error), file=str(path))]) from error
    refuse_too_long(len(data), str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ConfigError([Mistake(f"{path}:{line}", _no_text(data, error), (), line, column, str(path))]) from error


def refuse_too_long(length: int, file: str) -> None:
    """Raise `ConfigError` for more text than a configuration can have, before anything reads it."""
    if length > MOST_BYTES:
        what = f"is larger than {MOST_BYTES // 1_000_000} MB, must be a configuration; is it the right file?"
        raise ConfigError([Mistake(file, what, file=file)])


def _why(path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, IsADirectoryError):
        return f"is a folder, must be a file{_there(path)}"
    if isinstance(error, FileNotFoundError):
        return f"cannot be read: there is no such file{_near(path) or _there(path.parent)}"
    reason = error.strerror if isinstance(error, OSError) else error
    return f"cannot be read: {reason}"


def _configurations(folder: Path) -> list[str]:
    return sorted(str(file) for file in folder.glob("*.y*ml") if file.is_file()) if folder.is_dir() else []


def _near(path: Path) -> str:
    return did_you_mean(str(path), _configurations(path.parent))


def _there(folder: Path) -> str:
    found = _configurations(folder)
    return f"; there are {', '.join(found[:5])}" if found else "; `rigctl init` writes one"


def _no_text(data: bytes, error: UnicodeDecodeError) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "got UTF-16, must be UTF-8 text; save the file anew as UTF-8"
    if b"\0" in data:
        return "got a binary file, must be UTF-8 text; give a configuration"
    return f"got the byte 0x{data[error.start]:02x}, must be UTF-8 text; save the file anew as UTF-8"


# what a YAML parser stumbles over ---------------------------------------------------------------------------------


_BLANKS: Final = re.compile(r"[ \t]*[^\S \t\r\n]")
"""An indentation that holds what only looks like a blank, such as the no-break space of a web page."""
_CURLY: Final = re.compile("[“”„‘’]")
_KEY: Final = re.compile(r"""\s*(?:-\s+)?(?P<key>[\w.-]+|"[^"]*"|'[^']*')\s*:(?=\s|$)""")
_GLUED: Final = re.compile(r"(?P<key>[\w-]+):(?P<value>[^\s/:].*)")
"""A key with its value right behind the colon; a URL is none."""
_CLOSERS: Final = {"{": "}", "[": "]"}
_WORDS: Final = {"{": "brace", "[": "bracket", "}": "brace", "]": "bracket"}

_IN_QUOTES: Final = "got a value that begins with \"{sign}\", must stand in quotes; write '...' around it"
_TELLING: Final[tuple[tuple[str, bool, str], ...]] = (
    ("'\\t'", False, "got a tab {where}, must be blanks; write two blanks for each tab"),
    ("cannot start any token", False, 'got a value that begins with {sign}, must stand in quotes; write "{value}"'),
    (
        "aliases are not supported",
        False,
        "got the alias {value}, must be written out; a value that begins with * stands in quotes",
    ),
    ("the anchor &", False, "got {problem}, must be left out; a value that begins with & stands in quotes"),
    ("single document", False, "got a second document (---), must be one; remove this line"),
    (
        "quoted scalar found unexpected end of stream",
        True,
        "got a quote that is not closed, must end with {sign}; write it behind the value",
    ),
    ("alphabetic or numeric", True, _IN_QUOTES),
    ("chomping", True, _IN_QUOTES),
    (
        "sequence entries",
        False,
        "got a dash behind a key, must begin a line; write the list on lines of its own, or as [a, b]",
    ),
    ("found '<stream end>'", False, ""),  # told by what is not closed
    ("node content", False, 'got "{sign}" where a value must stand; remove it, or write the value'),
    (
        "'<document start>'",
        False,
        "got a key where the file had ended, must be keys and values throughout; mend the lines before it",
    ),
    ("escape", False, "got a backslash in double quotes, must stand in single ones; write '...' around the value"),
    ("nested deeper", False, "is {problem}; no configuration needs that"),
    ("keys and values", False, "got {problem}, must be fewer; is it the right file?"),
    ("text of more than", False, "got {problem}, must be shorter; is a quote or a line end missing?"),
)
"""What the parser says, whether the fault is where it began to read, and what that means (empty: look elsewhere)."""


@dataclass(frozen=True, slots=True)
class Slip:
    """Says where a text stops being YAML, and why."""

    line: int
    """From 1, as `column`."""
    column: int
    what: str


def slip_of(text: str, error: yaml.YAMLError) -> Slip:
    """Return what stopped the parser on `text`."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        got = (
            f"got the control character U+{error.character:04X}" if isinstance(error.character, int) else "got no text"
        )
        return Slip(line, column, f"{got}, must be text that can be printed; delete it")
    if not isinstance(error, yaml.MarkedYAMLError):
        return Slip(1, 1, f"got no YAML: {error}".replace("\n", " "))
    return _Reading(text, error).slip()


class _Reading:
    """Reads the lines about the place where the parser stopped."""

    def __init__(self, text: str, error: yaml.MarkedYAMLError) -> None:
        self.lines = text.splitlines() or [""]
        self.context, self.problem = error.context or "", error.problem or ""
        mark, opened = error.problem_mark or error.context_mark, error.context_mark or error.problem_mark
        last = len(self.lines)
        self.line, self.column = (min(mark.line + 1, last), mark.column + 1) if mark else (1, 1)
        self.first, self.first_column = (min(opened.line + 1, last), opened.column + 1) if opened else (1, 1)

    def slip(self) -> Slip:
        for look in (self._blanks, self._curly, self._by_token, self._flow, self._block):
            found = look()
            if found is not None:
                return found
        what = f"got what YAML cannot read ({self.problem}); compare indentation, colons, brackets and quotes"
        return Slip(self.line, self.column, f"{what} with the lines around")

    def text(self, line: int) -> str:
        return self.lines[line - 1]

    def before(self) -> int:
        """Return the last line before the parser's that says anything; 0 where none does."""
        said = (n for n in range(self.line - 1, 0, -1) if self.text(n).strip() and self.text(n).strip()[0] != "#")
        return next(said, 0)

    # signs that tell by themselves -----------------------------------------------------------------------------

    def _blanks(self) -> Slip | None:
        for line in filter(None, (self.before(), self.line)):
            found = _BLANKS.match(self.text(line))
            if found is not None:
                sign = f"U+{ord(found[0][-1]):04X}"
                what = f"got the blank {sign} in front of the line, must be ordinary blanks; type them anew"
                return Slip(line, found.end(), what)
        return None

    def _curly(self) -> Slip | None:
        for line in (self.first, self.line):
            found = _CURLY.search(self.text(line))
            if found is not None:
                what = f'got the curly quote {found[0]}, must be a straight one; type " instead'
                return Slip(line, found.start() + 1, what)
        return None

    def _by_token(self) -> Slip | None:
        """Judge what the parser says in so many words."""
        said = f"{self.context} {self.problem}"
        if "quoted scalar" in said and "end of stream" in said and not self._is_quote():
            return None
        found = next((telling for telling in _TELLING if telling[0] in said), None)
        if found is None or not found[2]:
            return None
        _, at_start, what = found
        line, column = (self.first, self.first_column) if at_start else (self.line, self.column)
        rest = self.text(line)[column - 1 :]
        leading = not self.text(line)[: column - 1].strip()
        where = "in front of the line" if leading else "between two words"
        return Slip(line, column, what.format(sign=rest[:1], value=_value(rest), where=where, problem=self.problem))

    def _is_quote(self) -> bool:
        return self.text(self.first)[self.first_column - 1 : self.first_column] in ("'", '"')

    # brackets and braces ---------------------------------------------------------------------------------------

    def _flow(self) -> Slip | None:
        if "found '<stream end>'" in self.problem:
            return self._never_closed()
        if not self.problem.startswith(("expected ',' or '}'", "expected ',' or ']'")):
            return None
        opened = self.text(self.first)[self.first_column - 1]
        if self.line > self.first:
            return _not_closed(self.first, self.first_column, opened)
        said = self.text(self.line)[: self.column - 1]
        key = re.search(r"(\w[\w-]*)\s*$", said)
        after = f" before {key[1]}" if key is not None and "got ':'" in self.problem else ""
        column = key.start() + 1 if key is not None and after else self.column
        other = ", or put the value in quotes" if after else ""
        what = f"got no comma{after}, must be keys or values with commas between; write a comma{other}"
        return Slip(self.line, column, what)

    def _never_closed(self) -> Slip | None:
        """Return the innermost bracket that is open at the end; those in quotes and comments are passed over."""
        opened: list[tuple[int, int, str]] = []
        for number, line in enumerate(self.lines, 1):
            plain = re.sub(r'"[^"]*"|\'[^\']*\'|(?:^|\s)#.*', lambda found: " " * len(found[0]), line)
            for column, sign in enumerate(plain, 1):
                if sign in "{[":
                    opened.append((number, column, sign))
                elif sign in "}]" and opened:
                    opened.pop()
        return _not_closed(*opened[-1]) if opened else None

    # keys, values and indentation ------------------------------------------------------------------------------

    def _block(self) -> Slip | None:
        if "could not find expected ':'" in self.problem:
            return self._no_colon(self.first)
        if "mapping values are not allowed" in self.problem:
            return self._second_value()
        if not self.problem.startswith("expected <block end>"):
            return None
        if self.problem.endswith("'<block mapping start>'"):
            return self._indented()
        text, what = self.text(self.line), ""
        found = text.strip()[:1]
        if self.problem.endswith(("','", "':'")):
            sign = text[self.column - 1 : self.column]
            what = f'got "{sign}" behind the value; remove it, or put the value in quotes'
        elif self.problem.endswith(("'}'", "']'")):
            sign = text[self.column - 1 : self.column]
            what = f'got the {_WORDS.get(sign, "bracket")} "{sign}", which closes nothing; remove it'
        elif found == "-":
            glued = re.match(r"\s*-\S", text) is not None
            among = "got a dash among keys, must be a key like its neighbours; remove the dash"
            what = "got no blank after the dash; write one" if glued else among
        elif self.problem.endswith("'<scalar>'") and _KEY.match(text):
            what = "got more behind the closing quote; put all of the value in the quotes"
        return Slip(self.line, self.column, what) if what else None

    def _no_colon(self, line: int) -> Slip:
        said = self.text(line).strip()
        column = len(self.text(line)) - len(self.text(line).lstrip()) + 1
        glued = _GLUED.fullmatch(said)
        if glued is not None:
            what = f'got no blank after the colon; write "{glued["key"]}: {glued["value"]}"'
            return Slip(line, column, what)
        if said.startswith("-") and not said.startswith("- "):
            return Slip(line, column, "got no blank after the dash; write one")
        key, blank, value = said.partition(" ")
        meant = f"{key}:{blank}{value}".strip()
        return Slip(line, column, f'got "{_short(said)}", must be a key, a colon and a value; write "{_short(meant)}"')

    def _second_value(self) -> Slip:
        """Judge a colon where the parser expected none."""
        text, before = self.text(self.line), self.before()
        first = _KEY.match(text)
        if first is not None and first.end() < self.column:
            value = text[first.end() :].strip()
            what = f'got a second colon in one line; put the value in quotes: {first["key"]}: "{_short(value)}"'
            return Slip(self.line, self.column, what)
        if (
            before
            and _KEY.match(self.text(before)) is None
            and not self.text(before).rstrip().endswith((",", "{", "["))
        ):
            return self._no_colon(before)
        return self._indented()

    def _indented(self) -> Slip:
        text = self.text(self.line)
        deep = len(text) - len(text.lstrip())
        around = sorted(
            {_depth(self.text(n)) for n in range(max(1, self.line - 12), self.line) if _KEY.match(self.text(n))}
        )
        near = [depth for depth in around if depth != deep]
        allowed = " or ".join(map(str, sorted(sorted(near, key=lambda depth: abs(depth - deep))[:2]))) or "0"
        what = f"got {deep} blanks in front of the key, must be {allowed} as in the lines before; line the keys up"
        return Slip(self.line, deep + 1, what)


def _not_closed(line: int, column: int, opened: str) -> Slip:
    closer = _CLOSERS.get(opened, "")
    what = f'got the {_WORDS.get(opened, "bracket")} "{opened}", which is not closed; write "{closer}" at its end'
    return Slip(line, column, what)


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


def _value(rest: str) -> str:
    """Return the value that begins here, without what can only come after it."""
    return _short(re.split(r"\s#|[,\]}]", rest.strip(), maxsplit=1)[0].strip())


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
