"""Pages of a few sentences: what was done, what was not, who are you. They need no script and no drawing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def plain_page(title: str, sentences: Sequence[str], again_s: int = 0, form: str = "", back: bool = True) -> str:
    """Return a page that says this; `again_s`: it loads itself anew after so many seconds."""
    refresh = f'<meta http-equiv="refresh" content="{again_s}">' if again_s else ""
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)
    way_back = '<p><a href="/">Back to the page</a></p>' if back and not again_s else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>{refresh}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/assets/page.css"></head>'
        f'<body class="plain"><main><h1>{escape(title)}</h1>{said}{form}{way_back}</main></body></html>'
    )


LOGIN_FORM = (
    '<form method="post" action="/login"><p><label for="token">Your token</label></p>'
    '<p><input id="token" name="token" type="password" autocomplete="current-password" required autofocus></p>'
    "<p><button>Log in</button></p></form>"
)
