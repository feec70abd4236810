"""Figures as one self-contained HTML file each: interactive, responsive, readable without a network."""

from __future__ import annotations

from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from rigctl.bench.figures.figure import Figure, Line, Panel
from rigctl.bench.figures.style import Style, style_of

if TYPE_CHECKING:
    import plotly.graph_objects as go  # type: ignore[import-untyped]

PANEL_HEIGHT = 300
"""Pixels."""
HEADING = 150
HOVER = "%{fullData.name}: %{customdata[0]} (n = %{customdata[1]})<extra></extra>"


def html_of(figure: Figure) -> str:
    """The whole file; plotly's script is inside."""
    chart = _chart(figure)
    config = {"responsive": True, "displaylogo": False, "toImageButtonOptions": {"filename": figure.name, "scale": 2}}
    body = chart.to_html(
        full_html=False,
        include_plotlyjs=True,
        include_mathjax=False,
        config=config,
        div_id="figure",
        default_width="100%",
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(figure.title)}</title>"
        f"<style>body{{font:15px/1.45 system-ui,sans-serif;margin:1rem;color:#222}}"
        f"h1{{font-size:1.25rem;margin:0 0 .3rem}}p{{margin:0 0 .6rem;max-width:70em;color:#555}}</style></head>"
        f"<body><h1>{escape(figure.title)}</h1><p>{escape(figure.caption)}</p>{body}</body></html>\n"
    )


def _chart(figure: Figure) -> go.Figure:
    from plotly.subplots import make_subplots  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import

    rows, columns = len(figure.rows), len(figure.rows[0])
    height = rows * PANEL_HEIGHT + HEADING
    chart = make_subplots(
        rows=rows,
        cols=columns,
        shared_yaxes=figure.share_y,
        subplot_titles=[panel.title.replace("\n", "<br>") for row in figure.rows for panel in row],
        vertical_spacing=90 / height,
        horizontal_spacing=0.025 if figure.share_y else 0.07,
    )
    listed: set[str] = set()
    for r, row in enumerate(figure.rows, start=1):
        for c, panel in enumerate(row, start=1):
            _add_panel(chart, panel, (r, c), listed, first=c == 1 or not figure.share_y)
    if figure.has_diamonds:
        chart.add_trace(_key_of_diamonds(), row=1, col=1)
    chart.update_layout(
        height=height,
        template="plotly_white",
        hovermode="x unified",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1 + 55 / height, "x": 0, "tracegroupgap": 0},
        margin={"l": 70, "r": 20, "t": HEADING - 20, "b": 60},
    )
    chart.update_annotations(font_size=13)
    return chart


def _add_panel(chart: go.Figure, panel: Panel, place: tuple[int, int], listed: set[str], *, first: bool) -> None:
    row, col = place
    floor = panel.floor_of_log() if panel.log_y else -np.inf
    for line in panel.lines:
        style = style_of(line.policy)
        for trace in _traces(line, style, floor, in_legend=line.policy not in listed):
            chart.add_trace(trace, row=row, col=col)
        listed.add(line.policy)
    chart.update_xaxes(title_text=panel.x_label, title_standoff=4, row=row, col=col)
    kind = {"type": "log", "exponentformat": "power"} if panel.log_y else {}
    chart.update_yaxes(title_text=panel.y_label if first else None, row=row, col=col, **kind)
    if not panel.lines:
        chart.add_annotation(text="not run", showarrow=False, x=0.5, y=0.5, row=row, col=col)


def _traces(line: Line, style: Style, floor: float, *, in_legend: bool) -> list[go.Scatter]:
    """Band and line, and the diamond: one group, so that a click on the legend hides them together."""
    import plotly.graph_objects as go  # noqa: PLC0415 - slow to import

    x = _short(line.x)
    group = {"legendgroup": line.policy, "name": style.name}
    # one closed outline, since two traces with fill between them come apart when others are hidden
    band_x = [*_corners_x(x), *reversed(_corners_x(x))]
    low, high = _short(np.maximum(line.low, floor)), _short(np.maximum(line.high, floor))
    band_y = [*_corners_y(high), *reversed(_corners_y(low))]
    traces = [
        go.Scatter(
            x=band_x, y=band_y, fill="toself", fillcolor=_faint(style.colour), line_width=0,
            mode="lines", hoverinfo="skip", showlegend=False, **group,
        ),
        go.Scatter(
            x=x, y=_short(np.maximum(line.y, floor)), mode="lines", showlegend=in_legend,
            line={"color": style.colour, "dash": style.dash, "width": 2, "shape": "hv"},
            customdata=_hover(line), hovertemplate=HOVER, **group,
        ),
    ]  # fmt: skip
    if line.diamond is not None:
        at, value = line.diamond
        marker = {"symbol": "diamond", "size": 10, "color": style.colour, "line": {"color": "white", "width": 1}}
        text = f"{style.name}: only the best set from {at:.3g} on<extra></extra>"
        traces.append(
            go.Scatter(
                x=[at],
                y=[max(value, floor)],
                mode="markers",
                marker=marker,
                showlegend=False,
                hovertemplate=text,
                **group,
            )
        )
    return traces


def _key_of_diamonds() -> go.Scatter:
    import plotly.graph_objects as go  # noqa: PLC0415 - slow to import

    marker = {"symbol": "diamond", "size": 10, "color": "#666666"}
    return go.Scatter(x=[None], y=[None], mode="markers", marker=marker, name="from here on only the best set")


def _hover(line: Line) -> list[list[Any]]:
    """Mean ± standard error as text, and the number of seeds, for every point."""
    return [
        [f"{mean:.4g} ± {se:.2g}" if isfinite(se) else f"{mean:.4g}", line.n]
        for mean, se in zip(line.mean.tolist(), line.se.tolist(), strict=True)
    ]


def _short(values: Any) -> list[float]:
    """Five digits are more than a screen shows, and keep the file small."""
    return [float(f"{v:.5g}") for v in np.asarray(values).tolist()]


def _corners_x(x: list[float]) -> list[float]:
    """The x of a staircase's corners: each value holds until the next place."""
    return [v for here, after in zip(x, [*x[1:], x[-1]], strict=True) for v in (here, after)] if x else []


def _corners_y(y: list[float]) -> list[float]:
    return [v for here in y for v in (here, here)]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"
