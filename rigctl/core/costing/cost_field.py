"""What a trial costs as a function of control set and setting."""

from __future__ import annotations

from typing import Protocol

from rigctl.core.arrays import FloatArray


class CostField(Protocol):
    """The expected cost of trials, currency units, always positive. Settings are (b, k), unit cube."""

    def mean(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Expected cost of a trial of this set at each setting, (b,)."""
        ...

    def gradient(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Its derivative by the setting, (b, k)."""
        ...

    def upper(self, control_set: int, settings: FloatArray) -> FloatArray:
        """What a trial is predicted to cost at most, (b,): two standard deviations up."""
        ...
