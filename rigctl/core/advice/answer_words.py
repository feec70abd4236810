"""The answer in words: one headline, why, how sure, and what to try next.

Details follow: the fixed setting against references, doubtful trials, and the effect of each variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rigctl.core.advice.answer import Answer, Difference, WayToRun
from rigctl.core.advice.doubts import Doubt
from rigctl.core.advice.recommend import Recommendation
from rigctl.core.advice.rules.saying import told_gain
from rigctl.core.advice.worth import Lesson, Reference
from rigctl.text import Names, ends, in_full, percent, set_members, shown_name, shown_set, shown_way, written

FEW = 3
"""With so many trials or fewer, their number says why a way is not known well."""


def limits_of(way: WayToRun, names: Mapping[str, str]) -> str:
    """Write the limits, e.g. `roughness at most 3.2 um`."""
    return " and ".join(k.label(names) for k in way.kept)


def kept(way: WayToRun) -> str:
    """Write how likely a way keeps each limit: `97 % of trials (needed: 90 %)`."""
    return " and ".join(f"{percent(k.probability)} of trials (needed: {percent(k.needed)})" for k in way.kept)


@dataclass(frozen=True, slots=True)
class AnswerWords:
    """Writes an answer; `unit` is the outcome's, as shown, empty for none."""

    answer: Answer
    outcome: str
    unit: str
    currency: str
    units: Mapping[str, str]
    """Of variables and outcomes, as shown; `Names` say also by which label."""

    def headline(self) -> str:
        """Say what to run, after "From now on"; where that is the rule, its lines stand below."""
        run = self.answer.run
        if not run.within:
            return f"nothing can be recommended: no setting keeps {limits_of(run, self.units)} likely enough."
        if run.kind == "rule":
            return "read the variables before each trial, then set the first line that fits:"
        return f"control {shown_way(run.control_set, run.setpoints, self.units)}."

    def in_short(self) -> str:
        """Say what to run, what that gives and what it costs, in one sentence."""
        run = self.answer.run
        if not run.within:
            return f"From now on, {self.headline()}"
        price = "" if run.cost is None else f", {self.money(run.cost)} per trial"
        what = (
            "run the rule"
            if run.kind == "rule"
            else f"control {shown_set(run.control_set, self.units, ' + ') or 'nothing'}"
        )
        return f"From now on, {what}: {self.span(run)} {self.unit}".rstrip() + f" expected{price}."

    def why(self) -> str:
        why = self.answer.why
        if why is None:
            over = any(way.trials and not way.within for way in self.answer.ways)
            return f"Nothing else {'that keeps the limit ' if over else ''}was tried so far."
        return f"It {self._compared(why, self.name(why.other), tolerated=', which is tolerated,')}."

    def against_today(self) -> str:
        """Say what that is worth against today's practice; empty where that is not known, or the reason says so."""
        today, why = self.answer.today, self.answer.why
        if today is None or (why is not None and why.other.kind == "today"):
            return ""
        return f"Compared with today's practice it {self._compared(today)}."

    def sure(self) -> str:
        """Say how sure that is, and what would settle it; empty where the way to try next settles it."""
        certain, run = self.answer.certainty, self.answer.run
        match certain.kind:
            case "clear":
                end = "earns as much" if run.net is not None else "is as good"
                which = "way that costs as little" if certain.others_dearer else "other way"
                joint = "and keeps" if certain.others_dearer else "that keeps"
                which += f" {joint} the limit" if run.kept else ""
                return f"This is clear: no {which} {end}, even at the better end of its interval."
            case "one trial":
                which = f"trial {certain.trial}" if certain.trial else "a trial from before the campaign"
                return f"Not sure: this rests on {which} alone. Repeat that trial."
            case "never at this setting":
                return "Not sure: no trial has run at this setting yet. Run one there."
            case "try next":
                return ""
            case "over a limit":
                way = shown_way(run.control_set, run.setpoints, self.units)
                return f"Most likely to keep the limit: control {way}, in {kept(run)}. Run more trials near it."
        rival = certain.rival or run
        reach = self.amount(rival.high if self.answer.maximise else rival.low)
        verb = "may earn as much" if run.net is not None else "may be as good"
        return f"Not sure: {self.name(rival)} {verb}, as its interval reaches {reach}. Trials of it would settle that."

    def next(self) -> str:
        """Say what to try next; empty where no other way promises more."""
        found = self.answer.try_next
        if found is None:
            return ""
        trials, name = found.other.trials, self.name(found.other)
        known = f"was tried only {'once' if trials == 1 else f'{trials} times'}" if (trials or FEW + 1) <= FEW else ""
        known = known or ("was never tried" if not trials else "is less certain")
        return f"Try {name} next: by the model it {self._compared(found)}. It {known}."

    def limits(self) -> str:
        """Say how likely the way to run keeps the limits; empty where there are none."""
        run = self.answer.run
        return f"It keeps {limits_of(run, self.units)} in {kept(run)}." if run.kept else ""

    def _compared(self, d: Difference, name: str = "", tolerated: str = "") -> str:
        """Say how much more a way gives and costs, or, where that is known, earns; than the named one."""
        than, as_one = (f" than {name}", f" as {name}") if name else ("", "")
        if d.net is not None:
            more = f"{self.money(abs(d.net))} {'more' if d.net > 0 else 'less'} per trial{than}"
            return f"earns {more if d.net else f'as much{as_one}'}, net of cost"
        more = "more" if (d.gain > 0) == self.answer.maximise else "less"
        gain = (
            f"{self.amount(abs(d.gain))} {more} {self.outcome}{than}" if d.gain else f"as much {self.outcome}{as_one}"
        )
        given = f"gives {gain}{tolerated if d.gain < 0 else ''}"
        if d.saving is None:
            return f"{given}{', whose cost is not known' if name else ' at a cost that is not known'}"
        joint = "and" if (d.gain >= 0) == (d.saving >= 0) else "but"
        if d.saving == 0:
            return f"{given} at the same cost"
        most = "at most " if d.other.cost_is == "at least" else ""
        about = "about " if d.other.cost_is == "assumed" else ""
        paid = f"{self.money(abs(d.saving))} {'less' if d.saving > 0 else 'more'}"
        return f"{given} {joint} costs {most}{about}{paid} per trial"

    def lines(self) -> Iterator[str]:
        """Yield why, what it is worth against today's practice, its limits, how sure, and what to try next."""
        if self.answer.run.within:
            yield from filter(None, (self.why(), self.against_today(), self.limits()))
        yield from filter(None, (self.sure(), self.next()))

    @property
    def price_unit(self) -> str:
        """Return the unit of what the outcome is worth: `EUR/(cm2/day)`."""
        unit = f"({self.unit})" if "/" in self.unit or " " in self.unit else self.unit
        return f"{self.currency}/{unit}" if unit else self.currency

    def name(self, way: WayToRun) -> str:
        """Name a way within a sentence."""
        named = {"rule": "the rule", "nothing": "controlling nothing", "today": "today's practice"}
        fixed = " at fixed values" if self.answer.run.kind == "rule" else ""
        own = shown_set(way.control_set, self.units) or "controlling nothing"
        return named.get(way.kind) or f"{own}{fixed}"

    def span(self, way: WayToRun) -> str:
        """Write the interval of the mean outcome."""
        return ends(way.low, way.high, self.answer.decimals)

    def expected(self, way: WayToRun) -> str:
        return written(way.expected, self.answer.decimals)

    def cost(self, way: WayToRun) -> str:
        """Write what a trial costs on average: as far as that is known."""
        if way.cost is None:
            return "-"
        mark = {"assumed": "about ", "at least": "at least "}.get(way.cost_is, "")
        return f"{mark}{written(way.cost, self.answer.cents)}"

    def cost_span(self, way: WayToRun) -> str:
        """Write the interval of the mean cost."""
        if way.cost_low is None or way.cost_high is None:
            return "-"
        return "exact" if way.cost_low == way.cost_high else ends(way.cost_low, way.cost_high, self.answer.cents)

    def net(self, way: WayToRun) -> str:
        if way.net is None:
            return "-"
        return f"{'at most ' if way.cost_is == 'at least' else ''}{written(way.net, self.answer.cents)}"

    def pays(self, way: WayToRun) -> str:
        """Say from which worth of one unit of outcome on, or up to which, a way pays against the one to run."""
        if way.pays_at is None:
            return "-"
        more = (way.cost or 0.0) > (self.answer.run.cost or 0.0)
        return f"{'over' if more else 'under'} {in_full(way.pays_at, 2)}"

    def trials(self, way: WayToRun) -> str:
        return "-" if way.trials is None else f"{way.trials}"

    def money(self, amount: float) -> str:
        return f"{written(amount, self.answer.cents)} {self.currency}"

    def amount(self, value: float) -> str:
        return f"{written(value, self.answer.decimals)} {self.unit}".rstrip()


LITTLE = 0.5
"""Less of what occurs by itself than this share was seen: what is said of it is a guess."""
ALONE = "controlling nothing"


class Advice(NamedTuple):
    """One sentence, and those that belong to it."""

    head: str
    more: tuple[str, ...] = ()


def advise(found: Recommendation, say: AnswerWords) -> tuple[Advice, ...]:
    """Say what the fixed setting is worth, with the decimals and names of the answer."""
    return (
        *(Advice(_doubt(doubt, say)) for doubt in found.doubts),
        *(
            _reference(reference, shown_set(found.choice.control_set, say.units), say)
            for reference in found.worth.references
        ),
        Advice("Effect of controlling each variable:", tuple(_lesson(one, say) for one in found.worth.lessons)),
    )


def held(away: Mapping[str, str], names: Names) -> list[str]:
    """Name the control sets that cannot be played now, those with the same reason in one sentence."""
    sets: dict[str, list[str]] = {}
    for label, why in away.items():
        sets.setdefault(why, []).append(shown_set(set_members(label), names))
    return [f"Held, so that no trial controls {' or '.join(labels)}: {why}." for why, labels in sets.items()]


def _doubt(d: Doubt, say: AnswerWords) -> str:
    """Name the trial, say what it would change, and how to find out."""
    who = f"Trial {d.trial}" if d.trial else "A trial from before the campaign"
    said = f"{who} gave {say.amount(d.outcome)}; the other trials predict {say.amount(d.expected)} for it."
    if d.control_set is None or d.setpoints is None:
        return f"{said} It is not counted."
    way = shown_way(d.control_set, d.setpoints, say.units)
    if d.counted:
        return f"{said} The recommendation rests on it alone: without it, it would be {way}. Repeat it to be sure."
    return f"{said} It is not counted. If it is true, {way} may be better. Repeat it to be sure."


def _reference(r: Reference, label: str, say: AnswerWords) -> Advice:
    head = {"nothing": ALONE, "everything": "controlling everything", "today": "today's practice"}[r.what]
    span = f"{ends(r.low, r.high, say.answer.decimals)} {say.unit}".rstrip()
    lines = [f"Controlling {label} is {told_gain(r.gain, say.answer.decimals, say.unit)}."]
    if not r.trials:
        lines.append("No trial was run like that, so this is the model's estimate.")
    if r.seen < LITTLE:
        lines.append(f"This is mostly a guess: trials cover {r.seen:.0%} of the conditions of such a trial.")
    return Advice(f"Compared with {head} ({say.outcome} {span}):", tuple(lines))


def _lesson(found: Lesson, say: AnswerWords) -> str:
    """Say what controlling one variable does, and what it costs."""
    too = "controlling it" if found.controlled else "controlling it too"
    said = f"{shown_name(found.variable, say.units)}: {too} is {told_gain(found.gain, say.answer.decimals, say.unit)}"
    if found.extra_cost is None:
        return f"{said}; its own cost is not known."
    if found.extra_cost == 0:
        return f"{said}; it costs nothing more."
    more = "more" if found.extra_cost > 0 else "less"
    return f"{said}; it costs {in_full(abs(found.extra_cost), 3)} {say.currency} {more} per trial."
