"""Changing the batch: a tank refilled, a workpiece loaded, a model turned to face new flow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BatchChange:
    """Something that takes a while and then has replaced the batch; started by a rising command."""

    duration_s: float
    remaining_s: float = 0.0
    commanded: bool = False
    count: int = 0
    """Batches begun since power-up."""

    @property
    def running(self) -> bool:
        """Whether the change is under way."""
        return self.remaining_s > 0.0

    def command(self, on: bool) -> bool:
        """Set the command; True if that begins a new batch. Asking again while it is on begins nothing."""
        begins = on and not self.commanded and not self.running
        self.commanded = on
        if begins:
            self.remaining_s = self.duration_s
            self.count += 1
        return begins

    def advance(self, seconds: float) -> float:
        """Let time pass; returns the seconds during which the change was under way."""
        ran_s = min(seconds, self.remaining_s)
        self.remaining_s -= ran_s
        if self.remaining_s < 1e-9:
            self.remaining_s = 0.0
        return ran_s


def steps(seconds: float, longest_s: float) -> tuple[int, float]:
    """How many equal steps no longer than `longest_s` make up `seconds`, and how long each is."""
    count = max(1, -int(-seconds // longest_s))
    return count, seconds / count
