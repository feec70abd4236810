"""What stands behind the answer: the setting against leaving all alone, doubts, and what each variable does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rigctl.core.advice.doubts import Doubt
from rigctl.core.advice.recommend import Recommendation
from rigctl.core.advice.worth import Gain, Lesson, Reference
from rigctl.text import decimals_for, ends, in_full, set_label, settings, written

LITTLE = 0.5
"""Less of what occurs by itself than this share was seen: what is said of it is a guess."""
ALONE = "leaving everything alone"


class Advice(NamedTuple):
    """One sentence, and those that belong to it."""

    head: str
    more: tuple[str, ...] = ()


def advise(recommendation: Recommendation, *, outcome: str, unit: str, currency: str) -> tuple[Advice, ...]:
    """Say what the recommended way is worth; `unit` is the outcome's, as shown, empty for none."""
    worth = recommendation.worth
    say = _Words(recommendation, outcome, unit, currency)
    return (
        *(Advice(say.doubt(found)) for found in recommendation.doubts),
        *(say.reference(reference) for reference in worth.references),
        Advice("What controlling each variable does:", tuple(say.lesson(found) for found in worth.lessons)),
    )


def held(away: Mapping[str, str]) -> list[str]:
    """Name the control sets that cannot be played now, those with the same reason in one sentence."""
    sets: dict[str, list[str]] = {}
    for label, why in away.items():
        sets.setdefault(why, []).append(label)
    return [f"Held, so that no trial controls {' or '.join(labels)}: {why}." for why, labels in sets.items()]


class _Words:
    """Write the numbers of one recommendation with the same decimals."""

    def __init__(self, recommendation: Recommendation, outcome: str, unit: str, currency: str) -> None:
        self._label = set_label(recommendation.choice.control_set)
        self._outcome, self._unit, self._currency = outcome, unit, currency
        options = (recommendation.choice, *recommendation.alternatives)
        spreads = [0.25 * (o.high - o.low) for o in options]
        self._decimals = decimals_for([s for s in spreads if s > 1e-9 * abs(recommendation.choice.expected)])

    def doubt(self, d: Doubt) -> str:
        """Name the trial, say what it would change, and how to find out."""
        who = f"Trial {d.trial}" if d.trial else "A trial from before the campaign"
        gave, others = (f"{written(v, self._decimals)} {self._unit}".rstrip() for v in (d.outcome, d.expected))
        said = f"{who} gave {gave}; the other trials predict {others} for it."
        if d.control_set is None or d.setpoints is None:
            return f"{said} It is not counted."
        way = f"{set_label(d.control_set)} at {settings(d.setpoints, dict.fromkeys(d.setpoints, ''))}"
        if d.counted:
            return f"{said} The recommendation rests on it alone: without it, it would be {way}. Repeat it to be sure."
        return f"{said} It is not counted. If it is true, {way} may be better. Repeat it to be sure."

    def reference(self, r: Reference) -> Advice:
        head = {"nothing": ALONE, "everything": "controlling everything", "today": "today's practice"}[r.what]
        lines = [f"Controlling {self._label} is {self._gain(r.gain)}."]
        if r.extrapolated:
            lines.append("No trial was run like that, so this is the model's estimate.")
        if r.seen < LITTLE:
            lines.append(f"There are hardly any data: trials tell {r.seen:.0%} of what such a trial would do.")
        return Advice(
            f"Against {head}, where {self._outcome} is expected at {self._span(r.low, r.high)}:", tuple(lines)
        )

    def lesson(self, found: Lesson) -> str:
        """Say what controlling one variable does, and what it costs."""
        span = self._span(found.gain.low, found.gain.high)
        too = "controlling it" if found.controlled else "controlling it too"
        if found.effect == "unclear":
            said = f"{found.variable}: no effect of {too} was shown ({span})"
        elif found.effect == "better":
            said = f"{found.variable}: {too} is better by {span}"
        else:
            said = f"{found.variable}: {too} is worse by {self._span(-found.gain.high, -found.gain.low)}"
        if found.extra_cost is None:
            return f"{said}; its own cost is not known."
        if found.extra_cost == 0:
            return f"{said}; it costs nothing more."
        more = "more" if found.extra_cost > 0 else "less"
        return f"{said}; it costs {in_full(abs(found.extra_cost), 3)} {self._currency} a trial {more}."

    def _gain(self, gain: Gain) -> str:
        low, high = gain.low, gain.high
        if low > 0:
            return f"better by {self._span(low, high)}"
        if high < 0:
            return f"worse by {self._span(-high, -low)}"
        return "not shown to be better or worse"

    def _span(self, low: float, high: float) -> str:
        return f"{ends(low, high, self._decimals)} {self._unit}".rstrip()
