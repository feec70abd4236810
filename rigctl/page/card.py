"""One campaign in a few lines of text, as a wall of several shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_type_hints

from rigctl.codec import parsed
from rigctl.page.shown import Facts, Study
from rigctl.page.words import clock, headline, money, with_unit
from rigctl.text import shown_set


@dataclass(frozen=True, slots=True)
class Card:
    """One campaign in a few lines of text."""

    rig: str
    word: str
    """What it does; see `Phase`."""
    since: str = ""
    abnormal: bool = False
    severity: str = ""
    """Severity of the worst active alarm; empty: none is active."""
    alarm: str = ""
    sentence: str = ""
    trial: str = ""
    best: str = ""
    spent: str = ""
    share: float = 0.0
    """Of the budget."""

    @classmethod
    def of(cls, facts: Facts, study: Study | None) -> Card:
        labels, phase, worst, budget = facts.labels, facts.phase, facts.worst, facts.money
        now, best, said = facts.trial, facts.best, ""
        if now is not None:
            step = next((step.name for step in now.steps if step.state == "now"), now.state.lower())
            said = f"{now.trial}: {shown_set(now.control_set, labels.units, ' + ') or 'nothing'}, {step}"
        return cls(
            rig=labels.rig,
            word=phase.word,
            since=clock(phase.since, facts.now),
            abnormal=phase.abnormal,
            severity="" if worst is None else worst.severity,
            alarm="" if worst is None else f"{worst.source} {worst.message}".strip(),
            sentence=headline(facts, study),
            trial=said,
            best="" if best is None else f"{with_unit(best.outcome, labels.outcome.unit)}, trial {best.trial}",
            spent=f"{money(budget.spent)} of {money(budget.budget, labels.currency)}",
            share=budget.spent / budget.budget if budget.budget else 0.0,
        )

    @classmethod
    def read(cls, text: str) -> Card:
        """Return what another page tells of itself; raises ValueError, TypeError or KeyError if it is no card."""
        told = parsed(text)
        return cls(**{name: kind(told[name]) for name, kind in get_type_hints(cls).items()})
