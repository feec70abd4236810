"""What a pump gave of one dose, by all that it said. Pure.

A pump may restart at any instant, its notice of that may be lost, and its total begins at 0 again. A volume counts only
where no restart can hide behind it. Everything else is unknown, and booked in full.
"""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.rig.protocols import Doser

RESOLUTION_ML = 0.01
"""Of what a pump shows."""
HASTE = 1.25
"""Times its greatest rate: no pump gives more in a given time."""


def most_ml(pump: Doser, seconds: float) -> float:
    """Return the most that a pump can give in so many rig seconds."""
    return HASTE * pump.max_rate_ml_per_min * max(seconds, 0.0) / 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """Holds what is known of a dose that is over; volumes in mL."""

    asked_ml: float
    slack_ml: float
    """Difference by which a dose still counts as complete."""
    before_ml: float
    """The pump's total before the dose."""
    total_ml: float | None
    """The pump's total now; None: it cannot be read."""
    most_ml: float
    """More than this the pump cannot have given since its total was read before."""
    shown_ml: float = 0.0
    """What the pump shows as its last dose."""
    ran_at_ml: float | None = None
    """The most that it showed while it ran; None: nobody saw it run."""
    timely: bool = False
    """The pump confirmed the dose, and the dose took as long as such a dose takes."""
    reset: bool = False
    """The pump said that it restarted."""

    @property
    def risen_ml(self) -> float | None:
        """How far the total rose; None where it fell, rose further than the pump can give, or cannot be read."""
        if self.total_ml is None or self.total_ml < self.before_ml - RESOLUTION_ML or self.jumped:
            return None
        return max(self.total_ml - self.before_ml, 0.0)

    @property
    def jumped(self) -> bool:
        """Tell whether the total rose further than the pump can give."""
        return self.total_ml is not None and self.total_ml - self.before_ml > self.most_ml

    @property
    def given_ml(self) -> float | None:
        """Return what the pump gave, never less; None where a restart may hide a part of it.

        | the pump                                            | counts                         |
        |-----------------------------------------------------|--------------------------------|
        | said that it restarted                              | nothing                        |
        | shows the whole dose, and it is this one            | that, or the rise if it is more |
        | ran, and now shows less than then, or 0             | nothing: it restarted          |
        | has a total that fell, jumped or cannot be read     | nothing                        |
        | has a total that one dose reaches from 0, and the   | the total if it rose by the    |
        | total may have begun at 0 just before the dose      | whole dose, else nothing       |
        | has a higher total: it has not begun at 0 since     | the rise                       |
        """
        own_ml = self.shown_ml if self.timely or self.ran_at_ml is not None else 0.0  # else of the dose before
        whole_ml, risen_ml = self.asked_ml - self.slack_ml, self.risen_ml
        if self.reset:
            return None
        if own_ml >= whole_ml:
            return max(own_ml, risen_ml or 0.0)
        if self.ran_at_ml is not None and own_ml < max(self.ran_at_ml, 2 * RESOLUTION_ML) - RESOLUTION_ML:
            return None
        if risen_ml is None or self.total_ml is None:
            return None
        if self.total_ml <= self.asked_ml + self.slack_ml:
            return self.total_ml if risen_ml >= whole_ml else None
        return max(own_ml, risen_ml)
