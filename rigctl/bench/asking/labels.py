"""The short names of a grid's policies: what the papers call them, and with which options (algorithms, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rigctl.bench.cell import PolicySpec
from rigctl.bench.names import must_be_one_of
from rigctl.core.policies.registry import policy_names
from rigctl.errors import UsageError

PLAIN = (
    "ucb-psq",
    "ts-psq",
    "ei-psq",
    "ucb-cvs",
    "pbgi",
    "pbgi-d",
    "ei",
    "eipc",
    "value-per-cost",
    "ca-mobo",
    "mo-ucb",
)
"""Policies with their default options."""
KEYS = ("label", "policy", "options", "model")
"""Of a definition in a grid file."""
PER_COST = ("/cost", "-per-cost")
"""Two ways to write the same."""
HALVING = {"tolerance": 0.1, "tolerance_decay": "halving", "cost_bound": "hoeffding"}
"""The commit phase of U's experiments."""


def predefined() -> Mapping[str, PolicySpec]:
    """Labels that need no definition in a grid file."""
    specs = [
        # C, sections 4.2 and 5
        PolicySpec("etc-50", "ucb-cvs-etc", {"plays": 50}),
        PolicySpec("etc-100", "ucb-cvs-etc", {"plays": 100}),
        PolicySpec("etc-ada", "ucb-cvs-etc", {"plays": "adaptive"}),
        # U groups by the number of variables, as it does not know costs
        PolicySpec("etc-50-size", "ucb-cvs-etc", {"plays": 50, "groups": "size"}),
        # U, Algorithm 1: so many plays of each set, or its experiments' 60 of 100
        PolicySpec("u-alg1-tau5", "explore-then-commit", {**HALVING, "explore": {"plays": 5, "share": None}}),
        PolicySpec("u-alg1-tau2", "explore-then-commit", {**HALVING, "explore": {"plays": 2, "share": None}}),
        PolicySpec("u-alg1-share", "explore-then-commit", {**HALVING, "explore": {"share": 0.6}}),
        # what a configuration that says nothing runs: its kernel depends on whether hyper-parameters are learned
        PolicySpec("default", "likely-maximisers", {}, {"kernel": None}),
    ]
    # M: outcomes weighed in their own units instead of their ranges, weights of the order of costs as printed
    specs += [
        PolicySpec("mo-ucb-own", "mo-ucb", {"units": "own"}),
        PolicySpec("ca-mobo-own", "ca-mobo", {"units": "own"}),
        PolicySpec("ca-mobo-printed", "ca-mobo", {"sorted": "paper"}),
        PolicySpec("ca-mobo-printed-own", "ca-mobo", {"sorted": "paper", "units": "own"}),
    ]
    # C, appendix B: divided by cost
    psq = ("ucb-psq", "ts-psq", "ei-psq")
    specs += [PolicySpec(f"{name}{suffix}", name, {"per_cost": True}) for name in psq for suffix in PER_COST]
    specs += [PolicySpec(name, name) for name in PLAIN]
    return {spec.label: spec for spec in specs}


def policy_spec(given: object, where: str = "policy") -> PolicySpec:
    """A policy of a grid, from a label or a definition `{label, policy, options, model}`.

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
    must_be_one_of(given, [*known, *(n for n in policy_names() if n not in known)], where)
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
    base = policy_spec(given.get("policy", given.get("label")), where)
    return PolicySpec(
        label=given.get("label", base.label),
        policy=base.policy,
        options={**base.options, **(given.get("options") or {})},
        model={**base.model, **(given.get("model") or {})},
    )
