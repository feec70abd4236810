"""Policies from plain options: nested mappings become the dataclasses that the fields are annotated with.

Labels of a grid's policies: from `labels.yaml`, defined in a grid file, or any installed policy's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from importlib.resources import files
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from rigctl.bench.cell import PolicySpec, must_be_one_of
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import ModelOptions, usual_kernel
from rigctl.core.policies.registry import policy_class, policy_names
from rigctl.errors import UsageError
from rigctl.flaws import Flaw, flaw_of, got

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
        raise UsageError(got(given, f"must be a label or a mapping of {', '.join(KEYS)}", where=where))
    known = predefined()
    if given in known:
        return known[given]
    must_be_one_of(given, dict.fromkeys([*known, *policy_names()]), where)
    return PolicySpec(given, given)


def _defined(given: Mapping[Any, Any], where: str) -> PolicySpec:
    for key in given:
        must_be_one_of(key, KEYS, f"{where} {dict(given)}: key")
    if "label" not in given and "policy" not in given:
        raise UsageError(
            Flaw(f"{where} {dict(given)}: policy is missing", "must be a label or an installed policy's name")
        )
    for key in ("label", "policy"):
        if key in given and not (isinstance(given[key], str) and given[key]):
            raise UsageError(
                got(given[key], "must be text", "put numbers in quotes", where=f"{where} {dict(given)}: {key}")
            )
    for key in ("options", "model"):
        if not isinstance(given.get(key) or {}, Mapping):
            raise UsageError(got(given[key], "must be a mapping of options", where=f"{where} {dict(given)}: {key}"))
    if not isinstance(given.get("reading", True), bool):
        raise UsageError(got(given["reading"], "must be true or false", where=f"{where} {dict(given)}: reading"))
    base = policy_spec(given.get("policy", given.get("label")), where)
    return PolicySpec(
        label=given.get("label", base.label),
        policy=base.policy,
        options={**base.options, **(given.get("options") or {})},
        model={**base.model, **(given.get("model") or {})},
        reading=given.get("reading", base.reading),
    )


KINDS = {float: "a finite number", int: "a whole number", str: "text", bool: "true or false", type(None): "null"}


def build_policy(spec: PolicySpec, defaults: Mapping[str, Any] | None = None) -> Policy:
    """Return the policy a label stands for; `defaults` are options that the problem provides.

    Raises:
        UsageError: the policy or an option does not exist, or an option is missing or has a value it may not have.
    """
    built: Policy = build(policy_class(spec.policy), {**(defaults or {}), **spec.options}, _options_of(spec))
    return built


def model_overrides(spec: PolicySpec) -> Mapping[str, Any]:
    """Return the spec's model options, each known, of the right type and in the range that a configuration allows.

    Raises:
        UsageError: one is not.
    """
    where = f"policy {spec.label}: model"
    given = checked(ModelOptions, as_configured(spec.model), where)
    for name, value in given.items():
        bounds = _bounds_of(name)
        if "gt" in bounds and value == bounds["gt"]:
            raise UsageError(got(value, f"must be finite and > {bounds['gt']}", where=f"{where}.{name}"))
        if "ge" in bounds and not bounds["ge"] <= value <= bounds.get("le", value):
            most = f" and at most {bounds['le']}" if "le" in bounds else ""
            raise UsageError(got(value, f"must be at least {bounds['ge']}{most}", where=f"{where}.{name}"))
    build(ModelOptions, given, where)
    return given


def _bounds_of(option: str) -> Mapping[str, float]:
    """Return the bounds that a model option's annotation declares: `gt`, `ge` and `le`, as far as it does."""
    hint = get_type_hints(ModelOptions, include_extras=True)[option]
    marks = [mark for part in (hint, *get_args(hint)) for mark in getattr(part, "__metadata__", ())]
    return {f.name: getattr(mark, f.name) for mark in marks if isinstance(mark, Ge | Gt | Le) for f in fields(mark)}


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


def check_policy(spec: PolicySpec) -> None:
    """Refuse a policy that is not installed, or options that do not hold.

    Raises:
        UsageError: it is not, or they do not.
    """
    cls = policy_class(spec.policy)
    model_overrides(spec)
    checked(cls, spec.options, _options_of(spec))


def _options_of(spec: PolicySpec) -> str:
    """Return how messages begin: a label need not say whose options it sets."""
    return f"policy {spec.label}{'' if spec.label == spec.policy else f' ({spec.policy})'}: options"


def build(cls: type[Any], options: Mapping[str, Any], where: str) -> Any:
    """Build a frozen dataclass from a mapping of its fields.

    Raises:
        UsageError: an option does not exist, is missing, or has a value it may not have.
    """
    values = checked(cls, options, where)
    for f in fields(cls):
        if f.init and f.default is MISSING and f.default_factory is MISSING and f.name not in values:
            allowed = f"must be {_allowed(get_type_hints(cls)[f.name])}"
            raise UsageError(Flaw("is missing", allowed, where=f"{where}.{f.name}"))
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        flaw = flaw_of(error)
        own = flaw.where in values
        where, flaw = (f"{where}.{flaw.where}", replace(flaw, where="")) if own else (where, flaw)
        raise UsageError(flaw.within(where)) from error


def checked(cls: type[Any], options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the options as the types that the dataclass' fields are annotated with.

    Raises:
        UsageError: an option does not exist, or is of another type.
    """
    hints = get_type_hints(cls)
    names = [f.name for f in fields(cls) if f.init]
    for name in options:
        must_be_one_of(name, names, f"{where}: option")
    return {name: _value(hints[name], value, f"{where}.{name}") for name, value in options.items()}


def _value(hint: Any, value: Any, where: str) -> Any:
    for one in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        element = get_args(one)[0] if get_args(one)[1:] == (...,) else None
        if isinstance(value, Mapping) and is_dataclass(one):
            return build(one, value, where)  # type: ignore[arg-type]  # a class, as annotations are
        if isinstance(value, list) and is_dataclass(element):
            return tuple(_value(element, v, f"{where} {i}") for i, v in enumerate(value, 1))
    given = _tuple(value)
    if not _fits(hint, given):
        raise UsageError(got(value, f"must be {_allowed(hint)}", where=where))
    return given


def _tuple(value: Any) -> Any:
    """Return a list of a file as the tuple a frozen policy keeps."""
    return tuple(_tuple(v) for v in value) if isinstance(value, list | tuple) else value


def _fits(hint: Any, value: Any) -> bool:
    try:
        _one_option(hint).model_validate({"value": value})
    except ValidationError:
        return False
    return True


@cache  # building a model takes longer than all else here
def _one_option(hint: Any) -> type[BaseModel]:
    config = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    return create_model("Option", __config__=config, value=(hint, ...))


def _allowed(hint: Any) -> str:
    kind = get_origin(hint)
    if kind in (Union, UnionType):
        return " or ".join(map(_allowed, get_args(hint)))
    if kind is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if kind is tuple:
        each = [_allowed(h) for h in get_args(hint) if h is not ...]
        return f"a list (each {each[0]})" if ... in get_args(hint) else f"a list ({', '.join(each)})"
    if is_dataclass(hint):
        return f"a mapping of {', '.join(f.name for f in fields(hint) if f.init)}"
    return KINDS.get(hint) or str(getattr(hint, "__name__", hint))
