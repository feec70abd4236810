"""The questions of `rigctl init`, in the order in which they are asked, at a terminal and in a browser.

Each has an example, or says what an empty answer means. Nothing is asked that a flag has said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, Protocol, TypeVar

from rigctl.config import answers
from rigctl.config.draft import (
    EVERY,
    MEASURE,
    MIX,
    SETTLE,
    Draft,
    DraftPoint,
    FoundDevice,
    OutcomeDraft,
    VariableDraft,
    is_metered,
    is_pump,
)
from rigctl.console.output import yes
from rigctl.text import in_full

T = TypeVar("T")
NONE: Final = "none"
MOST_CHANNELS: Final = 8
"""Of one unit that are shown."""


class Prompt(Protocol):
    """Where a person is asked."""

    def section(self, title: str) -> None:
        """Begin a group of questions."""

    def say(self, text: str) -> None:
        """Say something before the next question."""

    def ask(
        self, question: str, reader: Callable[[str], T], default: str | None = None, example: str = "", empty: str = ""
    ) -> T:
        """Return what `reader` made of the answer; it raises ValueError, which says what is wrong with an answer.

        The question's words before the first comma name the answer. `default` stands for an empty answer; None: there
        must be one. `example` is an answer that the reader takes; `empty` says what an empty one means.
        """


@dataclass(frozen=True, slots=True)
class Interview:
    """Asks a person what a draft lacks."""

    prompt: Prompt

    @property
    def say(self) -> Callable[[str], None]:
        return self.prompt.say

    def ask(self, question: str, reader: Callable[[str], T], default: str | None = None, example: str = "") -> T:
        return self.prompt.ask(question, reader, default, example)

    def ask_or_none(self, question: str, reader: Callable[[str], T], empty: str, example: str = "") -> T | None:
        """Ask what may be left open; `empty` says what that means."""
        return self.prompt.ask(
            question, lambda text: reader(text) if text.strip() else None, "", example=example, empty=empty
        )

    def fill(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        """Return the draft with everything that a configuration needs."""
        if not draft.by_hand and devices:
            question = f"Shall rigctl drive {'them' if len(devices) > 1 else 'it'}? If not, a person does the trials"
            draft = replace(draft, by_hand=not self.ask(question, yes, "yes"))
        if draft.outcome is None:
            draft = replace(draft, outcome=self._outcome(draft))
        if not draft.variables:
            draft = self._variables(draft)
        if not draft.by_hand:
            draft = self._places(draft, devices)
        draft = self._costs(draft, devices)
        if not draft.by_hand:
            draft = self._timing(self._pumps(draft, devices))
        return draft

    # what it is for, and what can be done ------------------------------------------------------------------------

    def _outcome(self, draft: Draft) -> OutcomeDraft:
        self.prompt.section("What is measured at the end of a trial, and should become better?")
        taken = [v.name for v in draft.variables]
        name = self.ask("Its name", lambda t: answers.column_of(t, taken), example="growth")
        unit = self.ask('Its unit ("1" for none)', answers.unit_of, example="cm2/day")
        direction = self.ask("maximise or minimise", answers.direction_of, "maximise")
        target = self.ask_or_none("A value you would be content with", answers.number_of, "none")
        return OutcomeDraft(name, unit, direction, target)

    def _variables(self, draft: Draft) -> Draft:
        self.prompt.section("What could be controlled? One variable after the other.")
        while True:
            variable = self._variable(draft)
            if variable is None:
                return draft
            draft = replace(draft, variables=(*draft.variables, variable))

    def _variable(self, draft: Draft) -> VariableDraft | None:
        taken = [v.name for v in draft.variables] + ([draft.outcome.name] if draft.outcome is not None else [])

        def read(text: str) -> str:
            if not text.strip():
                raise ValueError("at least one is needed: without any there is nothing to decide")
            return answers.column_of(text, taken)

        if not draft.variables:
            name: str | None = self.ask("Name of the first, e.g. ph", read)
        else:
            name = self.ask_or_none("Name of the next, e.g. calcium", read, "no more")
        if name is None:
            return None
        unit = self.ask(f'{name}: unit ("1" for none)', answers.unit_of, example="mM")
        question = f"{name}: lowest and highest value you would set"
        low, high = self.ask(question, answers.span_of, example="5 .. 7")
        such = f"{in_full((low + high) / 2)} +- {in_full((high - low) / 10)} or {in_full(low)} .. {in_full(high)}"
        self.say(f"How does {name} vary while nobody controls it? E.g. {such}.")
        natural = self.ask(f"{name}: uncontrolled", lambda t: answers.natural_of(t, low, high), "unknown")
        step = self.ask_or_none(
            f"{name}: step between two values", lambda t: answers.step_of(t, low, high), "any value can be set"
        )
        return VariableDraft(name, unit, low, high, natural, step)

    # where it is measured and imposed ----------------------------------------------------------------------------

    def _places(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        self.prompt.section("Where is each measured, and what sets it? A device, or a place in one:")
        for text in _places_there(devices):
            self.say(f"  {text}")
        outcome = draft.outcome
        if outcome is not None and outcome.sensor is None:
            outcome = replace(outcome, sensor=self._point(outcome.name, devices, "sensor"))
        variables = []
        for v in draft.variables:
            sensor = v.sensor or self._point(v.name, devices, "sensor")
            actuator = v.actuator or self._point(v.name, devices, "actuator")
            variables.append(replace(v, sensor=sensor, actuator=actuator))
        draft = replace(draft, outcome=outcome, variables=tuple(variables))
        unmeasured = [o.name for o in (outcome, *variables) if o is not None and o.sensor is None]
        if unmeasured or all(v.actuator is None for v in variables):
            why = f"{', '.join(unmeasured)} cannot be measured" if unmeasured else "nothing can be set"
            self.say(f"As {why} by rigctl, a person does the trials.")
            self.say("What was found stays in the file as comments.")
            return replace(draft, by_hand=True)
        return draft

    def _point(
        self, name: str, devices: Sequence[FoundDevice], use: Literal["sensor", "actuator"]
    ) -> DraftPoint | None:
        def read(text: str) -> DraftPoint | None:
            return None if text.strip().lower() == NONE else answers.point_of(text, devices, use)

        return self.ask(f"{name}: {'measured' if use == 'sensor' else 'set'} by", read, NONE)

    def _pumps(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        driven = [v for v in draft.variables if v.actuator is not None]
        if driven:
            self.prompt.section("Safety: what each may do at most, and where it goes on a fault.")
        settled = {v.name: self._pump(v, devices) if is_pump(v.actuator, devices) else self._safe(v) for v in driven}
        return replace(draft, variables=tuple(settled.get(v.name, v) for v in draft.variables))

    def _safe(self, v: VariableDraft) -> VariableDraft:
        read = answers.safe_of
        safe = v.safe or self.ask(
            f"{v.name}: safe is off (let go), or a value in {v.unit}", lambda t: read(t, v.low, v.high), "off"
        )
        return replace(v, safe=safe)

    def _pump(self, v: VariableDraft, devices: Sequence[FoundDevice]) -> VariableDraft:
        effect = v.effect
        if effect is None:
            question = f"{v.name}: change per mL dispensed, in {v.unit}, e.g. -0.04 for an acid"
            effect = self.ask(question, answers.effect_of)
        across_ml = (v.high - v.low) / abs(effect)
        self.say(f"From one end of its range to the other takes {in_full(across_ml, 3)} mL.")
        per_dose = v.per_dose or self.ask(f"{v.name}: most in one dose", answers.volume_of, _rounded(max(across_ml, 1)))
        most = _rounded(10 * max(across_ml, 1))
        per_day = v.per_day or self.ask(f"{v.name}: most in any 24 hours", answers.volume_of, most)
        treatment = v.treatment or self._treatment(v, effect, devices)
        mix = v.mix or self.ask(f"{v.name}: how long a dose takes to mix", answers.duration_of, MIX)
        return replace(v, effect=effect, per_dose=per_dose, per_day=per_day, mix=mix, treatment=treatment)

    def _treatment(self, v: VariableDraft, effect: float, devices: Sequence[FoundDevice]) -> DraftPoint | None:
        places = [d.name for d in devices if d.can == "modbus"]
        if not places:
            return None
        self.say(
            f"The pump only {'raises' if effect > 0 else 'lowers'} {v.name}. What first brings it to the other side?"
        )
        return self.ask_or_none(
            f"{v.name}: treated by",
            lambda t: answers.point_of(t, devices, "actuator"),
            "nothing",
            example=f"{places[0]}/coil/1",
        )

    # what it costs, and how long it takes ------------------------------------------------------------------------

    def _costs(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        self.prompt.section("What does it cost?")
        if draft.budget is None:
            draft = self._budget(draft)
        code = draft.currency
        draft = self._by_hand(draft) if draft.by_hand else self._metered(draft, devices)
        while not draft.by_hand and not is_metered(draft, devices):
            self.say("Something must cost money: if every trial were free, there would be nothing to weigh.")
            read = partial(answers.amount_of, currency=code, or_nothing=False)
            draft = replace(draft, per_trial=self.ask(f"Each trial, once, in {code}", read, "0.05"))
        told = all(v.cost is not None for v in draft.variables) if draft.by_hand else draft.energy_price is None
        if draft.max_per_trial is None and not told:
            read = partial(answers.amount_of, currency=code, or_nothing=False)
            most = self.ask_or_none(f"What may one trial cost at most, in {code}", read, "whatever is left")
            draft = replace(draft, max_per_trial=most)
        return draft

    def _budget(self, draft: Draft) -> Draft:
        code = self.ask("Currency", answers.currency_of, draft.currency or "EUR")
        read = partial(answers.amount_of, currency=code, or_nothing=False)
        budget = self.ask(f"What may the whole campaign cost, in {code}", read, example="40")
        return replace(draft, currency=code, budget=budget)

    def _by_hand(self, draft: Draft) -> Draft:
        code, costs = draft.currency, {}
        self.say("What does controlling each add to a trial? Enter: found out from the trials.")
        read = partial(answers.amount_of, currency=code)
        for v in draft.variables:
            question = f"Controlling {v.name} costs, per trial in {code}"
            costs[v.name] = v.cost or self.ask_or_none(question, read, "unknown", example="0.40")
            if costs[v.name] is None:
                break
        variables = tuple(replace(v, cost=costs.get(v.name)) for v in draft.variables)
        base = draft.per_trial
        if base is None and all(v.cost is not None for v in variables):
            base = self.ask(f"Every trial costs besides, in {code}", read, "0")
        return replace(draft, variables=variables, per_trial=base)

    def _metered(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        code = draft.currency
        price = partial(answers.amount_of, currency=code)
        if draft.energy_price is None and any(d.can == "meter" for d in devices):
            read = partial(price, per="/kWh")
            energy = self.ask_or_none(f"1 kWh, in {code}", read, "not counted", example="0.31")
            draft = replace(draft, energy_price=energy)
        prices = {}
        for v in draft.variables:
            if v.price is None and is_pump(v.actuator, devices):
                question = f"1 L of what the pump of {v.name} dispenses, in {code}"
                prices[v.name] = self.ask_or_none(question, partial(price, per="/L"), "not counted")
        variables = tuple(replace(v, price=prices.get(v.name, v.price)) for v in draft.variables)
        draft = replace(draft, variables=variables)
        if draft.per_hour is None:
            hour = self.ask_or_none(f"One hour of a trial, in {code}", partial(price, per="/h"), "nothing")
            draft = replace(draft, per_hour=hour)
        if draft.per_trial is None:
            draft = replace(draft, per_trial=self.ask_or_none(f"Each trial, once, in {code}", price, "nothing"))
        return draft

    def _timing(self, draft: Draft) -> Draft:
        self.prompt.section("How long does a trial take?")
        read = answers.duration_of
        return replace(
            draft,
            settle=draft.settle or self.ask("From the last setpoint until it has settled", read, SETTLE),
            measure=draft.measure or self.ask("Then it is measured for", read, MEASURE),
            every=draft.every or self.ask("One sample every", read, EVERY),
        )


def _places_there(devices: Sequence[FoundDevice]) -> Iterator[str]:
    """Yield each device as it may be answered with, and what its places hold now."""
    for d in devices:
        example = {"scpi": f"{d.name}/MEAS:VOLT?", "modbus": f"{d.name}/holding/2/float32/coil=2"}.get(d.can, d.name)
        yield f"{example}   ({d.said or d.driver})"
        for options, said in d.channels[:MOST_CHANNELS]:
            where = options.get("read", {})
            place = [str(where[key]) for key in ("register", "at", "type", "order") if key in where]
            place = place or ["coil", str(options.get("enable", {}).get("coil", ""))]
            yield f"  {'/'.join([d.name, *place])}   ({said})"
        if len(d.channels) > MOST_CHANNELS:
            yield f"  and {len(d.channels) - MOST_CHANNELS} more, which will stand in the file"


def _rounded(volume_ml: float) -> str:
    return f"{in_full(float(f'{volume_ml:.2g}'))} mL"
