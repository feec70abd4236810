"""The last word of a campaign: what to control from now on, at what values, and what else there is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from rigctl.campaign.hindsight import prices
from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.rows import CampaignRow, TrialRow
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.console.assemble import campaign_spec
from rigctl.console.board import Labels
from rigctl.console.output import number, settings, told
from rigctl.core.advise import advise
from rigctl.core.counterfactuals import changes_of_recommendation, shown
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState
from rigctl.core.explain import plus_minus
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.levers import Price, Situation
from rigctl.core.money import to_units
from rigctl.core.multi_objective.hypervolume import hypervolume
from rigctl.core.multi_objective.pareto import non_dominated, reference_point
from rigctl.core.multi_objective.trade_off import Front
from rigctl.core.policy import trial_rng
from rigctl.core.recommend import Recommendation, recommend
from rigctl.core.worth import LEVEL


def from_journal(loaded: LoadedConfig, reader: Reader, *, changes: bool = False) -> Recommendation:
    """Recommend by the campaign so far; `changes`: also say what would change it.

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    history = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
    state = reader.policy_state() or {}
    found = from_history(loaded, history, state, floor_cost(reader))
    priced = prices(reader, campaign_spec(loaded)) if changes else ()
    return with_changes(found, loaded, history, state, priced) if changes else found


def floor_cost(reader: Reader) -> float | None:
    """Return what a whole trial has cost at least whatever it controlled, currency units: time, and what is fixed."""
    whole = {t.trial: 0 for t in reader.trials() if t.state is State.RECORDED}
    for line in reader.ledger():
        if line.trial in whole and line.kind in ("time", "fixed"):
            whole[line.trial] += line.amount
    return to_units(min(whole.values())) if any(whole.values()) else None


def from_history(
    loaded: LoadedConfig, history: History, state: JsonState, least: float | None = None
) -> Recommendation:
    """Recommend by any history, with the hyper-parameters the policy remembers (if it does).

    Args:
        loaded: the configuration.
        history: all trials.
        state: the policy's memory.
        least: what a trial costs whatever it controls, if known; see `floor_cost`.

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    stored = state.get("hyperparameters")
    known = None if stored is None else Hyperparameters.from_json(stored)
    rng = trial_rng(loaded.seed, len(history) + 1)
    return recommend(
        loaded.problem,
        history,
        rng,
        loaded.tolerance,
        known,
        further=state.get("further", ()),
        today=loaded.today,
        floor_cost=least,
    )


def with_changes(
    found: Recommendation, loaded: LoadedConfig, history: History, state: JsonState, priced: Sequence[Price] = ()
) -> Recommendation:
    """Return the recommendation with what would change it."""
    situation = Situation(loaded.policy, state, loaded.problem, history, loaded.seed, tolerance=loaded.tolerance)
    return replace(found, changes=changes_of_recommendation(situation, prices=priced))


def to_json(recommendation: Recommendation) -> Mapping[str, Any]:
    """Return the answer for programs: outcomes in their own units, money in currency units."""
    choice = {name: value for name, value in told(recommendation.choice).items() if name not in ("loss", "saving")}
    return {
        **choice,
        "tolerance": recommendation.tolerance,
        "threshold": recommendation.threshold,
        "reason": recommendation.reason,
        "worth": recommendation.worth,
        **({} if recommendation.changes is None else {"changes": recommendation.changes}),
        **({} if recommendation.front is None else {"front": _front_json(recommendation.front)}),
        "alternatives": recommendation.alternatives,
    }


def show(
    recommendation: Recommendation,
    labels: Labels,
    console: Console,
    note: str = "",
    *,
    technical: bool = False,
) -> None:
    """Show a recommendation to people; `note` is one more line, e.g. what a simulator says of it."""
    choice, unit = recommendation.choice, labels.outcomes[labels.outcome]
    console.print()
    console.print(f"Recommendation: control {'+'.join(choice.control_set)}", style="bold")
    console.print(f"  at        {settings(choice.setpoints, labels.units)}")
    interval = f"({LEVEL:.0%} interval {number(choice.low)} to {number(choice.high)})"
    console.print(f"  expect    {labels.outcome} {number(choice.expected)} {unit} {interval}")
    cost = "unknown" if choice.cost_per_trial is None else f"{choice.cost_per_trial:.4g} {labels.currency}"
    console.print(f"  cost      {cost} per trial, metered in {choice.trials} trials")
    console.print(f"  because   {recommendation.reason}")
    console.print()
    for line in advise(recommendation, outcome=labels.outcome, unit=unit, currency=labels.currency):
        console.print(line, markup=False)
    if recommendation.changes is not None:
        console.print("What would change this:")
        for line in shown(recommendation.changes, currency=labels.currency, unit=unit):
            console.print(f"  {line}", markup=False)
    if technical:
        console.print(f"  compared  {recommendation.technical}")
    if note:
        console.print(f"  {note}")
    if recommendation.alternatives:
        console.print()
        console.print(_alternatives(recommendation, labels))
    if recommendation.front is not None:
        console.print()
        _show_front(recommendation.front, labels, console)


def _alternatives(recommendation: Recommendation, labels: Labels) -> Table:
    outcome, money = f"{labels.outcome} {labels.outcomes[labels.outcome]}".strip(), f"cost {labels.currency}"
    table = Table(title="Instead of it", title_justify="left", box=None, padding=(0, 1), header_style="dim")
    table.add_column("control")
    for header in (outcome, "interval", "beside it", money, "beside it", "trials"):
        table.add_column(header, justify="right", no_wrap=True)
    for option in recommendation.alternatives:
        table.add_row(
            " + ".join(option.control_set),  # may be broken at the spaces
            number(option.expected),
            f"{number(option.low)} to {number(option.high)}",
            _against(option.loss, "worse", "better"),
            number(option.cost_per_trial, 3),
            _against(option.saving, "cheaper", "dearer"),
            str(option.trials),
        )
    return table


def _against(difference: float | None, positive: str, negative: str) -> str:
    if difference is None:
        return number(None)
    return f"{number(abs(difference), 3)} {positive if difference >= 0 else negative}"


def _front_json(front: Front) -> Mapping[str, Any]:
    return {
        "hypervolume": front.hypervolume,
        "reference": front.reference,
        "points": front.points,
        "measured": {"hypervolume": front.measured_hypervolume, "trials": front.measured_trials},
    }


def _show_front(front: Front, labels: Labels, console: Console) -> None:
    units = labels.outcomes
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


def for_people(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a status in words: what the names of the trade-off mean."""
    names = {"pareto_trials": "trials that no other beats in every outcome", "hypervolume": "hypervolume, measured"}
    return {names.get(name, name): value for name, value in status.items()}


def measured_front(campaign: CampaignRow, trials: Sequence[TrialRow]) -> Mapping[str, Any]:
    """Return the measured front of a journal, without its configuration; empty where there is one outcome only."""
    further = json.loads(campaign.identity.get("further_outcomes", "[]"))
    rows = [t for t in trials if t.state is State.RECORDED and t.outcome is not None and len(t.further) == len(further)]
    if not further or not rows:
        return {}
    names = {"maximise": "outcome.maximise", "floor": "floor"}  # where the identity has the same of the first one
    first = {key: json.loads(campaign.identity[name]) for key, name in names.items()}
    signs = np.array([1.0 if outcome["maximise"] else -1.0 for outcome in (first, *further)])
    floors = np.array([np.nan if outcome["floor"] is None else outcome["floor"] for outcome in (first, *further)])
    values = signs * np.array([[t.outcome, *t.further.values()] for t in rows], dtype=float)
    kept = np.flatnonzero(non_dominated(values))
    volume = hypervolume(values, reference_point(values, signs * floors))
    return {"pareto_trials": [rows[i].trial for i in kept], "hypervolume": volume}
