"""Figures drawn, as PNG and SVG for print; pages to look into have the same drawing inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from itertools import chain
from math import ceil, floor, isclose, log10
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from rigctl.bench.figures.layouts import Curve, Figure, Panel, Style, style_of
from rigctl.errors import UsageError
from rigctl.files import whole
from rigctl.flaws import got

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


FORMATS = ("html", "png", "svg")
PANEL_WIDTH, PANEL_HEIGHT = 2.6, 1.9
"""Inches, of the axes alone; so are all others."""
LEFT, RIGHT, BOTTOM = 0.75, 0.2, 0.85
BETWEEN_ROWS, BETWEEN_COLUMNS, BETWEEN_SHARED = 0.75, 0.7, 0.2
TITLE, LEGEND_ROW, LEGEND_COLUMN = 0.4, 0.22, 1.9
LEAST_WIDTH = 6.4
DPI = 150


def write_figure(figure: Figure, directory: Path, formats: Sequence[str] = FORMATS) -> tuple[Path, ...]:
    """Write the figure as `NAME.FORMAT` for each format; returns the files.

    Raises:
        UsageError: a format is not known.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise UsageError(got(", ".join(unknown), f"must be among {', '.join(FORMATS)}", where="figures"))
    directory.mkdir(parents=True, exist_ok=True)
    files = {directory / f"{figure.name}.{kind}": kind for kind in formats}
    for path, kind in files.items():
        with whole(path) as new:
            new.write_bytes(page_of(figure).encode() if kind == "html" else drawn(figure, kind)[0])
    return tuple(files)


def drawn(figure: Figure, kind: str, settings: Mapping[Any, Any] | None = None) -> tuple[bytes, Canvas]:
    """Draw a figure as `png` or `svg`, with matplotlib's settings changed by `settings`.

    Returns:
        The file's bytes, the same for the same figure; and what was drawn on.
    """
    import matplotlib as mpl  # noqa: PLC0415 - slow to import
    import matplotlib.figure  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415

    font: dict[Any, Any] = {"font.size": 9, "axes.titlesize": 9, "legend.fontsize": 9}
    with mpl.rc_context({"svg.hashsalt": figure.name, **font, **(settings or {})}):
        sheet = _sheet(figure)
        canvas = matplotlib.figure.Figure(figsize=(sheet.width, sheet.height), dpi=DPI)
        FigureCanvasAgg(canvas)
        shape: dict[str, Any] = {"nrows": len(figure.rows), "ncols": len(figure.rows[0]), "squeeze": False}
        axes = canvas.subplots(**shape, sharey="row" if figure.share_y else False, gridspec_kw=sheet.grid)
        panels = [(r, c, panel) for r, row in enumerate(figure.rows) for c, panel in enumerate(row)]
        for r, c, panel in panels:
            _draw(axes[r, c], panel, figure.policies, f"{r}-{c}")
            axes[r, c].set_ylabel(panel.y_label if c == 0 or not figure.share_y else "")
            axes[r, c].set_xlabel(panel.x_label if r == len(figure.rows) - 1 else "")
        for r, c, panel in panels:
            _ticks(axes[r, c], panel)
        canvas.text(0.5, 1 - 0.08 / sheet.height, figure.title, fontsize=11, fontweight="bold", ha="center", va="top")
        caption = fill(figure.caption, width=int(sheet.width * 17))
        canvas.text(0.5, 0.08 / sheet.height, caption, fontsize=8, color="0.3", ha="center", va="bottom")
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 1 - 0.3 / sheet.height)}
        canvas.legend(handles=sheet.handles, ncols=sheet.across, frameon=False, borderpad=0, **place)
        out = BytesIO()
        canvas.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return out.getvalue(), canvas


def gid(policy: int, panel: str = "") -> str:
    """Return the name of a policy's marks in a drawing, or what the names of all of them begin with."""
    return f"policy-{policy}-{panel}"


@dataclass(frozen=True, slots=True)
class FigureSheet:
    """Where things are: laid out by hand, so that title, legend and caption never cover a panel."""

    width: float
    height: float
    grid: dict[str, float]
    """Margins and gaps as matplotlib counts them, in shares."""
    handles: list[Any]
    across: int
    """Entries of the legend in a row."""


def _sheet(figure: Figure) -> FigureSheet:
    rows, columns, handles = len(figure.rows), len(figure.rows[0]), _handles(figure)
    gap = BETWEEN_SHARED if figure.share_y else BETWEEN_COLUMNS
    # a single narrow panel is widened, or title and legend would not fit beside each other
    panel = max(PANEL_WIDTH, (LEAST_WIDTH - LEFT - RIGHT - (columns - 1) * gap) / columns)
    width = LEFT + RIGHT + columns * panel + (columns - 1) * gap
    across = max(1, min(len(handles), int(width / LEGEND_COLUMN)))
    top = TITLE + LEGEND_ROW * ceil(len(handles) / across) + 0.35
    height = top + BOTTOM + rows * PANEL_HEIGHT + (rows - 1) * BETWEEN_ROWS
    grid = {
        "left": LEFT / width,
        "right": 1 - RIGHT / width,
        "bottom": BOTTOM / height,
        "top": 1 - top / height,
        "wspace": gap / panel,
        "hspace": BETWEEN_ROWS / PANEL_HEIGHT,
    }
    return FigureSheet(width, height, grid, handles, across)


def _draw(axes: Axes, panel: Panel, policies: Sequence[str], place: str) -> None:
    axes.set_title(panel.title)
    axes.grid(visible=True, which="major", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if not panel.lines:
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", va="center", color="0.5")
        axes.tick_params(labelbottom=False, length=0, which="both")
        return
    if panel.log_y:
        axes.set_yscale("log")
    floor = panel.floor()
    for line in panel.lines:
        _draw_line(axes, line, floor, gid(policies.index(line.policy), place))


def _ticks(axes: Axes, panel: Panel) -> None:
    """Make labels short, once the limits are known: 2 x 10^-1 beside 3 x 10^-1 would be wider than the margin."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # noqa: PLC0415 - slow to import

    if not panel.lines:
        return
    axes.set_xlim(0, max(float(line.x[-1]) for line in panel.lines) * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if not panel.log_y:
        axes.yaxis.set_major_locator(MaxNLocator(5))
        return
    low, high = axes.get_ylim()
    decades = log10(high / low)
    subs = (1.0,) if decades > 2 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs) if decades >= 0.5 else MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick_label))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _tick_label(value: float, _position: int | None) -> str:
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    power = floor(log10(abs(value)) + 1e-9) if value else 0
    factor = value / 10.0**power
    return f"$10^{{{power}}}$" if isclose(factor, 1.0) else f"{factor:g}e{power}"


def _draw_line(axes: Axes, line: Curve, floor: float, name: str) -> None:
    style = style_of(line.policy)
    corners = np.asarray(np.diff([line.low, line.y, line.high], prepend=np.inf).any(axis=0))
    corners[-1:] = True
    x = line.x[corners]
    low, y, high = (np.maximum(v[corners], floor) for v in (line.low, line.y, line.high))
    axes.fill_between(x, low, high, color=style.colour, alpha=0.18, linewidth=0, step="post", gid=f"{name}-band")
    axes.step(x, y, where="post", **_stroke(style, 1.5), gid=f"{name}-line")
    if line.diamond is not None:
        settled, at = line.diamond
        diamond: dict[str, Any] = {"marker": "D", "markersize": 6, "color": style.colour, "markeredgecolor": "white"}
        axes.plot([settled], [max(at, floor)], **diamond, zorder=5, gid=f"{name}-diamond")


def _stroke(style: Style, width: float) -> dict[str, Any]:
    patterns = {
        "solid": "-",
        "dash": (0, (5, 2)),
        "dot": (0, (1, 1.5)),
        "dashdot": (0, (5, 1.5, 1, 1.5)),
        "longdash": (0, (9, 2)),
    }
    return {"color": style.colour, "linestyle": patterns[style.dash], "linewidth": width}


def _handles(figure: Figure) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - slow to import

    handles = [Line2D([], [], **_stroke(style, 1.8), label=style.name) for style in map(style_of, figure.policies)]
    if figure.has_diamonds:
        label = "from here on only the best set"
        handles.append(Line2D([], [], color="0.4", linestyle="none", marker="D", markersize=6, label=label))
    return handles


# A page to look into --------------------------------------------------------------------------------------------------
# It needs neither a script nor a network: a browser shows an SVG's `<title>` as a tooltip, and style rules that ask
# which boxes are ticked hide lines.


STRIPS = 40
"""Places across a panel at which values can be read."""
STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:1rem;color:#222}
svg{max-width:100%;height:auto}
label{margin-right:1.2em;white-space:nowrap}
label span{display:inline-block;width:1.6em;height:.25em;margin:0 .3em;vertical-align:middle}
.read{fill:transparent}.read:hover{fill:#0001}
"""


def page_of(figure: Figure) -> str:
    """Return the whole file. Hovering tells mean ± standard error and number of seeds of every policy at that place."""
    # text stays text, so that a page can be searched and read aloud
    image, canvas = drawn(figure, "svg", {"svg.fonttype": "none"})
    drawing = image.decode()
    drawing = drawing[drawing.index("<svg") : drawing.rindex("</svg>")]
    styles = [style_of(policy) for policy in figure.policies]
    boxes = [
        f'<label><input type="checkbox" id="show-{i}" checked><span style="background:{style.colour}"></span>'
        f"{escape(style.name)}</label>"
        for i, style in enumerate(styles)
    ]
    rules = [f'body:has(#show-{i}:not(:checked)) [id^="{gid(i)}"]{{display:none}}' for i in range(len(styles))]
    across, down = (72 * float(inches) for inches in canvas.get_size_inches())
    panels = zip(chain.from_iterable(figure.rows), canvas.axes, strict=True)
    strips = [strip for panel, axes in panels if panel.lines for strip in _strips(panel, axes, across, down)]
    newline = "\n"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(figure.title)}</title><style>{STYLE}{newline.join(rules)}</style></head>\n"
        f"<body><p>{''.join(boxes)}</p>\n{drawing}{newline.join(strips)}\n</svg></body></html>\n"
    )


def _strips(panel: Panel, axes: Axes, across: float, down: float) -> list[str]:
    """Return invisible rectangles across a panel, each with what its lines say there; across and down in points."""
    place = axes.get_position()
    left, top, wide, high = place.x0 * across, (1 - place.y1) * down, place.width * across, place.height * down
    title = panel.title.replace("\n", ", ")
    begin, end = axes.get_xlim()
    strips = []
    for k in range(STRIPS):
        x = begin + (k + 0.5) / STRIPS * (end - begin)
        told = [(style_of(line.policy).name, line.told_at(x)) for line in panel.lines]
        values = "\n".join(f"{name}: {value}" for name, value in told if value)
        strips.append(
            f'<rect class="read" x="{left + k * wide / STRIPS:.2f}" y="{top:.2f}" width="{wide / STRIPS:.2f}" '
            f'height="{high:.2f}"><title>{escape(f"{title}; {panel.x_label} {x:.3g}")}\n{escape(values)}</title></rect>'
        )
    return strips
