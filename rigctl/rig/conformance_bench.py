"""What `check_driver` tests, how, and how a broken promise is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from rigctl.rig import testing
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
        return self.driver.connect(self.driver.options.model_validate(self.given), line)

    def deadline(self) -> Deadline:
        return Deadline.after(self.timeout_s)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raise `Broken` if anything but a line or the clock sleeps meanwhile: nothing can cut that short."""
        sleepers: list[str] = []

        def profile(frame: FrameType, event: str, called: Any) -> None:
            if event == "c_call" and called is time.sleep and not self._may_wait(frame):
                sleepers.append(frame.f_code.co_name)

        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)
        if sleepers:
            raise Broken(f"{sleepers[0]}() calls time.sleep, must wait by its line, or rig time by line.clock.sleep()")

    def _may_wait(self, frame: FrameType | None) -> bool:
        """Tell whether a line, each of which is called through one of `rigctl.rig.testing`, or the clock is at work."""
        while frame is not None and frame.f_locals.get("self") is not self.clock:
            if frame.f_globals.get("__name__") == testing.__name__:
                return True
            frame = frame.f_back
        return frame is not None
