"""Drivers and line schemes, found by entry point and loaded one at a time when first asked for.

Third parties add theirs in a distribution of their own: entry-point group `rigctl.drivers` (a class, see `Driver`) or
`rigctl.lines` (a function, see `OpenLine`). One that does not load takes no other down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rigctl.errors import BrokenPlugin
from rigctl.flaws import Flaw
from rigctl.plugins import Load, installed, loaded
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import DeviceOptions, Driver, Line, OpenLine

DRIVERS = "rigctl.drivers"
LINES = "rigctl.lines"


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """Holds what `rigctl tools drivers` shows of one driver."""

    name: str
    summary: str = ""
    schemes: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """Knows the drivers and line schemes there are."""

    drivers: Mapping[str, Load] = field(default_factory=dict)
    lines: Mapping[str, Load] = field(default_factory=dict)

    @classmethod
    def installed(cls) -> Registry:
        """Return all that installed distributions offer; nothing is imported yet."""
        return cls(installed(DRIVERS, "driver"), installed(LINES, "line scheme"))

    def driver(self, name: str) -> type[Driver]:
        """Return the driver of this name.

        Raises:
            UnknownPlugin: none is installed; the message has the nearest names.
            BrokenPlugin: it does not load, or is no driver.
        """
        driver: type[Driver] = loaded(self.drivers, name, "driver")
        problem = _not_a_driver(driver)
        if problem:
            raise BrokenPlugin(f'driver "{name}": {problem}')
        return driver

    def open_line(self, url: str, clock: Clock) -> Line:
        """Return the line at this URL, still closed.

        Raises:
            UnknownPlugin: no such scheme is installed; the message has the nearest ones.
            BrokenPlugin: the scheme's module does not load.
            ValueError: the rest of the URL does not hold.
        """
        scheme, separator, _ = url.partition("://")
        if not separator:
            raise ValueError(
                Flaw("must look like scheme://place", f"schemes: {', '.join(sorted(self.lines))}", where=url)
            )
        open_line: OpenLine = loaded(self.lines, scheme, "line scheme")
        return open_line(url, clock)

    def describe(self) -> tuple[DriverInfo, ...]:
        return tuple(self._info(name) for name in sorted(self.drivers))

    def _info(self, name: str) -> DriverInfo:
        try:
            driver = self.driver(name)
        except BrokenPlugin as problem:
            return DriverInfo(name, problem=str(problem))
        return DriverInfo(name, driver.summary, tuple(driver.schemes))


def _not_a_driver(driver: Any) -> str:
    """Say what a class lacks to be a driver; empty if it is one."""
    if not (isinstance(driver, type) and issubclass(driver, Driver)):
        return f"its entry point names {driver!r}, must be a class that inherits from rigctl.Driver"
    missing = [a for a in ("name", "summary", "schemes", "options") if not hasattr(driver, a)]
    if missing:
        return f"{driver.__name__} has no {', '.join(missing)}"
    options: Any = driver.options
    if not (isinstance(options, type) and issubclass(options, DeviceOptions)):
        return f"{driver.__name__}.options is {options!r}, must be a subclass of DeviceOptions"
    return ""
