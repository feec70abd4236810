"""`rigctl serve`, and the page beside a campaign that runs."""

# ruff: noqa: PLC0415  # the extra `web` is imported only where it is used, and only once it is known to be there

from __future__ import annotations

import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rigctl import system
from rigctl.campaign.lock import make_directory
from rigctl.console.output import print_json, remark
from rigctl.errors import UsageError, counted

if TYPE_CHECKING:
    from rich.console import Console

    from rigctl.signals import Signals

EVERY_S = 0.1
LAST_WORDS_S = 3.0
"""Wall seconds for the page's server to end."""


def serve(
    directory: Path,
    *,
    wall: Sequence[str] = (),
    host: str,
    port: int,
    allow_hosts: Sequence[str] | None,
    readers: int,
    with_parent: bool,
    json: bool,
) -> None:
    """Serve the page of the campaign in this state directory, or cards of several, until a signal comes.

    Raises:
        UsageError: it cannot listen there, or there is no such campaign for a card.
    """
    from rigctl.console.benches.outcomes import judged
    from rigctl.page import serving
    from rigctl.page import wall as walls
    from rigctl.page.gatherer import ProcessScholar

    place = serving.ServedAt(directory, host, port, serving.names(allow_hosts), readers)
    shown = walls.places(wall)
    warning = serving.check_place(place, acts=not shown)
    try:
        listener = serving.listening(place)
    except UsageError:
        if not with_parent:
            raise
        listener = serving.listening(serving.ServedAt(directory, host, 0))  # any other will do beside a campaign
    if warning:
        remark(f"warning: {warning}")

    url = serving.url_of(place, listener)  # connections are taken from here on
    if json:
        print_json({"page": url, **({"wall": list(shown)} if shown else {"state": directory})})
    else:
        typer.echo(url if with_parent else f"{counted(len(shown), 'campaign') if shown else directory}: {url}")
    sys.stdout.flush()
    if shown:
        server = serving.limited(walls.wall(shown, place.hosts), readers)
    else:
        server = serving.server_of(place, ProcessScholar(directory), judged)
    serving.serve(server, listener, with_parent=with_parent)


# beside a campaign ------------------------------------------------------------------------------------------------


@contextmanager
def page_beside(wanted: bool, directory: Path, tell: Console | Callable[[str], object]) -> Iterator[Callable[[], str]]:
    """Serve the page from a process of its own while the block runs; gives where it is, empty once it is no more.

    Whatever becomes of it, the campaign does not notice: it is told once, and that is all.

    Raises:
        UsageError: what it needs is not installed.
    """
    if not wanted:
        yield str
        return
    say = tell if callable(tell) else tell.print
    make_directory(directory)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
            [sys.executable, "-P", "-m", "rigctl", "serve", "--state", str(directory), "--with-parent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=system.environment(),
            start_new_session=True,  # Ctrl-C is for the campaign; its end is the page's
        )
    except OSError as error:
        say(f"no page: {error}")
        yield str
        return
    at: list[str] = []
    ending = threading.Event()
    threading.Thread(target=_pass_on, args=[process, say, ending, at], name="page", daemon=True).start()
    try:
        yield lambda: at[0] if at and process.poll() is None else ""
    finally:
        ending.set()
        _end(process)


def linger(page: Callable[[], str], signals: Signals | None, console: Console) -> None:
    """Keep the page until a person at a terminal has looked and closes it, unless a signal has come before."""
    if signals is None or signals.heard or not sys.stdin.isatty() or not page():
        return
    console.print(f"The page is still open: {page()}\nPress Enter to close it.", soft_wrap=True)
    while not signals.heard and page():
        if select.select([sys.stdin], [], [], EVERY_S)[0]:
            sys.stdin.readline()
            return


def _pass_on(
    process: subprocess.Popen[bytes], say: Callable[[str], object], ending: threading.Event, at: list[str]
) -> None:
    """Say where the page is, and once, if it comes to that, that it is no more."""
    said = ""
    with process.stdout or nullcontext(()) as lines:
        for line in lines:
            text = line.decode(errors="replace").strip()
            if text.startswith("http://"):
                at.append(text)
                say(f"page: {text}")
            else:
                said = text or said
    code = process.wait()
    if not ending.is_set():
        say(f"the page has ended (exit code {code}); the campaign goes on without it. {said}".rstrip())


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
