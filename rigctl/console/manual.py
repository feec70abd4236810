"""`rigctl help TOPIC`: the manual's pages, which the wheel brings along, at the terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

import rigctl
from rigctl.console.output import labelled, lines, redraws
from rigctl.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)\s]*?)(\w[\w-]*)\.(\w+)(#[\w-]*)?\)")
"""A link or picture of the manual's own."""
COMMENT: Final = re.compile(r"^<!--.*?-->\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ManualPage:
    """One page of the manual."""

    title: str
    text: str
    """Markdown; links are commands that show what they lead to."""


def pages() -> Mapping[str, ManualPage]:
    """Return the manual's pages by the name that `rigctl help` knows them by, how-to pages first."""
    package = Path(rigctl.__file__).parent
    folder = next(place for place in (package / "manual", package.parent / "docs") if place.is_dir())
    files = [*sorted(folder.glob("how-to/*.md")), *sorted(folder.glob("*.md"))]
    names = {path.stem for path in files}
    return {path.stem: _page(path.read_text(encoding="utf-8"), names) for path in files}


def _page(text: str, names: set[str]) -> ManualPage:
    def lead(link: re.Match[str]) -> str:
        picture, words, _, name, _, _ = link.groups()
        return words if picture or name not in names else f"{words} (`rigctl help {name}`)"

    title, _, _ = text.removeprefix("# ").partition("\n")
    return ManualPage(title, LINK.sub(lead, COMMENT.sub("", text)))


def found(topic: str, every: Mapping[str, ManualPage]) -> Mapping[str, ManualPage]:
    """Return the page of that name, else those with the words in their name or title, else those with them in the text.

    Raises:
        UsageError: there are none.
    """
    name = topic.removesuffix(".md").rpartition("/")[2].lower().replace(" ", "-")
    if name in every:
        return {name: every[name]}
    places = ({n: f"{n} {p.title}" for n, p in every.items()}, {n: p.text for n, p in every.items()})
    for place in places:
        having = [n for n, text in place.items() if all(word in text.lower() for word in name.split("-"))]
        if having:
            return {n: every[n] for n in having}
    raise UsageError(f"help: no such topic: {topic}; `rigctl help` lists all topics")


def show(some: Mapping[str, ManualPage], screen: Console) -> None:
    """List pages by the name to ask for each by; a single one is shown, at a terminal in its pager."""
    if len(some) > 1:
        rows = labelled({name: page.title for name, page in some.items()}, screen.width)
        lines(screen, ("`rigctl help TOPIC` shows a page of the manual:", *rows))
        return
    (page,) = some.values()
    if not redraws(screen):
        typer.echo(page.text, nl=False)
        return
    from rich.markdown import Markdown  # noqa: PLC0415  # only where it is drawn
    from rich.theme import Theme  # noqa: PLC0415

    os.environ.setdefault("LESS", "FRX")  # a page that fits the screen is printed
    drawn = Markdown(page.text, code_theme="ansi_dark", hyperlinks=False)
    with screen.use_theme(Theme({"markdown.code": "bold"})), screen.pager(styles=True):
        screen.print(drawn, width=min(screen.width, 100))
