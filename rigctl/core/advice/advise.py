"""What stands behind the answer: the setting against leaving all alone, doubts, and what each variable does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rigctl.core.advice.answer_words import AnswerWords
from rigctl.core.advice.doubts import Doubt
from rigctl.core.advice.recommend import Recommendation
from rigctl.core.advice.rules.saying import told_gain
from rigctl.core.advice.worth import Lesson, Reference
from rigctl.text import Names, ends, in_full, set_members, settings, shown_name, shown_set

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
        Advice("What controlling each variable does:", tuple(_lesson(one, say) for one in found.worth.lessons)),
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
    way = f"{shown_set(d.control_set, say.units)} at {settings(d.setpoints, say.units)}"
    if d.counted:
        return f"{said} The recommendation rests on it alone: without it, it would be {way}. Repeat it to be sure."
    return f"{said} It is not counted. If it is true, {way} may be better. Repeat it to be sure."


def _reference(r: Reference, label: str, say: AnswerWords) -> Advice:
    head = {"nothing": ALONE, "everything": "controlling everything", "today": "today's practice"}[r.what]
    span = f"{ends(r.low, r.high, say.answer.decimals)} {say.unit}".rstrip()
    lines = [f"Controlling {label} is {told_gain(r.gain, say.answer.decimals, say.unit)}."]
    if r.extrapolated:
        lines.append("No trial was run like that, so this is the model's estimate.")
    if r.seen < LITTLE:
        lines.append(f"There are hardly any data: trials tell {r.seen:.0%} of what such a trial would do.")
    return Advice(f"Against {head}, where {say.outcome} is expected at {span}:", tuple(lines))


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
