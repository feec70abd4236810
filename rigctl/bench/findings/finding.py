"""One claim of a paper, its verdict and the figures it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["yes", "no", "undecided"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim of a paper and what these runs say of it."""

    where: str
    """Paper and section."""
    claim: str
    """In our words."""
    test: str
    """What has to hold for a `yes`."""
    verdict: Verdict
    figures: str
    """What came out, with its uncertainty; or what is missing."""
    settings: tuple[int, int]
    """In how many of how many published settings there were runs to judge by."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The figures for programs."""

    def to_json(self) -> dict[str, Any]:
        """Everything, by name."""
        return {
            "where": self.where,
            "claim": self.claim,
            "test": self.test,
            "reproduced": self.verdict,
            "figures": self.figures,
            "settings": {"judged": self.settings[0], "published": self.settings[1]},
            "numbers": dict(self.numbers),
        }
