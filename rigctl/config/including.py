"""Merge a configuration file and its includes into one document that records the file of each key.

Mappings are put together key by key, at any depth. What the including file says wins over what it includes, and a later
file of a list over an earlier one; a list or a single value replaces what was there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

import yaml

from rigctl.config.document import AFTERWARDS, Document, as_scalar, parse, read
from rigctl.errors import ConfigError, KeyPath, Mistake
from rigctl.flaws import Flaw, got

KEY: Final = "include"
MOST_FILES: Final = 30
"""Of one configuration, itself among them."""


def whole_document(text: str, file: Path) -> tuple[Document, list[Mistake]]:
    """Parse a configuration together with what it includes; return every mistake in keys and scalars beside it.

    `text` is what `file` holds; what it includes is found from that file's folder.

    Raises:
        ConfigError: a file cannot be read or leads back to itself, is no YAML, no plain mapping at the top, or larger
            than any configuration.
    """
    return _with_included(text, file, (), [])


def as_one_text(document: Document) -> str:
    """Return a document as one YAML text that includes nothing and says the same."""
    files = dict.fromkeys((document.file, *sorted(set(document.files.values()))))
    return f"# Put together from {', '.join(files)}.\n{yaml.dump(_plain(document.data), Dumper=_Dumper, **_LAYOUT)}"


def _with_included(text: str, file: Path, above: tuple[Path, ...], seen: list[Path]) -> tuple[Document, list[Mistake]]:
    document, mistakes = parse(text, str(file))
    seen.append(file)
    named = document.data.get(KEY)
    if named is None:
        return document, mistakes
    names = named if isinstance(named, list) else [named]
    own = replace(document, data={key: value for key, value in document.data.items() if key != KEY})
    base = Document(own.file, {}, {})
    for i, name in enumerate(names):
        path: KeyPath = (KEY, i) if isinstance(named, list) else (KEY,)
        flaw = _refused(name, file, (*above, file), seen)
        if flaw is None:
            other = file.parent / name
            try:
                found, wrong = _with_included(read(other), other, (*above, file), seen)
            except ConfigError as error:
                if error.mistakes[0].line:
                    raise
                flaw = replace(error.mistakes[0].flaw, where=str(other))
            else:
                base, mistakes = _over(base, found), [*mistakes, *wrong]
        if flaw is not None:
            remedy = "; ".join(filter(None, (flaw.remedy, AFTERWARDS)))
            raise ConfigError([document.mistake(path, replace(flaw, remedy=remedy))])
    return _over(base, own), mistakes


def _refused(name: Any, file: Path, chain: tuple[Path, ...], seen: list[Path]) -> Flaw | None:
    """Say why a file is not included; None where it may be tried."""
    if not isinstance(name, str) or not name:
        return got(name, "must be a file, or a list of files, such as common.yaml")
    places = [path.resolve() for path in chain]
    other = (file.parent / name).resolve()
    if other in places:
        circle = " -> ".join(path.name for path in (*chain[places.index(other) :], other))
        return got(name, "must not lead back", "remove one of them", lead=f", which is included in a circle: {circle}")
    if len(seen) >= MOST_FILES:
        return got(name, f"must be one of at most {MOST_FILES} files")
    return None


def _over(below: Document, above: Document) -> Document:
    replaced: set[KeyPath] = set()
    data = _merged(below.data, above.data, (), replaced)
    kept = {p: at for p, at in below.lines.items() if not any(p[:n] in replaced for n in range(1, len(p) + 1))}
    files = {p: below.files.get(p, below.file) for p in kept} | {p: above.files.get(p, above.file) for p in above.lines}
    return replace(
        above,
        data=MappingProxyType(data),
        lines=MappingProxyType({**kept, **above.lines}),
        files=MappingProxyType(files),
        unreadable=below.unreadable | above.unreadable,
        doubts=(*below.doubts, *above.doubts),
    )


def _merged(
    below: Mapping[str, Any], above: Mapping[str, Any], path: KeyPath, replaced: set[KeyPath]
) -> dict[str, Any]:
    """Return the keys of both, those below first, as variables keep their order; note what of them is replaced."""
    found = {**below, **above}
    for key in above.keys() & below.keys():
        low, high = below[key], above[key]
        if isinstance(low, dict) and isinstance(high, dict):
            found[key] = _merged(low, high, (*path, key), replaced)
        else:
            replaced.add((*path, key))
    return found


# the whole as text ------------------------------------------------------------------------------------------------


_LAYOUT: Final[Mapping[str, Any]] = MappingProxyType(
    {"sort_keys": False, "allow_unicode": True, "width": 120, "default_flow_style": None}
)


def _as_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if as_scalar(text) == text else '"')


class _Dumper(yaml.SafeDumper):
    """Puts text in quotes that would be read as something else, and writes no aliases."""

    yaml_representers: ClassVar[dict[type, Any]] = {**yaml.SafeDumper.yaml_representers, str: _as_text}

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # of all
        return True


def _plain(value: Any) -> Any:
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value
