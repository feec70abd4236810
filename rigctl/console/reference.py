"""The commands as a page, from what `--help` says of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final

HEAD: Final = """\
# Commands

Every verb with its arguments and options, as `rigctl VERB --help` tells them; [the verbs explained](../cli.md) says
more of what each does. `rigctl schema --as commands` writes this page.
"""
TOP: Final = """
## Before the verb

| option | meaning |
|---|---|
"""
ENDS: Final = """\
| `--install-completion`, `--show-completion` | Set up completion in this shell, or show what would. |

The exit code is 0 if all went well, 1 if not, 2 if it was called or configured wrongly, 3 if a trip is latched, 4 if
somebody else holds what it needs, 130 after Ctrl-C.
"""
BAR: Final = "\\|"
COMPLETION: Final = ("install_completion", "show_completion")
"""The library's own, which it describes itself."""


def page(command: Any) -> str:
    """Return the reference of a command line, as Markdown."""
    top = "".join(_row(p) for p in command.params if p.name not in COMPLETION)
    return HEAD + TOP + top + ENDS + "".join(_verb(name, verb) for name, verb in verbs(command))


def verbs(command: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every verb that is listed, by its full name."""
    for name in command.list_commands(None):
        verb = command.get_command(None, name)
        if hasattr(verb, "commands"):
            yield from verbs(verb, f"{above}{name} ")
        else:
            yield above + name, verb


def _verb(name: str, verb: Any) -> str:
    shown = [p for p in verb.params if not getattr(p, "hidden", False)]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    usage = " ".join(["rigctl", name, *map(_argument, arguments), *["[OPTIONS]"] * (len(shown) > len(arguments))])
    text = f"\n## {name}\n\n{_paragraphs(verb.help)}\n\n```text\n{usage}\n```\n"
    rows = "".join(map(_row, shown))
    return text + (f"\n| argument or option | meaning |\n|---|---|\n{rows}" if rows else "")


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").strip().split("\n\n"))


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name.upper()).strip("[]")
    dots = "..." if parameter.nargs != 1 else ""
    return f"{name}{dots}" if parameter.required else f"[{name}{dots}]"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        named = f"`{_argument(parameter)}`"
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or _metavar(parameter)}"
        named = ", ".join(f"`{option}{value}`" for option in [*parameter.opts, *parameter.secondary_opts])
    meaning = " ".join((parameter.help or "").split())
    default = _default(parameter)
    said = f"{meaning} Default: {default}." if default else meaning
    return f"| {named.replace('|', BAR)} | {said.replace('|', BAR)} |\n"


def _metavar(parameter: Any) -> str:
    return str(parameter.opts[0]).lstrip("-").replace("-", "_").upper()


def _default(parameter: Any) -> str:
    """Return the default where the help does not speak of one."""
    value = parameter.default
    if value is None or value is False or callable(value) or "default" in (parameter.help or "").casefold():
        return ""
    if isinstance(value, Enum):
        value = value.value
    return "" if isinstance(value, Mapping | list | tuple | Path) or value == "" else f"`{value}`"
