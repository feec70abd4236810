"""The configuration's shape for editors: a JSON schema, with the options of every driver and policy.

Where the keys depend on one of them (the driver, the policy), the schema says `if` that is so `then` these: an editor
speaks of the driver that was named then, where of alternatives it would name any.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema, WithDefaultSchema

from rigctl.config.schema import DeviceSection, PolicySection, RigConfig
from rigctl.config.shape import meanings_of, options_model
from rigctl.config.wording import lasting
from rigctl.core.policies.registry import policy_class, policy_names
from rigctl.kinds import DURATION, VOLUME, key_of
from rigctl.rig.registry import Registry


def json_schema(registry: Registry) -> dict[str, Any]:
    schema = RigConfig.model_json_schema(by_alias=True, schema_generator=_AsWritten)
    definitions = schema["$defs"]
    drivers = {name: registry.driver(name) for name in registry.drivers}
    definitions["DeviceSection"] = _by_name(
        definitions, DeviceSection, "driver", {n: (d.options, d.summary) for n, d in drivers.items()}
    )
    policies = {name: options_model(policy_class(name)) for name in policy_names()}
    definitions["PolicySection"] = _by_name(
        definitions, PolicySection, "name", {n: (m, m.__doc__ or "") for n, m in policies.items()}
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


class _AsWritten(GenerateJsonSchema):
    """Gives defaults as people write them, 10 min for 600 s, and what the text below each field of a spec says."""

    def dataclass_schema(self, schema: DataclassSchema) -> dict[str, Any]:
        made = super().dataclass_schema(schema)
        for field, meaning in meanings_of(schema["cls"]).items():
            made["properties"][key_of(field)].setdefault("description", meaning)
        return made

    def default_schema(self, schema: WithDefaultSchema) -> dict[str, Any]:
        made = super().default_schema(schema)
        kinds: dict[str, Callable[[float], str]] = {DURATION.example: lasting, VOLUME.example: lambda ml: f"{ml:g} mL"}
        written = kinds.get(next(iter(made.get("examples", ())), ""))
        if written is not None and isinstance(made.get("default"), float):
            made["default"] = written(made["default"])
        if "$ref" in made and made.get("default"):
            keys = self.definitions[made["$ref"].removeprefix("#/$defs/")]["properties"]
            made["default"] = {k: form["default"] for k, form in keys.items() if "default" in form}
        return made


def schema_text(schema: dict[str, Any]) -> str:
    """Write the schema as it stands in `config/schema.json`."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _by_name(
    definitions: dict[str, Any], section: type[BaseModel], key: str, options: dict[str, tuple[type[BaseModel], str]]
) -> dict[str, Any]:
    """Return the section's own keys, and by driver or policy which others there are."""
    common = definitions[section.__name__]
    usual = common["properties"][key].get("default")
    cases = []
    for name, (model, summary) in sorted(options.items()):
        own = model.model_json_schema(by_alias=True, ref_template=f"#/$defs/{name}.{{model}}")
        for inner, definition in own.pop("$defs", {}).items():
            definitions[f"{name}.{inner}"] = definition
        if_named: dict[str, Any] = {"properties": {key: {"const": name}}}
        if name != usual:  # a missing key means the usual one
            if_named["required"] = [key]
        then = {
            "title": name,
            "description": summary,
            "properties": {**dict.fromkeys(common["properties"], True), **own.get("properties", {})},
            "required": own.get("required", []),
            "additionalProperties": False,
        }
        cases.append({"if": if_named, "then": then})
    return {
        "description": common["description"],
        "type": "object",
        "properties": {**common["properties"], key: {**common["properties"][key], "enum": sorted(options)}},
        "required": common.get("required", []),
        "allOf": cases,
    }
