"""Civil time, carried on by rig time: what the clock on the wall shows when a rig's clock shows this.

Rig time stays the master: it is compared with the wall once, and from then on civil time goes on as rig time does. So
a wall clock that is set changes no wait, cap or rate; whoever trusts it again says so by another `set`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rigctl.rig.protocols import Clock


@dataclass(slots=True)
class Civil:
    """One pair of times that belong together; mutable."""

    _pair: tuple[float, float] | None = None

    def set(self, rig_s: float, civil_s: float) -> None:
        """Say that at this rig time it is so many seconds since 1970, UTC."""
        self._pair = (rig_s, civil_s)

    def at(self, rig_s: float) -> float | None:
        """Return the seconds since 1970 at a rig time; None before anybody has said what it is."""
        return None if self._pair is None else self._pair[1] + (rig_s - self._pair[0])

    def rig_s(self, civil_s: float) -> float:
        """Return the rig time of an instant; raise `ValueError` before anybody has said what it is."""
        if self._pair is None:
            raise ValueError("civil time is not known yet")
        return self._pair[0] + (civil_s - self._pair[1])


@runtime_checkable
class KnowsCivil(Protocol):
    """A clock that carries civil time along."""

    civil: Civil


def civil_of(clock: Clock) -> Civil | None:
    """Return a clock's civil time; None if it carries none."""
    return clock.civil if isinstance(clock, KnowsCivil) else None


def civil_now(clock: Clock) -> float | None:
    """Return the seconds since 1970, UTC, by this clock; None where it cannot say."""
    civil = civil_of(clock)
    return None if civil is None else civil.at(clock.now_s())
