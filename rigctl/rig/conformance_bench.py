"""What `check_driver` tests, how, and how a broken promise is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rigctl.rig.protocols import Clock, Deadline, Device, Driver, Line


class Broken(AssertionError):
    """A promise is broken; says how."""


@dataclass(frozen=True, slots=True)
class TestBench:
    """The driver under test and how to test it."""

    driver: type[Driver]
    given: Mapping[str, Any]
    clock: Clock
    setpoint: float
    tolerance: float
    timeout_s: float

    @property
    def name(self) -> str:
        """Return what to call the driver, even if it does not say."""
        return str(getattr(self.driver, "name", self.driver.__name__))

    def connect(self, line: Line) -> Device:
        return self.driver.connect("device", self.driver.options.model_validate(self.given), line)

    def deadline(self) -> Deadline:
        return Deadline.after(self.timeout_s)
