"""YAML text -> plain data that remembers on which line each key stands.

Scalars follow the YAML 1.2 core schema, not PyYAML's 1.1: `off`, `yes` and `12:30` stay text, `1e3` is a number.
Duplicate keys, anchors, tags and keys that are not text are problems, not surprises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from unicodedata import decimal

import yaml

from rigctl.errors import ConfigError, KeyPath, Mistake, dotted, reason
from rigctl.flaws import Flaw, got, shown, write
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
AFTERWARDS = "the rest is checked once this is mended"


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
    files: Mapping[KeyPath, str] = field(default_factory=dict)
    """In which file each key stands, where others than `file` are included."""
    doubts: tuple[Mistake, ...] = ()
    """What is read in one way here, and may be meant, or read by others, in another."""

    def mistake(self, path: KeyPath, flaw: Flaw) -> Mistake:
        """Return what is wrong at a path; a missing key is placed where it should have stood."""
        option = next((o for p, o in self.origins.items() if path[: len(p)] == p), None)
        if option is not None:
            return Mistake(option, flaw, path)
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        return _mistake(self.files.get(known, self.file), self.lines.get(known, (1, 0)), path, flaw)


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
        flaw = replace(slip.flaw, remedy="; ".join(filter(None, (slip.flaw.remedy, AFTERWARDS))))
        raise ConfigError([_mistake(file, (slip.line, slip.column), (), flaw)]) from error
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
        self.depth += 1
        self.values += 1
        flaw = self.refused(event)
        if flaw is not None:
            raise _Refused(event.start_mark, flaw)
        node = super().compose_node(parent, index)
        if node is not None:
            node.tag = getattr(event, "tag", None) or ""  # as it stands there; what it would mean is ours to say
        self.depth -= 1
        return node

    def refused(self, event: yaml.Event) -> Flaw | None:
        """Return what is wrong with a node that YAML allows, but no configuration has."""
        if isinstance(event, yaml.AliasEvent):
            remedy = "a value that begins with * stands in quotes"
            return Flaw("", "must be written out", remedy, got=f"the alias *{event.anchor}")
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            remedy = "a value that begins with & stands in quotes"
            return Flaw("", "must be left out", remedy, got=f"the anchor &{event.anchor}")
        if self.depth > MAX_DEPTH:
            return Flaw(f"is nested deeper than {MAX_DEPTH} levels", remedy="no configuration needs that")
        if self.values > MOST_VALUES:
            return Flaw("", "must be fewer", "is it the right file?", got=f"more than {MOST_VALUES} keys and values")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST_TEXT:
            remedy = "is a quote or a line end missing?"
            return Flaw("", "must be shorter", remedy, got=f"text of more than {LONGEST_TEXT} characters")
        return None


class _Refused(yaml.composer.ComposerError):
    """Says what is wrong with a node that YAML allows, but no configuration has."""

    def __init__(self, mark: yaml.Mark, flaw: Flaw) -> None:
        super().__init__(None, None, str(flaw), mark)
        self.mark, self.flaw = mark, flaw


def _no_mapping(root: yaml.Node | None) -> Flaw:
    """Say what stands at the top in place of keys."""
    must = 'must be keys and values that start like "rig: greenhouse"'
    if isinstance(root, yaml.SequenceNode):
        return Flaw("", must, "remove the dashes", got="a list")
    found = "an empty file" if root is None or not root.value else shown(root.value)
    return Flaw("", must, "`rigctl init` writes one", got=found)


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
                self._add(key_node, path, Flaw(got="a list or mapping as a key", allowed="must be a word"))
                continue
            here = (*path, key_node.value)
            self.tagged(key_node, here)
            if here in self.lines:
                first = self.lines[here][0]
                remedy = f"it stands already on line {first}; remove one of them"
                self._add(key_node, here, Flaw("duplicate key", remedy=remedy))
                continue
            self.lines[here] = _place(key_node)
            if key_node.value == "<<" and key_node.style is None:
                self.unreadable.add(here)
                flaw = Flaw("", "must be written out", "repeat the keys you mean", got="YAML's merge key")
                self._add(key_node, here, flaw)
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
            self._add(node, path, got(node.value, "must have the digits 0 to 9", write(ours)))
            node.value = ours
        return self.scalar(node, path) if getattr(node, "style", None) is None else node.value

    def scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        value = as_scalar(node.value)
        if _OCTAL.fullmatch(node.value):
            remedy = f"write {value}, for other programs read it as octal"
            flaw = Flaw(f", which is read as {value}", remedy=remedy, got=node.value)
            self.doubts.append(_mistake(self.file, _place(node), path, flaw))
        return value

    def tagged(self, node: yaml.Node, path: KeyPath) -> bool:
        """Tell whether a tag such as !!str stands before it, and refuse that."""
        if node.tag:
            self.unreadable.add(path)
            short = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._add(node, path, Flaw("", "must be written without one", "remove it", got=f"the tag {short}"))
        return bool(node.tag)

    def _cut(self, path: KeyPath, node: yaml.Node, whole: str) -> None:
        self.unreadable.add(path)
        meant = whole.replace(",", ".", 1)
        remedy = f"write {meant}" if isinstance(as_scalar(meant), float) else write(meant)
        self._add(node, path, got(whole, "must have a point: between braces a comma ends a value", remedy))

    def _add(self, node: yaml.Node, path: KeyPath, flaw: Flaw) -> None:
        self.mistakes.append(_mistake(self.file, _place(node), path, flaw))


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


def _mistake(file: str, place: tuple[int, int], path: KeyPath, flaw: Flaw) -> Mistake:
    line, column = place
    return Mistake(f"{file}:{line}" + (f": {dotted(path)}" if path else ""), flaw, path, line, column, file)


def as_scalar(text: str) -> Any:
    """Return what a value without quotes is read as."""
    if len(text) <= MAX_NUMBER_LENGTH:
        for pattern, convert in _SCALARS:
            if pattern.fullmatch(text):
                return convert(text)
    return text


# the file ---------------------------------------------------------------------------------------------------------


MOST_BYTES: Final = 1_000_000
"""Of a file: the largest rig described so far takes 30,000, and a parser takes seconds for each million."""


def read(path: Path) -> str:
    """Return the text of a configuration file; raises ConfigError if it cannot be read, or is no text."""
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
        lead = f"is larger than {MOST_BYTES // 1_000_000} MB"
        raise ConfigError([Mistake(file, Flaw(lead, "must be a configuration", "is it the right file?"), file=file)])


def _why(path: Path, error: OSError | ValueError) -> Flaw:
    if isinstance(error, IsADirectoryError):
        return Flaw("is a folder", "must be a file", _there(path))
    if isinstance(error, FileNotFoundError):
        return Flaw("cannot be read: there is no such file", remedy=_near(path) or _there(path.parent))
    return Flaw(f"cannot be read: {reason(error)}")


def _configurations(folder: Path) -> list[str]:
    return sorted(str(file) for file in folder.glob("*.y*ml") if file.is_file()) if folder.is_dir() else []


def _near(path: Path) -> str:
    return did_you_mean(str(path), _configurations(path.parent))


def _there(folder: Path) -> str:
    found = _configurations(folder)
    return f"there are {', '.join(found[:5])}" if found else "`rigctl init` writes one"


def _no_text(data: bytes, error: UnicodeDecodeError) -> Flaw:
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Flaw("", "must be UTF-8 text", "give a configuration", got="a binary file")
    found = f"the byte 0x{data[error.start]:02x}" if b"\0" not in data else "UTF-16"
    return Flaw("", "must be UTF-8 text", "save the file anew as UTF-8", got=found)


# what a YAML parser stumbles over ---------------------------------------------------------------------------------


_BLANKS: Final = re.compile(r"[ \t]*[^\S \t\r\n]")
"""An indentation that holds what only looks like a blank, such as the no-break space of a web page."""
_CURLY: Final = re.compile("[“”„‘’]")
_KEY: Final = re.compile(r"""\s*(?:-\s+)?(?P<key>[\w.-]+|"[^"]*"|'[^']*')\s*:(?=\s|$)""")
_GLUED: Final = re.compile(r"(?P<key>[\w-]+):(?P<value>[^\s/:].*)")
"""A key with its value right behind the colon; a URL is none."""
_CLOSERS: Final = {"{": "}", "[": "]"}
_WORDS: Final = {"{": "brace", "[": "bracket", "}": "brace", "]": "bracket"}
_NO_BLANK: Final = Flaw(remedy="write one", got="no blank after the dash")

_IN_QUOTES: Final = ('a value that begins with "{sign}"', "must stand in quotes", "write '...' around it")
_TELLING: Final[tuple[tuple[str, bool, str, str, str], ...]] = (
    ("'\\t'", False, "a tab {where}", "must be blanks", "write two blanks for each tab"),
    ("cannot start any token", False, "a value that begins with {sign}", "must stand in quotes", 'write "{value}"'),
    ("single document", False, "a second document (---)", "must be one", "remove this line"),
    ("found unexpected end", True, "a quote that is not closed", "must end with {sign}", "write it behind the value"),
    ("alphabetic or numeric", True, *_IN_QUOTES),
    ("chomping", True, *_IN_QUOTES),
    ("sequence entries", False, "a dash behind a key", "must begin a line", "write the list below, or as [a, b]"),
    ("found '<stream end>'", False, "", "", ""),  # told by what is not closed
    ("node content", False, '"{sign}"', "must be a value", "remove it, or write the value"),
    (
        "'<document start>'",
        False,
        "a key after the end",
        "must be keys and values throughout",
        "mend the lines before it",
    ),
    ("escape", False, "a backslash in double quotes", "must stand in single ones", "write '...' around the value"),
)
"""What the parser says, whether the fault is where it began to read, and what is got, allowed and to be done then."""


@dataclass(frozen=True, slots=True)
class Slip:
    """Says where a text stops being YAML, and why."""

    line: int
    """From 1, as `column`."""
    column: int
    flaw: Flaw


def slip_of(text: str, error: yaml.YAMLError) -> Slip:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        found = f"the control character U+{error.character:04X}" if isinstance(error.character, int) else "no text"
        return Slip(line, column, Flaw("", "must be text that can be printed", "delete it", got=found))
    if isinstance(error, _Refused):
        return Slip(error.mark.line + 1, error.mark.column + 1, error.flaw)
    if not isinstance(error, yaml.MarkedYAMLError):
        return Slip(1, 1, Flaw(f"got no YAML: {error}".replace("\n", " ")))
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
        for sought in (self._blanks, self._curly, self._by_token, self._flow, self._block):
            found = sought()
            if found is not None:
                return found
        remedy = "compare indentation, colons, brackets and quotes with the lines around"
        return Slip(self.line, self.column, Flaw("", remedy=remedy, got=f"what YAML cannot read ({self.problem})"))

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
                sign = f"the blank U+{ord(found[0][-1]):04X}"
                flaw = Flaw("", "must be ordinary blanks", "type them anew", got=f"{sign} in front of the line")
                return Slip(line, found.end(), flaw)
        return None

    def _curly(self) -> Slip | None:
        for line in (self.first, self.line):
            found = _CURLY.search(self.text(line))
            if found is not None:
                flaw = Flaw("", "must be a straight one", 'type " instead', got=f"the curly quote {found[0]}")
                return Slip(line, found.start() + 1, flaw)
        return None

    def _by_token(self) -> Slip | None:
        """Judge what the parser says in so many words."""
        said = f"{self.context} {self.problem}"
        if "quoted scalar" in said and "end of stream" in said and not self._is_quote():
            return None
        found = next((telling for telling in _TELLING if telling[0] in said), None)
        if found is None or not found[2]:
            return None
        _, at_start, *parts = found
        line, column = (self.first, self.first_column) if at_start else (self.line, self.column)
        rest = self.text(line)[column - 1 :]
        where = "between two words" if self.text(line)[: column - 1].strip() else "in front of the line"
        got, must, remedy = (part.format(sign=rest[:1], value=_value(rest), where=where) for part in parts)
        return Slip(line, column, Flaw("", must, remedy, got))

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
        remedy = f"write a comma{', or put the value in quotes' if after else ''}"
        flaw = Flaw("", "must be keys or values with commas between", remedy, got=f"no comma{after}")
        return Slip(self.line, column, flaw)

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
        text = self.text(self.line)
        sign = text[self.column - 1 : self.column]
        flaw = None
        if self.problem.endswith(("','", "':'")):
            flaw = Flaw(" behind the value", remedy="remove it, or put the value in quotes", got=f'"{sign}"')
        elif self.problem.endswith(("'}'", "']'")):
            closer = f'the {_WORDS.get(sign, "bracket")} "{sign}"'
            flaw = Flaw(", which closes nothing", remedy="remove it", got=closer)
        elif re.match(r"\s*-\S", text):
            flaw = _NO_BLANK
        elif text.strip()[:1] == "-":
            flaw = Flaw("", "must be a key like its neighbours", "remove the dash", got="a dash among keys")
        elif self.problem.endswith("'<scalar>'") and _KEY.match(text):
            flaw = Flaw(remedy="put all of the value in the quotes", got="more behind the closing quote")
        return Slip(self.line, self.column, flaw) if flaw is not None else None

    def _no_colon(self, line: int) -> Slip:
        said = self.text(line).strip()
        column = len(self.text(line)) - len(self.text(line).lstrip()) + 1
        glued = _GLUED.fullmatch(said)
        if glued is not None:
            remedy = write(f"{glued['key']}: {glued['value']}")
            return Slip(line, column, Flaw(remedy=remedy, got="no blank after the colon"))
        if said.startswith("-") and not said.startswith("- "):
            return Slip(line, column, _NO_BLANK)
        key, blank, value = said.partition(" ")
        meant = f"{key}:{blank}{value}".strip()
        return Slip(line, column, got(_short(said), "must be a key, a colon and a value", write(_short(meant))))

    def _second_value(self) -> Slip:
        """Judge a colon where the parser expected none."""
        text, before = self.text(self.line), self.before()
        first = _KEY.match(text)
        if first is not None and first.end() < self.column:
            value = text[first.end() :].strip()
            remedy = f'put the value in quotes: {first["key"]}: "{_short(value)}"'
            return Slip(self.line, self.column, Flaw(remedy=remedy, got="a second colon in one line"))
        if (
            before
            and _KEY.match(self.text(before)) is None
            and not self.text(before).rstrip().endswith((",", "{", "["))
        ):
            return self._no_colon(before)
        return self._indented()

    def _indented(self) -> Slip:
        def depth(text: str) -> int:
            return len(text) - len(text.lstrip())

        deep, above = depth(self.text(self.line)), map(self.text, range(max(1, self.line - 12), self.line))
        near = sorted({depth(text) for text in above if _KEY.match(text)} - {deep})
        allowed = " or ".join(map(str, sorted(sorted(near, key=lambda depth: abs(depth - deep))[:2]))) or "0"
        must, found = f"must be {allowed} as in the lines before", f"{deep} blanks in front of the key"
        return Slip(self.line, deep + 1, Flaw("", must, "line the keys up", got=found))


def _not_closed(line: int, column: int, opened: str) -> Slip:
    closer = _CLOSERS.get(opened, "")
    flaw = Flaw(
        ", which is not closed",
        remedy=f'write "{closer}" at its end',
        got=f'the {_WORDS.get(opened, "bracket")} "{opened}"',
    )
    return Slip(line, column, flaw)


def _value(rest: str) -> str:
    """Return the value that begins here, without what can only come after it."""
    return _short(re.split(r"\s#|[,\]}]", rest.strip(), maxsplit=1)[0].strip())


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
