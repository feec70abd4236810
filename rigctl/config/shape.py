"""First check: do the sections have the right shape? Parts that do not are reported, then left out.

Leaving them out lets the second check (units, names, consistency) find what is wrong elsewhere in the same run. The
same shape, with the options of drivers and policies, is the JSON schema for completion and checks in an editor.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re
from collections.abc import Mapping, MutableMapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from rigctl.config.document import Document
from rigctl.config.findings import Findings
from rigctl.config.schema import RigConfig
from rigctl.config.wording import flag_meant, no_name, number_meant
from rigctl.errors import KeyPath
from rigctl.flaws import Flaw, flaw_of, got, shown, write
from rigctl.kinds import LABEL, NAME, Section, key_of, meanings_of
from rigctl.plugins import nearest

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


def check_shape(document: Document, findings: Findings) -> RigConfig:
    """Return the sections that hold; the others are in `findings`, muted, and replaced by something harmless."""
    raw: dict[str, Any] = copy.deepcopy(dict(document.data))
    _unindented(raw, findings)
    # each round leaves larger parts out: single unknown keys, then entries, then whole sections
    for depth_of in (_key_depth, _entry_depth, lambda _: 1):
        try:
            return RigConfig.model_validate(raw)
        except ValidationError as error:
            told, meant = problems_of(error, RigConfig)
            for path, flaw in told:
                findings.add(path, flaw)
            for details in error.errors(include_url=False):
                part = _path(details)[: depth_of(details)]
                findings.mute(part)
                _leave_out(raw, part)
            for path in meant:
                findings.mute(path)
            raw = {**_HARMLESS, **raw}
    return RigConfig.model_validate(raw)


def _unindented(raw: dict[str, Any], findings: Findings, above: KeyPath = ()) -> None:
    """Find sections, and entries of sections, whose keys stand behind them as far left, and take these out."""
    known = [] if above else list(keys_of(RigConfig))
    keys = list(raw)
    for name in keys:
        path = (*above, name)
        if isinstance(raw.get(name), dict) and not above and keys_at(RigConfig, (name, "")) and name in known:
            _unindented(raw[name], findings, path)
        if name not in raw or raw[name] is not None:
            continue
        below = set(keys_at(RigConfig, path)).difference(known)
        strays = list(itertools.takewhile(below.__contains__, keys[keys.index(name) + 1 :]))
        if strays:
            must = f"must be a mapping: {', '.join(strays)} stand as far left"
            findings.add(path, got(None, must, "write two blanks before each"))
            findings.mute(path)
            raw.pop(name)
            for key in strays:
                raw.pop(key)
                findings.disown((*above, key))


def problems_of(
    error: ValidationError, model: type, whose: str = "", beside: Sequence[str] = ()
) -> tuple[list[tuple[KeyPath, Flaw]], set[KeyPath]]:
    """Say what is wrong by a validation error.

    Args:
        error: what pydantic found.
        model: what was validated.
        whose: whose options they are, such as `driver ezo`; empty for the configuration's own keys.
        beside: keys that may stand beside the model's own.

    Returns:
        (path, what is wrong) of each mistake, and the paths of keys that were meant by misspelt ones.
    """
    errors = error.errors(include_url=False)
    unknown = {_path(e): _meant(str(e["loc"][-1]), _known(model, _path(e), beside)) for e in errors if _unknown(e)}
    meant = {(*path[:-1], near) for path, near in unknown.items() if near is not None}
    told = [e for e in errors if not (e["type"] == "missing" and _path(e) in meant)]
    return [placed(_path(e), _flaw(e, model, whose, beside), model) for e in told], meant


def placed(path: KeyPath, flaw: Flaw, model: type) -> tuple[KeyPath, Flaw]:
    """Return where a flaw of a section stands: at the key that it names itself, if the section has it."""
    if flaw.where not in keys_at(model, path):
        return path, flaw
    return (*path, flaw.where), dataclasses.replace(flaw, where="")


def missing(path: KeyPath, model: type = RigConfig, whose: str = "") -> Flaw:
    """Return what is wrong with a key that has to be given but is not."""
    meaning = _meaning(model, path)
    allowed = f"must be given for {whose}" if whose else "must be given"
    return Flaw("is missing", allowed, f"its meaning: {meaning}" if meaning else "")


def _unknown(details: ErrorDetails) -> bool:
    return details["type"] in ("extra_forbidden", "unexpected_keyword_argument")


def _meant(key: str, known: Sequence[str]) -> str | None:
    glued = key.partition(":")[0]
    return glued if glued in known else nearest(key, known)


def _known(model: type, path: KeyPath, beside: Sequence[str]) -> list[str]:
    """Return the keys that may stand where an unknown one does."""
    return [*keys_at(model, path[:-1]), *(beside if len(path) == 1 else ())]


def _path(details: ErrorDetails) -> KeyPath:
    return tuple(step for step in details["loc"] if step != "[key]")


def _flaw(details: ErrorDetails, model: type, whose: str, beside: Sequence[str]) -> Flaw:
    path, kind, value = _path(details), details["type"], details.get("input")
    if _unknown(details):
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


def _key_depth(details: ErrorDetails) -> int:
    return len(details["loc"]) if _unknown(details) else _entry_depth(details)


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


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    meant_by: ClassVar[type]


@cache  # reading a class and building its model takes longer than all else in a configuration
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
            usual = ... if f.default is dataclasses.MISSING else f.default
            fields[f.name] = (annotation, Field(default=usual))
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    made = create_model(cls.__name__, __base__=_Options, __doc__=summary, **fields)
    made.meant_by = cls
    return made


def _frozen(value: Any) -> Any:
    """Make a list of the file the tuple that a frozen policy keeps."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def make_policy(name: str, cls: type, options: Mapping[str, Any], path: KeyPath, findings: Findings) -> Any:
    """Return the policy with these options, or None if they do not hold (then `findings` says why)."""
    model = options_model(cls)
    try:
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        for below, flaw in problems_of(error, model, f"policy {name}", ("name",))[0]:
            findings.add((*path, *below), flaw)
        return None
    try:
        return _instance(cls, checked)
    except ValueError as error:
        below, flaw = placed((), flaw_of(error), model)
        findings.add((*path, *below), flaw)
        return None


def _instance(cls: type, checked: BaseModel) -> Any:
    hints = get_type_hints(cls)
    values = {
        name: _instance(hints[name], value) if isinstance(value, BaseModel) else value
        for name, value in ((n, getattr(checked, n)) for n in type(checked).model_fields)
    }
    return cls(**values)
