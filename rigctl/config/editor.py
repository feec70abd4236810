"""The configuration's shape for editors: a JSON schema, with the options of every driver and policy.

Where the keys depend on one of them (the driver, the policy), the schema says `if` that is so `then` these: an editor
speaks of the driver that was named then, where of alternatives it would name any.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import DataclassSchema, ModelSchema, WithDefaultSchema

from rigctl.config.schema import DeviceSection, PolicySection, RigConfig
from rigctl.core.policies.registry import policy_class, policy_names
from rigctl.kinds import DURATION, VOLUME, key_of, meanings_of
from rigctl.options import options_model
from rigctl.rig.registry import Registry
from rigctl.text import lasting


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
        cls: type = schema["cls"]
        for field, meaning in meanings_of(cls).items():
            made["properties"][key_of(field)].setdefault("description", meaning)
        return made

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        made = super().model_schema(schema)
        cls: type[BaseModel] = schema["cls"]
        meanings = meanings_of(cls)
        keys = made.get("anyOf", (made,))[-1]["properties"]  # the last of its forms is the mapping
        for name, field in cls.model_fields.items():
            if name in meanings:
                keys[field.alias or name].setdefault("description", meanings[name])
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
        own = model.model_json_schema(
            by_alias=True, ref_template=f"#/$defs/{name}.{{model}}", schema_generator=_AsWritten
        )
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


# the same as a page -----------------------------------------------------------------------------------------------


HEAD: Final = """\
# Configuration: every key

Each section with its keys, what they may be, and what holds where a key is left out; a required key has no default.
[How it all goes together](../configuration.md) says more. `rigctl tools schema --as configuration` writes this page.
"""
_KINDS: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
    "object": "a mapping",
    "array": "a list",
}
_BOUNDS: Final[Mapping[str, str]] = {
    "exclusiveMinimum": ">",
    "minimum": ">=",
    "exclusiveMaximum": "<",
    "maximum": "<=",
}
_ITEMS: Final = "[]"


def page(schema: Mapping[str, Any]) -> str:
    """Return the reference of a configuration, as Markdown; `schema` is what `rigctl.config.editor` makes."""
    parts = [HEAD, "\n## The top level\n\n", _table(schema, schema), *_sections(schema, schema)]
    for name, word in (("DeviceSection", "driver"), ("PolicySection", "policy")):
        section = schema["$defs"][name]
        parts += [_plugin(schema, case["then"], word, set(section["properties"])) for case in section["allOf"]]
    return "".join(parts)


def _plugin(schema: Mapping[str, Any], then: Mapping[str, Any], word: str, common: set[str]) -> str:
    own = {name: form for name, form in then["properties"].items() if name not in common or form is not True}
    model = {"properties": own, "required": then["required"]}
    head = f"\n## {word.capitalize()} `{then['title']}`\n\n{_sentence(then['description'])}\n\n"
    table = _table(schema, model) if own else "It has no options of its own.\n"
    return "".join([head, table, *_sections(schema, model)])


def _sections(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[str]:
    """Give what is said of each section below a part, each once."""
    told: dict[int, str] = {}
    for path, inner in _nested(schema, part, ""):
        if id(inner) not in told:
            told[id(inner)] = path
            said = _sentence(inner.get("description", ""))
            yield f"\n### `{path}`\n\n" + (f"{said}\n\n" if said else "") + _table(schema, inner)


def _nested(schema: Mapping[str, Any], part: Mapping[str, Any], above: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give every section below a part, in the order of its keys, with the path that leads there."""
    for name, form in part.get("properties", {}).items():
        for path, inner in () if form is True else _targets(schema, form, f"{above}{name}"):
            yield path, inner
            yield from _nested(schema, inner, f"{path}.")


def _targets(schema: Mapping[str, Any], form: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give the mappings with keys of their own that a form allows."""
    if "$ref" in form:
        yield from _targets(schema, _at(schema, form["$ref"]), path)
    elif "properties" in form:
        yield path, form
    elif isinstance(form.get("additionalProperties"), Mapping):
        yield from _targets(schema, form["additionalProperties"], f"{path}.<name>")
    elif "patternProperties" in form:
        yield from _targets(schema, next(iter(form["patternProperties"].values())), f"{path}.<name>")
    elif isinstance(form.get("items"), Mapping):
        yield from _targets(schema, form["items"], path + _ITEMS)
    for other in form.get("anyOf", ()):
        yield from _targets(schema, other, path)


def _table(schema: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    rows = ["| key | form | default | meaning |\n|---|---|---|---|\n"]
    required = part.get("required", ())
    for name, form in part.get("properties", {}).items():
        default = "required" if name in required else _default(form)
        said = _sentence(form.get("description") or _inherited(schema, form))
        rows.append(f"| `{name}` | {_form(schema, form)} | {default} | {said} |\n")
    return "".join(rows)


def _inherited(schema: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    return str(_at(schema, form["$ref"]).get("description", "")) if "$ref" in form else ""


def _sentence(text: str) -> str:
    """Return a description in one line; what is in backticks is as it is, elsewhere < is no tag."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))


def _default(form: Mapping[str, Any]) -> str:
    value = form.get("default")
    if value is None:
        return "none"
    if isinstance(value, Mapping | list):
        return "empty" if not value else "as below"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text if text.isprintable() else repr(text)[1:-1]}`" if text else "empty"


def _form(schema: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    """Say in words what a value may be."""
    if "$ref" in form:
        return _form(schema, _at(schema, form["$ref"]))
    if "anyOf" in form:
        forms = [_form(schema, f) for f in form["anyOf"] if f.get("type") != "null"]
        return " or ".join(dict.fromkeys(forms))
    words = [form["const"]] if "const" in form else form.get("enum", form.get("examples", ())[:1])
    if words:
        such = "such as " if "examples" in form else ""
        return such + ", ".join(f"`{word}`" for word in words)
    if form.get("pattern", "").startswith("^\\s*"):
        return "a quantity with its unit"
    return _kind(schema, form)


def _kind(schema: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    kind, items = _KINDS.get(form.get("type", ""), "anything"), form.get("items")
    if isinstance(form.get("additionalProperties"), Mapping):
        return f"by name: {_form(schema, form['additionalProperties'])}"
    if isinstance(items, Mapping):
        two = form.get("minItems") == form.get("maxItems") == 2
        return f"{'two values' if two else 'a list of'}: {_form(schema, items)}"
    bounds = [f"{sign} {_number(form[key])}" for key, sign in _BOUNDS.items() if key in form]
    return f"{kind} {' and '.join(bounds)}" if bounds else kind


def _number(value: float) -> str:
    return "2^63" if value == 2**63 else f"{value:.12g}"


def _at(schema: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema["$defs"][reference.removeprefix("#/$defs/")]
    return found
