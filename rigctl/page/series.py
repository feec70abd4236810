"""Series for a script to draw: thinned, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rigctl.core.arrays import FloatArray
from rigctl.page.course import Tracks, readings, thinned
from rigctl.page.shown import Facts

COLUMNS = 600
"""Points per series are at most four times as many."""


def series(facts: Facts) -> Mapping[str, Any]:
    """Return the course and the readings as columns: `x` and `y`, null where there is no value.

    Numbers have six digits: more cannot be told apart on any screen.
    """
    labels, rows = facts.labels, facts.course.rows
    tracks = Tracks.of(rows, maximise=labels.outcome.maximise)
    shown = thinned(tracks.trial, tracks.outcome, COLUMNS)
    return {
        "trials": len(rows),
        "course": {
            "x": {
                "money": {"label": labels.currency, "values": _plain(tracks.money[shown])},
                "trial": {"label": "trial", "values": _plain(tracks.trial[shown])},
                "time": {"label": "h", "values": _plain(tracks.time_h[shown])},
            },
            "label": labels.outcome.name,
            "unit": labels.outcome.unit,
            "outcome": _plain(tracks.outcome[shown]),
            "best": _plain(tracks.best[shown]),
        },
        "readings": [_reading(facts, name, unit) for name, unit in labels.units.items()],
    }


def _reading(facts: Facts, name: str, unit: str) -> Mapping[str, Any]:
    xs, ys, held = readings(facts.course.rows, name)
    shown = thinned(xs, ys, COLUMNS)
    return {
        "name": name,
        "unit": unit,
        "band": facts.bands.get(name),
        "x": _plain(xs[shown]),
        "alone": _plain(np.where(held, np.nan, ys)[shown]),
        "held": _plain(np.where(held, ys, np.nan)[shown]),
    }


def _plain(values: FloatArray) -> list[float | None]:
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values]
