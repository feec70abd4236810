"""`rigctl help TOPIC`: the manual's pages, which the wheel brings along, at the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from rigctl.console.output import labelled, lines, redraws
from rigctl.errors import UsageError
from rigctl.page.manual import ManualPage, pages
from rigctl.plugins import did_you_mean

if TYPE_CHECKING:
    from rich.console import Console


def at_terminal() -> Mapping[str, ManualPage]:
    """Return the manual's pages by the name that `rigctl help` knows them by; links are commands that show them."""
    return pages(lambda words, name, _: f"{words} (`rigctl help {name}`)")


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
    meant = did_you_mean(topic, {word for n in every for word in (n, *n.split("-"))})
    remedies = "; ".join(filter(None, ("`rigctl help` lists all topics", meant)))
    raise UsageError(f"help: no such topic: {topic}; {remedies}")


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
