"""Drivers and line schemes, found by entry point and loaded one at a time when first asked for.

Third parties add theirs in a distribution of their own: entry-point group `rigctl.drivers` (a class, see `Driver`) or
`rigctl.lines` (a function, see `OpenLine`). One that does not load takes no other down.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any

from rigctl.errors import BrokenDriver, UnknownDriver
from rigctl.rig.protocols import Clock, DeviceOptions, Driver, Line, OpenLine

DRIVERS = "rigctl.drivers"
LINES = "rigctl.lines"

Load = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """What `rigctl drivers` shows of one driver."""

    name: str
    summary: str = ""
    schemes: tuple[str, ...] = ()
    problem: str = ""
    """Why it cannot be used; empty if it can."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The drivers and line schemes there are."""

    drivers: Mapping[str, Load] = field(default_factory=dict)
    lines: Mapping[str, Load] = field(default_factory=dict)

    @classmethod
    def installed(cls) -> Registry:
        """All that installed distributions offer; nothing is imported yet."""
        return cls(_loaders(DRIVERS), _loaders(LINES))

    def with_drivers(self, *drivers: type[Driver]) -> Registry:
        """Also these drivers, by their own names, without installing them."""
        return replace(self, drivers={**self.drivers, **{d.name: _always(d) for d in drivers}})

    def with_lines(self, **lines: OpenLine) -> Registry:
        """Also these line schemes, without installing them."""
        return replace(self, lines={**self.lines, **{scheme: _always(line) for scheme, line in lines.items()}})

    def driver(self, name: str) -> type[Driver]:
        """The driver of this name.

        Raises:
            UnknownDriver: none is installed; the message has the nearest names.
            BrokenDriver: it does not load, or is no driver.
        """
        driver: type[Driver] = _load(self.drivers, name, "driver")
        problem = _not_a_driver(driver)
        if problem:
            raise BrokenDriver(f"driver {name!r}: {problem}")
        return driver

    def open_line(self, url: str, clock: Clock) -> Line:
        """The line at this URL, still closed.

        Raises:
            UnknownDriver: no such scheme is installed; the message has the nearest ones.
            BrokenDriver: the scheme's module does not load.
            ValueError: the rest of the URL does not hold.
        """
        scheme, separator, _ = url.partition("://")
        if not separator:
            raise ValueError(f"{url}: must look like scheme://place; schemes: {', '.join(sorted(self.lines))}")
        open_line: OpenLine = _load(self.lines, scheme, "line scheme")
        return open_line(url, clock)

    def describe(self) -> tuple[DriverInfo, ...]:
        """Every driver in the order of its name, broken ones with their problem."""
        return tuple(self._info(name) for name in sorted(self.drivers))

    def _info(self, name: str) -> DriverInfo:
        try:
            driver = self.driver(name)
        except BrokenDriver as problem:
            return DriverInfo(name, problem=str(problem))
        return DriverInfo(name, driver.summary, tuple(driver.schemes))


def _loaders(group: str) -> Mapping[str, Load]:
    return {point.name: point.load for point in entry_points(group=group)}


def _always(thing: Any) -> Load:
    return lambda: thing


def _load(loaders: Mapping[str, Load], name: str, kind: str) -> Any:
    """Load one, or say what is near or what is wrong with it."""
    if name not in loaders:
        raise UnknownDriver(f"no {kind} {name!r} is installed{_nearest(name, loaders)}")
    try:
        return loaders[name]()
    except Exception as problem:  # a third party's import may fail in any way, and must be named rather than fatal
        what = f"{type(problem).__name__}: {problem}"
        raise BrokenDriver(f"{kind} {name!r} does not load ({what}); reinstall or remove its distribution") from problem


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f", did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"{hint}; installed: {', '.join(names) or 'none'}"


def _not_a_driver(driver: Any) -> str:
    """What a class lacks to be a driver; empty if it is one."""
    if not isinstance(driver, type):
        return f"its entry point names {driver!r}, must be a class"
    missing = [a for a in ("name", "summary", "schemes", "options", "connect") if not hasattr(driver, a)]
    if missing:
        return f"{driver.__name__} has no {', '.join(missing)}"
    options: Any = getattr(driver, "options", None)
    if not (isinstance(options, type) and issubclass(options, DeviceOptions)):
        return f"{driver.__name__}.options is {options!r}, must be a subclass of DeviceOptions"
    return ""
