"""The last word of a campaign: what to control from now on, at what values, and what else there is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rigctl.campaign.instruments import barred
from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.rows import CampaignRow, TrialRow
from rigctl.campaign.learned import remembering
from rigctl.campaign.replay import prices
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.console.output import INDENT, ShownColumn, labelled, lines, number, settings, table, told, wrapped
from rigctl.core.advice.advise import advise
from rigctl.core.advice.recommend import Option, Recommendation
from rigctl.core.advice.rule import Rule
from rigctl.core.advice.rules.saying import answer, how_to_read, rows, worth
from rigctl.core.advice.worth import LEVEL
from rigctl.core.counterfactuals import shown
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.problem import JsonState
from rigctl.core.multi_objective.trade_off import Front, hypervolume, non_dominated, reference_point
from rigctl.errors import counted
from rigctl.page import study
from rigctl.page.campaign import campaign_spec
from rigctl.page.shown import ShownLabels
from rigctl.text import in_full, plus_minus, set_label

if TYPE_CHECKING:
    from rich.console import Console


def from_journal(
    loaded: LoadedConfig, reader: Reader, *, changes: bool = False, now: Look | None = None
) -> Recommendation:
    """Recommend by the campaign so far.

    Args:
        loaded: its configuration.
        reader: of its journal.
        changes: whether to say as well what would change it.
        now: what was read just now, if it is asked what is best at that.

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    history = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
    state = reader.policy_state() or {}
    micros, space = reader.glance.least_cost(), loaded.problem.space
    least = None if micros is None else to_units(micros)
    held = {space.control_sets[i].label: why for i, why in barred(reader, loaded.rig, space).items()}
    with remembering(reader.directory, history):
        found = replace(study.recommended(loaded, history, state, least, now), held=held)
        found = replace(found, awaited=study.awaited(loaded, history, state, found))
        if not changes:
            return found
        priced = prices(reader, campaign_spec(loaded))
        return replace(found, changes=study.changes(loaded, history, state, priced))


def from_history(loaded: LoadedConfig, history: History, state: JsonState, now: Look | None = None) -> Recommendation:
    """Recommend by any history, and say what would change it. Raises as `from_journal`."""
    found = study.recommended(loaded, history, state, now=now)
    return replace(found, changes=study.changes(loaded, history, state))


def to_json(recommendation: Recommendation) -> Mapping[str, Any]:
    """Return the answer for programs: outcomes in their own units, money in currency units."""
    return {
        **_plain(recommendation.choice),
        "tolerance": recommendation.tolerance,
        "threshold": recommendation.threshold,
        "reason": recommendation.reason,
        "worth": recommendation.worth,
        **({} if recommendation.changes is None else {"changes": recommendation.changes}),
        **({} if recommendation.awaited is None else {"awaited": recommendation.awaited}),
        **({"held": recommendation.held} if recommendation.held else {}),
        **({"doubts": recommendation.doubts} if recommendation.doubts else {}),
        **({} if recommendation.front is None else {"front": _front_json(recommendation.front)}),
        **({} if recommendation.rule is None else {"rule": recommendation.rule}),
        **({} if recommendation.now is None else {"now": _plain(recommendation.now)}),
        "alternatives": recommendation.alternatives,
    }


def _plain(option: Option) -> Mapping[str, Any]:
    """Return an option that is compared with nothing, for programs."""
    return {name: value for name, value in told(option).items() if name not in ("loss", "saving")}


def show(
    recommendation: Recommendation,
    labels: ShownLabels,
    console: Console,
    note: str = "",
    *,
    technical: bool = False,
) -> None:
    """Show a recommendation to people; `note` is one more line about its setting, e.g. what a simulator says of it."""
    choice, unit = recommendation.choice, labels.outcome.unit
    if recommendation.now is not None:
        lines(console, ("", *wrapped(_now(recommendation), console.width)), "bold")
        if recommendation.now != choice:
            lines(console, labelled(_fields(recommendation.now, labels), console.width))
    fields = {**_fields(choice, labels), "because": recommendation.reason}
    if technical:
        fields["compared"] = recommendation.technical
    head = wrapped(f"Recommendation: control {set_label(choice.control_set)}", console.width)
    lines(console, ("", *head), "bold")
    lines(console, labelled(fields, console.width))
    if note:
        lines(console, wrapped(f"{INDENT}{note}", console.width, INDENT * 2))
    advice = advise(recommendation, outcome=labels.outcome.name, unit=unit, currency=labels.currency)
    said = [line for one in advice for line in (one.head, *(f"{INDENT}{line}" for line in one.more))]
    lines(console, ("", *(part for line in said for part in wrapped(line, console.width))))
    if recommendation.awaited is not None:
        lines(console, wrapped(recommendation.awaited.told(), console.width))
    if recommendation.rule is not None:
        lines(console, ("", *_rule_lines(recommendation.rule, labels, console.width)))
    if recommendation.changes is not None:
        found = shown(recommendation.changes, currency=labels.currency, unit=unit)
        told_of = (part for line in found for part in wrapped(f"{INDENT}{line}", console.width, INDENT * 2))
        lines(console, ("What would change this:", *told_of))
    if recommendation.alternatives:
        lines(console, ("", "Instead of it", *table(_alternatives(recommendation, labels), console.width)))
    if recommendation.front is not None:
        lines(console, ("", *_front_lines(recommendation.front, labels, console.width)))


def _now(recommendation: Recommendation) -> str:
    """Say what to control at what was read just now."""
    now = recommendation.now
    if now is None or now == recommendation.choice:
        return "At these readings: what is recommended without any, for they tell nothing of the trial"
    return f"At these readings: control {set_label(now.control_set)}"


def _fields(option: Option, labels: ShownLabels) -> dict[str, str]:
    interval = f"({LEVEL:.0%} interval {number(option.low)} to {number(option.high)})"
    known, nobody = ("metered in", "no trial of it was metered") if labels.wired else ("told of", "it was never told")
    cost = f"unknown, for {nobody}"
    if option.cost_per_trial is not None:
        by = "as the configuration says" if labels.costs_told else f"{known} {counted(option.trials, 'trial')}"
        within = "" if option.cost_low == option.cost_high else f" ({LEVEL:.0%} interval {_cost_interval(option)})"
        cost = f"{in_full(option.cost_per_trial, 4)} {labels.currency} per trial{within}, {by}"
    return {
        "at": settings(option.setpoints, labels.units),
        "expect": f"{labels.outcome.name} {number(option.expected)} {labels.outcome.unit} {interval}",
        "cost": cost,
    }


def _cost_interval(option: Option) -> str:
    low, high = option.cost_low, option.cost_high
    return "-" if low is None else "exact" if low == high else f"{number(low, 3)} to {number(high, 3)}"


def _rule_lines(rule: Rule, labels: ShownLabels, width: int) -> Iterator[str]:
    """Yield the rule as a table, and what it is worth."""
    unit = labels.outcome.unit
    told = rows(rule, labels.units)
    columns = (
        ShownColumn("look first; the first that holds", [" and ".join(row.when) for row in told], left=True),
        ShownColumn("control", [row.control for row in told], left=True),
        ShownColumn("at", [", ".join(row.at) for row in told], left=True),
        ShownColumn(f"{labels.outcome.name}\n{unit}".strip(), [row.expected for row in told]),
        ShownColumn("interval", [row.interval for row in told], spare=3),
        ShownColumn(f"cost\n{labels.currency}", [row.cost for row in told], spare=1),
        ShownColumn("of\ntrials", [row.share for row in told], spare=2),
    )
    if rule.follows:
        yield from table(columns, width)
    said = answer(rule, outcome=labels.outcome.name, unit=unit, currency=labels.currency)
    for line in (*said, *worth(rule, unit=unit, currency=labels.currency), *how_to_read(rule)):
        yield from wrapped(f"{INDENT}{line}", width, INDENT * 2)


def _alternatives(recommendation: Recommendation, labels: ShownLabels) -> Sequence[ShownColumn]:
    """Return the other options as columns; what has the highest `spare` is left out first where room is short."""
    options, unit = recommendation.alternatives, labels.outcome.unit
    return (
        ShownColumn("control", [set_label(o.control_set) for o in options], left=True),
        ShownColumn(f"{labels.outcome.name}\n{unit}".strip(), [number(o.expected) for o in options]),
        ShownColumn("interval", [f"{number(o.low)} to {number(o.high)}" for o in options], spare=3),
        ShownColumn(f"{labels.outcome.name}\nbeside it", [_against(o.loss, "worse", "better") for o in options]),
        ShownColumn(f"cost\n{labels.currency}", [number(o.cost_per_trial, 3) for o in options]),
        ShownColumn("cost\ninterval", [_cost_interval(o) for o in options], spare=4),
        ShownColumn("cost\nbeside it", [_against(o.saving, "cheaper", "dearer") for o in options], spare=1),
        ShownColumn("trials", [str(o.trials) for o in options], spare=2),
    )


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


def _front_lines(front: Front, labels: ShownLabels, width: int) -> Iterator[str]:
    units, points = labels.outcome_units, front.points
    columns = [
        ShownColumn("trial", [str(p.trial) for p in points]),
        ShownColumn("control", [set_label(p.control_set) for p in points], left=True),
    ]
    for k, ((name, unit), sign) in enumerate(zip(units.items(), labels.signs, strict=True)):
        better = "more is better" if sign > 0 else "less is better"
        columns.append(
            ShownColumn(f"{f'{name} {unit}'.strip()}\n{better}", [plus_minus(p.expected[k], p.sd[k]) for p in points])
        )
    columns.append(ShownColumn("at", [settings(p.setpoints, labels.units) for p in points], left=True))
    title = "Trade-off: of the settings tried, those that no other is expected to beat in every outcome"
    yield from wrapped(title, width)
    yield from table(columns, width)
    reference = settings(dict(zip(units, front.reference, strict=True)), units)
    volumes = f"{number(front.hypervolume, 5)} expected, {number(front.measured_hypervolume, 5)} measured"
    told = f"{INDENT}hypervolume {volumes}: how much these settings are better than {reference}"
    yield from wrapped(told, width, INDENT)


def measured_front(campaign: CampaignRow, trials: Sequence[TrialRow]) -> Mapping[str, Any]:
    """Return the measured front of a journal, without its configuration; empty where there is one outcome only."""
    further = json.loads(campaign.identity.get("further_outcomes", "[]"))
    known = (t for t in trials if t.state is State.RECORDED and t.outcome is not None and not t.voided)
    rows = [t for t in known if len(t.further) == len(further)]
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
