"""The questions of `rigctl init`, for whoever sits at a terminal.

Each comes with an example, or with what is taken for an empty answer, and is asked again until the answer holds.
Nothing is asked that a flag has said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

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
from rigctl.flaws import got

if TYPE_CHECKING:
    from rigctl.config.draft import Natural

T = TypeVar("T")
NONE: Final = "none"
MOST_CHANNELS: Final = 8
"""Of one unit that are shown."""


class Prompt(Protocol):
    """Asks a question, with its default if it has one, until the reader takes the answer."""

    def __call__(self, question: str, reader: Callable[[str], T], default: str | None = None) -> T:
        """Return what the reader made of it."""


@dataclass(frozen=True, slots=True)
class Interview:
    """Asks a person what a draft lacks."""

    ask: Prompt
    say: Callable[[str], None]

    def fill(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        """Return the draft with everything that a configuration needs."""
        self.say("Each question has an example, or in [] what Enter takes. Ctrl-C ends it;")
        self.say("nothing is written before the last answer.")
        if not draft.by_hand and devices:
            question = f"Shall rigctl drive {'them' if len(devices) > 1 else 'it'}? If not, a person does the trials"
            draft = replace(draft, by_hand=not self.ask(question, _yes, "yes"))
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
        self.say("\nWhat is measured at the end of a trial, and should become better?")
        taken = [v.name for v in draft.variables]
        name = self.ask("Its name, e.g. growth", lambda t: answers.column_of(t, taken))
        unit = self.ask('Its unit, e.g. cm2/day, g or "1" for none', answers.unit_of)
        direction = self.ask("maximise or minimise", answers.direction_of, "maximise")
        target = self.ask("A value you would be content with; Enter: none", _or_none(answers.number_of), "")
        return OutcomeDraft(name, unit, direction, target)

    def _variables(self, draft: Draft) -> Draft:
        self.say("\nWhat could be controlled? One variable after the other.")
        while True:
            variable = self._variable(draft)
            if variable is None and draft.variables:
                return draft
            if variable is None:
                self.say("At least one is needed: without any there is nothing to decide.")
            else:
                draft = replace(draft, variables=(*draft.variables, variable))

    def _variable(self, draft: Draft) -> VariableDraft | None:
        taken = [v.name for v in draft.variables] + ([draft.outcome.name] if draft.outcome is not None else [])
        default = "" if draft.variables else None
        what = "Name of the next, e.g. calcium; Enter: no more" if draft.variables else "Name of the first, e.g. ph"
        name = self.ask(what, _or_none(lambda t: answers.column_of(t, taken)), default)
        if name is None:
            return None
        unit = self.ask(f'{name}: unit, e.g. pH, mM, degC or "1" for none', answers.unit_of)
        low = self.ask(f"{name}: lowest value you would set, in {unit}", answers.number_of)
        high = self.ask(f"{name}: highest, in {unit}", lambda t: answers.range_of(low, answers.number_of(t))[1])
        self.say(f"How does {name} vary while nobody controls it? Mean +- spread, or low .. high.")
        example = f"{(low + high) / 2:g} +- {(high - low) / 10:g} or {low:g} .. {high:g}"
        natural: Natural = self.ask(
            f"{name}: uncontrolled, e.g. {example}", lambda t: answers.natural_of(t, low, high), "unknown"
        )
        step_of = _or_none(lambda t: answers.step_of(t, low, high))
        step = self.ask(f"{name}: step between two values, e.g. 1; Enter: any value can be set", step_of, "")
        return VariableDraft(name, unit, low, high, natural, step)

    # where it is measured and imposed ----------------------------------------------------------------------------

    def _places(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        self.say("\nWhere is each measured, and what sets it? A device, or a place in one:")
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
            self.say("\nSafety: what each may do at most, and where it goes on a fault.")
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
        self.say(f"From one end of its range to the other takes {across_ml:.3g} mL.")
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
        read = _or_none(lambda t: answers.point_of(t, devices, "actuator"))
        return self.ask(f"{v.name}: treated by, e.g. {places[0]}/coil/1; Enter: nothing", read, "")

    # what it costs, and how long it takes ------------------------------------------------------------------------

    def _costs(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        self.say("\nWhat does it cost?")
        if draft.budget is None:
            draft = self._budget(draft)
        code = draft.currency
        draft = self._by_hand(draft) if draft.by_hand else self._metered(draft, devices)
        while not draft.by_hand and not is_metered(draft, devices):
            self.say("Something must cost money: if every trial were free, there would be nothing to weigh.")
            price = self.ask(
                f"Each trial, once, in {code}", lambda t: answers.amount_of(t, code, or_nothing=False), "0.05"
            )
            draft = replace(draft, per_trial=price)
        told = all(v.cost is not None for v in draft.variables) if draft.by_hand else draft.energy_price is None
        if draft.max_per_trial is None and not told:
            read = _or_none(lambda t: answers.amount_of(t, code, or_nothing=False))
            most = self.ask(f"What may one trial cost at most, in {code}; Enter: whatever is left", read, "")
            draft = replace(draft, max_per_trial=most)
        return draft

    def _budget(self, draft: Draft) -> Draft:
        code = self.ask("Currency", answers.currency_of, draft.currency or "EUR")
        question = f"What may the whole campaign cost, in {code}, e.g. 40"
        return replace(
            draft, currency=code, budget=self.ask(question, lambda t: answers.amount_of(t, code, or_nothing=False))
        )

    def _by_hand(self, draft: Draft) -> Draft:
        code, costs = draft.currency, {}
        self.say("What does controlling each add to a trial? Enter: found out from the trials.")
        for v in draft.variables:
            read = _or_none(lambda t: answers.amount_of(t, code))
            costs[v.name] = v.cost or self.ask(f"Controlling {v.name} costs, per trial in {code}, e.g. 0.40", read, "")
            if costs[v.name] is None:
                break
        variables = tuple(replace(v, cost=costs.get(v.name)) for v in draft.variables)
        base = draft.per_trial
        if base is None and all(v.cost is not None for v in variables):
            base = self.ask(f"Every trial costs besides, in {code}", lambda t: answers.amount_of(t, code), "0")
        return replace(draft, variables=variables, per_trial=base)

    def _metered(self, draft: Draft, devices: Sequence[FoundDevice]) -> Draft:
        code = draft.currency
        if draft.energy_price is None and any(d.can == "meter" for d in devices):
            read = _or_none(lambda t: answers.amount_of(t, code, per="/kWh"))
            draft = replace(draft, energy_price=self.ask(f"1 kWh, in {code}, e.g. 0.31; Enter: not counted", read, ""))
        prices = {}
        for v in draft.variables:
            if v.price is None and is_pump(v.actuator, devices):
                read = _or_none(lambda t: answers.amount_of(t, code, per="/L"))
                question = f"1 L of what the pump of {v.name} dispenses, in {code}; Enter: not counted"
                prices[v.name] = self.ask(question, read, "")
        variables = tuple(replace(v, price=prices.get(v.name, v.price)) for v in draft.variables)
        draft = replace(draft, variables=variables)
        if draft.per_hour is None:
            read = _or_none(lambda t: answers.amount_of(t, code, per="/h"))
            draft = replace(draft, per_hour=self.ask(f"One hour of a trial, in {code}; Enter: nothing", read, ""))
        if draft.per_trial is None:
            read = _or_none(lambda t: answers.amount_of(t, code))
            draft = replace(draft, per_trial=self.ask(f"Each trial, once, in {code}; Enter: nothing", read, ""))
        return draft

    def _timing(self, draft: Draft) -> Draft:
        self.say("\nHow long does a trial take?")
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
    return f"{float(f'{volume_ml:.2g}'):g} mL"


def _yes(text: str) -> bool:
    word = text.strip().lower()
    if word in ("y", "yes"):
        return True
    if word in ("n", "no"):
        return False
    raise ValueError(got(text.strip(), "must be yes or no"))


def _or_none(reader: Callable[[str], T]) -> Callable[[str], T | None]:
    """Take nothing for an answer, too."""
    return lambda text: reader(text) if text.strip() else None
