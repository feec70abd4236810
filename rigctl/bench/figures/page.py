"""A figure as one self-contained HTML file: the drawing inline, values on hovering, policies hidden by a click.

It needs neither a script nor a network: a browser shows an SVG's `<title>` as a tooltip, and style rules that ask which
boxes are ticked hide lines.
"""

from __future__ import annotations

from html import escape
from itertools import chain
from typing import TYPE_CHECKING

from rigctl.bench.figures.draw import drawn, gid
from rigctl.bench.figures.figure import Figure, Panel, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    looks = [style_of(policy) for policy in figure.policies]
    boxes = [
        f'<label><input type="checkbox" id="show-{i}" checked><span style="background:{look.colour}"></span>'
        f"{escape(look.name)}</label>"
        for i, look in enumerate(looks)
    ]
    rules = [f'body:has(#show-{i}:not(:checked)) [id^="{gid(i)}"]{{display:none}}' for i in range(len(looks))]
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
