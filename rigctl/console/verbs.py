"""How verbs are grouped, described, refused, and their errors told to programs."""

from __future__ import annotations

import errno
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import typer
from typer.core import TyperGroup

from rigctl.console.options import AsJson, MaybeConfig, PlainHelp, State, Verb
from rigctl.errors import ConfigError, Mistake, RigctlError, UsageError, dotted
from rigctl.flaws import Flaw, got

if TYPE_CHECKING:
    from rigctl.console.assemble import OpenCampaign

PANELS: Final[Mapping[str, tuple[str, ...]]] = {
    "Begin": ("demo", "init", "check", "help"),
    "Run a rig": ("run", "operate", "status", "serve", "pause", "resume", "stop", "safe"),
    "By hand": ("suggest", "ingest"),
    "Results": ("recommend", "report"),
    "About one thing": ("trial", "device", "alarm", "journal", "tools"),
}
"""Verbs as `rigctl --help` groups them."""
ALONE: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: ("trial", name) for name in ("outcome", "explain", "void", "amend", "import")},
    **{name: ("device", name) for name in ("out-of-service", "in-service", "refilled", "replaced", "calibrated")},
    **{name: ("alarm", name) for name in ("ack", "shelve", "unshelve", "notify", "reset-trip")},
    **{name: ("journal", name) for name in ("backup", "verify", "recover", "export", "replay")},
    **{name: ("tools", name) for name in ("service", "doctor", "drill", "token", "drivers", "schema", "bench")},
    "alarms": ("alarm", "list"),
    "accept-device": ("device", "accept"),
    "manual": ("device",),
}
"""Names that verbs of groups also answer to by themselves, unlisted: people and scripts know them."""
ACTED_ON: Final = ("trial", "device", "alarm")
"""Groups whose commands are made of acts."""
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A disk has no more room, or none for this user."""
_MUST_BE: Final[Mapping[str, str]] = {
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "value_error": "one of {}",
}
"""What an option must be, by what the parser calls its fault; a value error is that of a choice."""


class _Named(PlainHelp, TyperGroup):
    """Tells a verb that there is not with the full names of those that may be meant."""

    def names(self, ctx: Any) -> Mapping[str, str]:
        """Return the names of its verbs, with the words that each is called by in full."""
        above = "".join(f"{word} " for word in ctx.command_path.split()[1:])
        return {name: f"{above}{name}" for name in self.commands}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb, whose first line of help is never cut short."""
        found: Any = super().get_command(ctx, cmd_name)
        if found is not None:
            found.short_help = (found.help or "").partition("\n")[0]
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            names = self.names(ctx)
            meant = " or ".join(f"`rigctl {names[name]}`" for name in get_close_matches(args[0], names))
            above = ctx.command_path.split()[1:]
            remedy = f"did you mean {meant}?" if meant else f"`{' '.join(('rigctl', *above))} --help` lists all"
            raise UsageError(f"no such command: {' '.join((*above, args[0]))}; {remedy}")
        return super().resolve_command(ctx, args)


class Group(_Named):
    """Lists verbs about one thing; those made of acts are made here, as all else needs nothing that acts need."""

    def list_commands(self, ctx: Any) -> list[str]:
        self._make_acts()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._make_acts()
        return super().get_command(ctx, cmd_name)

    def _make_acts(self) -> None:
        if self.name in ACTED_ON:
            from rigctl.console.acts import commands  # noqa: PLC0415  # brings the journal

            for verb, made in commands(self.name).items():
                self.commands.setdefault(verb, made)


class Verbs(_Named):
    """Lists verbs in the order a person meets them, and turns errors into a message and an exit code.

    Under `--json` the message is an object on standard output, too.
    """

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the library's
        return [verb for verbs in PANELS.values() for verb in verbs]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb, told in which panel it is shown; one of a group by the name that it has alone, too."""
        found: Any = super().get_command(ctx, cmd_name)
        panel = next((panel for panel, verbs in PANELS.items() if cmd_name in verbs), None)
        if found is not None and panel is not None:
            found.rich_help_panel = panel
        if found is None and cmd_name in ALONE:
            found = self
            for name in ALONE[cmd_name]:
                found = found.get_command(ctx, name)
        return found

    def names(self, ctx: Any) -> Mapping[str, str]:
        """Return all names that verbs answer to, with the verb that each is."""
        verbs = {name: name for name in self.list_commands(ctx)}
        return {**verbs, **{name: " ".join(words) for name, words in ALONE.items()}}

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        with _refusals(ctx, tuple(args)):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        words: list[str] = [*getattr(ctx, "_protected_args", ()), *ctx.args]  # the verb, and what comes after it
        with _refusals(ctx, words):
            return super().invoke(ctx)


class Commands(typer.Typer):
    """Collects verbs: functions that return their answer, which is printed, and whose exit code is the verb's."""

    def command(self, name: str | None = None, *, answers: bool = True, **options: Any) -> Callable[[Any], Any]:
        """Add a verb. Each of its parameters that is a dataclass stands for the fields of that, as options.

        No name: the function's. Only a verb that `answers` takes `--json`. The other options are the library's.
        """
        return lambda verb: super(Commands, self).command(name, cls=Verb, **options)(_spread(verb, answers=answers))


def _spread(verb: Callable[..., Any], *, answers: bool) -> Callable[..., None]:
    """Return what the library makes a command of."""
    signature = inspect.signature(verb, eval_str=True)
    taken = signature.parameters
    holders: dict[str, Any] = {p.name: p.annotation for p in taken.values() if is_dataclass(p.annotation)}
    json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)

    def taking(*arguments: Any, **given: Any) -> None:
        as_json = given.get("json", False) if "json" in taken else given.pop("json", False)
        for name, kind in holders.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        answer = verb(*arguments, **given)
        if answer is not None:
            answer.print(as_json)
            if answer.exit_code:
                raise typer.Exit(answer.exit_code)

    def options(holder: inspect.Parameter) -> list[inspect.Parameter]:
        hints = get_type_hints(holder.annotation, include_extras=True)
        own = fields(holder.annotation)
        return [holder.replace(name=f.name, default=f.default, annotation=hints[f.name]) for f in own]

    spelt = chain.from_iterable(options(p) if p.name in holders else [p] for p in taken.values())
    parameters = [*spelt, *([json] if answers and "json" not in taken else [])]
    taking.__name__, taking.__doc__ = verb.__name__, verb.__doc__
    taking.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    return taking


@dataclass(frozen=True, slots=True)
class Here:
    """Says which campaign a verb is about."""

    config: MaybeConfig = None
    state: State = None

    @property
    def directory(self) -> Path:
        """Return its state directory; raises as `assemble.find_state`."""
        from rigctl.console.assemble import find_state  # noqa: PLC0415  # brings the journal

        return find_state(self.config, self.state)

    @contextmanager
    def opened(self) -> Iterator[OpenCampaign]:
        """Open it; raises as `assemble.open_campaign`."""
        from rigctl.console.assemble import open_campaign  # noqa: PLC0415  # brings the journal

        with open_campaign(self.config, self.state) as campaign:
            yield campaign


@contextmanager
def _refusals(ctx: Any, words: Sequence[str]) -> Iterator[None]:
    """Tell of what is refused within, and end with its exit code."""
    try:
        yield
    except Exception as error:
        refused = _as_refusal(ctx, error)
        if refused is None:
            raise
        if "--json" in words[: words.index("--") if "--" in words else None]:
            _print({"error": error_fields(refused), "exit_code": refused.exit_code})
        from rigctl.console.output import remark  # noqa: PLC0415  # only where something is shown

        remark(str(refused))
        raise typer.Exit(refused.exit_code) from error


def _as_refusal(ctx: Any, error: Exception) -> RigctlError | None:
    """Return what people are told of it; None: a traceback, or what the parser shows in its place."""
    if isinstance(error, RigctlError):
        return None if ctx.params.get("debug") else error
    # a call that cannot be parsed; typer brings its own click or uses the installed one, so it has no one class
    flaw = _call_told(ctx, error) if hasattr(error, "format_message") else _nowhere(error)
    if flaw is None and isinstance(error, PermissionError) and error.filename and not ctx.params.get("debug"):
        from rigctl.people import barred  # noqa: PLC0415  # only where somebody is barred

        return RigctlError(barred(Path(os.fsdecode(error.filename)), error))
    return None if flaw is None else UsageError(flaw)


def _nowhere(error: Exception) -> Flaw | None:
    """Say that the directory that the verb was called in is there no more, if that is what has happened."""
    try:
        os.getcwd()  # noqa: PTH109  # its failure is what is asked for
    except FileNotFoundError:
        if isinstance(error, OSError):
            return Flaw("the folder you are in is gone", remedy="`cd` into one that is there")
    return None


def _call_told(ctx: Any, error: Any) -> Flaw | None:
    """Return what is wrong with a call in the form of all refusals, as far as the parser tells; else in its words.

    None where it shows the help in place of an error.
    """
    param = getattr(error, "param", None)
    faults: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if param is not None and faults and faults[0]["type"] in _MUST_BE:
        fault, choices = faults[0], param.type_descriptor.choices or ()
        words = ", ".join(str(getattr(choice, "value", choice)) for choice in choices)
        must = _MUST_BE[fault["type"]].format(words, **fault.get("ctx", {}))
        return got(str(fault["input"]), f"must be {must}", where=max(param.opts, key=len))
    what: str = " ".join(error.format_message().split()).removesuffix(".")
    if not what:
        return None
    verb = " ".join(error.ctx.command_path.split()[1:]) if error.ctx else ctx.invoked_subcommand or ""
    remedy = f"`{' '.join(('rigctl', *verb.split()))} --help` says what it takes"
    return Flaw(f"{what[:1].lower()}{what[1:]}", remedy=remedy, where=verb)


@contextmanager
def full_disk_told() -> Iterator[None]:
    """Say in words that there was no room for what a verb prints, or writes to a place that nobody has named."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno in FULL:
            what = error.filename2 or error.filename or "standard output"
            typer.echo(f"rigctl: {what}: cannot be written: {error.strerror}; what is there is not whole", err=True)
        elif error.errno != errno.EPIPE:  # who read it has gone
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is written at the end
        raise SystemExit(1) from error


def _print(answer: Mapping[str, Any]) -> None:
    from rigctl.console.output import print_json  # noqa: PLC0415  # only where something is shown

    print_json(answer)
    sys.stdout.flush()


def error_fields(error: RigctlError) -> Mapping[str, Any]:
    """Return an error for programs: `kind` and `what`, and as far as it has them `where`, `got`, `allowed`, `remedy`.

    An error of instruments has `devices`, of one alone `device` and `bus`; that of a damaged journal has its `damage`.
    A configuration's error has one such object per mistake.
    """
    fields: dict[str, Any] = {"kind": type(error).__name__, "what": str(error)}
    if isinstance(error, ConfigError):
        return {**fields, "mistakes": [_mistake_fields(mistake) for mistake in error.mistakes]}
    facts = {"devices": sorted(error.devices), **{name: getattr(error, name) for name in error.facts}}
    return {**error.flaw.fields, **{name: value for name, value in facts.items() if value}, **fields}


def _mistake_fields(mistake: Mistake) -> Mapping[str, Any]:
    place = {"file": mistake.file, "line": mistake.line, "column": mistake.column, "path": dotted(mistake.path)}
    parts = {name: mistake.flaw.fields.get(name) for name in ("got", "allowed", "remedy")}
    return {"where": mistake.where, "what": mistake.what, **parts, **{name: v or None for name, v in place.items()}}


HEAD: Final = """\
# Commands

Every verb with its arguments and options, as `rigctl VERB --help` tells them; [the verbs explained](../cli.md) says
more of what each does. `rigctl tools schema --as commands` writes this page.

The exit code is 0 if all went well, 1 if not, 2 if it was called or configured wrongly, 3 if a trip is latched, 4 if
somebody else holds what it needs, 130 after Ctrl-C.
"""


def page(command: Any) -> str:
    """Return the reference of a command line, as Markdown."""
    from typer.cli import get_docs_for_click  # noqa: PLC0415  # only where the page is written

    verbs = get_docs_for_click(obj=command, ctx=typer.Context(command), name="rigctl")
    return HEAD + verbs[verbs.index("\n") :].rstrip() + "\n"
