"""How answers are printed: JSON for programs; for people text, tables that fit any width, and what to do next."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import typer

from rigctl.codec import plain
from rigctl.errors import UsageError
from rigctl.flaws import got
from rigctl.printable import flat, printable
from rigctl.text import Names, in_full, set_label, shown_value

if TYPE_CHECKING:
    from rich.console import Console

    from rigctl.config.load import LoadedConfig
    from rigctl.core.advice.rule import Rule


T = TypeVar("T")
LEAST_WIDTH = 20
"""Columns of a terminal; one that says less is not believed."""
GAP = 2
INDENT = "  "


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """Holds one column of a table."""

    header: str
    """One line, or two."""
    cells: Sequence[str]
    left: bool = False
    spare: int = 0
    """Where room is short, the highest is left out first; 0: it stays."""

    @property
    def width(self) -> int:
        return max(map(len, (*self.header.split("\n"), *self.cells)))

    @property
    def name(self) -> str:
        return self.header.replace("\n", " ")


def table(columns: Sequence[ShownColumn], width: int) -> Iterator[str]:
    """Yield the lines of a table that is at most `width` wide.

    Where it is too wide, columns are left out by `spare`, and a line says which. Where that is not enough, each row is
    written as some lines of its own. Nothing is cut short: names and numbers stay whole.
    """
    kept, out = list(columns), []
    while _width(kept) > width and any(c.spare for c in kept):
        out.append(kept.pop(max(range(len(kept)), key=lambda i: kept[i].spare)))
    if _width(kept) > width:
        yield from _stacked(columns, width)
        return
    for line in (*_headers(kept), *zip(*(c.cells for c in kept), strict=True)):
        yield _line(kept, line)
    if out:
        yield from wrapped(f"(not shown at this width: {', '.join(c.name for c in reversed(out))})", width)


def _width(columns: Sequence[ShownColumn]) -> int:
    return sum(c.width for c in columns) + GAP * len(columns)


def _headers(columns: Sequence[ShownColumn]) -> Sequence[tuple[str, ...]]:
    lines = max(c.header.count("\n") for c in columns) + 1
    padded = ([""] * (lines - 1 - c.header.count("\n")) + c.header.split("\n") for c in columns)
    return list(zip(*padded, strict=True))


def _line(columns: Sequence[ShownColumn], cells: Sequence[str]) -> str:
    parts = (f"{cell:{'<' if c.left else '>'}{c.width}}" for c, cell in zip(columns, cells, strict=True))
    return (INDENT + (" " * GAP).join(parts)).rstrip()


def _stacked(columns: Sequence[ShownColumn], width: int) -> Iterator[str]:
    first, *others = columns
    yield from wrapped(f"{INDENT}{first.name}:", width, INDENT * 2)  # it may say how the rows are to be read
    for row, name in enumerate(first.cells):
        yield from wrapped(f"{INDENT}{name}", width, INDENT * 2)
        told = "; ".join(f"{c.name} {c.cells[row]}" for c in others if c.cells[row])
        yield from wrapped(f"{INDENT * 2}{told}", width, INDENT * 2)


def wrapped(text: str, width: int, indent: str = "") -> Sequence[str]:
    """Break a text at its spaces, and a control set longer than a line at its `+`; further lines are indented.

    A text that is indented itself has its further lines one step deeper, unless told otherwise.
    """
    room, own = max(width, LEAST_WIDTH), text[: len(text) - len(text.lstrip())]
    indent = indent or (own + INDENT if own else "")
    lines: list[str] = []
    for line in textwrap.wrap(text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False):
        lines += _at_plus(line, room, indent)
    return lines or [""]


def _at_plus(line: str, room: int, indent: str) -> Iterator[str]:
    at = line.rfind("+", len(indent) + 1, room)
    if len(line) <= room or at < 0:
        yield line
        return
    yield line[: at + 1]
    yield from _at_plus(indent + line[at + 1 :], room, indent)


def labelled(rows: Mapping[str, str], width: int, indent: str = INDENT) -> Iterator[str]:
    """Yield `label  text` lines with the texts one under the other, broken at spaces."""
    column = max(map(len, rows)) + GAP
    for label, text in rows.items():
        head = f"{indent}{label:{column}}"
        yield from wrapped(head + text, width, " " * len(head))


PIPE_WIDTH = 10_000


def columns(stream: TextIO) -> int:
    """Return how wide a terminal is; lines for a pipe are not broken."""
    return shutil.get_terminal_size().columns if stream.isatty() else PIPE_WIDTH


def write(text: str, stream: TextIO | None = None) -> None:
    """Write lines to standard output or another stream, broken at spaces where a terminal is too narrow for them."""
    into = stream or sys.stdout
    width = columns(into)
    for line in printable(text).split("\n"):
        fits = len(line) <= width
        into.writelines(f"{part}\n" for part in ([line] if fits else wrapped(line, width, _hanging(line))))


def remark(text: str) -> None:
    """Say something besides the answer, on standard error."""
    write(f"rigctl: {text}", sys.stderr)


def at_a_terminal() -> bool:
    return sys.stdin.isatty()


def asked(question: str, read: Callable[[str], T], ended: str, *, err: bool = True) -> T:
    """Ask a person until the answer can be read, which raises ValueError or UsageError where it cannot.

    Raises:
        UsageError: with `ended`: nobody answers any more (Ctrl-C, the end of the input).
    """
    shown = "\n".join(wrapped(question, columns(sys.stderr if err else sys.stdout) - len(": "), INDENT))
    while True:
        try:
            return read(typer.prompt(shown, default="", show_default=False, err=err).strip())
        except typer.Abort as error:
            typer.echo(err=err)  # what comes next stands on a line of its own, not behind the question
            raise UsageError(ended) from error
        except (ValueError, UsageError) as error:
            write(f"{INDENT}{error}", sys.stderr if err else None)


def yes(text: str) -> bool:
    """Return whether an answer is yes; raises ValueError if it is neither yes nor no."""
    word = text.lower()
    if word not in ("y", "yes", "n", "no"):
        raise ValueError(got(text, "must be yes or no"))
    return word.startswith("y")


def _hanging(line: str) -> str:
    return line[: len(line) - len(line.lstrip())] + INDENT


def told(value: Any) -> Any:
    """Return any answer as JSON: dataclasses by field; what is not finite is null, for JSON has no word for it."""
    return plain(value, _leaf)


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, str | Path):
        return None if value is None else str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int):
        return value
    return float(value) if math.isfinite(value) else None


def print_json(answer: Any) -> None:
    sys.stdout.write(json.dumps(told(answer), indent=2, allow_nan=False) + "\n")


def print_json_line(answer: Any) -> None:
    """Print an answer on one line, at once: whoever reads it follows."""
    sys.stdout.write(json.dumps(told(answer), allow_nan=False) + "\n")
    sys.stdout.flush()


def print_fields(answer: Any) -> None:
    """One `name: value` per line on standard output."""
    for name, value in told(answer).items():
        write(f"{name.replace('_', ' ')}: {_shown(value)}")


def rows(answers: Sequence[Any]) -> list[str]:
    """Return one line per answer, `name value, ...`."""
    return [_shown(answer) for answer in told(answers)]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(v)}" for name, v in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else in_full(value, 6) if isinstance(value, float) else flat(str(value))


@cache
def screen_class() -> type[Console]:
    """Return the terminal as rich has it, save that nothing that others wrote can command it."""
    from rich.console import Console  # noqa: PLC0415  # only when something is shown
    from rich.segment import Segment  # noqa: PLC0415

    class Screen(Console):
        """Prints texts as texts, wherever they come from; colours and the cursor are rich's alone."""

        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            return super()._render_buffer(s if s.control else Segment(printable(s.text), s.style) for s in buffer)

    return Screen


def console(*, stderr: bool = False) -> Console:
    made = screen_class()(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not redraws(made):  # of a dumb terminal rich takes 80 columns, whatever it says
        made.width = columns(sys.stderr if stderr else sys.stdout)
    return made


def tell(answer: Any, json: bool) -> None:
    (print_json if json else print_fields)(answer)


@dataclass(frozen=True, slots=True)
class Answer:
    """Holds what a verb answers."""

    fields: Any
    """For a program; for a person one a line, where there are no sentences."""
    sentences: Iterable[str] | Callable[[Console], object] | None = None
    """For a person; or what shows it on a screen."""
    following: str = ""
    """What a person does next."""
    exit_code: int = 0

    def print(self, json: bool) -> None:
        if json or self.sentences is None:
            tell(self.fields, json)
        elif callable(self.sentences):
            self.sentences(console())
        else:
            for sentence in self.sentences:
                write(sentence)
        for line in self.following.splitlines() if not json else ():
            # a command is never broken, so that it can be copied; what is said of it gives way
            command, gap, of_it = line.partition("   (")
            apart = gap and len(line) > columns(sys.stdout)
            sys.stdout.write(f"{command if apart else line}\n")
            if apart:
                write(f"{INDENT}({of_it}")


def redraws(console: Console) -> bool:
    """Tell whether this is a terminal on which a display can be drawn again in its place."""
    return console.is_terminal and not console.is_dumb_terminal


def lines(console: Console, text: Iterable[str], style: str = "") -> None:
    """Print lines that are as long as they should be, at once: nobody else's come between."""
    shown = list(text)
    if shown:
        console.print("\n".join(shown), style=style or None, soft_wrap=True, markup=False, emoji=False, highlight=False)


def number(value: float | None, digits: int = 4) -> str:
    """Write a number in short, `-` where there is none."""
    return "-" if value is None or not math.isfinite(value) else in_full(value, digits)


HEAD = "Next: "
DONE = ("budget", "finished", "trials")
"""Endings of a campaign that has nothing left to do."""
STOPPED = ("stopped", "abandoned")
RESUMES = "it goes on from here"


def after_demo() -> str:
    return f"{HEAD}rigctl init   (a configuration of your own; --by-hand for a bench without wiring)"


def after_init(path: Path) -> str:
    """Return the command that comes next."""
    return f"rigctl check {_word(path)}"


def after_check(loaded: LoadedConfig, *, probed: bool, silent: bool) -> str:
    """Ask the instruments, then run; a bench by hand has a first trial at once."""
    config = _word(loaded.path)
    if not loaded.wired:
        return f"{HEAD}rigctl suggest {config}   (trials of the past first: rigctl trial import {config} OLD.csv)"
    if silent or not probed:
        again = "   (once more, when those that are silent are mended)" if silent else ""
        return f"{HEAD}rigctl check {config} --probe{again}"
    return f"{HEAD}rigctl run {config}"


def after_suggest(loaded: LoadedConfig, state: Path | None, setpoints: Mapping[str, float]) -> str:
    """Write what came of it: what was set stands there, what is to be measured is left to fill in."""
    names = (*loaded.problem.space.names, *(further.name for further in loaded.problem.further))
    own = Names({}, {}, loaded.problem.space.units.levels)  # no units
    values = ",".join(f"{n}={shown_value(n, setpoints[n], own)}" if n in setpoints else f"{n}=MEASURED" for n in names)
    cost = " --cost PAID" if loaded.problem.known_costs is None else ""
    words = f"--control-set {set_label(setpoints)} --values {values} --outcome MEASURED{cost}"
    return f"{HEAD}rigctl ingest {_word(loaded.path)} {words}{_where(state)}"


def after_ingest(loaded: LoadedConfig, state: Path | None, *, spent: bool) -> str:
    """Name the next trial's command, or `recommend` once the budget is spent."""
    config, where = _word(loaded.path), _where(state)
    recommend = f"rigctl recommend {config}{where}"
    return f"{HEAD}{recommend}" if spent else f"{HEAD}rigctl suggest {config}{where}   (at any time: {recommend})"


def before_recommend(config: Path | None, state: Path | None, awaited: int, *, wired: bool) -> str:
    """Run some trials; where their outcomes are awaited, `status` says how those are entered."""
    verb = "status" if awaited else "run" if wired else "suggest"
    return f"{HEAD}rigctl {verb} {'CONFIG' if config is None else _word(config)}{_where(state)}"


def after_status(answer: Mapping[str, Any], config: Path | None, state: Path | None) -> str:
    """Deal with what stands in the way, else go on, else read what came of it."""
    which = _which(config, state)
    named = f"{'CONFIG' if config is None else _word(config)}{_where(state)}"
    done = "ended" in answer and answer["ended"] in DONE
    if "tripped" in answer:
        verb, why = "help after-a-trip", "find the cause before anything runs again"
    elif answer.get("active_alarms"):
        verb, why = f"alarm list{which}", ""
    elif answer.get("paused"):
        verb, why = f"resume{which}", ""
    elif answer["running"]:
        verb, why = f"status{which} --watch", ""
    elif answer.get("awaiting"):
        verb, why = f"trial outcome {named} {answer['awaiting'][0]} VALUE", "its outcome is awaited"
    elif "ended" in answer and not done:
        why = RESUMES if answer["ended"] in STOPPED else "everything is made safe first"
        verb = f"{'operate' if 'production' in answer else 'run'} {named}"
    elif done or answer["spent"] >= answer["budget"]:
        verb, why = f"recommend{which}", ""
    else:
        found = answer.get("best_trial") or answer.get("pareto_trials")
        verb, why = f"suggest {named}", f"at any time: rigctl recommend{which}" if found else ""
    return f"{HEAD}rigctl {verb}{f'   ({why})' if why else ''}"


def after_run(config: Path, state: Path | None, ending: str, rule: Rule | None) -> str:
    """Go on from what was just recommended; a campaign that is not done says by `status` what it needs."""
    if ending in DONE:
        return after_recommend(config, state, rule)
    verb, why = ("run", f"   ({RESUMES})") if ending in STOPPED else ("status", "")
    return f"{HEAD}rigctl {verb} {_word(config)}{_where(state)}{why}"


def recommend_command(config: Path | None, state: Path | None, history: Path | None = None) -> str:
    return f"rigctl recommend{_which(config, state)}{'' if history is None else f' --history {_word(history)}'}"


def after_recommend(config: Path | None, state: Path | None, rule: Rule | None) -> str:
    """Write it all down for others; where readings count, ask what is best at just what was read."""
    report = f"{HEAD}rigctl report{_which(config, state)}   (one page to read, mail and print)"
    if rule is None or not rule.follows:
        return report
    read = ",".join(f"{trust.variable}=READ" for trust in rule.trust if trust.rho > 0)
    return f"On a day: {recommend_command(config, state)} --now {read}   (what is best at just that)\n{report}"


def _word(path: Path) -> str:
    return shlex.quote(str(path))


def _where(state: Path | None) -> str:
    return "" if state is None else f" --state {_word(state)}"


def _which(config: Path | None, state: Path | None) -> str:
    return f"{'' if config is None else f' {_word(config)}'}{_where(state)}"
