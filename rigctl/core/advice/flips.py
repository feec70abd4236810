"""What is told of a decision that another value would change."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final, Literal

Kind = Literal["cost", "price", "budget", "tolerance", "outcome"]

KINDS: Final[tuple[Kind, ...]] = ("cost", "price", "budget", "tolerance", "outcome")


@dataclass(frozen=True, slots=True)
class Flip:
    """One quantity, and the value of it at which the answer is another one; both sides were tried."""

    kind: Kind
    subject: str
    """Control set or meter; empty for the others."""
    now: float
    at: float
    """Here the answer is `after`."""
    short: float
    """One step short of it, or `now` itself: here it is still `before`."""
    before: str
    after: str
    per: str = ""
    """Of a price: what it is paid for."""
    effort: float = inf
    """How large a change that is, as a share of what would be large: smaller is cheaper."""


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """What would change an answer, cheapest first, and how hard it was looked for."""

    answer: str
    flips: tuple[Flip, ...]
    asked: int
    """Decisions that were made."""
    cut_short: bool
    """Whether there was more to try."""
