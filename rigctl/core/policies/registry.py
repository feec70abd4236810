"""Policies by name, through the entry-point group `rigctl.policies`; a third party adds one by declaring it."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass

from rigctl.core.experiment.policy import Policy
from rigctl.errors import BrokenPlugin, UsageError
from rigctl.plugins import installed, loaded

GROUP = "rigctl.policies"
USUAL_POLICY = "likely-maximisers"
"""Of a configuration that names none."""


def policy_names() -> tuple[str, ...]:
    """Return the name of every installed policy, sorted; nothing is imported."""
    return tuple(sorted(installed(GROUP, "policy")))


def policy_class(name: str) -> type[Policy]:
    """Return the frozen dataclass of that policy; its fields are the policy's options.

    Raises:
        UnknownPlugin: no installed policy has that name.
        BrokenPlugin: it does not load, or is no policy.
    """
    policy: type[Policy] = loaded(installed(GROUP, "policy"), name, "policy")
    if not (isinstance(policy, type) and is_dataclass(policy) and hasattr(policy, "propose")):
        raise BrokenPlugin(f'policy "{name}": must be a dataclass with the methods of a policy; repair or uninstall it')
    return policy


def usual(name: str) -> Policy:
    """Return that policy with its usual options.

    Raises:
        UnknownPlugin, BrokenPlugin: as `policy_class`.
        UsageError: an option of it has no usual value.
    """
    cls = policy_class(name)
    open_ = [f.name for f in fields(cls) if f.init and f.default is MISSING and f.default_factory is MISSING]  # type: ignore[arg-type]  # checked
    if open_:
        made = f"{cls.__module__}.{cls.__name__}({', '.join(f'{option}=...' for option in open_)})"
        raise UsageError(
            f'policy "{name}": {", ".join(open_)} is missing, must be given; make the policy yourself: {made}'
        )
    return cls()
