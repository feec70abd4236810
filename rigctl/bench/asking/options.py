"""Policies from plain options: nested mappings become the dataclasses that the fields are annotated with.

Labels of a grid's policies: from `labels.yaml`, defined in a grid file, or any installed policy's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from rigctl.bench.cell import PolicySpec, must_be_one_of
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import ModelOptions, usual_kernel
from rigctl.core.policies.registry import policy_class, policy_names
from rigctl.errors import UsageError, dotted
from rigctl.flaws import Flaw, got
from rigctl.options import made

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
    own = ("options", "model", "reading")
    specs = {
        label: PolicySpec(label, said.get("policy", label), **{key: said[key] for key in own if key in said})
        for label, said in listed().items()
    }
    slashed = {label.replace("-per-cost", "/cost"): spec for label, spec in specs.items()}
    return {label: replace(spec, label=label) for label, spec in {**slashed, **specs}.items()}


def policy_spec(given: object, where: str = "policy") -> PolicySpec:
    """Return a policy of a grid, from a label or a definition `{label, policy, options, model}`.

    A label that is not predefined may be any installed policy's name: it then has its default options. Messages begin
    with `where`, such as the grid's place in its file.

    Raises:
        UsageError: the label is unknown, or the definition does not hold.
    """
    if isinstance(given, Mapping):
        return _defined(given, where)
    if not isinstance(given, str):
        raise UsageError(got(given, f"must be a label or a mapping of {', '.join(KEYS)}", where=where))
    known = predefined()
    if given in known:
        return known[given]
    must_be_one_of(given, dict.fromkeys([*known, *policy_names()]), where)
    return PolicySpec(given, given)


def _defined(given: Mapping[Any, Any], where: str) -> PolicySpec:
    told = f"{where} {dict(given)}"
    if "label" not in given and "policy" not in given:
        raise UsageError(Flaw(f"{told}: policy is missing", "must be a label or an installed policy's name"))
    name = given.get("policy", given.get("label"))
    own = {key: value for key, value in given.items() if value is not None or key not in ("options", "model")}
    said = build(PolicySpec, {"label": name, "policy": name, **own}, f"{told}: ")
    base = policy_spec(said.policy, where)
    options, model = {**base.options, **said.options}, {**base.model, **said.model}
    reading = said.reading if "reading" in given else base.reading
    return PolicySpec(said.label if "label" in given else base.label, base.policy, options, model, reading)


def build_policy(spec: PolicySpec, defaults: Mapping[str, Any] | None = None) -> Policy:
    """Return the policy a label stands for; `defaults` are options that the problem provides.

    Raises:
        UsageError: the policy or an option does not exist, or an option is missing or has a value it may not have.
    """
    own = "" if spec.label == spec.policy else f" ({spec.policy})"  # a label need not say whose options it sets
    options = {**(defaults or {}), **spec.options}
    built: Policy = build(policy_class(spec.policy), options, f"policy {spec.label}{own}: options.")
    return built


def model_overrides(spec: PolicySpec) -> Mapping[str, Any]:
    """Return the spec's model options, each known, of the right type and in the range that a configuration allows.

    Raises:
        UsageError: one is not.
    """
    given = as_configured(spec.model)
    options = build(ModelOptions, given, f"policy {spec.label}: model.")
    return {name: getattr(options, name) for name in given}


def merged_model(of_all: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge model options of one policy: its own come before those of all, but a kernel that it leaves open (None)."""
    left_open = "kernel" in own and own["kernel"] is None
    said = {name: value for name, value in own.items() if not (left_open and name == "kernel")}
    return as_configured({**({"kernel": None} if left_open else {}), **of_all, **said})


def as_configured(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the kernel of a configuration that names none, where it is left open (None)."""
    if model.get("kernel", "") is not None:
        return model
    return {**model, "kernel": usual_kernel(model.get("hyperparameters", "learned"))}


def build(cls: type, options: Mapping[str, Any], where: str) -> Any:
    """Build a frozen dataclass from a mapping of its fields; `where` stands before the path of each in messages.

    Raises:
        UsageError: an option does not exist, is missing, or has a value it may not have; all of them are told.
    """
    built, wrong = made(cls, options)
    told = [flaw.within(f"{where}{dotted(path)}".rstrip(".: ")) for path, flaw in wrong]
    if told:
        raise UsageError(told[0] if len(told) == 1 else "; ".join(map(str, told)))
    return built
