"""A line and what is known of its condition: closed, open, or open but not to be trusted.

Only the bus's thread touches it. The rules are those of field buses: after a lost answer the next one may belong to
the previous question, so the line is silenced and flushed first; a line that broke is reopened, ever less often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rigctl.errors import DeviceBusy, DeviceError, DeviceTimeout, GarbledReply, PortUnavailable
from rigctl.rig.protocols import Deadline, Line


@dataclass(frozen=True, slots=True)
class BusTiming:
    """How patient a bus is, wall seconds."""

    grace_s: float = 0.5
    """What a driver may overrun its deadline by before the bus counts as stuck."""
    prepare_s: float = 5.0
    """For opening, silencing and flushing the line before an exchange."""
    busy_pauses_s: tuple[float, ...] = (0.05, 0.1, 0.2)
    """Waits before a read is repeated that the device was too busy for."""
    reopen_first_s: float = 0.25
    """Wait before a broken line is reopened; doubles with each failure."""
    reopen_max_s: float = 10.0
    lost_after: int = 3
    """Exchanges in a row without an answer until the connection itself is suspected (half-open TCP) and renewed."""


@dataclass(frozen=True, slots=True)
class Contact:
    """Which contact with a line this is: on another one, whoever answers may be another."""

    opened: int = 0
    silences: int = 0
    """How many exchanges stayed without an answer."""


class Link:
    """One line with its condition; for the bus's thread."""

    def __init__(self, line: Line, timing: BusTiming, now: Callable[[], float]) -> None:
        self._line = line
        self._timing = timing
        self._now = now
        self._open = False
        self._suspect = False
        self._pressed_on = False
        self._silent = 0
        self._pause_s = timing.reopen_first_s
        self._not_before_s = float("-inf")
        self._why = ""
        self.stay = line.stay
        self.contact = Contact()

    def make_ready(self, until: Deadline, *, at_once: bool, press_on: bool = False) -> None:
        """Open the line if it is closed, silence and flush it if it is not to be trusted.

        Args:
            until: how long the silence may take, where the line can cut it short.
            at_once: try to open it even if the pause since the last attempt is not over.
            press_on: waive the silence until somebody comes who does not.

        Raises:
            PortUnavailable: it cannot be opened, or it is too early to try again.
            DeviceBusy: it must stay silent for longer.
        """
        self.reach(at_once=at_once)
        try:
            if self._suspect and not press_on:
                if not self._line.settle(until):
                    raise DeviceBusy("a late answer may still come, or something urgent goes first", bus=self._line.url)
                self._suspect = self._pressed_on = False
            elif self._suspect and not self._pressed_on:  # once: the gap between two frames is not to be waived
                self._line.press_on()
                self._pressed_on = True
        except (PortUnavailable, OSError) as error:
            raise self._broken(error) from error

    def reach(self, *, at_once: bool) -> None:
        """Open the line if it is closed. Raises as `make_ready`."""
        try:
            if not self._open:
                self._reopen(0.0 if at_once else self._not_before_s - self._now())
            elif self._line.is_lost():  # it opens by itself when it is used
                self.contact = replace(self.contact, opened=self.contact.opened + 1)
        except (PortUnavailable, OSError) as error:
            raise self._broken(error) from error

    def exchange_succeeded(self) -> None:
        self._silent = 0
        self._pause_s = self._timing.reopen_first_s

    def exchange_failed(self, error: DeviceError | OSError) -> DeviceError:
        """Draw the conclusions from a failed exchange; returns the error to raise."""
        if isinstance(error, PortUnavailable | OSError):
            return self._broken(error)
        if isinstance(error, DeviceTimeout):
            self.contact = replace(self.contact, silences=self.contact.silences + 1)
            self._silent += 1
            if self._silent >= self._timing.lost_after:
                self._silent = 0
                self.close()
        if isinstance(error, DeviceTimeout | GarbledReply):
            self.distrust()
        return error

    def distrust(self) -> None:
        """Flush before the next exchange: something went wrong in the middle of one."""
        self._suspect, self._pressed_on = True, False

    def close(self) -> None:
        self._open = False
        self._line.close()

    def _reopen(self, wait_s: float) -> None:
        if wait_s > 0:
            raise PortUnavailable(f"{self._why}; next attempt in {wait_s:.1f} s", bus=self._line.url)
        self._line.open()
        self._open = True
        self._not_before_s = float("-inf")
        self.contact = replace(self.contact, opened=self.contact.opened + 1)

    def _broken(self, error: PortUnavailable | OSError) -> PortUnavailable:
        """Close and postpone the next attempt, unless this very error only says that it is postponed."""
        if self._now() >= self._not_before_s:
            self._why = (error.what if isinstance(error, PortUnavailable) else str(error)) or type(error).__name__
            self.close()
            self._not_before_s = self._now() + self._pause_s
            self._pause_s = min(2 * self._pause_s, self._timing.reopen_max_s)
        return error if isinstance(error, PortUnavailable) else PortUnavailable(self._why, bus=self._line.url)
