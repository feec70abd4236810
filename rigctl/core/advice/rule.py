"""A rule to run by: which variables to control, and at what values, at which readings.

Readings are what the variables read before a trial, while nothing is controlled. Outcomes and readings are in their own
units, costs in currency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rigctl.core.advice.worth import FixedSetting, Gain


@dataclass(frozen=True, slots=True)
class Slope:
    """How far a setting follows a reading."""

    reading: str
    about: float
    """The reading at which it changes nothing, engineering units."""
    per_unit: float
    """Change of the setting per unit of the reading, engineering units."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where one variable is controlled."""

    variable: str
    at: float
    """Engineering units; without slopes always there."""
    slopes: tuple[Slope, ...]
    low: float
    """Lowest and highest setpoint: what slopes lead beyond is cut."""
    high: float
    step: float | None = None

    def setpoint(self, readings: Mapping[str, Any]) -> Any:
        """Return the setpoint at these readings, engineering units.

        Raises:
            KeyError: a reading that it follows is missing.
        """
        value = self.at + sum(s.per_unit * (readings[s.reading] - s.about) for s in self.slopes)
        value = min(max(value, self.low), self.high)
        return (
            value if self.step is None else min(self.low + round((value - self.low) / self.step) * self.step, self.high)
        )


@dataclass(frozen=True, slots=True)
class LevelSetting(Setting):
    """At which level a category is controlled, in its word."""

    word: str = ""

    def setpoint(self, readings: Mapping[str, Any]) -> Any:  # noqa: ARG002  # it follows none
        return self.word


@dataclass(frozen=True, slots=True)
class Between:
    """A condition on one reading, engineering units: at least `low`, below `high`; None: no limit."""

    reading: str
    low: float | None
    high: float | None

    def holds(self, value: Any) -> bool:
        return bool((self.low is None or value >= self.low) and (self.high is None or value < self.high))


@dataclass(frozen=True, slots=True)
class AmongLevels(Between):
    """A condition on a category that was read: it is one of these levels, in words."""

    words: tuple[str, ...]

    def holds(self, value: Any) -> bool:
        return value in self.words


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One line of a rule: when it holds, what it says, and what is expected on the days it holds."""

    when: tuple[Between, ...]
    """All of them; none: always."""
    control_set: tuple[str, ...]
    settings: tuple[Setting, ...]
    share: float = 0.0
    """Of the days."""
    expected: float = 0.0
    low: float = 0.0
    """Lower end of the interval for the expected outcome."""
    high: float = 0.0
    cost_per_trial: float | None = None
    """Currency units; None: nobody knows."""
    trials: int = 0
    """That controlled just these variables."""

    @property
    def follows(self) -> bool:
        """Tell whether anything it says depends on a reading."""
        return bool(self.when) or any(s.slopes for s in self.settings)

    def holds(self, readings: Mapping[str, Any]) -> bool:
        """Tell whether it is the line for these readings; without one that it needs it is not."""
        needed = {c.reading for c in self.when} | {s.reading for own in self.settings for s in own.slopes}
        return needed <= readings.keys() and all(c.holds(readings[c.reading]) for c in self.when)

    def setpoints(self, readings: Mapping[str, Any]) -> dict[str, Any]:
        """Return what to set at these readings, engineering units.

        Raises:
            KeyError: a reading that a setting follows is missing.
        """
        return {s.variable: s.setpoint(readings) for s in self.settings}


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a reading tells of the trial after it."""

    variable: str
    rho: float
    """Share of a deviation that is still there in the trial."""
    error: float
    """Standard deviation of a reading's own error, engineering units."""
    pairs: int
    """Trials it was learned from."""


@dataclass(frozen=True, slots=True)
class LookWorth:
    """What looking first is worth, a trial: the rule against the best fixed setting.

    The recommended fixed setting may be a cheaper and worse one. What controlling more would gain without a reading,
    looking does not.
    """

    best: FixedSetting
    """The setting that is best without a reading, whatever it costs, of all that a rule may play."""
    value: Gain
    """Of looking itself: of the best rule over it, whatever the trials of either cost; not expected below 0."""
    gain: Gain
    """Of the short rule over it; nothing where the rule follows no reading."""
    full_gain: Gain
    """Of the full rule over it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What to control at which readings. Outcomes in their own units, costs in currency, readings in theirs."""

    lines: tuple[RuleLine, ...]
    """At most seven, of which the first that holds counts. The last one always does; alone, it is the fixed setting."""
    expected: float
    """Averaged over the readings."""
    low: float
    high: float
    cost_per_trial: float | None
    full_expected: float
    """Of the full rule: at every reading what is best there."""
    full_cost: float | None
    loss: float
    """How much worse (positive) the short rule is than the full one, outcome units."""
    loss_share: float | None
    """Of the full rule's gain over the best fixed setting; None: that is next to nothing."""
    looking: LookWorth
    trust: tuple[Trust, ...]
    """By variable that was ever read before a trial."""

    @property
    def follows(self) -> bool:
        """Tell whether anything it says depends on a reading; else it is the fixed setting."""
        return any(line.follows for line in self.lines)

    def line_for(self, readings: Mapping[str, Any]) -> RuleLine | None:
        """Return the first line that holds; None where it takes a reading that is missing.

        Then the fixed setting is to be run.
        """
        return line_for(self.lines, readings)


def line_for(lines: Sequence[RuleLine], readings: Mapping[str, Any]) -> RuleLine | None:
    """Return the first of a rule's lines that holds; None where one down to it takes a reading that is missing."""
    for line in lines:
        if not {c.reading for c in line.when} <= readings.keys():
            return None
        if all(c.holds(readings[c.reading]) for c in line.when):
            return line if line.holds(readings) else None
    return None
