"""Labels of a grid's policies: from `labels.yaml`, defined in a grid file, or any installed policy's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from rigctl.bench.cell import PolicySpec
from rigctl.bench.names import must_be_one_of
from rigctl.core.policies.registry import policy_names
from rigctl.errors import UsageError

KEYS = ("label", "policy", "options", "model", "reading")
"""Of a definition in a grid file."""


@cache
def listed() -> Mapping[str, Mapping[str, Any]]:
    """Read what stands in `labels.yaml`, by label; once, as it is part of the program."""
    import yaml  # noqa: PLC0415 - only where a file is read

    content: Mapping[str, Mapping[str, Any]] = yaml.safe_load(files(__package__).joinpath("labels.yaml").read_bytes())
    return content


def plain_label(label: str) -> str:
    """Return the one spelling of `per unit cost`, which labels have two of."""
    return label.replace("/cost", "-per-cost")


def predefined() -> Mapping[str, PolicySpec]:
    """Return the policies of all labels that need no definition in a grid file."""
    specs = {
        label: PolicySpec(
            label, said.get("policy", label), said.get("options", {}), said.get("model", {}), said.get("reading", True)
        )
        for label, said in listed().items()
    }
    slashed = {label.replace("-per-cost", "/cost"): spec for label, spec in specs.items()}
    return {label: replace(spec, label=label) for label, spec in {**slashed, **specs}.items()}


def policy_spec(given: object, where: str = "policy") -> PolicySpec:
    """Return a policy of a grid, from a label or a definition `{label, policy, options, model}`.

    A label that is not predefined may be any installed policy's name: it then has its default options.

    Args:
        given: text or a mapping.
        where: what messages begin with, e.g. the grid's place in its file.

    Raises:
        UsageError: the label is unknown, or the definition does not hold.
    """
    if isinstance(given, Mapping):
        return _defined(given, where)
    if not isinstance(given, str):
        raise UsageError(f"{where}: got {given!r}, must be a label or a mapping of {', '.join(KEYS)}")
    known = predefined()
    if given in known:
        return known[given]
    must_be_one_of(given, dict.fromkeys([*known, *policy_names()]), where)
    return PolicySpec(given, given)


def _defined(given: Mapping[Any, Any], where: str) -> PolicySpec:
    for key in given:
        must_be_one_of(key, KEYS, f"{where} {dict(given)}: key")
    if "label" not in given and "policy" not in given:
        raise UsageError(f"{where} {dict(given)}: policy is missing, must be a label or an installed policy's name")
    for key in ("label", "policy"):
        if key in given and not (isinstance(given[key], str) and given[key]):
            raise UsageError(f"{where} {dict(given)}: {key}: got {given[key]!r}, must be text; put numbers in quotes")
    for key in ("options", "model"):
        if not isinstance(given.get(key) or {}, Mapping):
            raise UsageError(f"{where} {dict(given)}: {key}: got {given[key]!r}, must be a mapping of options")
    if not isinstance(given.get("reading", True), bool):
        raise UsageError(f"{where} {dict(given)}: reading: got {given['reading']!r}, must be true or false")
    base = policy_spec(given.get("policy", given.get("label")), where)
    return PolicySpec(
        label=given.get("label", base.label),
        policy=base.policy,
        options={**base.options, **(given.get("options") or {})},
        model={**base.model, **(given.get("model") or {})},
        reading=given.get("reading", base.reading),
    )
