"""The configuration as a page, from the descriptions that stand in its JSON schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

HEAD: Final = """\
# Configuration: every key

Each section with its keys, what they may be, and what holds where a key is left out; a required key has no default.
[How it all goes together](../configuration.md) says more. `rigctl schema --as configuration` writes this page.
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
