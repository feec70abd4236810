"""Which code made a result: tables of one grid mean something together only if the same code made them."""

from __future__ import annotations

import hashlib
from importlib import metadata, resources
from importlib.resources.abc import Traversable

DECIDES = ("core", "bench/problems", "bench/running")
"""Parts of rigctl that a result depends on."""
NUMERICS = ("numpy", "scipy", "scikit-learn")


def code_version() -> str:
    """Eight hexadecimal digits that change with the code that decides and measures, and the numerical libraries.

    Installed plug-ins are not part of it.
    """
    digest = hashlib.sha256(" ".join(metadata.version(name) for name in NUMERICS).encode())
    package = resources.files("rigctl")
    for part in DECIDES:
        for source in _sources(package.joinpath(*part.split("/"))):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:8]


def _sources(folder: Traversable) -> list[Traversable]:
    """Every Python file below, in the order of names."""
    found: list[Traversable] = []
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            found += _sources(entry)
        elif entry.name.endswith(".py"):
            found.append(entry)
    return found
