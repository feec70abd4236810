"""First check: do the sections have the right shape? Parts that do not are reported, then left out.

Leaving them out lets the second check (units, names, consistency) find what is wrong elsewhere in the same run. The
same shape, with the options of drivers and policies, is the JSON schema for completion and checks in an editor.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rigctl.config.document import Document
from rigctl.config.findings import Findings
from rigctl.config.schema import RigConfig
from rigctl.errors import KeyPath
from rigctl.flaws import got
from rigctl.options import is_unknown, keys_at, keys_of, path_of, problems_of

_ENTRIES: Final = ("variables", "devices", "dosing", "buses", "known_costs", "meters")
"""Sections whose entries stand on their own: a bad one is left out, the others are checked on."""

_HARMLESS: Final[Mapping[str, Any]] = {
    "rig": "rig",
    "currency": "XXX",
    "budget": "1 XXX",
    "variables": {},
    "control_sets": "all",
    "outcome": {"name": "outcome", "unit": "1"},
}
"""What stands in for a required section that is missing or bad."""

_STAND_INS: Final[Mapping[str, Mapping[str, Any]]] = {
    "meters": {"name": "left-out", "kind": "fixed", "price": "0 XXX"},
    "safety": {"name": "left-out", "when": "", "then": "warn"},
}
"""What stands in for an entry of a list (meters, interlocks): the others keep their places."""


def check_shape(document: Document, findings: Findings) -> RigConfig:
    """Return the sections that hold; the others are in `findings`, muted, and replaced by something harmless."""
    raw: dict[str, Any] = copy.deepcopy(dict(document.data))
    _unindented(raw, findings)
    # each round leaves larger parts out: single unknown keys, then entries, then whole sections
    for depth_of in (_key_depth, _entry_depth, lambda _: 1):
        try:
            return RigConfig.model_validate(raw)
        except ValidationError as error:
            told, meant = problems_of(error, RigConfig)
            for path, flaw in told:
                findings.add(path, flaw)
            for details in error.errors(include_url=False):
                part = path_of(details)[: depth_of(details)]
                findings.mute(part)
                _leave_out(raw, part)
            for path in meant:
                findings.mute(path)
            raw = {**_HARMLESS, **raw}
    return RigConfig.model_validate(raw)


def _unindented(raw: dict[str, Any], findings: Findings, above: KeyPath = ()) -> None:
    """Find sections, and entries of sections, whose keys stand behind them as far left, and take these out."""
    known = [] if above else list(keys_of(RigConfig))
    keys = list(raw)
    for name in keys:
        path = (*above, name)
        if isinstance(raw.get(name), dict) and not above and keys_at(RigConfig, (name, "")) and name in known:
            _unindented(raw[name], findings, path)
        if name not in raw or raw[name] is not None:
            continue
        below = set(keys_at(RigConfig, path)).difference(known)
        strays = list(itertools.takewhile(below.__contains__, keys[keys.index(name) + 1 :]))
        if strays:
            must = f"must be a mapping: {', '.join(strays)} stand as far left"
            findings.add(path, got(None, must, "write two blanks before each"))
            findings.mute(path)
            raw.pop(name)
            for key in strays:
                raw.pop(key)
                findings.disown((*above, key))


def _key_depth(details: ErrorDetails) -> int:
    return len(details["loc"]) if is_unknown(details) else _entry_depth(details)


def _entry_depth(details: ErrorDetails) -> int:
    path = path_of(details)
    if path[:1] == ("safety",) and len(path) > 2:
        return 3
    return 2 if path[0] in _ENTRIES and len(path) > 1 else 1


def _leave_out(raw: dict[str, Any], path: KeyPath) -> None:
    holder: Any = raw
    for step in path[:-1]:
        try:
            holder = holder[step]
        except (KeyError, IndexError, TypeError):  # an enclosing part has been removed already
            return
    last = path[-1]
    if isinstance(holder, list) and isinstance(last, int):
        holder[last] = dict(_STAND_INS[str(path[0])])
    elif isinstance(holder, MutableMapping):
        holder.pop(last, None)
