"""A rule in words: its lines as a table that a person can follow, and what it is worth as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rigctl.core.advice.rule import Between, Earning, LookWorth, Rule, RuleLine, Setting
from rigctl.core.advice.worth import SMALLEST, FixedSetting, Gain
from rigctl.core.experiment.natural import ENOUGH
from rigctl.text import decimals_for, ends, in_full, set_label, written

ANY, ELSE = "at any reading", "otherwise"
LITTLE = 0.005
"""A smaller share of what looking gains is not spoken of."""
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
            when=tuple(_when(c, units) for c in line.when) or (ELSE if len(rule.lines) > 1 else ANY,),
            control=set_label(line.control_set),
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
    return tuple(_setting(s, units.get(s.variable, "")) for s in line.settings)


def answer(rule: Rule, *, outcome: str, unit: str, currency: str) -> Iterator[str]:
    """Say what is expected of the rule, and how much better than a fixed setting that is; a sentence or two.

    `unit` is the outcome's, as shown, empty for none. What else there is to say of it says `worth`.
    """
    say, looking = _Words(rule, unit, currency), rule.looking
    if not rule.follows:
        yield "No reading calls for anything else than the recommended fixed setting."
        return
    paid = "" if rule.cost_per_trial is None else f", at {in_full(rule.cost_per_trial, 3)} {currency} a trial"
    yield f"Over the readings to come, {outcome} is expected at {say.span(rule.low, rule.high)}{paid}."
    yield say.against(looking) if looking.earns is None else say.earned(looking.earns)


def worth(rule: Rule, *, unit: str, currency: str) -> Iterator[str]:
    """Say what else the rule and looking first are worth; sentences. `unit` is as for `answer`."""
    say, looking = _Words(rule, unit, currency), rule.looking
    if rule.follows:
        yield say.best(looking.best)
        if looking.earns is not None:
            yield say.against(looking)
        yield from say.money(looking)
        yield say.value(looking.value)
    yield from say.loss()


def how_to_read(rule: Rule) -> Iterator[str]:
    """Say how the rule is to be read, and how far readings tell of the trial; sentences."""
    if rule.follows:
        if any(setting.slopes for line in rule.lines for setting in line.settings):
            yield "A name in a setting stands for what was read; what goes beyond the range is set to its end."
        yield "Where a reading is missing, run the recommended fixed setting."
        yield "What these lines set is backed by trials nearby, but need not have been set before."
    kept = [
        f"{t.variable} {t.rho:.0%}" if t.rho or t.pairs >= ENOUGH else f"{t.variable} not known yet" for t in rule.trust
    ]
    for i in range(0, len(kept), TOGETHER):
        yield f"Still there in the trial, of a deviation read before: {', '.join(kept[i : i + TOGETHER])}."


class _Words:
    """Write a rule's numbers with the same decimals."""

    def __init__(self, rule: Rule, unit: str, currency: str, spreads: Sequence[float] = ()) -> None:
        self._rule, self._unit, self._currency = rule, unit, currency
        gain = rule.looking.gain
        self.decimals = decimals_for(spreads or [0.25 * (rule.high - rule.low), 0.25 * (gain.high - gain.low)])

    def span(self, low: float, high: float) -> str:
        return f"{ends(low, high, self.decimals)} {self._unit}".rstrip()

    def best(self, best: FixedSetting) -> str:
        """Say what looking is compared with."""
        cost = best.cost_per_trial
        price = "" if cost is None else f", at {in_full(cost, 3)} {self._currency} a trial"
        return (
            f"The best fixed setting controls {set_label(best.control_set)}: {self.span(best.low, best.high)}{price}."
        )

    def gain(self, gain: Gain) -> str:
        """Say how much better something is; with `than` after it."""
        if gain.low > 0:
            return f"better by {self.span(gain.low, gain.high)}"
        if gain.high < 0:
            return f"worse by {self.span(-gain.high, -gain.low)}"
        return f"not shown to be better ({self.span(gain.low, gain.high)})"

    def against(self, looking: LookWorth) -> str:
        """Compare the rule with the best fixed setting."""
        return f"These lines are {self.gain(looking.gain)} than the best fixed setting."

    def earned(self, earning: Earning) -> str:
        """Compare the rule with the fixed setting that earns most, net of what trials cost."""
        gain, money = earning.gain, self._in_money(earning)
        at = f"At {in_full(earning.price, 3)} {self._currency} for {self._one}, that"
        if gain.low > 0:
            return f"{at} earns {money.span(gain.low, gain.high)} more than any fixed setting."
        if gain.high < 0:
            return f"{at} earns {money.span(-gain.high, -gain.low)} less than the best fixed setting."
        return f"{at} is not shown to earn more ({money.span(gain.low, gain.high)}) than the best fixed setting."

    def value(self, value: Gain) -> str:
        """Say what looking itself is worth."""
        if float(written(value.high, self.decimals)) == 0:
            return "Costs aside, looking first gains nothing over the best fixed setting."
        return f"Costs aside, looking first is {self.gain(value)} than the best fixed setting."

    def money(self, looking: LookWorth) -> Iterator[str]:
        """Say what the lines save, or from which worth of the outcome on they pay; looking itself not counted."""
        if looking.saving is not None and looking.saving > 0:
            saving = f"{in_full(looking.saving, 3)} {self._currency}"
            yield f"They save {saving} a trial, what looking itself costs not counted."
        elif looking.saving is not None and looking.saving < 0:
            yield f"They cost {in_full(-looking.saving, 3)} {self._currency} a trial more."
        if looking.earns is not None:
            yield from self._earns(looking.earns)
        elif looking.per_outcome is not None:
            yield f"They pay if {self._one} is worth more than {in_full(looking.per_outcome, 2)} {self._currency}."
        other = looking.instead and looking.instead != looking.best.control_set
        if other and looking.instead_costs is not None and looking.instead_costs > SMALLEST:
            price = f"{in_full(looking.instead_costs, 3)} {self._currency}"
            yield f"To expect as much without looking, control {set_label(looking.instead)}: {price} a trial more."

    def _earns(self, earning: Earning) -> Iterator[str]:
        """Say what looking itself is worth in money."""
        money = self._in_money(earning)
        yield f"The fixed setting that earns most controls {set_label(earning.best)}."
        if float(written(earning.value.high, money.decimals)) == 0:
            yield "Costs taken off, looking first gains nothing over it."
        else:
            yield f"Costs taken off, looking first is {money.gain(earning.value)} than it."

    def _in_money(self, earning: Earning) -> _Words:
        """Return what writes gains in money."""
        spread = [0.25 * (g.high - g.low) for g in (earning.gain, earning.value)]
        return _Words(self._rule, f"{self._currency} a trial", self._currency, spread)

    @property
    def _one(self) -> str:
        return f"one {self._unit}" if self._unit else "one unit of outcome"

    def loss(self) -> Iterator[str]:
        """Say what the table gives up against doing what is best at every single reading."""
        rule, told, lost = self._rule, [], f"{self._rule.loss:.{self.decimals}f}"
        if rule.loss_share is not None and abs(rule.loss_share) < LITTLE:
            told.append("no better")
        elif rule.loss > 0 and float(lost):
            share = "" if rule.loss_share is None else f", {rule.loss_share:.0%} of what looking gains"
            told.append(f"better by {f'{lost} {self._unit}'.rstrip()}{share}")
        if rule.full_cost is not None and rule.cost_per_trial is not None:
            less = rule.cost_per_trial - rule.full_cost
            if less >= SMALLEST and less >= LITTLE * rule.cost_per_trial:
                told.append(f"cheaper by {in_full(less, 2)} {self._currency} a trial")
        for more in told:
            yield f"The best at every single reading would be {more}."


def _when(condition: Between, units: Mapping[str, str]) -> str:
    unit = units.get(condition.reading, "")
    if condition.low is None:
        return f"{condition.reading} below {condition.high:g} {unit}".rstrip()
    if condition.high is None:
        return f"{condition.reading} from {condition.low:g} {unit}".rstrip()
    return f"{condition.reading} from {condition.low:g} to below {condition.high:g} {unit}".rstrip()


def _setting(setting: Setting, unit: str) -> str:
    terms = "".join(
        f" {'+' if s.per_unit > 0 else '-'} {abs(s.per_unit):g} x ({s.reading} - {s.about:g})".replace("- -", "+ ")
        for s in setting.slopes
    )
    return f"{setting.variable} {in_full(setting.at, 4)}{terms} {unit}".rstrip()
