"""What installed distributions add by entry point, what extras bring, and what was meant by a name that nothing has.

Nothing is imported before it is asked for, and one plug-in that does not load takes no other down.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from os.path import abspath
from typing import Any

from rigctl.errors import BrokenPlugin, UnknownPlugin, UsageError
from rigctl.flaws import Flaw

Load = Callable[[], Any]


def installed(group: str, kind: str) -> Mapping[str, Load]:
    """Return the loaders of all that is installed in a group of entry points; `kind` is what messages call one."""
    points = _points(tuple(map(abspath, sys.path))).select(group=group)
    return {point.name: partial(_load, kind, point) for point in points}


def loaded(plugins: Mapping[str, Load], name: str, kind: str) -> Any:
    """Load the plug-in of this name.

    Raises:
        UnknownPlugin: none has it; the message has the nearest name, and all there are.
        BrokenPlugin: it does not load.
    """
    if name not in plugins:
        there = ", ".join(sorted(plugins)) or "none"
        remedy = "; ".join(filter(None, (f"installed: {there}", did_you_mean(name, plugins))))
        raise UnknownPlugin(Flaw(f'no {kind} "{name}" is installed', remedy=remedy))
    return plugins[name]()


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """Return the remedy for a name that nothing has: the most similar, upper and lower case aside."""
    near = nearest(got, known, 0.5)
    return "" if near is None else f'did you mean "{near}"?'


def nearest(got: str, known: Iterable[str], alike: float = 0.65) -> str | None:
    """Return the name that was surely meant: upper and lower case aside, so large a share of its letters agrees."""
    names = {name.casefold(): name for name in known}
    near = get_close_matches(got.casefold(), names, n=1, cutoff=alike)
    return names[near[0]] if near else None


def need(module: str, extra: str = "bench") -> None:
    """Refuse to go on without a module that an extra of this distribution brings.

    Raises:
        UsageError: it is not installed; names the extra that installs it.
    """
    if find_spec(module) is None:
        remedy = f"`pip install 'rigctl[{extra}]'` where rigctl is installed (with pipx: `pipx inject rigctl {module}`)"
        raise UsageError(Flaw(f"needs {module}", "", remedy))


@cache  # reading every distribution's file takes 10 ms, and three groups are asked for by each configuration
def _points(_path: tuple[str, ...]) -> Any:
    """Return what the distributions on this path, which is today's `sys.path`, declare."""
    return entry_points()


def _load(kind: str, point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # a third party's import may fail in any way, and must be named rather than fatal
        origin = f"{point.value}, of {point.dist.name}" if point.dist else point.value
        what = f"{type(error).__name__}: {error}"
        raise BrokenPlugin(f'{kind} "{point.name}" ({origin}) does not load: {what}; repair or uninstall it') from error
