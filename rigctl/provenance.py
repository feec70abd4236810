"""Version of the deciding code: results can be compared, and decisions recomputed, only within one version."""

from __future__ import annotations

import hashlib
import inspect
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path

NUMERICS = ("numpy", "scipy", "scikit-learn")
DECIDES = ("core", "campaign/decide.py")
"""Parts of rigctl that a decision depends on."""


@cache  # of what this process has loaded; sources that are exchanged meanwhile do not decide in it
def digest(parts: tuple[str, ...]) -> str:
    """Return eight hexadecimal digits that change with the sources of these parts of rigctl."""
    found, package = hashlib.sha256(), resources.files("rigctl")
    for part in parts:
        for source in _sources(package.joinpath(*part.split("/"))):
            found.update(source.read_bytes())
    return found.hexdigest()[:8]


@cache
def libraries() -> dict[str, str]:
    """Return the versions of what computes, by name."""
    return {name: metadata.version(name) for name in NUMERICS}


def deciding_code(policy: object) -> dict[str, str]:
    """Return what a decision of this policy may depend on beside its data, by name: versions and digests of sources."""
    code = {"rigctl": metadata.version("rigctl"), "sources": digest(DECIDES), "python": platform.python_version()}
    return code | _plug_in(policy) | libraries()


def difference(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Say what of the code is not as it was; empty if nothing is."""
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    return ", ".join(f"{name} {then.get(name, '-')} (now {now.get(name, '-')})" for name in names)


def _plug_in(policy: object) -> dict[str, str]:
    """Return the digest of the file that a policy from outside is written in."""
    kind = type(policy)
    file = None if kind.__module__.startswith("rigctl.") else inspect.getsourcefile(kind)
    return {} if file is None else {"policy": hashlib.sha256(Path(file).read_bytes()).hexdigest()[:8]}


def _sources(part: Traversable) -> list[Traversable]:
    if part.is_dir():
        return [source for entry in sorted(part.iterdir(), key=lambda e: e.name) for source in _sources(entry)]
    return [part] if part.name.endswith(".py") else []
