"""Commands made of dataclasses: of each act, and of what a person does to a single instrument by hand.

A field without a default is an argument, or an option where `Said` names one; all others are options. Field names,
types and docstrings give names, metavars and help.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer

from rigctl.campaign.acts import ACTS, Act, Said
from rigctl.campaign.requests import BY_HAND, HandOperation
from rigctl.console.assemble import find_own_state, perform
from rigctl.console.hands import CampaignPlace, by_hand, quantity, since
from rigctl.console.options import AsJson, Bus, State, Verb, buses, named
from rigctl.console.output import Answer
from rigctl.errors import UsageError
from rigctl.flaws import got

Do = Callable[[Any, Path | None, Path, list[str] | None], Sequence[Mapping[str, Any]]]
"""Does what is asked for: what, by which configuration, in which state directory, over which buses."""
DO_IT_BY_HAND: Final = "Drive it by hand, paused or stopped"
METAVARS: Final = {"duration": "TIME", "volume": "VOLUME", "ago": "DATE"}
SWITCHED: Final = {"on": 1.0, "off": 0.0}


def commands(about: str) -> Mapping[str, Any]:
    """Return the commands of a group by name: all that may be done to alarms, trials or instruments."""
    made = typer.Typer()
    for verb, kind in ACTS.items():
        if kind.about == about:
            made.command(verb, cls=Verb)(_command(verb, kind, _act))
    for verb, operation in BY_HAND.items() if about == HandOperation.about else ():
        made.command(verb, cls=Verb, rich_help_panel=DO_IT_BY_HAND)(_command(verb, operation, _by_hand, bus=True))
    group: Any = typer.main.get_group(made)
    found: Mapping[str, Any] = group.commands
    return found


def _act(act: Act, config: Path | None, directory: Path, _: list[str] | None) -> Sequence[Mapping[str, Any]]:
    return [perform(act, directory, config)]


def _by_hand(asked: HandOperation, config: Path | None, directory: Path, bus: list[str] | None) -> Any:
    return by_hand(CampaignPlace(directory, config, buses(bus)), asked)


@dataclass(frozen=True, slots=True)
class _Field:
    """Describes one field of a dataclass as a person says it."""

    name: str
    type: type
    required: bool
    help: str
    said: Said | None

    @property
    def is_argument(self) -> bool:
        return self.required and (self.said is None or not self.said.option)

    @property
    def label(self) -> str:
        return self.said.option if self.said is not None and self.said.option else self.metavar

    @property
    def metavar(self) -> str:
        return METAVARS[self.said.quantity] if self.said is not None else self.name.upper()

    def read(self, text: Any) -> Any:
        """Return the field's value of what was said; raises UsageError if that is none of its type."""
        if not isinstance(text, str):
            return text
        if self.said is not None:
            value = since(text) if self.said.quantity == "ago" else quantity(self.label, text, self.said.quantity)
            return round(value) if self.type is int else value
        if self.type is float:
            try:
                return SWITCHED[text.lower()] if text.lower() in SWITCHED else float(text)
            except ValueError:
                raise UsageError(got(text, "must be a number, on or off", where=self.label)) from None
        return int(text) if self.type is int else text


def _described(kind: type) -> list[_Field]:
    hints, docs = get_type_hints(kind, include_extras=True), _field_docs(kind)
    described = []
    for field in fields(kind):
        annotation = hints[field.name]
        hint, *extras = get_args(annotation) if hasattr(annotation, "__metadata__") else [annotation]
        type_ = next((t for t in get_args(hint) if t is not NoneType), hint)
        said = next((extra for extra in extras if isinstance(extra, Said)), None)
        described.append(_Field(field.name, type_, field.default is MISSING, docs.get(field.name, ""), said))
    return described


@cache  # all commands extend the same few
def _field_docs(kind: Any) -> Mapping[str, str]:
    """Return the docstrings that stand under the fields of a dataclass and of the one it extends."""
    found = dict(_field_docs(kind.__base__)) if hasattr(kind.__base__, "__dataclass_fields__") else {}
    definition: Any = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    for field, below in pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                found[name] = " ".join(doc.split())
    return found


def _command(verb: str, kind: type, do: Do, *, bus: bool = False) -> Callable[..., None]:
    """Return the function that typer makes the command of."""
    described = [field for field in _described(kind) if field.name != "who"]
    arguments = [field for field in described if field.is_argument]
    options = sorted((f for f in described if not f.is_argument), key=lambda f: f.name == "why")

    def command(which: list[str], state: Path | None, json: bool, bus: list[str] | None = None, **given: Any) -> None:
        given = {name: value for name, value in given.items() if value is not None}
        _take_unit(which, given, arguments, options)
        last = arguments[-1].type is int
        config, words = named(verb, which, *(field.metavar for field in arguments), number=last)
        said = {field.name: field.read(word) for field, word in zip(arguments, words, strict=True)}
        asked = kind(**said, **{f.name: f.read(given[f.name]) for f in options if f.name in given})
        for answer in do(asked, config, find_own_state(config, state), bus):
            Answer(answer, [answer["outcome"]] if issubclass(kind, Act) else None).print(json)

    which = " ".join(["[CONFIG]", *(field.metavar for field in arguments)])
    about = " ".join([*(field.help for field in arguments), "Default CONFIG: as last started."])
    command.__doc__ = inspect.getdoc(kind)
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            _parameter(
                "which", Annotated[list[str], typer.Argument(metavar=which, help=about)], inspect.Parameter.empty
            ),
            _parameter("state", State, None),
            *([_parameter("bus", Bus, None)] if bus else []),
            *map(_option, options),
            _parameter("json", AsJson, False),
        ]
    )
    return command


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(field: _Field) -> inspect.Parameter:
    named, metavar = (f"--{field.name}", None) if field.said is None else (field.said.option, field.metavar)
    taken: Any = bool if field.type is bool else str if field.required else str | None
    default = False if field.type is bool else inspect.Parameter.empty if field.required else None
    return _parameter(field.name, Annotated[taken, typer.Option(named, metavar=metavar, help=field.help)], default)


def _take_unit(which: list[str], given: dict[str, Any], arguments: Sequence[_Field], options: Sequence[_Field]) -> None:
    """Put a unit that the shell has parted from its number back: `--for 2 h`, without quotes."""
    for field in options:
        text = given.get(field.name)
        if field.said is None or not isinstance(text, str) or len(which) <= len(arguments):
            continue
        try:
            float(text)
            field.read(f"{text} {which[-1]}")
        except (ValueError, UsageError):
            continue
        given[field.name] = f"{text} {which.pop()}"
