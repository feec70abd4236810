"""Options and keys that people give in a file: made an instance of a class, or what is wrong with them, key by key.

Pydantic finds what is wrong; here it is said in the house's words. What a configuration and a grid of the bench say of
a policy is read by the same rules.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from functools import cache, reduce
from operator import or_
from types import GenericAlias, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from rigctl.errors import KeyPath
from rigctl.flaws import Flaw, flaw_of, got, shown, write
from rigctl.kinds import LABEL, NAME, Late, Section, key_of, meanings_of
from rigctl.plugins import nearest
from rigctl.wording import flag_meant, no_name, number_meant

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
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "none_required": "must be empty",
    "string_pattern_mismatch": "must match {pattern}",
    LABEL: "must be text on one line, of at most 40 characters",
    "string_too_long": "must have at most {max_length} characters",
}
_PARSER: Final = re.compile(r"^\w+ should (be|have)\b")
"""How the parser begins what has no sentence above: what a driver or policy of somebody else's may ask for."""

_MAPPINGS: Final = ("dict_type", "model_type", "model_attributes_type", "dataclass_type")


def problems_of(
    error: ValidationError, model: type, whose: str = "", beside: Sequence[str] = ()
) -> tuple[list[tuple[KeyPath, Flaw]], set[KeyPath]]:
    """Say what is wrong by a validation error of `model`; keys that are `beside` may stand beside its own.

    `whose` says whose options they are, such as `driver ezo`; empty for the configuration's own keys.

    Returns:
        (path, what is wrong) of each mistake, and the paths of keys that were meant by misspelt ones.
    """
    errors = error.errors(include_url=False)
    unknown = {
        path_of(e): _meant(str(e["loc"][-1]), _known(model, path_of(e), beside)) for e in errors if is_unknown(e)
    }
    meant = {(*path[:-1], near) for path, near in unknown.items() if near is not None}
    told = [e for e in errors if not (e["type"] == "missing" and path_of(e) in meant)]
    return [placed(path_of(e), _flaw(e, model, whose, beside), model) for e in told], meant


def placed(path: KeyPath, flaw: Flaw, model: type) -> tuple[KeyPath, Flaw]:
    """Return where a flaw of a section stands: at the key that it names itself, if the section has it."""
    if flaw.where not in keys_at(model, path):
        return path, flaw
    return (*path, flaw.where), dataclasses.replace(flaw, where="")


def missing(path: KeyPath, model: type, whose: str = "") -> Flaw:
    """Return what is wrong with a key that has to be given but is not."""
    meaning = _meaning(model, path)
    allowed = f"must be given for {whose}" if whose else "must be given"
    return Flaw("is missing", allowed, f"its meaning: {meaning}" if meaning else "")


def is_unknown(details: ErrorDetails) -> bool:
    return details["type"] in ("extra_forbidden", "unexpected_keyword_argument")


def _meant(key: str, known: Sequence[str]) -> str | None:
    glued = key.partition(":")[0]
    return glued if glued in known else nearest(key, known)


def _known(model: type, path: KeyPath, beside: Sequence[str]) -> list[str]:
    """Return the keys that may stand where an unknown one does."""
    return [*keys_at(model, path[:-1]), *(beside if len(path) == 1 else ())]


def path_of(details: ErrorDetails) -> KeyPath:
    return tuple(step for step in details["loc"] if step != "[key]")


def _flaw(details: ErrorDetails, model: type, whose: str, beside: Sequence[str]) -> Flaw:
    path, kind, value = path_of(details), details["type"], details.get("input")
    if is_unknown(details):
        return _unknown_key(path, _known(model, path, beside), whose, model, value)
    if kind == "missing":
        return missing(path, model, whose)
    if kind == "value_error":
        flaw = flaw_of(details["ctx"]["error"])
        return flaw if flaw.got or flaw.allowed or flaw.remedy else got(value, str(flaw))
    if kind == "literal_error":
        words = _words_at(model, path)
        near = nearest(value, words) if isinstance(value, str) else None
        return got(value, _one_of(words) or _said(details), "" if near is None else f'did you mean "{near}"?')
    pattern = details.get("ctx", {}).get("pattern")
    if pattern == NAME or (kind == "string_type" and path[-1:] in (("rig",), ("name",))):
        return no_name(value)
    return got(value, _mapping(model, path) if kind in _MAPPINGS else _said(details), _remedy(kind, value))


def _remedy(kind: str, value: Any) -> str:
    """Return what is to be done about a value of the wrong type, as far as it is known."""
    if kind == "bool_type":
        return flag_meant(str(value))
    if kind in ("int_type", "float_type", "int_from_float"):
        return number_meant(value)
    if kind in _MAPPINGS and isinstance(value, list) and value and isinstance(value[0], dict):
        return "remove the dashes"
    return write(shown(value)) if kind == "string_type" and isinstance(value, int | float) else ""


def _said(details: ErrorDetails) -> str:
    """Return what the parser allows, in the house's words where it has its own."""
    about = details.get("ctx", {})
    kind = LABEL if about.get("pattern") == LABEL else details["type"]
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(**about)
    return _PARSER.sub(r"must \1", details["msg"].partition(" after validation")[0])


def _unknown_key(path: KeyPath, known: Sequence[str], whose: str, model: type, value: Any) -> Flaw:
    found, near = str(path[-1]), nearest(str(path[-1]), known)
    key, colon, glued = found.partition(":")
    homes = [] if whose else homes_of(model, found)
    remedy = ""
    if colon and value is None and key in known:
        remedy = f'write "{key}: {glued}", with a blank after the colon'
    elif near is not None:
        remedy = f'did you mean "{near}"?'
    elif 0 < len(homes) <= 2:
        remedy = f"{found} stands {' or '.join(homes)}"
    lead = f"unknown key of {whose}" if whose else "unknown key"
    return Flaw(lead, f"must be one of {', '.join(sorted(known)) or '(none)'}", remedy)


def homes_of(model: type, key: str) -> list[str]:
    """Return where in the configuration a key of this name may stand, in words."""
    homes = []
    for name in keys_of(model):
        if key == name:
            homes.append("at the top")
        if key in keys_at(model, (name,)):
            homes.append(f"under {name}")
    return homes


def _meaning(model: type, path: KeyPath) -> str:
    """Return the first sentence that describes a key, without its full stop."""
    owner = _model_at(model, path[:-1])
    key = None if owner is None else keys_of(owner).get(str(path[-1]))
    said = "" if owner is None or key is None else meanings_of(owner).get(key.field, "")
    return " ".join(said.split()).partition(". ")[0].rstrip(".")


def _one_of(words: Sequence[str]) -> str:
    """Name the words that are allowed; nothing where none is known."""
    listed = f"must be {' or '.join(words)}" if len(words) <= 2 else f"must be one of {', '.join(words)}"
    return listed if words else ""


def _words_at(model: type, path: KeyPath) -> list[str]:
    while path and isinstance(path[-1], int):
        path = path[:-1]
    owner = _model_at(model, path[:-1])
    key = None if owner is None else keys_of(owner).get(str(path[-1]))
    return [] if key is None else _words_of(key.annotation)


def _words_of(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(word) for word in get_args(annotation)]
    return [word for part in get_args(annotation) for word in _words_of(part)]


def _mapping(model: type, path: KeyPath) -> str:
    """Say which keys a mapping must have, as far as it is known."""
    there, each = _model_at(model, path), ""
    if there is None:
        there, each = _model_at(model, (*path, "")), " by name, each"
    fields = {} if there is None else keys_of(there)
    needed = [name for name, key in fields.items() if key.required]
    listed = f"{each} with {', '.join(needed)}" if needed else ""
    if fields and not needed:
        listed = f" such as {{{next(iter(fields))}: ...}}"
    return f"must be a mapping{listed}"


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """Says what a section has by one key."""

    annotation: Any
    required: bool
    field: str


@cache
def keys_of(section: type) -> Mapping[str, Key]:
    """Return the keys of a section: of a model of the file's, or of a spec that is read as it stands."""
    if issubclass(section, BaseModel):
        fields = section.model_fields.items()
        return {f.alias or name: Key(f.annotation, f.is_required(), name) for name, f in fields}
    hints = get_type_hints(section)
    return {
        key_of(f.name): Key(hints[f.name], f.default is f.default_factory, f.name)
        for f in dataclasses.fields(section)  # type: ignore[arg-type]  # every section is a dataclass
    }


def keys_at(model: type, path: Sequence[str | int]) -> list[str]:
    """Return the keys a model knows at a path below it; empty where it knows none."""
    there = _model_at(model, path)
    return [] if there is None else list(keys_of(there))


def _model_at(model: type, path: Sequence[str | int]) -> type | None:
    current: Any = model
    for step in path:
        if _is_model(current):
            key = keys_of(current).get(str(step))
            current = None if key is None else key.annotation
        else:
            current = next((a for a in reversed(get_args(current)) if a is not ...), None)
        if get_origin(current) is Annotated:
            current = get_args(current)[0]
        members = [a for a in get_args(current) if _is_model(a)]
        if members and not _is_model(current) and type(None) in get_args(current):
            current = members[0]
    return current if _is_model(current) else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel | Section)


# the options of a class as a model --------------------------------------------------------------------------------


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    meant_by: ClassVar[type]


@cache  # reading a class and building its model takes longer than all else in a configuration
def options_model(cls: type) -> type[BaseModel]:
    """Return a pydantic model with the fields of a dataclass: same names, types and defaults; nested ones likewise."""
    hints = get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {}
    for f in dataclasses.fields(cls):
        if not f.init:
            continue
        annotation = _modelled(hints[f.name])
        if isinstance(annotation, type) and issubclass(annotation, _Options):
            usual: Any = Field(default_factory=dict)
        elif f.default_factory is not dataclasses.MISSING:
            usual = Field(default_factory=f.default_factory)
        else:
            usual = Field(default=... if f.default is dataclasses.MISSING else f.default)
        fields[f.name] = (Annotated[annotation, BeforeValidator(_frozen)], usual)
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    made = create_model(cls.__name__, __base__=_Options, __doc__=summary, **fields)
    made.meant_by = cls
    return made


def _modelled(hint: Any) -> Any:
    """Return an annotation with models in place of dataclasses, and of values that are as they stand in the file."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return options_model(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated and any(isinstance(mark, Late) for mark in args[1:]):
        return args[0]
    parts = tuple(map(_modelled, args))
    if origin in (Union, UnionType):
        return reduce(or_, parts)
    return GenericAlias(tuple, parts) if origin is tuple else hint


def _frozen(value: Any) -> Any:
    """Make a list of the file the tuple that a frozen dataclass keeps."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def made(
    cls: type, options: Mapping[str, Any], whose: str = "", beside: Sequence[str] = ()
) -> tuple[Any, list[tuple[KeyPath, Flaw]]]:
    """Return an instance of a dataclass with these options, or None and what is wrong with them; see `problems_of`."""
    model = options_model(cls)
    try:
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        return None, problems_of(error, model, whose, beside)[0]
    try:
        return _instance(checked), []
    except ValueError as error:
        return None, [placed((), flaw_of(error), model)]


def _instance(checked: Any) -> Any:
    """Return what a model stands for; what was not given is as its class has it."""
    if isinstance(checked, tuple):
        return tuple(map(_instance, checked))
    if not isinstance(checked, _Options):
        return checked
    return checked.meant_by(**{name: _instance(getattr(checked, name)) for name in checked.model_fields_set})
