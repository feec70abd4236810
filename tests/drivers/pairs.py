"""Plays an instrument by the pairs of bytes that lie beside its profile.

`pairs` maps what is received, a regular expression of bytes, to what is done: `say`, bytes with `{name}` for what is
kept, and `keep`. Named groups are kept, too. `keep` at the top is how the instrument begins.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rigctl.config.profiles import Profile, opened
from rigctl_drivers.ascii_instrument import AsciiDriver

FOLDER = AsciiDriver.profiles
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@dataclass
class Player:
    """One instrument."""

    script: Mapping[str, Any]
    kept: dict[str, str] = field(default_factory=dict)
    heard: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept = dict(self.script.get("keep", {}))

    def __call__(self, request: bytes) -> Iterator[bytes]:
        self.heard.append(request)
        for pattern, does in self.script["pairs"].items():
            found = re.fullmatch(pattern, request.decode("ascii"))
            if found:
                self.kept |= {**found.groupdict(), **does.get("keep", {})}
                yield from self._said(does.get("say", ""))
                return
        yield from self._said(self.script.get("otherwise", ""))

    def _said(self, text: str) -> Iterator[bytes]:
        for name, value in self.kept.items():
            text = text.replace(f"{{{name}}}", value)
        if text:
            yield text.encode("ascii")


def player(name: str) -> Player:
    """Return the instrument of a profile's script."""
    return Player(script(name))


@cache
def script(name: str) -> Mapping[str, Any]:
    return yaml.safe_load((FOLDER / f"{name}.pairs").read_text(encoding="utf-8"))


@cache
def profiles(name: str) -> Mapping[str, Profile]:
    """Return the quantities of a profile."""
    document = opened(Path(FOLDER / f"{name}.yaml"))
    return {quantity: Profile(document, quantity) for quantity in document.data["quantities"]}


@cache
def quantities() -> list[tuple[str, str]]:
    """Return each quantity of each shipped profile."""
    return [(name, quantity) for name in NAMES for quantity in profiles(name)]
