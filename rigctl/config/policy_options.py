"""A policy's options, straight from the fields of its dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from rigctl.config.document import Path
from rigctl.config.findings import Findings
from rigctl.config.shape import problems_of


def options_model(cls: type) -> type[BaseModel]:
    """A pydantic model with a policy's options: same names, types and defaults; nested dataclasses likewise."""
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
    """A list of the file as the tuple that a frozen policy keeps."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def make_policy(cls: type, options: Mapping[str, Any], path: Path, findings: Findings) -> Any:
    """The policy with these options, or None if they do not hold (then `findings` says why)."""
    model = options_model(cls)
    try:
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        for below, what in problems_of(error, model):
            findings.add((*path, *below), what)
        return None
    return findings.attempt(path, None, _instance, cls, checked)


def _instance(cls: type, checked: BaseModel) -> Any:
    """Raises ValueError where the dataclass refuses a value."""
    hints = get_type_hints(cls)
    values = {
        name: _instance(hints[name], value) if isinstance(value, BaseModel) else value
        for name, value in ((n, getattr(checked, n)) for n in type(checked).model_fields)
    }
    return cls(**values)
