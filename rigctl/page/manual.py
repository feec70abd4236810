"""The manual's pages, which the wheel brings along: as text for the terminal, as HTML for a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import rigctl

LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)\s]*?)(\w[\w-]*)\.(\w+)(#[\w-]*)?\)")
"""A link or picture of the manual's own."""
COMMENT: Final = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
HEADING: Final = re.compile(r"<h([23])>(.*?)</h[23]>")


@dataclass(frozen=True, slots=True)
class ManualPage:
    """One page of the manual."""

    title: str
    text: str
    """Markdown; its links lead where `lead` says."""


def pages(lead: Callable[[str, str, str], str]) -> Mapping[str, ManualPage]:
    """Return the manual's pages by name, how-to pages first; `lead` writes a link of its words, name and place."""
    package = Path(rigctl.__file__).parent
    folder = next(place for place in (package / "manual", package.parent / "docs") if place.is_dir())
    files = [*sorted(folder.glob("how-to/*.md")), *sorted(folder.glob("*.md"))]
    names = {path.stem for path in files}

    def led(link: re.Match[str]) -> str:
        picture, words, _, name, _, place = link.groups()
        return words if picture or name not in names else lead(words, name, place or "")

    texts = {path.stem: path.read_text(encoding="utf-8") for path in files}
    titles = {name: text.removeprefix("# ").partition("\n")[0] for name, text in texts.items()}
    return {name: ManualPage(titles[name], LINK.sub(led, COMMENT.sub("", text))) for name, text in texts.items()}


@cache  # the manual does not change
def html_pages() -> Mapping[str, ManualPage]:
    """Return the same with HTML as text, without the title; what is HTML in a page is shown as it is written."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - rich's, and needed only by who reads the manual

    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    found = pages(lambda words, name, place: f"[{words}]({name}{place})")
    return {name: ManualPage(page.title, _anchored(made.render(_body(page.text)))) for name, page in found.items()}


def _body(text: str) -> str:
    return text.partition("\n")[2]


def _anchored(html: str) -> str:
    return HEADING.sub(lambda h: f'<h{h[1]} id="{slug(re.sub("<.*?>", "", h[2]))}">{h[2]}</h{h[1]}>', html)


def slug(title: str) -> str:
    """Return what a heading is called in an address."""
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-")
