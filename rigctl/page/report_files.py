"""A report's drawings as files of their own, and the report as PDF by a browser that is there."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from rigctl.errors import RigctlError, UsageError
from rigctl.files import whole
from rigctl.flaws import got
from rigctl.page.render import asset
from rigctl.page.report import Picture
from rigctl.page.svg import WIDE
from rigctl.printable import cell

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "brave-browser", "microsoft-edge")
"""Those that print without a window, all by the same options."""
PRINTING_S = 120.0
"""Wall seconds a browser may take."""
MARGIN = 16
"""Units around a drawing in a file of its own."""
PICTURES: Mapping[str, bytes] = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff"}
"""What files of pictures begin with."""
MOST_BYTES = 1_000_000
"""Of a logo."""
ZOOM = 1.5
"""Pixels of a PNG per unit."""
FONT = "'Liberation Sans', 'DejaVu Sans', Arial, sans-serif"


def write_figures(drawings: Sequence[Picture], directory: Path) -> tuple[Path, ...]:
    """Write every drawing as SVG and PNG and its numbers as CSV; return the files.

    Raises:
        RigctlError: PNG cannot be written, as the package for it is missing; the rest is there then.
    """
    directory.mkdir(parents=True, exist_ok=True)
    style, out = standalone_style(), []
    for one in drawings:
        table = directory / f"{_file(one)}.csv"
        with whole(table) as new, new.open("w", newline="", encoding="utf-8") as file:
            rows = ((cell(v) if isinstance(v, str) else v for v in row) for row in (one.columns, *one.rows))
            csv.writer(file).writerows(rows)
        vector = directory / f"{_file(one)}.svg"
        with whole(vector) as new:
            new.write_text(standalone(one, style), encoding="utf-8")
        out += [table, vector]
    try:
        from resvg_py import svg_to_bytes  # noqa: PLC0415 - only where drawings are written
    except ImportError as error:
        what = f"{directory}: CSV and SVG are written; PNG needs the package resvg-py; install rigctl's extra `web`"
        raise RigctlError(what) from error
    for one in drawings:
        picture = directory / f"{_file(one)}.png"
        with whole(picture) as new:
            new.write_bytes(bytes(svg_to_bytes(svg_string=standalone(one, style), background="#ffffff", zoom=ZOOM)))
        out.append(picture)
    return tuple(out)


def picture(path: Path) -> str:
    """Return a picture as a `data:` address.

    Raises:
        UsageError: it cannot be read, or is none that every browser shows.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--logo {path}: cannot be read: {error.strerror or error}") from error
    head = data[:1000].lstrip().lower()
    kind = next((k for k, begins in PICTURES.items() if data.startswith(begins)), "svg+xml" if b"<svg" in head else "")
    if not kind or len(data) > MOST_BYTES:
        raise UsageError(
            got(f"{len(data)} bytes", f"must be PNG, JPEG or SVG, {MOST_BYTES} bytes at most", where=f"--logo {path}")
        )
    return f"data:image/{kind};base64,{b64encode(data).decode()}"


def _file(one: Picture) -> str:
    """Return its name as a file's: what a variable is called must lead nowhere else."""
    return re.sub(r"[^\w+-]", "_", one.name)


def standalone(one: Picture, style: str) -> str:
    """Return a drawing as a file of its own: with its style, its size and its title in it.

    Places are percentages, and what is stretched has WIDE units: at that width nothing is distorted.
    """
    height = float(re.search(r'height="([\d.]+)"', str(one.drawing)).group(1))  # type: ignore[union-attr]  # it has one
    wide, high = WIDE + 2 * MARGIN, height + 2 * MARGIN
    inner = f'<svg x="{MARGIN}" y="{MARGIN}" width="{WIDE}" height="{height:g}">{one.drawing}</svg>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high:g}" viewBox="0 0 {wide} {high:g}">'
        f"<style>{style}</style>{inner}</svg>\n"
    )


def standalone_style() -> str:
    """Return the page's rules for drawings; colours stand in the place of variables, which few readers of SVG know."""
    text = re.sub(r"/\*.*?\*/", "", asset("page.css")[0].decode(), flags=re.DOTALL)
    colours: Mapping[str, str] = dict(re.findall(r"(--[\w-]+): ?([^;]+);", text.split("}")[0]))
    rules = (
        f"{selector.strip()} {{ {body.strip()} }}"
        for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text.split("@media print")[0])
        if re.match(r"\s*(svg|\.range|\.chosen \.range|\.gauge)", selector)
    )
    style = "\n".join((f"text {{ font-family: {FONT}; }}", *rules))
    return re.sub(r"var\((--[\w-]+)\)", lambda found: colours[found[1]], style)


def browser() -> Path:
    """Return a browser that can print; raises RigctlError if there is none."""
    for name in BROWSERS:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise RigctlError(
        f"--pdf: no browser is on the PATH, must be one of {', '.join(BROWSERS)}; "
        f"install one, or open the HTML file in any browser and print it from there"
    )


def write_pdf(html: Path, pdf: Path) -> None:
    """Have a browser print a document; raises RigctlError if there is no browser, or it does not print."""
    program = browser()
    with tempfile.TemporaryDirectory(prefix="rigctl-print-") as profile:
        made = Path(profile) / "report.pdf"
        command = [str(program), "--headless", "--disable-gpu", "--no-pdf-header-footer", "--disable-extensions"]
        command += [f"--user-data-dir={profile}/profile", f"--print-to-pdf={made}"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []  # a browser refuses to be root with one
        try:
            done = subprocess.run(  # noqa: S603 - found on the PATH, and a file that we have written
                [*command, html.resolve().as_uri()], capture_output=True, text=True, timeout=PRINTING_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RigctlError(
                f"{program}: does not print: {error}; the HTML file is written, print it by hand"
            ) from error
        if not made.exists():
            said = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
            raise RigctlError(f"{program}: did not print: {said[0]}; the HTML file is written, open it there")
        with whole(pdf) as new:
            shutil.copyfile(made, new)
