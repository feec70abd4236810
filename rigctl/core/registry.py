"""Policies by name, through the entry-point group `rigctl.policies`; a third party adds one by declaring it."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import entry_points

from rigctl.core.policy import Policy
from rigctl.errors import UsageError

GROUP = "rigctl.policies"


def policy_names() -> tuple[str, ...]:
    """Every installed policy, sorted; nothing is imported."""
    return tuple(sorted({e.name for e in entry_points(group=GROUP)}))


def policy_class(name: str) -> type[Policy]:
    """The frozen dataclass of that policy; its fields are the policy's options.

    Raises:
        UsageError: no installed policy has that name.
    """
    found = entry_points(group=GROUP, name=name)
    if not found:
        near = get_close_matches(name, policy_names(), n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"policy: got {name!r}, must be one of {', '.join(policy_names())}{hint}")
    loaded: type[Policy] = next(iter(found)).load()
    return loaded
