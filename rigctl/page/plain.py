"""Pages of a few sentences: what was done, what was not, who are you. They need no script and no drawing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rigctl.printable import printable


def plain_page(title: str, sentences: Sequence[str], *, again_s: int = 0, form: str = "", up: str = "./") -> str:
    """Return a page that says this.

    Args:
        title: what it is about.
        sentences: what it says.
        again_s: it loads itself anew after so many seconds; 0: it does not.
        form: HTML below them.
        up: where the campaign's page is from here, for a proxy may have put it anywhere.
    """
    title = printable(title)
    refresh = f'<meta http-equiv="refresh" content="{again_s}">' if again_s else ""
    said = "".join(f"<p>{escape(printable(sentence))}</p>" for sentence in sentences if sentence)
    way_back = "" if again_s else f'<p><a href="{up}">Back to the page</a></p>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>{refresh}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="{up}assets/icon.svg" type="image/svg+xml">'
        f'<link rel="stylesheet" href="{up}assets/page.css"></head>'
        f'<body class="plain"><main><h1>{escape(title)}</h1>{said}{form}{way_back}</main></body></html>'
    )


LOGIN_FORM = (
    '<form method="post" action="login"><p><label for="token">Your token</label></p>'
    '<p><input id="token" name="token" type="password" autocomplete="current-password" required autofocus></p>'
    "<p><button>Log in</button></p></form>"
)
