"""A figure into files, in whichever formats are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from rigctl.bench.figures.figure import Figure
from rigctl.errors import UsageError

Format = Literal["html", "png", "svg"]
FORMATS: tuple[Format, ...] = get_args(Format)


def write_figure(figure: Figure, directory: Path, formats: Sequence[str] = FORMATS) -> tuple[Path, ...]:
    """Write the figure as `NAME.FORMAT` for each format; returns the files.

    Raises:
        UsageError: a format is not known.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise UsageError(f"figures: got {', '.join(unknown)}, must be among {', '.join(FORMATS)}")
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for kind in formats:
        path = directory / f"{figure.name}.{kind}"
        if kind == "html":
            from rigctl.bench.figures.html import html_of  # noqa: PLC0415 - plotly only where it is used

            path.write_text(html_of(figure), encoding="utf-8")
        else:
            from rigctl.bench.figures.static import image_of  # noqa: PLC0415 - matplotlib only where it is used

            path.write_bytes(image_of(figure, "svg" if kind == "svg" else "png"))
        files.append(path)
    return tuple(files)
