"""How many examples a property is tried on, as a share of the profile's; `conftest` has the profiles."""

from __future__ import annotations

from hypothesis import settings

LEAST = 2


def share(of: float) -> settings:
    """Return settings with this share of the profile's examples, for a property whose examples are dear."""
    return settings(max_examples=max(LEAST, round(of * settings.default.max_examples)))
