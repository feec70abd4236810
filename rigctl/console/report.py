"""The last word of a campaign: what to control from now on, at what values, and what else there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rigctl.campaign.answered import GivenAnswer, keep
from rigctl.campaign.instruments import barred
from rigctl.campaign.journal import Reader
from rigctl.campaign.learned import remembering
from rigctl.campaign.replay import prices
from rigctl.config.load import LoadedConfig
from rigctl.console.output import INDENT, ShownColumn, lines, number, table, told, wrapped
from rigctl.core.advice.answer import WayToRun, answer_of
from rigctl.core.advice.answer_words import AnswerWords, advise, held
from rigctl.core.advice.recommend import Option, Recommendation
from rigctl.core.advice.rule import Rule
from rigctl.core.advice.rules.saying import rows
from rigctl.core.counterfactuals import shown
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.problem import JsonState
from rigctl.core.multi_objective.trade_off import Front
from rigctl.errors import counted
from rigctl.page import study, words
from rigctl.page.campaign import campaign_spec
from rigctl.page.shown import ShownLabels
from rigctl.text import plus_minus, settings, shown_name, shown_set, shown_way

if TYPE_CHECKING:
    from rich.console import Console


def from_journal(
    loaded: LoadedConfig, reader: Reader, *, changes: bool = False, now: Look | None = None
) -> Recommendation:
    """Recommend by the campaign so far, at what is read `now` if that is given; `changes` adds what would change it.

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    history = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
    state = reader.policy_state() or {}
    micros, space = reader.glance.least_cost(), loaded.problem.space
    least = None if micros is None else to_units(micros)
    away = {space.control_sets[i].label: why for i, why in barred(reader, loaded.rig, space).items()}
    with remembering(reader.directory, history):
        found = replace(study.recommended(loaded, history, state, least, now), held=away)
        found = replace(found, awaited=study.awaited(loaded, history, state, found))
        if now is None and reader.directory is not None:
            told = words.answer(ShownLabels.of(loaded), found).in_short()
            keep(reader.directory, GivenAnswer(told, history.observations[-1].trial, reader.people.last_correction()))
        if not changes:
            return found
        priced = prices(reader, campaign_spec(loaded))
        return replace(found, changes=study.changes(loaded, history, state, priced))


def from_history(
    loaded: LoadedConfig, history: History, state: JsonState, now: Look | None = None, *, changes: bool = False
) -> Recommendation:
    """Recommend by any history. Arguments and errors are those of `from_journal`."""
    found = study.recommended(loaded, history, state, now=now)
    return replace(found, changes=study.changes(loaded, history, state)) if changes else found


def to_json(recommendation: Recommendation) -> Mapping[str, Any]:
    """Return the answer for programs: outcomes in their own units, money in currency units."""
    return {
        **told(recommendation.choice),
        "tolerance": recommendation.tolerance,
        "threshold": recommendation.threshold,
        "answer": answer_of(recommendation),
        "worth": recommendation.worth,
        **({} if recommendation.changes is None else {"changes": recommendation.changes}),
        **({} if recommendation.awaited is None else {"awaited": recommendation.awaited}),
        **({"held": recommendation.held} if recommendation.held else {}),
        **({"doubts": recommendation.doubts} if recommendation.doubts else {}),
        **({} if recommendation.front is None else {"front": _front_json(recommendation.front)}),
        **({} if recommendation.rule is None else {"rule": recommendation.rule}),
        **({} if recommendation.now is None else {"now": recommendation.now}),
        **({} if recommendation.promising is None else {"promising": recommendation.promising}),
        "alternatives": [told(o) | _lost_and_saved(o, recommendation) for o in recommendation.alternatives],
    }


def _lost_and_saved(option: Option, found: Recommendation) -> Mapping[str, float | None]:
    """Return how much worse another setting is than the recommended one, and how much cheaper; None: not known."""
    choice, sign = found.choice, 1.0 if found.maximise else -1.0
    costs = choice.cost_per_trial, option.cost_per_trial
    saving = None if costs[0] is None or costs[1] is None else costs[0] - costs[1]
    return {"loss": sign * (choice.expected - option.expected), "saving": saving}


MOST_WAYS = 8
"""Ways to run that the answer lists; all stand among the details."""


def show(
    recommendation: Recommendation,
    labels: ShownLabels,
    console: Console,
    note: str = "",
    *,
    ask: str = "",
    technical: bool = False,
    details: bool = False,
) -> None:
    """Show a recommendation to people; `note` is one more line about its setting, e.g. what a simulator says of it.

    `ask` is the command that gives it again; empty: there is none.
    """
    width, rule, now = console.width, recommendation.rule, recommendation.now
    say = words.answer(labels, recommendation)
    if now is not None:
        lines(console, ("", *wrapped(_now(recommendation, say), width)), "bold")
    lines(console, ("", *wrapped(f"From now on, {say.headline()}", width)), "bold")
    if rule is not None and say.answer.run.kind == "rule":
        lines(console, _rule_lines(rule, labels, width))
        fixed = recommendation.choice
        missing = shown_way(fixed.control_set, fixed.setpoints, labels.units)
        lines(console, wrapped(f"{INDENT}If a reading is missing, control {missing}.", width))
    awaited = "" if recommendation.awaited is None else recommendation.awaited.told()
    said = filter(None, (*say.lines(), *held(recommendation.held, labels.units), note, awaited))
    lines(console, (part for line in said for part in wrapped(line, width)))
    listed = say.answer.ways if details else say.answer.named(MOST_WAYS)
    lines(console, ("", *table(_ways(say, listed, labels), width)))
    left_out = len(say.answer.ways) - len(listed)
    more = f"{counted(left_out, 'more way')}, and the value of each" if left_out else "Value of each"
    lines(console, wrapped(f"{INDENT}{words.INTERVAL}", width))
    if ask and not details:
        lines(console, wrapped(f"{INDENT}{more}: {ask} --details", width))
    if details or technical:
        lines(console, ("", *_details(recommendation, labels, width, technical=technical)))
    if recommendation.front is not None:
        lines(
            console, ("", *_front_lines(recommendation.front, labels, width, limited=bool(recommendation.choice.kept)))
        )


def _now(found: Recommendation, say: AnswerWords) -> str:
    """Say what to control at what was read just now."""
    now = found.now or found.choice
    what = f"At these readings, control {shown_way(now.control_set, now.setpoints, say.units)}"
    if now == found.choice:
        return f"{what}, as without readings."
    cost = "" if now.cost_per_trial is None else f", {say.money(now.cost_per_trial)} per trial"
    return f"{what}. Expected: {f'{number(now.low)} to {number(now.high)} {say.unit}'.rstrip()}{cost}."


def _ways(say: AnswerWords, ways: Sequence[WayToRun], labels: ShownLabels) -> Sequence[ShownColumn]:
    """Return ways to run as columns; what has the highest `spare` is left out first where room is short."""
    outcome, currency = f"{labels.outcome.label}\n{labels.outcome.unit}".strip(), labels.currency
    columns = (
        ShownColumn("way to run", [words.way_label(say, w) for w in ways], left=True),
        ShownColumn(outcome, [say.expected(w) for w in ways]),
        ShownColumn("95 %\ninterval", [say.span(w) for w in ways], spare=1),
        ShownColumn(f"cost\n{currency}", [say.cost(w) for w in ways]),
        ShownColumn(f"net\n{currency}", [say.net(w) for w in ways])
        if say.answer.price is not None
        else ShownColumn(f"pays if worth\n{say.price_unit}", [say.pays(w) for w in ways], spare=3),
        *(
            ShownColumn(f"{shown_name(k.outcome, labels.names)}\nkept", [w.kept[i].share for w in ways], spare=0)
            for i, k in enumerate(say.answer.run.kept)
        ),
        ShownColumn("cost\ninterval", [say.cost_span(w) for w in ways], spare=4),
        ShownColumn("trials", [say.trials(w) for w in ways], spare=2),
    )
    return [column for column in columns if set(column.cells) != {"-"}]


def _details(found: Recommendation, labels: ShownLabels, width: int, *, technical: bool) -> Iterator[str]:
    """Yield what each way and variable is worth, how the rule is read, and what would change the answer."""
    if technical:
        yield from wrapped(f"Compared: {found.technical}.", width)
    unit, currency = labels.outcome.unit, labels.currency
    say = words.answer(labels, found)
    for one in advise(found, say):
        for line in (one.head, *(f"{INDENT}{line}" for line in one.more)):
            yield from wrapped(line, width)
    if found.rule is not None:
        if say.answer.run.kind != "rule":
            yield from _rule_lines(found.rule, labels, width)
        yield "Looking first:"
        for line in words.of_looking(labels, found):
            yield from wrapped(f"{INDENT}{line}", width, INDENT * 2)
    if found.changes is not None:
        yield f"Changes that would lead to another {'fixed setting' if found.rule is not None else 'recommendation'}:"
        for line in shown(found.changes, currency=currency, unit=unit, names=labels.units):
            yield from wrapped(f"{INDENT}{line}", width, INDENT * 2)


def _rule_lines(rule: Rule, labels: ShownLabels, width: int) -> Iterator[str]:
    """Yield the lines of a rule, of which the first that fits counts; nothing where it follows no reading."""
    unit, currency = labels.outcome.unit, labels.currency
    for row in rows(rule, labels.units) if rule.follows else ():
        gives = f"{row.share} of trials, {f'{row.interval} {unit}'.rstrip()}, {row.cost} {currency}"
        told = f"{INDENT}{' and '.join(row.when)}: control {row.control} at {', '.join(row.at)} ({gives})"
        yield from wrapped(told, width, INDENT * 2)


def _front_json(front: Front) -> Mapping[str, Any]:
    return {
        "hypervolume": front.hypervolume,
        "reference": front.reference,
        "points": front.points,
        "measured": {"hypervolume": front.measured_hypervolume, "trials": front.measured_trials},
    }


def _front_lines(front: Front, labels: ShownLabels, width: int, *, limited: bool) -> Iterator[str]:
    units, points = labels.outcome_units, front.points
    columns = [
        ShownColumn("trial", [str(p.trial) for p in points]),
        ShownColumn("control", [shown_set(p.control_set, labels.units) for p in points], left=True),
    ]
    for k, ((name, unit), sign) in enumerate(zip(units.items(), labels.signs, strict=True)):
        better = "more is better" if sign > 0 else "less is better"
        columns.append(
            ShownColumn(
                f"{f'{shown_name(name, units)} {unit}'.strip()}\n{better}",
                [plus_minus(p.expected[k], p.sd[k]) for p in points],
            )
        )
    columns.append(ShownColumn("at", [settings(p.setpoints, labels.units) for p in points], left=True))
    first, within = labels.outcome.label, ", within the limits" if limited else ""
    best = "settings tried that no other setting is expected to beat in every outcome"
    yield from wrapped(f"The table above is for {first} alone{within}. Trade-off: {best}", width)
    yield from table(columns, width)
    reference = settings(dict(zip(units, front.reference, strict=True)), units)
    volumes = f"{number(front.hypervolume, 5)} expected, {number(front.measured_hypervolume, 5)} measured"
    told = f"{INDENT}hypervolume {volumes}: how much these settings are better than {reference}"
    yield from wrapped(told, width, INDENT)
