"""How many examples a property is tried on, as a share of the profile's; `conftest` has the profiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

LEAST = 2


def share(of: float) -> settings:
    """Return settings with this share of the profile's examples, for a property whose examples are dear."""
    return settings(max_examples=max(LEAST, round(of * settings.default.max_examples)))


def slow_beyond(
    quick: int, cases: Iterable[Any], mark: pytest.MarkDecorator = pytest.mark.slow, *, several: bool = False
) -> list[Any]:
    """The cases of a parametrized test, all but the first few marked slow: one of a kind shows most of it.

    With `several`, each has the values of several parameters.
    """
    values = [tuple(case) if several else (case,) for case in cases]
    return [pytest.param(*case, marks=[] if n < quick else mark) for n, case in enumerate(values)]


def slow_between(every: int, cases: Iterable[Any]) -> list[Any]:
    """As `slow_beyond`, for cases in the order of what they are about: every so many is quick."""
    return [pytest.param(case, marks=[pytest.mark.slow] if n % every else []) for n, case in enumerate(cases)]


def nightly_beyond(quick: int, cases: Iterable[Any], *, several: bool = False) -> list[Any]:
    """As `slow_beyond`, for cases that not even the gate runs."""
    return slow_beyond(quick, cases, pytest.mark.nightly, several=several)
