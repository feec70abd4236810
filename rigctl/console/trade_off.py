"""The trade-off between several outcomes, for programs and for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rigctl.campaign.journal.rows import CampaignRow, TrialRow
from rigctl.campaign.trial import State
from rigctl.console.board import Labels
from rigctl.console.output import number, settings
from rigctl.core.explain import plus_minus
from rigctl.core.multi_objective.hypervolume import hypervolume
from rigctl.core.multi_objective.pareto import non_dominated, reference_point
from rigctl.core.multi_objective.trade_off import Front

if TYPE_CHECKING:
    from rich.console import Console

_FIRST: Final[Mapping[str, str]] = {"maximise": "outcome.maximise", "floor": "floor"}
"""Where the campaign's identity has what it says of each further outcome."""


def to_json(front: Front) -> Mapping[str, Any]:
    """Outcomes in their own units, the first one first."""
    return {
        "hypervolume": front.hypervolume,
        "reference": list(front.reference),
        "points": [
            {
                "trial": point.trial,
                "control_set": list(point.control_set),
                "setpoints": dict(point.setpoints),
                "expected": list(point.expected),
                "sd": list(point.sd),
                "measured": list(point.measured),
            }
            for point in front.points
        ],
        "measured": {"hypervolume": front.measured_hypervolume, "trials": list(front.measured_trials)},
    }


def show(front: Front, labels: Labels, console: Console) -> None:
    """A table of the front, and its hypervolume."""
    from rich.table import Table  # noqa: PLC0415  # only when something is shown

    units = labels.outcome_units
    title = "Trade-off: of the settings tried, those that no other is expected to beat in every outcome"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1), header_style="dim")
    table.add_column("trial", justify="right")
    table.add_column("control")
    for (name, unit), sign in zip(units.items(), labels.signs, strict=True):
        better = "more is better" if sign > 0 else "less is better"
        table.add_column(f"{name} {unit}".strip() + f"\n{better}", justify="right", no_wrap=True)
    table.add_column("at")
    for point in front.points:
        expected = (plus_minus(m, s) for m, s in zip(point.expected, point.sd, strict=True))
        label = " + ".join(point.control_set)
        table.add_row(str(point.trial), label, *expected, settings(point.setpoints, labels.units))
    console.print(table)
    reference = settings(dict(zip(units, front.reference, strict=True)), units)
    volumes = f"{number(front.hypervolume, 5)} expected, {number(front.measured_hypervolume, 5)} measured"
    console.print(f"  hypervolume {volumes}: how much these settings are better than")
    console.print(f"  {reference}")


def told(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """A status for people: what the names of the trade-off mean."""
    names = {"pareto_trials": "trials that no other beats in every outcome", "hypervolume": "hypervolume, measured"}
    return {names.get(name, name): value for name, value in status.items()}


def of_journal(campaign: CampaignRow, trials: Sequence[TrialRow]) -> Mapping[str, Any]:
    """The measured front of a journal, without its configuration; empty where there is one outcome only."""
    further = json.loads(campaign.identity.get("further_outcomes", "[]"))
    rows = [t for t in trials if t.state is State.RECORDED and t.outcome is not None and len(t.further) == len(further)]
    if not further or not rows:
        return {}
    first = {key: json.loads(campaign.identity[name]) for key, name in _FIRST.items()}
    signs = np.array([1.0 if outcome["maximise"] else -1.0 for outcome in (first, *further)])
    floors = np.array([np.nan if outcome["floor"] is None else outcome["floor"] for outcome in (first, *further)])
    values = signs * np.array([[t.outcome, *t.further.values()] for t in rows], dtype=float)
    kept = np.flatnonzero(non_dominated(values))
    volume = hypervolume(values, reference_point(values, signs * floors))
    return {"pareto_trials": [rows[i].trial for i in kept], "hypervolume": volume}
