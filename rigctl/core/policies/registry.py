"""Policies by name, through the entry-point group `rigctl.policies`; a third party adds one by declaring it."""

from __future__ import annotations

from dataclasses import is_dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points

from rigctl.core.policy import Policy
from rigctl.errors import UsageError

GROUP = "rigctl.policies"
USUAL_POLICY = "likely-maximisers"
"""Of a configuration that names none."""


def policy_names() -> tuple[str, ...]:
    """Every installed policy, sorted; nothing is imported."""
    return tuple(sorted({e.name for e in entry_points(group=GROUP)}))


def policy_class(name: str) -> type[Policy]:
    """The frozen dataclass of that policy; its fields are the policy's options.

    Raises:
        UsageError: no installed policy has that name, or it cannot be loaded.
    """
    found = entry_points(group=GROUP, name=name)
    if not found:
        near = get_close_matches(name, policy_names(), n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"policy: got {name!r}, must be one of {', '.join(policy_names())}{hint}")
    entry = next(iter(found))
    where = f"policy {name} ({entry.value}{f', of {entry.dist.name}' if entry.dist else ''})"
    try:
        loaded: type[Policy] = entry.load()
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise UsageError(f"{where}: cannot be loaded: {told}; repair it, or uninstall it") from error
    if not (isinstance(loaded, type) and is_dataclass(loaded) and hasattr(loaded, "propose")):
        raise UsageError(f"{where}: must be a dataclass with the methods of a policy; repair it, or uninstall it")
    return loaded
