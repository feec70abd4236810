"""First check: do the sections have the right shape? Parts that do not are reported, then left out.

Leaving them out lets the second check (units, names, consistency) find what is wrong elsewhere in the same run. The
same shape, with the options of drivers and policies, is the JSON schema for completion and checks in an editor.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Annotated, Any, Final, get_args, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from rigctl.config.document import Document
from rigctl.config.findings import Findings
from rigctl.config.schema import DeviceSection, PolicySection, RigConfig
from rigctl.config.wording import shown
from rigctl.core.policies.registry import policy_class, policy_names
from rigctl.errors import KeyPath
from rigctl.plugins import did_you_mean
from rigctl.rig.registry import Registry

_ENTRIES: Final = ("variables", "devices", "dosing", "buses", "known_costs", "meters")
"""Sections whose entries stand on their own: a bad one is left out, the others are checked on."""

_HARMLESS: Final[Mapping[str, Any]] = {
    "rig": "rig",
    "currency": "XXX",
    "budget": "1 XXX",
    "variables": {},
    "control_sets": "all",
    "outcome": {"name": "outcome", "unit": "1"},
}
"""What stands in for a required section that is missing or bad."""

_STAND_INS: Final[Mapping[str, Mapping[str, Any]]] = {
    "meters": {"name": "left-out", "kind": "fixed", "price": "0 XXX"},
    "safety": {"name": "left-out", "when": "", "then": "warn"},
}
"""What stands in for an entry of a list (meters, interlocks): the others keep their places."""

_SENTENCES: Final[Mapping[str, str]] = {
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be finite",
    "greater_than": "must be > {gt}",
    "greater_than_equal": "must be >= {ge}",
    "less_than": "must be < {lt}",
    "less_than_equal": "must be <= {le}",
    "literal_error": "must be {expected}",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dataclass_type": "must be a mapping",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "none_required": "must be empty",
    "string_pattern_mismatch": "must match {pattern}",
}


def check_shape(document: Document, findings: Findings) -> RigConfig:
    """Return the sections that hold; the others are in `findings`, muted, and replaced by something harmless."""
    raw: dict[str, Any] = copy.deepcopy(dict(document.data))
    # each round leaves larger parts out: single unknown keys, then entries, then whole sections
    for depth_of in (_key_depth, _entry_depth, lambda _: 1):
        try:
            return RigConfig.model_validate(raw)
        except ValidationError as error:
            for path, what in problems_of(error, RigConfig):
                findings.add(path, what)
            for details in error.errors(include_url=False):
                part = _path(details)[: depth_of(details)]
                findings.mute(part)
                _leave_out(raw, part)
            raw = {**_HARMLESS, **raw}
    return RigConfig.model_validate(raw)


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[tuple[KeyPath, str]]:
    """Put a validation error as (path, sentence) pairs in the house's words."""
    return [(_path(details), _sentence(details, model)) for details in error.errors(include_url=False)]


def _path(details: ErrorDetails) -> KeyPath:
    return tuple(step for step in details["loc"] if step != "[key]")


def _sentence(details: ErrorDetails, model: type[BaseModel]) -> str:
    path, kind = _path(details), details["type"]
    if kind == "extra_forbidden":
        known = keys_at(model, path[:-1])
        return f"unknown key, must be one of {', '.join(sorted(known))}{did_you_mean(str(path[-1]), known)}"
    if kind == "missing":
        return "is missing, must be given"
    template = _SENTENCES.get(kind)
    said = details["msg"].removeprefix("Value error, ")
    what = said if template is None else template.format(**details.get("ctx", {}))
    return what if what.startswith("got ") else f"got {shown(details['input'])}, {what}"


def keys_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the keys a model knows at a path below it; empty where it knows none."""
    current: Any = model
    for step in path:
        if _is_model(current):
            field = next((f for name, f in current.model_fields.items() if step in (name, f.alias)), None)
            current = None if field is None else field.annotation
        else:
            current = next(iter(get_args(current)[-1:]), None)
        members = [a for a in get_args(current) if _is_model(a)]
        if members and not _is_model(current) and type(None) in get_args(current):
            current = members[0]
    if not _is_model(current):
        return []
    return [f.alias or name for name, f in current.model_fields.items()]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _key_depth(details: ErrorDetails) -> int:
    return len(details["loc"]) if details["type"] == "extra_forbidden" else _entry_depth(details)


def _entry_depth(details: ErrorDetails) -> int:
    path = _path(details)
    if path[:1] == ("safety",) and len(path) > 2:
        return 3
    return 2 if path[0] in _ENTRIES and len(path) > 1 else 1


def _leave_out(raw: dict[str, Any], path: KeyPath) -> None:
    holder: Any = raw
    for step in path[:-1]:
        try:
            holder = holder[step]
        except (KeyError, IndexError, TypeError):  # an enclosing part has been removed already
            return
    last = path[-1]
    if isinstance(holder, list) and isinstance(last, int):
        holder[last] = dict(_STAND_INS[str(path[0])])
    elif isinstance(holder, MutableMapping):
        holder.pop(last, None)


def options_model(cls: type) -> type[BaseModel]:
    """Return a pydantic model with a policy's options: same names, types and defaults; nested dataclasses likewise."""
    hints = get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {}
    for f in dataclasses.fields(cls):
        if not f.init:
            continue
        annotation = hints[f.name]
        nested = isinstance(annotation, type) and dataclasses.is_dataclass(annotation)
        if nested:
            fields[f.name] = (options_model(annotation), Field(default_factory=dict, validate_default=True))
            continue
        annotation = Annotated[annotation, BeforeValidator(_frozen)]
        if f.default_factory is not dataclasses.MISSING:
            fields[f.name] = (annotation, Field(default_factory=f.default_factory))
        else:
            fields[f.name] = (annotation, ... if f.default is dataclasses.MISSING else f.default)
    config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    return create_model(cls.__name__, __config__=config, __doc__=summary, **fields)


def _frozen(value: Any) -> Any:
    """Make a list of the file the tuple that a frozen policy keeps."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def make_policy(cls: type, options: Mapping[str, Any], path: KeyPath, findings: Findings) -> Any:
    """Return the policy with these options, or None if they do not hold (then `findings` says why)."""
    model = options_model(cls)
    try:
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        for below, what in problems_of(error, model):
            findings.add((*path, *below), what)
        return None
    return findings.attempt(path, None, _instance, cls, checked)


def _instance(cls: type, checked: BaseModel) -> Any:
    hints = get_type_hints(cls)
    values = {
        name: _instance(hints[name], value) if isinstance(value, BaseModel) else value
        for name, value in ((n, getattr(checked, n)) for n in type(checked).model_fields)
    }
    return cls(**values)


# for editors --------------------------------------------------------------------------------------------------------


def json_schema(registry: Registry) -> dict[str, Any]:
    schema = RigConfig.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    drivers = {name: registry.driver(name) for name in registry.drivers}
    definitions["DeviceSection"] = _one_of(
        definitions, DeviceSection, "driver", {n: (d.options, d.summary) for n, d in drivers.items()}
    )
    policies = {name: options_model(policy_class(name)) for name in policy_names()}
    definitions["PolicySection"] = _one_of(
        definitions, PolicySection, "name", {n: (m, m.__doc__ or "") for n, m in policies.items()}
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text(schema: dict[str, Any]) -> str:
    """Write the schema as it stands in `config/schema.json`."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _one_of(
    definitions: dict[str, Any], section: type[BaseModel], key: str, options: dict[str, tuple[type[BaseModel], str]]
) -> dict[str, Any]:
    """Return one alternative per driver or policy: the section's own keys plus its options."""
    common = definitions[section.__name__]
    alternatives = []
    for name, (model, summary) in sorted(options.items()):
        own = model.model_json_schema(by_alias=True, ref_template=f"#/$defs/{name}.{{model}}")
        for inner, definition in own.pop("$defs", {}).items():
            definitions[f"{name}.{inner}"] = definition
        named = {**common["properties"][key], "const": name, "type": "string"}
        alternatives.append(
            {
                "title": name,
                "description": summary,
                "type": "object",
                "properties": {**common["properties"], key: named, **own.get("properties", {})},
                "required": sorted({key, *common.get("required", []), *own.get("required", [])}),
                "additionalProperties": False,
            }
        )
    return {"description": common["description"], "oneOf": alternatives}
