"""A rule in words: its lines as a table that a person can follow, and what it is worth as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rigctl.core.advice.rule import Between, Rule, RuleLine, Setting
from rigctl.core.advice.worth import SMALLEST, Gain
from rigctl.core.experiment.natural import ENOUGH
from rigctl.text import decimals_for, ends, in_full, shown_name, shown_set, shown_value, words_of, written

ANY, ELSE = "at any reading", "otherwise"
LITTLE = 0.005
"""A smaller share of the gain from looking is not spoken of."""
TOGETHER = 5
"""Variables in one sentence."""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One line of the table; texts."""

    when: tuple[str, ...]
    """Conditions, all of which hold."""
    control: str
    at: tuple[str, ...]
    """Settings."""
    expected: str
    interval: str
    cost: str
    share: str


def rows(rule: Rule, units: Mapping[str, str]) -> tuple[RuleRow, ...]:
    """Return the rule as a table; `units` are those of the variables as shown, empty for none."""
    decimals = decimals_for([0.25 * (line.high - line.low) for line in rule.lines])
    cents = decimals_for([0.1 * line.cost_per_trial for line in rule.lines if line.cost_per_trial])
    return tuple(
        RuleRow(
            when=tuple(when(c, units) for c in line.when) or (ELSE if len(rule.lines) > 1 else ANY,),
            control=shown_set(line.control_set, units),
            at=settings(line, units),
            expected=f"{line.expected:.{decimals}f}",
            interval=ends(line.low, line.high, decimals),
            cost="-" if line.cost_per_trial is None else f"{line.cost_per_trial:.{cents}f}",
            share=f"{line.share:.0%}",
        )
        for line in rule.lines
    )


def settings(line: RuleLine, units: Mapping[str, str]) -> tuple[str, ...]:
    """Say where a line sets its variables, as `ph 6.1 + 0.4 x (ca - 3.2)` and `n 80 mL`."""
    return tuple(_setting(s, units) for s in line.settings)


def worth(rule: Rule, units: Mapping[str, str], *, unit: str, currency: str) -> Iterator[str]:
    """Say what the rule and looking first are worth; sentences. `unit` is the outcome's as shown, empty for none."""
    gain, value = rule.looking.gain, rule.looking.value
    decimals = decimals_for([0.25 * (rule.high - rule.low), 0.25 * (gain.high - gain.low)])
    if rule.follows:
        best = shown_set(rule.looking.best.control_set, units)
        yield f"Costs aside, the rule is {told_gain(gain, decimals, unit)} than the best fixed setting ({best})."
        nothing = float(written(value.high, decimals)) == 0
        found = (
            "looking first gains nothing over"
            if nothing
            else f"the best rule is {told_gain(value, decimals, unit)} than"
        )
        yield f"Costs aside, {found} the best fixed setting."
    else:
        yield "No reading calls for another setting than the fixed one."
    for more in _given_up(rule, decimals, unit, currency):
        yield f"Choosing the best setting for each single reading would be {more}."


def told_gain(gain: Gain, decimals: int, unit: str) -> str:
    """Say how much better something is; with `than` after it."""
    if gain.low > 0:
        return f"better by {ends(gain.low, gain.high, decimals)} {unit}".rstrip()
    if gain.high < 0:
        return f"worse by {ends(-gain.high, -gain.low, decimals)} {unit}".rstrip()
    return f"not shown to be better ({f'{ends(gain.low, gain.high, decimals)} {unit}'.rstrip()})"


def _given_up(rule: Rule, decimals: int, unit: str, currency: str) -> Iterator[str]:
    """Yield what the lines give up against doing what is best at every single reading."""
    lost = written(rule.loss, decimals)
    if rule.loss_share is not None and abs(rule.loss_share) < LITTLE:
        yield "no better"
    elif rule.loss > 0 and float(lost):
        share = "" if rule.loss_share is None else f", {rule.loss_share:.0%} of the gain from looking"
        yield f"better by {f'{lost} {unit}'.rstrip()}{share}"
    if rule.full_cost is not None and rule.cost_per_trial is not None:
        less = rule.cost_per_trial - rule.full_cost
        if less >= SMALLEST and less >= LITTLE * rule.cost_per_trial:
            yield f"cheaper by {in_full(less, 2)} {currency} per trial"


def how_to_read(rule: Rule, units: Mapping[str, str]) -> Iterator[str]:
    """Say how the rule is to be read, and how far readings tell of the trial; sentences."""
    if rule.follows:
        followed = [s.reading for line in rule.lines for own in line.settings for s in own.slopes]
        if followed:
            read = shown_name(followed[0], units)
            yield f'In a formula, "{read}" is the value just read. Results beyond a limit are set to it.'
        yield "Trials nearby support these settings, but no trial need have been at just these."
    kept = [
        f"{shown_name(t.variable, units)} {f'{t.rho:.0%}' if t.rho or t.pairs >= ENOUGH else 'not known yet'}"
        for t in rule.trust
    ]
    for i in range(0, len(kept), TOGETHER):
        part = ", ".join(kept[i : i + TOGETHER])
        yield f"A deviation read before the trial still holds during it by this share: {part}."


def when(condition: Between, units: Mapping[str, str]) -> str:
    """Say on which readings a condition holds, as `ph from 6.1 to below 6.5`."""
    unit, reading = units.get(condition.reading, ""), shown_name(condition.reading, units)
    words, (low, high) = words_of(condition.reading, units), (condition.low, condition.high)
    if words:
        within = (word for n, word in words.items() if (low is None or n >= low) and (high is None or n < high))
        return f"{reading} {' or '.join(within)}"
    ends = [f"{word} {in_full(end)}" for word, end in (("from", low), ("below", high)) if end is not None]
    return f"{reading} {' to '.join(ends)} {unit}".rstrip()


def _setting(setting: Setting, units: Mapping[str, str]) -> str:
    name, unit = shown_name(setting.variable, units), units.get(setting.variable, "")
    terms = ""
    for s in setting.slopes:
        sign, read = "+" if s.per_unit > 0 else "-", shown_name(s.reading, units)
        terms += f" {sign} {in_full(abs(s.per_unit))} x ({read} - {in_full(s.about)})".replace("- -", "+ ")
    if not terms:
        return f"{name} {shown_value(setting.variable, setting.at, units)}"
    return f"{name} {in_full(setting.at, 4)}{terms} {unit}".rstrip()
