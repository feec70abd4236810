"""The JSON schema of the configuration, for completion and checks in an editor."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import BaseModel

from rigctl.config.schema import DeviceSection, PolicySection, RigConfig
from rigctl.config.shape import options_model
from rigctl.core.policies.registry import policy_class, policy_names
from rigctl.rig.registry import Registry

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


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
    return {"$schema": DIALECT, **schema}


def to_text(schema: dict[str, Any]) -> str:
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
