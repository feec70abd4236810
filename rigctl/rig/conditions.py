"""Conditions over readings: comparisons joined by and, or, not, in three-valued logic (Kleene). Pure.

A reading that is missing, stale or INVALID makes a comparison unknown (None), never false.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from rigctl.text import shown_unit

Comparison = Literal["<", "<=", ">", ">="]
_SIGNS: Final = MappingProxyType({"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge})


class Condition(ABC):
    """A statement about readings that is true, false or unknown."""

    @property
    @abstractmethod
    def comparisons(self) -> tuple[Compare, ...]:
        """Return what it is made of."""

    @property
    def names(self) -> frozenset[str]:
        """Return the readings it speaks of."""
        return frozenset(comparison.name for comparison in self.comparisons)

    @abstractmethod
    def holds(self, values: Mapping[str, float | None]) -> bool | None:
        """Tell whether it is true of these values, engineering units; None where that cannot be known."""


@dataclass(frozen=True, slots=True)
class Compare(Condition):
    """A reading against a limit."""

    name: str
    sign: Comparison
    limit: float
    """Unit of the reading."""
    unit: str = ""
    levels: Mapping[float, str] = field(default_factory=dict, compare=False)
    """The words of a category by their numbers, for people."""

    @property
    def comparisons(self) -> tuple[Compare, ...]:
        return (self,)

    def holds(self, values: Mapping[str, float | None]) -> bool | None:
        value = values.get(self.name)
        if value is None or value != value:  # noqa: PLR0124  # NaN
            return None
        return bool(_SIGNS[self.sign](value, self.limit))

    def __str__(self) -> str:
        short = f"{self.limit:g}"
        limit = short if float(short) == self.limit else repr(self.limit)
        unit = shown_unit(self.unit)
        return f"{self.name} {self.sign} {limit} {unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """The opposite."""

    inner: Condition

    @property
    def comparisons(self) -> tuple[Compare, ...]:
        return self.inner.comparisons

    def holds(self, values: Mapping[str, float | None]) -> bool | None:
        inner = self.inner.holds(values)
        return None if inner is None else not inner

    def __str__(self) -> str:
        return f"not ({self.inner})"


@dataclass(frozen=True, slots=True)
class Joined(Condition):
    """All of them (and), or any (or)."""

    word: Literal["and", "or"]
    parts: tuple[Condition, ...]
    said: str = field(default="", compare=False)
    """How a person wrote it, where not as comparisons: `nozzle is cone`."""

    @property
    def comparisons(self) -> tuple[Compare, ...]:
        return tuple(comparison for part in self.parts for comparison in part.comparisons)

    def holds(self, values: Mapping[str, float | None]) -> bool | None:
        deciding = self.word == "or"
        answers = [part.holds(values) for part in self.parts]
        if deciding in answers:
            return deciding
        return None if None in answers else not deciding

    def __str__(self) -> str:
        parts = (f"({p})" if isinstance(p, Joined) and not p.said else str(p) for p in self.parts)
        return self.said or f" {self.word} ".join(parts)


def at_level(name: str, word: str, levels: Mapping[float, str]) -> Joined:
    """Return that a category is at this level: that what is read is nearer to it than to any other."""
    at = next(number for number, level in levels.items() if level == word)
    half = min(abs(number - at) for number in levels if number != at) / 2
    ends = Compare(name, ">", at - half, levels=levels), Compare(name, "<", at + half, levels=levels)
    plain = word.isascii() and word.isidentifier() and word not in ("and", "or", "not")
    quote = "" if plain else '"'
    return Joined("and", ends, f"{name} is {quote}{word}{quote}")
