"""How a setpoint is brought to another in steps, where an actuator may not jump. Pure.

The way to the safe state is never made in steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

PAUSE_S = 1.0
"""Rig seconds between two steps at least, where only a rate is given."""
STEPS = 20
"""Steps of a ramp of which only the rate is given: many enough to be smooth, few enough for a slow line."""
ROUNDING = 1e-6
"""Share by which a step may be larger than allowed: of floats, and of a wait that ends a moment too soon."""


@dataclass(frozen=True, slots=True)
class Slew:
    """How an actuator may move."""

    max_step: float = math.inf
    """Largest change in one command, engineering units."""
    max_rate_per_s: float = math.inf
    """Engineering units per rig second."""

    def longest_s(self, distance: float) -> float:
        """Return the rig seconds that a change takes at least."""
        return distance / self.max_rate_per_s

    def objection(self, change: float, passed_s: float) -> str | None:
        """Say why a change so long after the last one is too large."""
        if change > self.max_step * (1 + ROUNDING):
            return f"got a step of {change:g}, allowed {self.max_step:g} in one command"
        most = self.max_rate_per_s * (passed_s + ROUNDING) * (1 + ROUNDING)
        return f"got a step of {change:g} after {passed_s:.3g} s, allowed {most:.3g}" if change > most else None


def ramp(start: float, target: float, slew: Slew) -> Sequence[tuple[float, float]]:
    """Return the way from one setpoint to another: rig seconds to wait, then the setpoint; the last is the target."""
    distance = abs(target - start)
    whole_s = slew.longest_s(distance)
    pause_s = max(PAUSE_S, whole_s / STEPS) if whole_s > 0 else 0.0
    most = min(slew.max_step, slew.max_rate_per_s * pause_s if whole_s > 0 else math.inf)
    steps = max(1, math.ceil(distance / most - ROUNDING))
    between = (start + (target - start) * i / steps for i in range(1, steps))
    return [(whole_s / steps, setpoint) for setpoint in (*between, target)]
