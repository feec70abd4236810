"""Policies from plain options: nested mappings become the dataclasses that the fields are annotated with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rigctl.bench.cell import PolicySpec
from rigctl.bench.names import must_be_one_of
from rigctl.core.policy import ModelOptions, Policy
from rigctl.core.registry import policy_class
from rigctl.errors import UsageError


def build_policy(spec: PolicySpec, defaults: Mapping[str, Any] | None = None) -> Policy:
    """The policy a label stands for; `defaults` are options that the problem provides.

    Raises:
        UsageError: the policy or an option does not exist, or an option has a value it may not have.
    """
    cls = policy_class(spec.policy)
    where = spec.policy if spec.label == spec.policy else f"{spec.label}: {spec.policy}"
    built: Policy = build(cls, {**(defaults or {}), **spec.options}, where)
    return built


def model_overrides(spec: PolicySpec) -> Mapping[str, Any]:
    """The spec's model options, each known and of the right type.

    Raises:
        UsageError: one is not.
    """
    return checked(ModelOptions, spec.model, f"{spec.label}: model")


def check_policy(spec: PolicySpec) -> None:
    """Nothing, if the policy is installed and takes these options.

    Raises:
        UsageError: it is not, or does not.
    """
    cls = policy_class(spec.policy)
    model_overrides(spec)
    given = checked(cls, spec.options, spec.label)
    declared = fields(cls)  # type: ignore[arg-type]  # a policy is a dataclass: its fields are its options
    required = {f.name for f in declared if f.init and f.default is MISSING and f.default_factory is MISSING}
    if required <= set(given):  # what is missing comes with the problem
        build_policy(spec)


def build(cls: type[Any], options: Mapping[str, Any], where: str) -> Any:
    """A frozen dataclass from a mapping of its fields.

    Raises:
        UsageError: an option does not exist, or has a value it may not have.
    """
    values = checked(cls, options, where)
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error


def checked(cls: type[Any], options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The options as the types that the dataclass' fields are annotated with."""
    hints = get_type_hints(cls)
    names = [f.name for f in fields(cls) if f.init]
    for name in options:
        must_be_one_of(name, names, f"{where}: option")
    return {name: _value(hints[name], value, f"{where}.{name}") for name, value in options.items()}


def _value(hint: Any, value: Any, where: str) -> Any:
    """The value as one of the annotation's alternatives."""
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if isinstance(value, Mapping):
        nested = [h for h in alternatives if is_dataclass(h)]
        if len(nested) == 1 and isinstance(nested[0], type):
            return build(nested[0], value, where)
    given = _tuple(value)
    if not any(_fits(h, given) for h in alternatives):
        allowed = " or ".join(_described(h) for h in alternatives)
        raise UsageError(f"{where}: got {value!r}, must be {allowed}")
    return given


def _tuple(value: Any) -> Any:
    """A list of a file as the tuple a frozen policy keeps."""
    return tuple(_tuple(v) for v in value) if isinstance(value, list | tuple) else value


def _fits(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is type(None):
        return value is None
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, int | float)
    plain = get_origin(hint) or hint
    return isinstance(value, plain) if isinstance(plain, type) else True


def _described(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return "null" if hint is type(None) else str(getattr(hint, "__name__", hint))
