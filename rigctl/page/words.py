"""How numbers, times and states are said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from math import ceil, floor, isfinite, log10
from types import MappingProxyType

from rigctl.campaign.journal.alarms import AlarmState
from rigctl.campaign.status import AGAIN, ending
from rigctl.core.advice.answer import WayToRun, answer_of
from rigctl.core.advice.answer_words import AnswerWords
from rigctl.core.advice.recommend import Recommendation
from rigctl.core.advice.rules.saying import RuleRow, how_to_read, rows, worth
from rigctl.errors import counted
from rigctl.page.shown import Facts, SetFact, ShownLabels, Study, Why
from rigctl.text import in_full, joined, plus_minus, shown_name, shown_set, shown_value, words_of

STILL: Mapping[str, str] = MappingProxyType(
    {
        "not running": f"Nothing watches the rig now. {AGAIN} makes everything safe first, then continues.",
        "tripped": "Everything was made safe and stays so until a person resets the trip.",
        "holding": "Everything was made safe and stays so until the fault is cleared.",
        "paused": "Everything was made safe; no trial begins until a person resumes.",
        "waiting": "Everything was made safe; the next trial begins after the wait.",
        "starting": "Everything is made safe first.",
    }
)
"""What holds while nothing is controlled."""
UNCONFIRMED = "Not everything is confirmed safe: rigctl tries again until it is. Go and look at the rig."
SEVERITIES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"MINOR": ("\u25b3", "note"), "MAJOR": ("\u25b2", "warning"), "INVALID": ("\u25a0", "stop")}
)
"""Sign and word of an alarm's severity: its colour never stands alone."""


def number(value: float | None, digits: int = 4) -> str:
    """Write a number in short; a dash where there is none."""
    if value is None or not isfinite(value):
        return "\u2013"
    return in_full(value, digits).replace("-", "\u2212")


def money(amount: float | None, currency: str = "") -> str:
    """Write an amount with as many decimals as tell it from nothing."""
    if amount is None:
        return "\u2013"
    decimals = 2 if abs(amount) >= 0.095 or amount == 0 else min(6, -floor(log10(abs(amount))))
    return f"{amount:.{decimals}f} {currency}".rstrip()


def decimals_for(width: float) -> int:
    """Return with how many decimals the ends of an interval are told apart, and no more."""
    return min(6, max(0, ceil(0.69 - log10(width)))) if width > 0 and isfinite(width) else 2


def between(low: float, high: float, unit: str = "") -> str:
    """Write an interval with as many decimals as tell its ends apart."""
    digits = decimals_for(abs(high - low))
    return f"{low:.{digits}f} to {high:.{digits}f} {unit}".replace("-", "\u2212").rstrip()


def alarm_words(alarm: AlarmState, now: datetime) -> str:
    """Say whether an alarm is active, and who has acknowledged or shelved it."""
    words = {
        "active": "active" if alarm.lasting else "not acknowledged",
        "acknowledged": f"active, acknowledged by {alarm.acknowledged}",
        "over": "over, not acknowledged",
        "settled": f"over, acknowledged by {alarm.acknowledged}" if alarm.acknowledged else "over",
    }[alarm.condition]
    if alarm.shelf is None:
        return words
    return f"{words}, shelved until {clock(alarm.shelf.until_utc, now)} by {alarm.shelf.who}"


def with_unit(value: float | None, unit: str, digits: int = 4) -> str:
    return f"{number(value, digits)} {unit}".rstrip() if value is not None else "\u2013"


def worded(name: str, value: float | None, names: Mapping[str, str]) -> str:
    """Write what a variable is, with its unit; of a category the level's word."""
    word = value is not None and words_of(name, names)
    return shown_value(name, value, names) if word else with_unit(value, names.get(name, ""))


def spread(mean: float, sd: float, unit: str = "") -> str:
    """Write a mean and its standard deviation; the value alone where nothing is known of its error."""
    return f"{plus_minus(mean, sd)} {unit}".rstrip().replace("-", "\u2212") if sd else with_unit(mean, unit)


def clock(utc: str, now: datetime) -> str:
    """Write an instant in the zone of `now`: without its date where that is today's."""
    if not utc:
        return ""
    at = datetime.fromisoformat(utc).astimezone(now.tzinfo)
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M}"


def as_of(facts: Facts, study: Study | None) -> str:
    """Say which trials a study knows, where there are more; empty where it knows all."""
    behind = 0 if study is None else facts.behind(study)
    return "" if study is None or behind <= 0 else f"from the first {counted(study.trials, 'trial')}"


INTERVAL = "Intervals are for the mean outcome of many trials, not for a single trial."
WAYS: Mapping[str, str] = MappingProxyType(
    {"rule": "the rule", "nothing": "control nothing", "today": "today's practice"}
)


def answer(labels: ShownLabels, found: Recommendation) -> AnswerWords:
    """Return the answer to what to run from now on, in the words of this rig."""
    outcome = labels.outcome
    return AnswerWords(answer_of(found), outcome.label, outcome.unit, labels.currency, labels.names)


def answer_in(labels: ShownLabels, study: Study | None) -> AnswerWords | None:
    """Return the same of a study; None before there is one."""
    return None if study is None or study.recommendation is None else answer(labels, study.recommendation)


def way_label(say: AnswerWords, way: WayToRun, plus: str = "+") -> str:
    """Name a way in a table or drawing."""
    if way.kind == "rule" and say.answer.run is not way:
        return "the rule (details)"
    return WAYS.get(way.kind) or shown_set(way.control_set, say.units, plus)


def answered(facts: Facts, study: Study | None) -> str:
    """Return the answer that was given last, for as long as the model has said nothing; empty: none was."""
    known = facts.answered if study is None else None
    return "" if known is None else f"{known.told} This is as of trial {known.trial}."


def a_month(say: AnswerWords, trials: float | None) -> str:
    """Say what the answer costs and is worth in a month of so many trials; empty where that is not known."""
    why, run = say.answer.why, say.answer.run
    if trials is None or run.cost is None:
        return ""
    said = f"At {number(trials, 3)} trials a month this costs {number(trials * run.cost, 3)} {say.currency} a month"
    more = None if why is None else why.saving if why.net is None else why.net
    if why is None or not more:
        return f"{said}."
    verb = ("saves" if more > 0 else "costs") if why.net is None else "earns"
    side = "more" if more > 0 or why.net is None else "less"
    than = f"against {say.name(why.other)}" if verb == "saves" else f"{side} than {say.name(why.other)}"
    return f"{said} and {verb} {number(trials * abs(more), 3)} {say.currency} {than}."


def rule_rows(labels: ShownLabels, found: Recommendation) -> tuple[RuleRow, ...]:
    """Return what to control at which readings; nothing where no reading calls for anything else than the setting."""
    return rows(found.rule, labels.units) if found.rule is not None and found.rule.follows else ()


def of_looking(labels: ShownLabels, found: Recommendation) -> list[str]:
    """Say what looking first is worth, and how far readings are trusted; nothing where none is read before a trial."""
    rule, unit, currency = found.rule, labels.outcome.unit, labels.currency
    return (
        []
        if rule is None
        else [*worth(rule, labels.units, unit=unit, currency=currency), *how_to_read(rule, labels.units)]
    )


def _still(facts: Facts) -> str:
    """Say what holds while nothing is controlled."""
    unsafe = any(a.kind == "unconfirmed" and a.condition in ("active", "acknowledged") for a in facts.alarms)
    word = facts.phase.word
    return UNCONFIRMED if unsafe and word == "holding" else STILL.get(word, "No trial has been decided yet.")


def headline(facts: Facts, study: Study | None) -> str:
    """Return the sentence below the top line: what is done, what is expected of it, against what else."""
    word, trial = facts.phase.word, facts.trial
    say = answer_in(facts.labels, study)
    said = answered(facts, study) if say is None else say.in_short()
    if word == "ended":
        return f"The campaign has ended: {ending(facts.phase.why)}. {said}".strip()
    if word == "by hand" and facts.why is not None and (trial is None or facts.why.trial > trial.trial):
        return f"Suggested for trial {facts.why.trial}: control {_named(facts, facts.why)}. {said}".strip()
    still = _still(facts)
    if trial is None:
        return still
    if word in STILL:
        left = f" Trial {trial.trial} was under way." if trial.under_way else ""
        return f"{still}{left}"
    if trial.state == "LOOKING":
        said = f"Trial {trial.trial} reads its variables first, all of them uncontrolled."
        return f"{_batch(facts)}{said} The readings decide what to control."
    why = facts.why
    if why is not None and why.trial == trial.trial and (trial.under_way or facts.asks):
        said = _batch(facts) + " ".join(_controlled(facts, why, study))
    return said


def _named(facts: Facts, why: Why) -> str:
    return joined([shown_name(name, facts.labels.units) for name in why.control_set])


def _batch(facts: Facts) -> str:
    return f"Operating for production, batch {facts.batches}. " if facts.batches else ""


def _controlled(facts: Facts, why: Why, study: Study | None) -> Iterator[str]:
    chosen = next((s for s in why.sets if s.chosen), None)
    known = chosen is not None and chosen.price is not None
    price = f" ({money(chosen.price, facts.labels.currency)} a trial)" if chosen is not None and known else ""
    yield f"Controls {_named(facts, why)} now{price}."
    if chosen is not None and chosen.band is not None:
        yield _expected(facts, chosen, chosen.band, study)
    everything = next((s for s in why.sets if len(s.control_set) == len(facts.labels.units)), None)
    if chosen is not None and chosen.price and everything is not None and everything.price:
        times = everything.price / chosen.price
        if times >= 1.1:
            yield f"Controlling everything costs {times:.1f} times as much."


def _expected(facts: Facts, chosen: SetFact, band: tuple[float, float, float], study: Study | None) -> str:
    unit = facts.labels.outcome.unit
    said = f"Expected: {between(*band[::2], unit)}"
    say = answer_in(facts.labels, study)
    if say is None or study is None or facts.behind(study) > 1:  # what was known then is not compared with now
        return f"{said}."
    today = say.answer.run
    if frozenset(today.control_set) == frozenset(chosen.control_set):
        return f"{said}, as today's recommendation."
    difference = band[1] - today.expected
    side = "above" if difference >= 0 else "below"
    return f"{said}, {number(abs(difference), 2)} {side} today's recommendation."
