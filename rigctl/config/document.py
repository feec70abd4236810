"""YAML text -> plain data that remembers on which line each key stands.

Scalars follow the YAML 1.2 core schema, not PyYAML's 1.1: `off`, `yes` and `12:30` stay text, `1e3` is a number.
Duplicate keys, anchors, tags and keys that are not text are problems, not surprises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from unicodedata import decimal

import yaml

from rigctl.config.file import refuse_too_long
from rigctl.config.slips import slip_of
from rigctl.config.wording import shown, write
from rigctl.errors import ConfigError, KeyPath, Mistake, dotted

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
