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

import yaml

from rigctl.errors import ConfigError, KeyPath, Mistake, dotted

MAX_DEPTH = 30
MAX_NUMBER_LENGTH = 40
"""Longer digit strings stay text: no quantity of a rig needs them, and Python refuses to read huge ones."""

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


@dataclass(frozen=True, slots=True)
class Document:
    """Holds a parsed configuration file."""

    file: str
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    """Line of each key and list element, from 1."""
    origins: Mapping[KeyPath, str] = field(default_factory=dict)
    """What came from the command line instead, and its option."""
    unreadable: frozenset[KeyPath] = frozenset()
    """Keys whose values could not be taken; told already."""

    def mistake(self, path: KeyPath, what: str) -> Mistake:
        """Return what is wrong at a path; a missing key is placed where it should have stood."""
        option = next((o for p, o in self.origins.items() if path[: len(p)] == p), None)
        if option is not None:
            return Mistake(option, what, path)
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        return _mistake(self.file, self.lines.get(known, 1), path, what)


def parse(text: str, file: str) -> tuple[Document, list[Mistake]]:
    """Parse the document; return every mistake in its keys and scalars beside it.

    Raises:
        ConfigError: it is no YAML, or no mapping at the top.
    """
    try:
        root = yaml.compose(text, Loader=_PlainLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        what = " ".join(filter(None, (error.context, error.problem))) or "is not YAML"
        raise ConfigError([_mistake(file, line, (), what)]) from error
    except yaml.YAMLError as error:
        raise ConfigError([_mistake(file, 1, (), f"is not YAML: {error}".replace("\n", " "))]) from error
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError([_mistake(file, 1, (), 'must be a mapping that starts like "rig: greenhouse"')])
    reader = _Reader(file)
    data = reader.mapping(root, ())
    document = Document(
        file, MappingProxyType(data), MappingProxyType(reader.lines), unreadable=frozenset(reader.unreadable)
    )
    return document, reader.mistakes


class _PlainLoader(yaml.BaseLoader):
    """Composes nodes without resolving scalars; refuses what makes a document larger than its text."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it untyped
        mark: yaml.Mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            what = "aliases are not supported; write the value out"
            raise yaml.composer.ComposerError(None, None, what, mark)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self.mistakes: list[Mistake] = []
        self.unreadable: set[KeyPath] = set()

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        """Read keys as text; the first of duplicate keys counts."""
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._add(line, path, "a key must be plain text")
                continue
            here = (*path, key_node.value)
            if here in self.lines:
                self._add(line, here, f"duplicate key; it stands already on line {self.lines[here]}")
                continue
            self.lines[here] = line
            data[key_node.value] = self.value(value_node, here)
        return data

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            for i, item in enumerate(node.value):
                self.lines[(*path, i)] = item.start_mark.line + 1
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str":
            return _scalar(node.value) if node.style is None else node.value
        self.unreadable.add(path)
        self._add(node.start_mark.line + 1, path, f"got the tag {node.tag}, must be written without one")
        return None

    def _add(self, line: int, path: KeyPath, what: str) -> None:
        self.mistakes.append(_mistake(self.file, line, path, what))


def _mistake(file: str, line: int, path: KeyPath, what: str) -> Mistake:
    return Mistake(f"{file}:{line}" + (f": {dotted(path)}" if path else ""), what, path, line)


def _scalar(text: str) -> Any:
    if len(text) <= MAX_NUMBER_LENGTH:
        for pattern, convert in _SCALARS:
            if pattern.fullmatch(text):
                return convert(text)
    return text
